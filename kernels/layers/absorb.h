/* Absorbing layers of the wave equation: a convolutional perfectly matched layer for second-order equations (Komatitsch
 * & Martin 2007; the form of Pasalic & McGarry 2010), with first derivatives at half points.
 *
 * In a layer along axis s, every d/ds becomes (1/S) d/ds with S = 1 + d / (alpha + i omega). In time that is
 *   d2u/ds2  ->  d2u/ds2 + d(psi)/ds + zeta
 *   psi   = a' psi(before)  + b' du/ds                     at half points
 *   zeta  = a  zeta(before) + b (d2u/ds2 + d(psi)/ds)      at points
 * with a = exp(-(d + alpha) dt), b = d (a - 1) / (d + alpha). After a kernel has stored u of the next step, the
 * operation adds m * (d(psi)/ds + zeta), summed over the axes in whose layers the point lies. d2u/ds2 has the stencil's
 * own weights, so that layers stretch just what the kernel has computed.
 *
 * Points of a layer are counted from its outer edge, i = 0 .. width - 1. So a layer at a high face is the mirror image,
 * to the bit, of one at a low face. psi[k] is at half point k - 3/2. The derivative of u there needs u[k - 3 .. k]. The
 * derivative of psi at point i needs psi[i .. i + 3]; psi[k] is 0 from k = width on. So a point reads u at most 4
 * points away, and only points of the layer have a layer term.
 *
 * Along x the sum d(psi)/ds + zeta is kept in zeta's place (absorb_layer_terms).
 *
 * The order of points does not matter: psi is read from one array and written to another. A point writes psi[i] alone
 * and recomputes the other new psi that it needs. A slab that ends inside a layer also holds up to three
 * psi planes after its own. Its last points write them, with the same bits as its neighbour. */
#ifndef STENCIL_ABSORB_H
#define STENCIL_ABSORB_H

#include <math.h>
#include "kernels/ghosts.h"
#include "kernels/operations/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ABSORB_BEYOND = 3 /* psi planes that a point needs past its own */ };

/* Points of the planes [field.z_begin, field.z_end) that lie in a layer; reads in, out, medium or scale. */
typedef struct absorb_args {
  kernel_args field;
  absorb_axis axis[ABSORB_AXES]; /* x, y, z */
  int width;
  float difference[2]; /* weights of u half a point and one and a half points away: per spacing */
  float *layer_terms;  /* absorb_layer_terms; NULL without layers along x */
} absorb_args;

/* The layout of the layer terms along x: (planes, ny, pitch). A layer term is d(psi)/ds + zeta, to be multiplied by the
 * medium. Layer terms are stored in place of zeta, which is the layer term minus d(psi)/ds of the old psi. So the
 * launch that computes them (absorb_cuda_before) need not store zeta too. Each layer has an array of its own, since a
 * tile needs at most one. Packs of four are aligned as in the field. Values at points of no layer stay 0. */
typedef struct absorb_layer_terms {
  int planes; /* nz of each layer, those of the low one first */
  int pitch;  /* floats of a row, whole packs */
  int high;   /* the first plane of the high layer */
  int first;  /* the point that the rows of the high layer begin with */
} absorb_layer_terms;

/* `nz`: planes of the slab. */
GHOSTS_INLINE absorb_layer_terms absorb_layer_terms_of(const absorb_axis *x, int width, int nz) {
  const int early = x->hi > 0 ? (x->points - x->hi) % 4 : 0;
  const absorb_layer_terms t = {((x->lo > 0) + (x->hi > 0)) * nz, (width + early + 3) / 4 * 4,
                                x->lo > 0 ? nz : 0, x->points - x->hi - early};
  return t;
}

/* The place of a point's layer term in args.layer_terms. high: the point lies in the high layer; ny: of the slab. */
GHOSTS_INLINE ptrdiff_t absorb_layer_term_at(const absorb_layer_terms *t, int ny, int high, absorb_point at) {
  const ptrdiff_t row = (ptrdiff_t)((high ? t->high : 0) + at.z) * ny + at.y;
  return row * t->pitch + at.x - (high ? t->first : 0);
}

