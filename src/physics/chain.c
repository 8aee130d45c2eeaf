#include "chain.h"
#include <stdlib.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"

static const char CHAIN[] = "the gradient"; /* what memory is for */

/* --- shares of the planes ----------------------------------------------------------------------------------------- */

/* Planes of a part's memory. */
enum {
  CHAIN_BEFORE,  /* the plane before the part's own, not yet averaged */
  CHAIN_AFTER,   /* the plane after the part's own, not yet averaged */
  CHAIN_WINDOW,  /* three of the part's own planes */
  CHAIN_SUM = 5, /* one plane averaged along z */
  CHAIN_PLANES
};

/* Own planes in parts. One thread averages a part from its first plane to its last, in place. So the values that a part
 * needs of its neighbours are computed before. */
typedef struct chain_work {
  const chain *h;
  float *gradient;
  int parts;
  double *
      /* of each part: CHAIN_PLANES planes, a row with a value at each end; of the rank: `ends` and `across` */
      memory;
  double *ends;   /* the rank's four: before its own, its first, its last, after them */
  double *across; /* weights along x */
} chain_work;

static double chain_weight(const density_axis *a, int i) {
  const bool lo = i == 0 && a->end[0] == DENSITY_EVEN, hi = i == a->points - 1 && a->end[1] == DENSITY_EVEN;
  return (lo ? 0.5 : 1) * (hi ? 0.5 : 1);
}

static size_t chain_floats(const chain *h) {
  return CHAIN_PLANES * h->plane + (size_t)h->io->slab->nx + 2;
}

static double *chain_plane(const chain_work *w, int part, int which) {
  return w->memory + (size_t)part * chain_floats(w->h) + (size_t)which * w->h->plane;
}

static int chain_first(const chain_work *w, int part) {
  return (int)((int64_t)w->h->io->slab->nz * part / w->parts);
}

/* Computes what is averaged from own plane z of the gradient. */
static void chain_begin_plane(const chain_work *w, int z, double *to) {
  const chain *h = w->h;
  const model *m = h->model;
  const slab *s = h->io->slab;
  for (int y = 0; y < s->ny; y++) {
    const size_t nx = (size_t)s->nx, first = (size_t)z * h->plane + (size_t)y * nx;
    const double weight = chain_weight(&h->axis[1], y) * chain_weight(&h->axis[2], s->z0 + z);
    const float *g = w->gradient + first, *velocity = m->velocity + first,
                *sigmas = m->sigma ? m->sigma + RADIUS * h->plane + first : NULL;
    for (size_t x = 0; x < nx; x++) {
      const double v = velocity[x], sigma = sigmas ? (double)sigmas[x] : 1;
      *to++ = 2 * g[x] * v * v / (sigma * sigma) / (w->across[x] * weight);
    }
  }
}

/* Computes the planes at the rank's ends: its own, and those beyond the ends of the grid. */
static void chain_begin_ends(const chain_work *w) {
  const slab *s = w->h->io->slab;
  const density_axis *az = &w->h->axis[2];
  const size_t plane = w->h->plane;
  chain_begin_plane(w, 0, w->ends + plane);
  chain_begin_plane(w, s->nz - 1, w->ends + 2 * plane);
  if (s->lower == SLAB_NO_RANK) chain_begin_plane(w, density_inside(az, -1) - s->z0, w->ends);
  if (s->upper == SLAB_NO_RANK)
    chain_begin_plane(w, density_inside(az, az->points) - s->z0, w->ends + 3 * plane);
}

/* For thread_each: computes the planes that a part needs of its neighbours; part w->parts stands for the rank's
 * ends. */
static void chain_begin_part(void *context, int part) {
  const chain_work *w = context;
  const int first = chain_first(w, part), end = chain_first(w, part + 1);
  if (part == w->parts) {
    chain_begin_ends(w);
    return;
  }
  if (part > 0) chain_begin_plane(w, first - 1, chain_plane(w, part, CHAIN_BEFORE));
  if (part + 1 < w->parts) chain_begin_plane(w, end, chain_plane(w, part, CHAIN_AFTER));
}

/* Exchanges the planes at the ends with other ranks. */
static int chain_exchange(const chain_work *w, error *e) {
  const slab *s = w->h->io->slab;
  const int points = (int)w->h->plane, lower = s->lower == SLAB_NO_RANK ? MPI_PROC_NULL : s->lower,
            upper = s->upper == SLAB_NO_RANK ? MPI_PROC_NULL : s->upper;
  double *before = w->ends, *first = before + points, *last = first + points, *after = last + points;
  MPI_TRY(e, MPI_Sendrecv(first, points, MPI_DOUBLE, lower, 0, after, points, MPI_DOUBLE, upper, 0,
                          w->h->files->compute, MPI_STATUS_IGNORE));
  MPI_TRY(e, MPI_Sendrecv(last, points, MPI_DOUBLE, upper, 1, before, points, MPI_DOUBLE, lower, 1,
                          w->h->files->compute, MPI_STATUS_IGNORE));
  return 0;
}

