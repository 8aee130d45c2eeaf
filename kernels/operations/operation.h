/* Operations on a field besides the stencil: ghosts at the start, point sources, receivers, many steps in one launch,
 * absorbing layers (absorb.h), statistics of a saved field (statistics.h). device_table.apply enqueues one like a
 * launch. An operation gives the same bits on every backend, for every number of threads and every cut of the planes:
 * inject_add, inject_store and sample_column are one source for the host and CUDA. */
#ifndef STENCIL_OPERATION_H
#define STENCIL_OPERATION_H

#include <stdint.h>
#include <string.h>
#include "stretch.h"
#include "kernels/equations/terms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does part `part` of `parts` of the work; `args` is of the operation's own type. */
typedef void host_operation(const void *args, int part, int parts);
/* Enqueues the work on a cudaStream_t and returns a cudaError_t. */
typedef int cuda_operation(const void *args, void *stream);

typedef struct operation {
  const char *name; /* for messages */
  size_t args_bytes;
  host_operation *host;
  host_operation *then; /* the next stage, begun when all parts of this one are done; NULL: none */
  cuda_operation *cuda; /* NULL where CUDA is not compiled in */
  /* Host: how many parts to make for each of `threads` threads, as host_range_pieces; NULL: one. */
  int (*pieces)(const void *args, int threads);
} operation;

/* Defines operation_NAME, whose args are of a type; then follow .host and other members. */
#ifdef STENCIL_HAVE_CUDA
#define OPERATION(NAME, what, type, ...)                                                                     \
  cuda_operation operation_##NAME##_cuda;                                                                    \
  const operation operation_##NAME = {                                                                       \
      .name = what, .args_bytes = sizeof(type), .cuda = operation_##NAME##_cuda, __VA_ARGS__};
#else
#define OPERATION(NAME, what, type, ...)                                                                     \
  const operation operation_##NAME = {.name = what, .args_bytes = sizeof(type), __VA_ARGS__};
#endif

/* Args: kernel_args. After a field was loaded: stores the images of own points of planes [z_begin, z_end) of `out`, and
 * 0 at held points. Besides `out` it reads only the geometry. */
extern const operation operation_ghosts;

/* --- points between points -------------------------------------------------------------------------------------- */

enum { POINTS_MOST = 8 /* along an axis */ };

/* The grid points around a position, and their weights: those that a source there adds to, or a receiver reads. Point
 * i along an axis of n points is first + i, or that less n where it is n or more: a periodic axis goes on at its
 * other end. Planes along z are the slab's, ghosts among them. The weight of a point is (wz wy) wx. */
typedef struct point_weights {
  int z, y, x;                                             /* the first of the points */
  unsigned char nz, ny, nx;                                /* how many: 1 to POINTS_MOST */
  float wz[POINTS_MOST], wy[POINTS_MOST], wx[POINTS_MOST]; /* each aligned to 16 bytes where the struct is */
} point_weights;

/* Grid point `first + i` of an axis of n. */
GHOSTS_INLINE int points_at(int first, int i, int n) {
  return first + i < n ? first + i : first + i - n;
}

/* Returns the i of grid point `at`; where it is none of the points, their number or more. */
GHOSTS_INLINE int points_index(int first, int at, int n) {
  return at >= first ? at - first : at - first + n;
}

/* --- point sources ---------------------------------------------------------------------------------------------- */

enum { TILE_Y = 8, TILE_X = 32 };

/* A tile of a plane on which sources act: its first row is y, its first point x. Its parts are a range. */
typedef struct source_tile {
  int z, y, x; /* y, x: multiples of TILE_Y, TILE_X */
  int first, count;
  int stretched; /* the number, from 1 on, of its part of inject_args.chi; 0: it has none */
} source_tile;

/* A source that acts on points of a tile. */
typedef struct source_part {
  int place;  /* its index into places */
  int signal; /* its index into signal; ~index: the value is imposed on its only point */
} source_part;

