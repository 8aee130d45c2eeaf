/* The absorbing layers along x on the host. Layers are thin: the ends of a block's rows become lines of whole vectors,
 * computed at all their places, and what has no place in the layer is dropped. */
#ifndef STENCIL_ABSORB_LINES_H
#define STENCIL_ABSORB_LINES_H

#include <string.h>
#include "absorb.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  CHUNK = 256, /* points of a row at a time */
  ROWS = 8,    /* of a block at most: what is computed of their chunks stays in the L1 and L2 caches */
  LINE = 32,   /* places: whole vectors on any machine */
  HALF = LINE / 2,
  SEGMENT = LINE - ABSORB_BEYOND /* points of a layer that a line has room for, beside the psi after them */
};

/* Rows y + r * dy of planes z + k * dz: inward, where they lie in a layer of that axis. */
typedef struct block {
  int z, planes, dz, y, rows, dy;
} block;

typedef struct line_coefficients {
  _Alignas(64) float a[LINE];
  float b[LINE], psi_a[LINE], psi_b[LINE];
  int first, last;
} line_coefficients;

/* A line for each row. All their places are computed, whatever is in them. */
typedef struct lines {
  line_coefficients ends[2]; /* of the low face's layer, of the high one's */
  float psi[HALF + ROWS * LINE + HALF], zeta[ROWS][LINE], added[ROWS][LINE];
} lines;

/* memcpy of at most LINE floats without a call or single points: halves that may overlap. */
INLINE void copy(float *restrict to, const float *restrict from, int count) {
  if (count >= HALF) {
    memcpy(to, from, HALF * sizeof(float));
    memcpy(to + count - HALF, from + count - HALF, HALF * sizeof(float));
  } else {
    for (int i = 0; i < count; i++) to[i] = from[i];
  }
}

/* The coefficients at each place of a line. */
INLINE void lay_out(line_coefficients *to, const absorb_args *a, int inward, int first, int last) {
  if (to->first == first && to->last == last) return;
  to->first = first, to->last = last;
  for (int j = 0; j < last - first + ABSORB_BEYOND; j++) {
    const float *c = a->axis[0].coefficients + (inward > 0 ? first + j : last + ABSORB_BEYOND - 1 - j);
    to->a[j] = c[0], to->b[j] = c[a->width];
    to->psi_a[j] = c[2 * a->width], to->psi_b[j] = c[3 * a->width + ABSORB_BEYOND];
  }
}

/* New psi and zeta of `rows` lines. u: of the first one's place 0; read as far as lines go, beyond the layer. */
INLINE void renew_lines(const absorb_args *a, int inward, int rows, const float *u, ptrdiff_t step,
                        lines *t) {
  const absorb_axis s = a->axis[0];
  const line_coefficients *const c = &t->ends[inward < 0];
  const float *const wx = a->field.wx, d[2] = {a->difference[0], a->difference[1]},
                     w[5] = {0, wx[1], wx[2], wx[3], wx[4]};
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < LINE; j++) {
      float *psi = t->psi + HALF + r * LINE + j;
      *psi = absorb_psi(c->psi_a[j], c->psi_b[j], d, u + r * step + j, inward, *psi);
    }
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < LINE; j++) {
      const float *psi = t->psi + HALF + r * LINE + j;
      const float slope = absorb_slope(&s, psi[0], psi[inward], psi[2 * inward], psi[3 * inward]);
      const float second = absorb_second(&s, w, u + r * step + j, inward);
      t->zeta[r][j] = absorb_zeta(c->a[j], c->b[j], second, slope, t->zeta[r][j]);
      t->added[r][j] = 0.0f + (slope + t->zeta[r][j]);
    }
}

/* Sets the sums of points [first, last) of a layer, counted from its outer edge, at most SEGMENT. A line has them, from
 * place `own` on, and the psi after them, in the order of x. `begin`: the point of sum[..][0]. */
INLINE void set_segment(const absorb_args *a, const block *b, int z, int inward, int first, int last,
                        int begin, lines *l, float sum[ROWS][CHUNK]) {
  const kernel_args *f = &a->field;
  const absorb_axis *s = &a->axis[0];
  const int count = last - first, own = inward > 0 ? 0 : ABSORB_BEYOND,
            x = inward > 0 ? first : s->points - last - ABSORB_BEYOND;                 /* of place 0 */
  const int after = a->width - last < ABSORB_BEYOND ? a->width - last : ABSORB_BEYOND; /* psi in the layer */
  const int from = own ? own - after : 0, end = own + count + (own ? 0 : after);
  const ptrdiff_t layers = s->lo + s->hi, row = (ptrdiff_t)z * f->ny + b->y,
                  state = row * layers + x - (own ? s->points - layers : 0);
  lay_out(&l->ends[inward < 0], a, inward, first, last);
  for (int r = 0; r < b->rows; r++) {
    const ptrdiff_t at = state + r * b->dy * layers;
    float *psi = l->psi + HALF + r * LINE;
    copy(psi + from, s->psi_in + (at + from), end - from);
    for (int j = 0; j < from; j++) psi[j] = psi[from]; /* psi past the layer: as absorb_stored has it */
    for (int j = end; j < count + ABSORB_BEYOND; j++) psi[j] = psi[end - 1];
    copy(l->zeta[r] + own, s->zeta + (at + own), count);
  }
  renew_lines(a, inward, b->rows, f->in + ((ptrdiff_t)f->plane * z + (ptrdiff_t)f->pitch * b->y + x),
              b->dy * (ptrdiff_t)f->pitch, l);
  for (int r = 0; r < b->rows; r++) {
    const ptrdiff_t at = state + r * b->dy * layers + own;
    copy(s->psi_out + at, l->psi + HALF + r * LINE + own, count);
    copy(s->zeta + at, l->zeta[r] + own, count);
    copy(sum[r] + (x + own - begin), l->added[r] + own, count);
  }
}

/* Sets the sums of those of points [begin, end) that lie in a layer along x. */
INLINE void set_along_x(const absorb_args *a, const block *b, int z, int begin, int end, lines *l,
                        float sum[ROWS][CHUNK]) {
  const absorb_axis *s = &a->axis[0];
  const int low = end < s->lo ? end : s->lo, high = s->points - begin < s->hi ? s->points - begin : s->hi;
  for (int i = begin; i < low; i += SEGMENT)
    set_segment(a, b, z, 1, i, i + SEGMENT < low ? i + SEGMENT : low, begin, l, sum);
  for (int i = s->points - end; i < high; i += SEGMENT)
    set_segment(a, b, z, -1, i, i + SEGMENT < high ? i + SEGMENT : high, begin, l, sum);
}

#endif