/* --- averaging ---------------------------------------------------------------------------------------------------- */

/* Sets `row` to row y of a plane, averaged along y, with a value before it and one after it. */
static void chain_row(const chain *h, const double *plane, int y, double *row) {
  const density_axis *ax = &h->axis[0], *ay = &h->axis[1];
  const size_t nx = (size_t)h->io->slab->nx;
  const double *before = plane + (size_t)density_inside(ay, y - 1) * nx, *here = plane + (size_t)y * nx,
               *after = plane + (size_t)density_inside(ay, y + 1) * nx;
  for (size_t x = 0; x < nx; x++)
    row[x] = ay->points > 1 ? (before[x] + 22 * here[x] + after[x]) / 24 : here[x];
  row[-1] = row[density_inside(ax, -1)], row[nx] = row[density_inside(ax, ax->points)];
}

/* Averages a plane along y and x, and sets the gradient from it. */
static void chain_end_plane(const chain_work *w, int z, const double *plane, double *row) {
  const chain *h = w->h;
  const slab *s = h->io->slab;
  const size_t nx = (size_t)s->nx;
  const double densest = h->model->density.max;
  for (int y = 0; y < s->ny; y++) {
    const size_t first = (size_t)z * h->plane + (size_t)y * nx;
    const double weight = chain_weight(&h->axis[1], y) * chain_weight(&h->axis[2], s->z0 + z);
    const float *velocity = h->given[0] + first, *density = h->given[1] ? h->given[1] + first : NULL;
    chain_row(h, plane, y, row);
    for (size_t x = 0; x < nx; x++) {
      const double v = velocity[x], rho = density ? density[x] / densest : 1,
                   sum = nx > 1 ? (row[x - 1] + 22 * row[x] + row[x + 1]) / 24 : row[x];
      w->gradient[first + x] = (float)(sum * (w->across[x] * weight) / (rho * v * v * v));
    }
  }
}

/* Called by thread_each. */
static void chain_average_part(void *context, int part) {
  const chain_work *w = context;
  const size_t plane = w->h->plane;
  const int first = chain_first(w, part), end = chain_first(w, part + 1);
  double *sum = chain_plane(w, part, CHAIN_SUM), *row = sum + plane + 1;
  const double *before = part ? chain_plane(w, part, CHAIN_BEFORE) : w->ends,
               *after = part + 1 < w->parts ? chain_plane(w, part, CHAIN_AFTER) : w->ends + 3 * plane,
               *here = chain_plane(w, part, CHAIN_WINDOW), *next;
  chain_begin_plane(w, first, chain_plane(w, part, CHAIN_WINDOW));
  for (int z = first; z < end; z++, before = here, here = next) {
    double *free = chain_plane(w, part, CHAIN_WINDOW + (z + 1 - first) % 3);
    if (z + 1 < end) chain_begin_plane(w, z + 1, free);
    next = z + 1 < end ? free : after;
    for (size_t i = 0; i < plane; i++) sum[i] = (before[i] + 22 * here[i] + next[i]) / 24;
    chain_end_plane(w, z, sum, row);
  }
}

static int chain_through_averages(const chain *h, float *gradient, error *e) {
  const slab *s = h->io->slab;
  chain_work w = {.h = h, .gradient = gradient, .parts = smaller(h->threads, s->nz)};
  const size_t shared = (size_t)w.parts * chain_floats(h);
  ALLOC(e, w.memory, shared + 4 * h->plane + (size_t)s->nx, CHAIN);
  if (!error_agree(e, h->files->compute)) {
    w.ends = w.memory + shared, w.across = w.ends + 4 * h->plane;
    for (int x = 0; x < s->nx; x++) w.across[x] = chain_weight(&h->axis[0], x);
    thread_each(h->threads, w.parts + 1, chain_begin_part, &w);
    if (!chain_exchange(&w, e)) thread_each(h->threads, w.parts, chain_average_part, &w);
  }
  free(w.memory);
  return e->id;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* For thread_each: computes own plane z where nothing is averaged. */
static void chain_divide_plane(void *context, int z) {
  const chain_work *w = context;
  const size_t first = (size_t)z * w->h->plane;
  for (size_t i = first; i < first + w->h->plane; i++)
    w->gradient[i] = (float)(2 * (double)w->gradient[i] / w->h->model->velocity[i]);
}

void chain_open(chain *h, const config *c, const physics *p, const files *files, const field_io *io) {
  *h = (chain){.averaged = c->averaging,
               .files = files,
               .io = io,
               .plane = (size_t)io->slab->nx * (size_t)io->slab->ny,
               .threads = 1,
               .model = &p->model,
               .given = p->given};
  model_axes(h->axis, c);
}

int chain_velocity(const chain *h, float *gradient, error *e) {
  if (h->averaged)
    chain_through_averages(h, gradient, e);
  else
    thread_each(h->threads, h->io->slab->nz, chain_divide_plane, &(chain_work){.h = h, .gradient = gradient});
  return error_agree(e, h->files->compute);
}