/* At each point that sources act on: out += gain * sum over the parts, in their order, of weight * signal. The sum s
 * starts from 0, s = fma(weight, signal, s), and is multiplied by sigma. The adjoint adds residuals of p, stretched
 * (stretch.h): there s is divided by sigma instead. Then fma(gain, s, out), with the terms, is stored with its
 * images; gain is the stencil's factor. An imposed value that is not NaN replaces the result. */
typedef struct inject_args {
  kernel_args field;               /* out, equation, media, geometry, ghosts */
  const source_tile *tiles;        /* of the planes [field.z_begin, field.z_end); distinct; device memory */
  int count;                       /* of tiles */
  const source_part *parts;        /* device memory */
  const point_weights *places;     /* device memory */
  const float *signal;             /* of this step; device memory */
  absorb_axis layers[ABSORB_AXES]; /* where sums are stretched */
  int width;                       /* of the layers */
  float *chi;                      /* (tiles stretched, ABSORB_AXES, TILE_Y, TILE_X); device memory */
} inject_args;
extern const operation operation_inject;

/* Adds the value of a part at point (iz, iy, ix) of its source to s. */
GHOSTS_INLINE float inject_add(const inject_args *a, const source_part *k, int iz, int iy, int ix, float s) {
  const point_weights *p = &a->places[k->place];
  return fmaf((p->wz[iz] * p->wy[iy]) * p->wx[ix], a->signal[k->signal], s);
}

/* Adds s, the sum of the sources of a tile, to point (y, x) of its plane. */
GHOSTS_INLINE void inject_store(const inject_args *a, const source_tile *t, int y, int x, float s) {
  const kernel_args *f = &a->field;
  const ptrdiff_t at = (ptrdiff_t)f->plane * t->z + (ptrdiff_t)f->pitch * y + x;
  const int place[ABSORB_AXES] = {x, y, t->z}, tile = TILE_Y * TILE_X;
  if (t->stretched)
    s = stretch_point(a->layers, a->width, place,
                      a->chi + (t->stretched - 1) * (ptrdiff_t)(ABSORB_AXES * tile) + (y - t->y) * TILE_X +
                          (x - t->x),
                      tile, s);
  if (f->terms.sigma) s = f->terms.recalled ? s / f->terms.sigma[at] : s * f->terms.sigma[at];
  ghosts_store(f, t->z, y, x, terms_add(f, at, point_gain_at(f, at), s, f->out[at]));
}

/* Imposes the value of p. */
GHOSTS_INLINE void inject_impose(const kernel_args *f, int z, int y, int x, float p) {
  const ptrdiff_t at = (ptrdiff_t)f->plane * z + (ptrdiff_t)f->pitch * y + x;
  ghosts_store(f, z, y, x, f->terms.sigma ? p * f->terms.sigma[at] : p);
}

/* --- receivers -------------------------------------------------------------------------------------------------- */

/* samples[i] = the field interpolated at receivers[i]. A row is the sum of wy u along y, a column the sum of wz times
 * rows along z. The sample is the sum of wx times columns along x. Each sum is fma(weight, value, sum) from 0 in
 * ascending order. So neighbouring lanes read neighbouring columns. */
typedef struct sample_args {
  const float *field; /* own point (0, 0, 0), ghosts along z up to date */
  const float *sigma; /* laid out as the field, which is divided by it; NULL: it is not */
  bool adjoint;       /* the field is mu; a sampled value is nu (stretch.h) times sigma */
  size_t pitch, plane;
  int ny, nx;
  const point_weights *receivers; /* device memory */
  int count;
  float *samples; /* count; device memory */
  surplus_layers layers;
} sample_args;
extern const operation operation_sample;

