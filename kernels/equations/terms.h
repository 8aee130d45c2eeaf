/* The optional terms (kernel_terms) at a point, for C and CUDA: density, absorption and, in the adjoint, the
 * gradient. */
#ifndef STENCIL_TERMS_H
#define STENCIL_TERMS_H

#include "point.h"

/* The operands of the terms at a point. Those of absent terms are not read. */
typedef struct terms_point {
  float V, kappa, recalled;
  float g, r[MEMORIES_MAX]; /* get their next values */
} terms_point;

GHOSTS_INLINE bool terms_any(const kernel_terms *t) {
  return t->density || t->memories || t->recalled;
}

/* The terms of a box that begins `offset` floats from own point (0, 0, 0). */
GHOSTS_INLINE kernel_terms terms_from(kernel_terms t, ptrdiff_t offset) {
  if (t.density) t.density += offset;
  if (t.loss) t.loss += offset;
  if (t.recalled) t.recalled += offset, t.gradient += offset;
  for (int l = 0; l < t.memories; l++) t.memory[l] += offset;
  return t;
}

/* Makes the bracket, which m multiplies, from the stencil B. The counts are constants, so that absent terms cost
 * nothing. */
GHOSTS_INLINE float terms_bracket(const kernel_terms *t, bool density, int memories, bool gradient, float B,
                                  float u, terms_point *p) {
  float sum = 0;
  if (density) B = fmaf(-p->V, u, B);
  if (gradient) p->g = fmaf(p->recalled, B, p->g);
  for (int l = 0; l < memories; l++) {
    p->r[l] = fmaf(t->a[l], p->r[l], t->b[l] * p->kappa * B);
    sum = l > 0 ? sum + p->r[l] : p->r[l];
  }
  return memories ? B - sum : B;
}

/* The factor of `term`, a layer term or what a source adds, at a point of this gain. */
GHOSTS_INLINE float terms_gain(const kernel_terms *t, int memories, bool gradient, float gain, float term,
                               terms_point *p) {
  float sum = 0;
  if (gradient) p->g = fmaf(p->recalled, term, p->g);
  for (int l = 0; l < memories; l++) {
    p->r[l] = fmaf(t->b[l] * p->kappa, term, p->r[l]);
    sum = l > 0 ? sum + t->b[l] : t->b[l];
  }
  return memories ? gain * fmaf(-p->kappa, sum, 1) : gain;
}

/* The terms of the point `at` floats from own point (0, 0, 0). */
GHOSTS_INLINE terms_point terms_load(const kernel_terms *t, ptrdiff_t at) {
  terms_point p = {0, 0, 0, 0, {0}};
  if (t->density) p.V = t->density[at];
  if (t->memories) p.kappa = t->loss[at];
  if (t->recalled) p.recalled = t->recalled[at], p.g = t->gradient[at];
  for (int l = 0; l < t->memories; l++) p.r[l] = t->memory[l][at];
  return p;
}

GHOSTS_INLINE void terms_store(const kernel_terms *t, ptrdiff_t at, const terms_point *p) {
  if (t->recalled) t->gradient[at] = p->g;
  for (int l = 0; l < t->memories; l++) t->memory[l][at] = p->r[l];
}

/* Makes the bracket of a point in memory. */
GHOSTS_INLINE float terms_bracket_at(const kernel_args *a, ptrdiff_t at, float B) {
  const kernel_terms *t = &a->terms;
  if (!terms_any(t)) return B;
  terms_point p = terms_load(t, at);
  B = terms_bracket(t, t->density != 0, t->memories, t->recalled != 0, B, a->in[at], &p);
  terms_store(t, at, &p);
  return B;
}

/* Returns `out` of a point in memory with `term` added; gain: the point's. */
GHOSTS_INLINE float terms_add(const kernel_args *a, ptrdiff_t at, float gain, float term, float out) {
  const kernel_terms *t = &a->terms;
  if (t->memories || t->recalled) {
    terms_point p = terms_load(t, at);
    gain = terms_gain(t, t->memories, t->recalled != 0, gain, term, &p);
    terms_store(t, at, &p);
  }
  return fmaf(gain, term, out);
}

#endif
