/* Absorbing layers (absorb.h) in the host kernels `simd`. Before a group's rows are updated, their layer terms are
 * summed on the stack, x first, then y, then z. The update adds them to the new points in registers. So u, the medium
 * and the older u are read once, and images are stored once. Every point recomputes the psi that it needs. In the cache
 * that costs less than keeping psi from row to row, and threads do not depend on each other. */
#ifndef STENCIL_HOST_LAYERS_H
#define STENCIL_HOST_LAYERS_H

#include <string.h>
#include "kernels/layers/absorb.h"
#include "kernels/host_range.h"

enum {
  LAYERS_AHEAD = 3,                           /* rows */
  PSI_MOST = GROUP + ABSORB_BEYOND,           /* psi that the points of such rows need */
  LAYER_TERM_SLACK = 32,                      /* floats of the longest vectors together */
  LAYER_TERM_ROW = BLOCK_X + LAYER_TERM_SLACK /* a vector may end beyond the block */
};
enum { PROFILE_A, PROFILE_B, PROFILE_PSI_A, PROFILE_PSI_B, PROFILES };

/* The layer terms of the rows of a group, from the block's first point on. Points in no layer have -0, which changes
 * nothing. */
typedef struct layer_term_rows {
  bool whole; /* all points are set; else only vectors that begin before low_end or end after high_begin */
  bool blank; /* all points beside the layers along x have -0 */
  int x_begin, points;     /* of the block */
  int low_end, high_begin; /* limits of the layers along x, from x_begin on */
  float start[GROUP];      /* the initial value of a row's points */
  _Alignas(64) float row[GROUP][LAYER_TERM_ROW];
  /* Coefficients of the points in layers along x, at low and at high x, as x ascends: of point x at ABSORB_BEYOND + x -
   * (the layer's first point in the block), of psi t points further inward t places on. */
  float profile[2][PROFILES][LAYER_TERM_ROW];
} layer_term_rows;

/* Points of a block that lie in the layer along x at its low or its high face: [begin, end). */
typedef struct x_layer {
  int begin, end;
} x_layer;

static inline x_layer x_layer_of(const absorb_args *a, int inward, int x_begin, int x_end) {
  const absorb_axis *s = &a->axis[0];
  if (inward > 0) return (x_layer){x_begin, smaller(s->lo, x_end)};
  return (x_layer){larger(s->points - s->hi, x_begin), x_end};
}

/* The place in a row of the state of point x, and of the inmost point, of a layer along x. */
static inline int x_stored(const absorb_axis *s, int inward, int x) {
  return inward > 0 ? x : x - (s->points - s->lo - s->hi);
}

static inline int x_inmost(const absorb_axis *s, int inward) {
  return inward > 0 ? s->lo - 1 : s->lo;
}

/* Fills the profile of the layer at one end of the block. Past its inmost point psi have no coefficients. */
static inline void layer_profile_init(layer_term_rows *s, const absorb_args *a, int inward, x_layer l) {
  const float *from = a->axis[0].coefficients;
  const int points = l.end - l.begin, face = inward > 0 ? 0 : a->axis[0].points - 1;
  for (int p = 0, count; p < PROFILES && points > 0; p++, from += count) {
    float *to = s->profile[inward < 0][p];
    count = a->width + (p < PROFILE_PSI_A ? 0 : ABSORB_BEYOND);
    memset(to, 0, (size_t)(points + LAYER_TERM_SLACK) * sizeof *to);
    const int outer = inward * ((inward > 0 ? l.begin : l.end - 1) - face); /* the block's outermost point */
    for (int i = larger(outer - ABSORB_BEYOND, 0); i < smaller(outer + points + ABSORB_BEYOND, count); i++)
      to[face + inward * i - l.begin + ABSORB_BEYOND] = from[i];
  }
}