/* The value at a point. */
GHOSTS_INLINE float sample_value(const sample_args *a, absorb_point p) {
  const ptrdiff_t at = (ptrdiff_t)a->plane * p.z + (ptrdiff_t)a->pitch * p.y + p.x;
  float u = a->field[at];
  if (a->layers.width) u -= surplus_at(&a->layers, p);
  if (!a->sigma) return u;
  return a->adjoint ? u * a->sigma[at] : u / a->sigma[at];
}

/* The sum of column x of a receiver. */
GHOSTS_INLINE float sample_column(const sample_args *a, const point_weights *p, int x) {
  absorb_point at = {p->z, 0, points_at(p->x, x, a->nx)};
  float sum = 0;
  for (int z = 0; z < p->nz; z++, at.z++) {
    float row = 0;
    for (int y = 0; y < p->ny; y++) {
      at.y = points_at(p->y, y, a->ny);
      row = fmaf(p->wy[y], sample_value(a, at), row);
    }
    sum = fmaf(p->wz[z], row, sum);
  }
  return sum;
}

/* --- many steps in one launch ----------------------------------------------------------------------------------- */

/* The report of a launch, in device memory; the launcher sets it to 0. */
typedef struct persistent_state {
  unsigned done;      /* pieces of boundary planes finished, of all steps */
  unsigned failed;    /* a neighbour's planes did not come in time */
  uint64_t waited_ns; /* how long one block, after its step, waited for neighbours' planes */
} persistent_state;

/* Step i reads fields[i % N] and writes fields[(i + 1) % N], N = equation_states. It writes own points with their
 * images, as a kernel of one step does (kernel.h). For a neighbour on a side it also writes the 4 planes next to it
 * into the neighbour's ghosts. Then it sets the neighbour's counter to counter_before + i + 1. The next step begins
 * when this device's counter of that side has reached that value. The counters wrap around. */
typedef struct persistent_args {
  kernel_args constants;          /* in, out and the z range are ignored */
  float *fields[EQUATION_STATES]; /* own point (0, 0, 0) */
  int steps;
  /* [side][which field]: the neighbour's ghost point (first ghost plane, 0, 0); NULL: none. */
  float *remote[2][EQUATION_STATES];
  uint32_t *remote_counter[2]; /* in the neighbour's memory */
  const uint32_t *counter[2];  /* in this device's */
  uint32_t counter_before;
  persistent_state *state;
} persistent_args;

/* Runs many steps of slabs so small that a launch takes longer than a step. The blocks stay on the GPU, meet after
 * each step, and write boundary planes to the neighbours' devices themselves. CUDA only. cudaErrorNotSupported: the
 * device cannot do cooperative launches. */
extern const operation operation_persistent;

/* --- statistics (statistics.h) ---------------------------------------------------------------------------------- */

/* Args: statistics_args and histogram_args. A CUDA device that cannot do cooperative launches answers
 * operation_statistics with cudaErrorNotSupported. */
extern const operation operation_statistics, operation_histogram;

/* --- maps ------------------------------------------------------------------------------------------------------- */

/* Adds the field of a step to maps of all own points of a slab, laid out as the field; NULL: not wanted. The sum of
 * squares is float64, since squares leave the range of float32. Its halves lie as all fields do. */
typedef struct maps_args {
  const float *field, *sigma; /* of u, or of sigma u: sample_args */
  float *max, *min, *square, *square_low;
  int frequencies;
  float *real[MAP_FREQUENCIES], *imaginary[MAP_FREQUENCIES]; /* += u cosine, += u sine */
  float cosine[MAP_FREQUENCIES], sine[MAP_FREQUENCIES];
  size_t pitch, plane;
  int nx, ny, nz;
} maps_args;
extern const operation operation_maps;