/* Swaps the arrays of psi after a step. */
static inline void absorb_swap(absorb_args *a) {
  for (int i = 0; i < ABSORB_AXES; i++) {
    float *next = a->axis[i].psi_out;
    a->axis[i].psi_out = a->axis[i].psi_in;
    a->axis[i].psi_in = next;
  }
}

extern const operation operation_absorb;
cuda_operation operation_absorb_cuda;

/* --- one point, for all backends ------------------------------------------------------------------------ */

/* Returns the place of psi[k] along the stored axis. For k past the layer it is that of the last psi, which is then
 * multiplied by 0. */
GHOSTS_INLINE int absorb_stored(const absorb_axis *a, int width, absorb_place p, int k) {
  if (k >= width) k = width - 1;
  return p.inward > 0 ? k - a->lo_first : a->hi_last - k;
}

/* One axis of one point, ready to compute: all that is the same for points of the same i. `step` is the field's
 * stride along the axis, inward. */
typedef struct absorb_line {
  ptrdiff_t step;
  ptrdiff_t psi[ABSORB_BEYOND + 1]; /* from the axis' first stored value to psi[i + 0 .. 3] */
  float a, b, psi_a[ABSORB_BEYOND + 1], psi_b[ABSORB_BEYOND + 1];
} absorb_line;

/* `stride` is the field's along the axis, `state_stride` the state's. */
GHOSTS_INLINE absorb_line absorb_line_of(const absorb_axis *a, int width, absorb_place p, ptrdiff_t stride,
                                         ptrdiff_t state_stride) {
  const float *c = a->coefficients;
  absorb_line l;
  l.step = p.inward * stride;
  l.a = c[p.i];
  l.b = c[width + p.i];
  for (int k = 0; k <= ABSORB_BEYOND; k++) {
    l.psi[k] = absorb_stored(a, width, p, p.i + k) * state_stride;
    l.psi_a[k] = c[2 * width + p.i + k];
    l.psi_b[k] = c[3 * width + ABSORB_BEYOND + p.i + k];
  }
  return l;
}

/* psi[k] after this step. before: psi[k] until then; a, b: its coefficients; u: point k of the field. */
GHOSTS_INLINE float absorb_psi(float a, float b, const float difference[2], const float *u, ptrdiff_t step,
                               float before) {
  const float near = difference[0] * (u[-step] - u[-2 * step]);
  return fmaf(a, before, b * fmaf(difference[1], u[0] - u[-3 * step], near));
}

/* d(psi)/ds at point i from psi[i .. i + 3]. */
GHOSTS_INLINE float absorb_slope(const absorb_axis *a, float psi0, float psi1, float psi2, float psi3) {
  return fmaf(a->slope[1], psi3 - psi0, a->slope[0] * (psi2 - psi1));
}

/* d2u/ds2 as the stencil has it; w: its weights along the axis. It has no loop, so that compilers vectorise
 * its callers. */
GHOSTS_INLINE float absorb_second(const absorb_axis *a, const float w[5], const float *u, ptrdiff_t step) {
  float sum = w[4] * (u[-4 * step] + u[4 * step]);
  sum = fmaf(w[3], u[-3 * step] + u[3 * step], sum);
  sum = fmaf(w[2], u[-2 * step] + u[2 * step], sum);
  sum = fmaf(w[1], u[-step] + u[step], sum);
  return fmaf(a->center, u[0], sum);
}

/* zeta after this step. before: zeta until then. */
GHOSTS_INLINE float absorb_zeta(float a, float b, float second, float slope, float before) {
  return fmaf(a, before, b * (second + slope));
}

/* psi[i + k] after this step; u at the point, psi_in at the point's row or column of the state. */
GHOSTS_INLINE float absorb_psi_at(const absorb_line *l, const float difference[2], const float *u,
                                  const float *psi_in, int k) {
  return absorb_psi(l->psi_a[k], l->psi_b[k], difference, u + k * l->step, l->step, psi_in[l->psi[k]]);
}