static inline void layer_terms_init(layer_term_rows *s, const absorb_args *a, int x_begin, int x_end) {
  const absorb_axis *x = &a->axis[0];
  s->whole = s->blank = false;
  s->x_begin = x_begin;
  s->low_end = x->lo - x_begin;
  s->high_begin = x->points - x->hi - x_begin;
  s->points = x_end - x_begin;
  for (int inward = 1; inward >= -1; inward -= 2)
    layer_profile_init(s, a, inward, x_layer_of(a, inward, x_begin, x_end));
}

/* The layer terms of `points` points from x on; NULL: there are none. */
static inline const float *layer_terms_at(const layer_term_rows *s, int x, int points) {
  return s->whole || x < s->low_end || x + points > s->high_begin ? s->row[0] + x : NULL;
}

/* The length of a run of points from x on, at most `points`, in steps of `step`: all of them have layer terms, or
 * none has. */
static inline int layer_terms_run(const layer_term_rows *s, int x, int points, int step) {
  const bool some = layer_terms_at(s, x, step) != NULL;
  int run = step;
  while (run + step <= points && (layer_terms_at(s, x + run, step) != NULL) == some) run += step;
  return run;
}

/* Points x .. x + count - 1 of rows y of planes z .. z + planes - 1. */
typedef struct row_points {
  int z, y, x, count, planes;
} row_points;

/* Rows of a layer along y or z that follow each other inward; all pointers are to the points of one x. */
typedef struct inward_rows {
  int count; /* rows, 1 or GROUP */
  /* number of psi to store: the rows' own and, where the slab ends in the layer, those after them */
  int stored;
  const float *u;            /* of the outermost row */
  ptrdiff_t step;            /* to the next row inward */
  const float *coefficients; /* a of the outermost row */
  const float *psi_in[PSI_MOST];
  float *psi_out[PSI_MOST], *zeta[GROUP], *sum[GROUP];
  int newest;      /* first of `count` psi_in that no row below has read */
  ptrdiff_t ahead; /* floats to the values to prefetch meanwhile */
} inward_rows;

/* Fills *c for the rows of `at`, of one plane for axis 1, of ascending planes for axis 2; p: the place of the
 * outermost. sum[k]: of the row k of them. */
static inline void inward_rows_find(inward_rows *c, const absorb_args *a, int axis, absorb_place p,
                                    row_points at, float *const sum[]) {
  const absorb_axis *s = &a->axis[axis];
  const kernel_args *f = &a->field;
  const int count = at.planes, outer_z = p.inward > 0 ? at.z : at.z + count - 1,
            inner_z = p.inward > 0 ? at.z + count - 1 : at.z;
  const ptrdiff_t nx = f->nx, stride = axis == 1 ? nx : nx * f->ny,
                  row = axis == 1 ? (ptrdiff_t)at.z * (s->lo + s->hi) * nx : (ptrdiff_t)at.y * nx;
  c->count = c->stored = count;
  c->u = f->in + (ptrdiff_t)f->plane * outer_z + (ptrdiff_t)f->pitch * at.y + at.x;
  c->step = p.inward * (ptrdiff_t)(axis == 1 ? f->pitch : f->plane);
  c->coefficients = s->coefficients + p.i;
  c->newest = p.inward > 0 ? ABSORB_BEYOND : 0;
  c->ahead = LAYERS_AHEAD * nx;
  if (axis == 2)
    c->stored += smaller(absorb_left(a, (absorb_place){p.i + count - 1, p.inward}, inner_z), ABSORB_BEYOND);
  for (int t = 0; t < count + ABSORB_BEYOND; t++) {
    const ptrdiff_t state = row + at.x + absorb_stored(s, a->width, p, p.i + t) * stride;
    c->psi_in[t] = s->psi_in + state;
    c->psi_out[t] = s->psi_out + state;
    if (t < count) c->zeta[t] = s->zeta + state, c->sum[t] = sum[p.inward > 0 ? t : count - 1 - t];
  }
}

#endif