GHOSTS_INLINE double maps_join(float high, float low) {
  uint32_t upper, lower;
  double value;
  memcpy(&upper, &high, sizeof high);
  memcpy(&lower, &low, sizeof low);
  const uint64_t bits = (uint64_t)upper << 32 | lower;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The high half of a value, or the low one. */
GHOSTS_INLINE float maps_half(double value, int high) {
  uint64_t bits;
  float half;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t part = (uint32_t)(high ? bits >> 32 : bits);
  memcpy(&half, &part, sizeof half);
  return half;
}

GHOSTS_INLINE void maps_point(const maps_args *a, int z, int y, int x) {
  const ptrdiff_t at = (ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x;
  const float u = a->sigma ? a->field[at] / a->sigma[at] : a->field[at];
  if (a->max && u > a->max[at]) a->max[at] = u;
  if (a->min && u < a->min[at]) a->min[at] = u;
  if (a->square) { /* the product is exact */
    const double wide = u, sum = maps_join(a->square[at], a->square_low[at]) + wide * wide;
    a->square[at] = maps_half(sum, 1), a->square_low[at] = maps_half(sum, 0);
  }
  for (int f = 0; f < a->frequencies; f++) {
    a->real[f][at] = fmaf(u, a->cosine[f], a->real[f][at]);
    a->imaginary[f][at] = fmaf(u, a->sine[f], a->imaginary[f][at]);
  }
}

/* --- scaling ---------------------------------------------------------------------------------------------------- */

enum scale_kind { SCALE_TIMES, SCALE_OVER, SCALE_HALF, SCALE_ADD };
/* All own points of a slab, of fields laid out alike. */
typedef struct scale_args {
  enum scale_kind kind;
  const float *from, *by; /* own points (0, 0, 0) */
  float *to;              /* from * by, from / by, half of from, or itself + from * by; may be `from` */
  size_t pitch, plane;
  int nx, ny, nz;
  float *squares; /* SCALE_ADD: gets from * from added; or NULL */
} scale_args;
extern const operation operation_scale;

/* Arguments for fields that are laid out as those of a launch. */
static inline scale_args scale_as(enum scale_kind kind, const float *from, const float *by, float *to,
                                  const kernel_args *k) {
  const scale_args a = {kind, from, by, to, k->pitch, k->plane, k->nx, k->ny, k->nz, NULL};
  return a;
}

GHOSTS_INLINE void scale_point(const scale_args *a, int z, int y, int x) {
  const ptrdiff_t at = (ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x;
  const float from = a->from[at];
  if (a->squares) a->squares[at] = fmaf(from, from, a->squares[at]);
  a->to[at] = a->kind == SCALE_HALF   ? 0.5f * from
              : a->kind == SCALE_ADD  ? fmaf(from, a->by[at], a->to[at])
              : a->kind == SCALE_OVER ? from / a->by[at]
                                      : from * a->by[at];
}

/* --- a medium from a dense array --------------------------------------------------------------------------------- */

/* to = scale value^power at each own point, power 1 or 2: in float64, rounded once. */
typedef struct spread_args {
  const float *from; /* (nz, ny, nx), dense */
  float *to;         /* own point (0, 0, 0) */
  double scale;
  int power;
  size_t pitch, plane;
  int nx, ny, nz;
} spread_args;
extern const operation operation_spread;

GHOSTS_INLINE void spread_point(const spread_args *a, int z, int y, int x) {
  const double value = a->from[((size_t)z * (size_t)a->ny + (size_t)y) * (size_t)a->nx + (size_t)x];
  const double once = a->scale * value;
  a->to[(ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x] = (float)(a->power == 2 ? once * value : once);
}

/* --- ghosts alone ----------------------------------------------------------------------------------------------- */

/* Copies all ghosts of a slab, also those that no step sets, to `count` fields, which lie `apart` floats apart. */
typedef struct frame_args {
  const float *from; /* own point (0, 0, 0), as the next one */
  float *to;
  size_t apart;
  int count;
  size_t pitch, plane;
  int nx, ny, nz;
} frame_args;
extern const operation operation_frame;

/* Sets point (z, y, x), each -RADIUS or more, if it is a ghost. */
GHOSTS_INLINE void frame_point(const frame_args *a, int z, int y, int x) {
  const bool own = z >= 0 && z < a->nz && y >= 0 && y < a->ny && x >= 0 && x < a->nx;
  const ptrdiff_t at = (ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x;
  for (int i = 0; i < a->count && !own; i++) a->to[at + i * (ptrdiff_t)a->apart] = a->from[at];
}

/* --- gradients -------------------------------------------------------------------------------------------------- */

/* At own points of fields laid out alike, in float64 and rounded once: W l, or W (g - u l) factor / sqrt(m), with
 * l = (nu - after) / m. */
typedef struct gradient_args {
  const float *medium; /* m; NULL: scale */
  float scale;
  const float *g, *u; /* NULL: l alone */
  const float *nu, *after;
  float *to;     /* may be any of them */
  double factor; /* 0: the result has neither the factor nor the root */
  size_t pitch, plane;
  int nx, ny, nz;
  bool halves[FACE_COUNT]; /* W is halved at points on these faces of the slab */
} gradient_args;
extern const operation operation_gradient;

GHOSTS_INLINE void gradient_point(const gradient_args *a, int z, int y, int x) {
  const ptrdiff_t at = (ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x;
  const int place[3] = {x, y, z}, last[3] = {a->nx - 1, a->ny - 1, a->nz - 1};
  const double m = a->medium ? a->medium[at] : a->scale;
  double value = ((double)a->nu[at] - (double)a->after[at]) / m;
  if (a->g) value = (double)a->g[at] - (double)a->u[at] * value;
  if (a->factor != 0) value *= a->factor / sqrt(m);
  POINTS_UNROLL for (int i = 0; i < 3; i++) {
    if (place[i] == 0 && a->halves[2 * i]) value /= 2;
    if (place[i] == last[i] && a->halves[2 * i + 1]) value /= 2;
  }
  a->to[at] = (float)value;
}

/* Computes m lambda of steps 0 and 1 in an absorbing medium, from nu of both and the relaxations' memory r_l. A step
 * of m lambda adds m times the undamped bracket of nu (kernel_terms). S is the sum of that bracket over all steps, R_l
 * the sum of r_l. Summed once and twice, the recursions are
 *   part S = (nu - after) / m - sum a_l r_l / (1 - a_l),   R_l = (b_l kappa S - a_l r_l) / (1 - a_l),
 *   part lambda = nu / m - sum a_l R_l / (1 - a_l),        part = 1 - kappa sum b_l / (1 - a_l) */
typedef struct undamp_args {
  const float *medium; /* m; NULL: scale */
  float scale;
  kernel_terms terms;
  float *nu, *after; /* of step 0, and of step 1 */
  size_t pitch, plane;
  int nx, ny, nz;
} undamp_args;
extern const operation operation_undamp;

GHOSTS_INLINE void undamp_point(const undamp_args *a, int z, int y, int x) {
  const kernel_terms *t = &a->terms;
  const ptrdiff_t at = (ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x;
  const double m = a->medium ? a->medium[at] : a->scale, kappa = t->loss[at];
  double part = 1, S = ((double)a->nu[at] - (double)a->after[at]) / m, lambda = a->nu[at] / m;
  if (a->nu[at] == 0 && a->after[at] == 0) return; /* the result is 0, or the point is held */
  for (int l = 0; l < t->memories; l++) {
    part -= kappa * (double)t->b[l] / (1 - (double)t->a[l]);
    S -= (double)t->a[l] * (double)t->memory[l][at] / (1 - (double)t->a[l]);
  }
  S /= part;
  for (int l = 0; l < t->memories; l++) {
    const double rest = 1 / (1 - (double)t->a[l]),
                 R = (kappa * (double)t->b[l] * S - (double)t->a[l] * (double)t->memory[l][at]) * rest;
    lambda -= (double)t->a[l] * R * rest;
  }
  lambda /= part;
  a->nu[at] = (float)(m * lambda);
  a->after[at] = (float)(m * (lambda - S));
}

#ifdef __cplusplus
}
#endif
#endif