/* Along x: zeta before this step, from the layer term; psi past the layer is 0. */
GHOSTS_INLINE float absorb_zeta_before(const absorb_axis *x, int width, absorb_place p, const absorb_line *l,
                                       const float *psi_in, float layer_term) {
  float psi[ABSORB_BEYOND + 1];
  for (int k = 0; k <= ABSORB_BEYOND; k++) psi[k] = p.i + k < width ? psi_in[l->psi[k]] : 0;
  return layer_term - absorb_slope(x, psi[0], psi[1], psi[2], psi[3]);
}

/* How many layer points follow the slab's last point along z, inward; 0 for other points. */
GHOSTS_INLINE int absorb_left(const absorb_args *a, absorb_place p, int z) {
  const int last = p.inward > 0 ? a->field.nz - 1 : 0;
  return z == last ? a->width - 1 - p.i : 0;
}

/* The place of the layer term of a point whose place in the layer is known. */
GHOSTS_INLINE ptrdiff_t absorb_offset_of_layer_term(const absorb_args *a, absorb_place p, absorb_point at) {
  const absorb_layer_terms t = absorb_layer_terms_of(&a->axis[0], a->width, a->field.nz);
  return absorb_layer_term_at(&t, a->field.ny, p.inward < 0, at);
}

/* Returns the layer term along `axis` at a point of that layer. Stores the point's new psi and its zeta or layer term;
 * the slab's last point along z also stores the psi after it. */
GHOSTS_INLINE float absorb_along(const absorb_args *a, int axis, absorb_point at) {
  const kernel_args *f = &a->field;
  const absorb_axis *s = &a->axis[axis];
  const ptrdiff_t nx = f->nx, pitch = (ptrdiff_t)f->pitch, plane = (ptrdiff_t)f->plane,
                  stored = s->lo + s->hi;
  const absorb_place p = absorb_locate(s, axis == 0 ? at.x : axis == 1 ? at.y : at.z);
  const absorb_line l = absorb_line_of(s, a->width, p,
                                       axis == 0   ? 1
                                       : axis == 1 ? pitch
                                                   : plane,
                                       axis == 0   ? 1
                                       : axis == 1 ? nx
                                                   : nx * f->ny);
  const ptrdiff_t state = axis == 0   ? ((ptrdiff_t)at.z * f->ny + at.y) * stored
                          : axis == 1 ? at.z * stored * nx + at.x
                                      : at.y * nx + at.x;
  const float *u = f->in + (plane * at.z + pitch * at.y + at.x), *w = axis == 0   ? f->wx
                                                                      : axis == 1 ? f->wy
                                                                                  : f->wz;
  const float *psi_in = s->psi_in + state;
  float *kept =
      axis == 0 ? a->layer_terms + absorb_offset_of_layer_term(a, p, at) : s->zeta + (state + l.psi[0]);
  const float before = axis == 0 ? absorb_zeta_before(s, a->width, p, &l, psi_in, *kept) : *kept;
  const float psi0 = absorb_psi_at(&l, a->difference, u, psi_in, 0),
              psi1 = absorb_psi_at(&l, a->difference, u, psi_in, 1),
              psi2 = absorb_psi_at(&l, a->difference, u, psi_in, 2),
              psi3 = absorb_psi_at(&l, a->difference, u, psi_in, 3);
  const float slope = absorb_slope(s, psi0, psi1, psi2, psi3);
  const float memory = absorb_zeta(l.a, l.b, absorb_second(s, w, u, l.step), slope, before);
  const float layer_term = 0.0f + (slope + memory); /* not -0: the sum over axes begins with 0 */
  const int left = axis == 2 ? absorb_left(a, p, at.z) : 0;
  *kept = axis == 0 ? layer_term : memory;
  s->psi_out[state + l.psi[0]] = psi0;
  if (left >= 1) s->psi_out[state + l.psi[1]] = psi1;
  if (left >= 2) s->psi_out[state + l.psi[2]] = psi2;
  if (left >= 3) s->psi_out[state + l.psi[3]] = psi3;
  return layer_term;
}

#ifdef __cplusplus
}
#endif
#endif
