/* Subtracts e = mu - nu (stretch.h) from the adjoint field mu, so that nu is left. One pass after each adjoint step
 * visits the points of layers. m lambda is nu with the damping of absorption removed. l is e with this damping removed:
 *   l = (e + sum a_l r_l) / (1 - kappa sum b_l),   r_l = a_l r_l + b_l kappa l;   without absorption l = e
 * Each step adds u times the factor of m to the gradient, computed with mu. The gradient needs nu instead, so the
 * pass corrects it:
 *   g -= sum over the steps of u (l - 2 l(before) + l(before that)) / m
 * `missing` has this sum, without m. Steps and the pass use different memory, so they may run at the same time. */
#ifndef STENCIL_SURPLUS_H
#define STENCIL_SURPLUS_H

#include "absorb.h"

#ifdef __cplusplus
extern "C" {
#endif

enum surplus_kind {
  SURPLUS_STEP, /* after one or two steps: updates chi, at ghosts too, and at own points `missing`, the image and l */
  SURPLUS_END, /* turns mu of steps 0 and 1 into m lambda, with the damping removed, and completes the gradient */
  SURPLUS_TIMES, /* multiplies mu by P, the product of 1 + b, of layers that forget at once (absorb_at_rest) */
  SURPLUS_OVER   /* divides mu by P */
};

/* mu and the forward field u of a step, at own point (0, 0, 0). */
typedef struct surplus_seen {
  const float *mu, *u;
} surplus_seen;
enum { SURPLUS_STEPS = 2 };

/* Acts on points of the planes [field.z_begin, field.z_end) that lie in layers. The arrays of own points have a value
 * for each such point, plane after plane (surplus_region). */
typedef struct surplus_args {
  enum surplus_kind kind;
  surplus_layers layers;
  kernel_args field; /* media, terms, geometry */
  float *mu,
      *after; /* SURPLUS_END: own point (0, 0, 0) of the field of this step, and of that of the step after */
  surplus_seen seen[SURPLUS_STEPS]; /* SURPLUS_STEP: the steps to look at */
  int steps;                        /* number of elements of `seen`, in the order of the steps */
  float *image;                     /* laid out as mu; gets -u e; or NULL */
  float *missing, *before,
      /* last: l of the latest adjoint step, kept only with absorption; before: l of the step before it */
      *last;
  float *memory[MEMORIES_MAX]; /* r */
} surplus_args;
extern const operation operation_surplus;

/* The points of layers in the planes of a slab: `full` in each plane below `low` and from `high` on, `frame` in each of
 * the others. */
typedef struct surplus_region {
  int low, high;
  ptrdiff_t full, frame;
} surplus_region;

GHOSTS_INLINE int surplus_between(int at, int least, int most) {
  return at < least ? least : at > most ? most : at;
}

/* The region of planes [begin, end). */
GHOSTS_INLINE surplus_region surplus_region_of(const surplus_layers *s, int begin, int end) {
  const absorb_axis *x = &s->axis[0], *y = &s->axis[1], *z = &s->axis[2];
  const ptrdiff_t nx = s->nx, rows = y->lo + y->hi;
  surplus_region of = {surplus_between(z->lo - z->origin, begin, end), 0, nx * s->ny,
                       rows * nx + (s->ny - rows) * (x->lo + x->hi)};
  of.high = surplus_between(z->points - z->hi - z->origin, of.low, end);
  return of;
}

/* Points of layers in the planes from `begin` to before `z`. */
GHOSTS_INLINE ptrdiff_t surplus_count(const surplus_region *s, int begin, int z) {
  const int framed = surplus_between(z, s->low, s->high) - s->low;
  return (z - begin - framed) * s->full + framed * s->frame;
}

/* The number of a layer point in its plane. */
GHOSTS_INLINE ptrdiff_t surplus_in_plane(const surplus_layers *s, const surplus_region *region,
                                         absorb_point p) {
  const absorb_axis *x = &s->axis[0], *y = &s->axis[1];
  const ptrdiff_t nx = s->nx, ends = x->lo + x->hi;
  if (p.z < region->low || p.z >= region->high || p.y < y->lo) return p.y * nx + p.x;
  if (p.y >= s->ny - y->hi) return region->frame - (s->ny - p.y) * nx + p.x;
  return y->lo * nx + (p.y - y->lo) * ends + (p.x < x->lo ? p.x : p.x - (nx - ends));
}

/* --- a run of points, for all backends -------------------------------------------------------------------------- */

#ifdef __CUDACC__
#define SURPLUS_EACH
#define SURPLUS_INLINE GHOSTS_INLINE
#else /* always inline, so that functions use the caller's instruction set */
#define SURPLUS_EACH   _Pragma("GCC ivdep")
#define SURPLUS_INLINE static inline __attribute__((always_inline))
#endif

/* chi of an axis after a step; e: what the axes before it make. */
GHOSTS_INLINE float surplus_next(float a, float b, float chi, float mu, float e) {
  return fmaf(a, chi, b * (mu - e)) / (1 + b);
}

/* `missing` after a step; had, before: l of the two steps before it. */
GHOSTS_INLINE float surplus_lacks(float u, float l, float had, float before, float missing) {
  return fmaf(u, (l - had) - (had - before), missing);
}

/* Points beside each other in a row that lie in the same layers. */
typedef struct surplus_run {
  float *chi[ABSORB_AXES]; /* of the first point; NULL: it lies in no layer of the axis */
  const float *coefficients[ABSORB_AXES];
  int along;            /* of x: from a point's coefficients to the next one's */
  ptrdiff_t at, stored; /* the first point: in fields, in arrays of layer points */
  bool own;
} surplus_run;

/* `region`: of the slab's own planes. */
GHOSTS_INLINE surplus_run surplus_run_of(const surplus_args *a, const surplus_region *region,
                                         absorb_point p) {
  const surplus_layers *s = &a->layers;
  const int place[ABSORB_AXES] = {p.x, p.y, p.z};
  surplus_run r;
  r.along = 1, r.own = p.z >= 0 && p.z < s->nz;
  r.at = (ptrdiff_t)a->field.plane * p.z + (ptrdiff_t)a->field.pitch * p.y + p.x;
  r.stored = r.own ? surplus_count(region, 0, p.z) + surplus_in_plane(s, region, p) : 0;
  POINTS_UNROLL for (int i = 0; i < ABSORB_AXES; i++) {
    const absorb_place in = surplus_locate(&s->axis[i], place[i]);
    r.chi[i] = in.inward ? surplus_chi(s, i, p) : NULL;
    r.coefficients[i] = s->axis[i].coefficients + in.i;
    if (i == 0 && in.inward < 0) r.along = -1;
  }
  return r;
}

/* Adds chi of an axis to e, and chi of the step before to `before`, at `n` points. `along`: from a point's
 * coefficients to the next one's. */
SURPLUS_INLINE void surplus_along(const float *c, int width, int along, const float *mu, float *chi, float *e,
                                  float *before, int n) {
  SURPLUS_EACH for (int k = 0; k < n; k++) {
    const float had = chi[k], now = surplus_next(c[along * k], c[width + along * k], had, mu[k], e[k]);
    before[k] += had;
    e[k] += now;
    chi[k] = now;
  }
}

/* Turns e, in `l`, into l. */
SURPLUS_INLINE void surplus_undamp(const surplus_args *a, const surplus_run *r, float *l, int n) {
  const kernel_terms *t = &a->field.terms;
  const float *kappa = t->loss + r->at;
  float strength = 0;
  for (int i = 0; i < t->memories; i++) {
    const float *memory = a->memory[i] + r->stored;
    strength += t->b[i];
    SURPLUS_EACH for (int k = 0; k < n; k++) l[k] = fmaf(t->a[i], memory[k], l[k]);
  }
  SURPLUS_EACH for (int k = 0; k < n; k++) l[k] /= fmaf(-kappa[k], strength, 1);
  for (int i = 0; i < t->memories; i++) {
    float *memory = a->memory[i] + r->stored;
    SURPLUS_EACH for (int k = 0; k < n; k++) memory[k] = fmaf(t->a[i], memory[k], t->b[i] * kappa[k] * l[k]);
  }
}

/* SURPLUS_STEP, of one step; e and l: scratch of n floats. */
SURPLUS_INLINE void surplus_step(const surplus_args *a, const surplus_seen *of, const surplus_run *r,
                                 float *e, float *l, int n) {
  const float *mu = of->mu + r->at, *u = of->u + r->at;
  const int width = a->layers.width, relaxes = a->field.terms.memories > 0;
  float *missing = a->missing + r->stored, *before = a->before + r->stored;
  SURPLUS_EACH for (int k = 0; k < n; k++) e[k] = l[k] = 0;
  if (r->chi[0] && r->along > 0)
    surplus_along(r->coefficients[0], width, 1, mu, r->chi[0], e, l, n);
  else if (r->chi[0])
    surplus_along(r->coefficients[0], width, -1, mu, r->chi[0], e, l, n);
  POINTS_UNROLL for (int i = 1; i < ABSORB_AXES; i++) if (r->chi[i])
      surplus_along(r->coefficients[i], width, 0, mu, r->chi[i], e, l, n);
  if (!r->own) return;
  if (a->image) {
    float *image = a->image + r->at;
    SURPLUS_EACH for (int k = 0; k < n; k++) image[k] = fmaf(-u[k], e[k], image[k]);
  }
  if (relaxes) surplus_undamp(a, r, e, n);
  float *last = relaxes ? a->last + r->stored : NULL;
  SURPLUS_EACH for (int k = 0; k < n; k++) {
    const float had = relaxes ? last[k] : l[k];
    missing[k] = surplus_lacks(u[k], e[k], had, before[k], missing[k]);
    before[k] = had;
    if (relaxes) last[k] = e[k];
  }
}

/* Does the other kinds at an own point; e: the point's. */
GHOSTS_INLINE void surplus_finish(const surplus_args *a, float e, const surplus_run *r) {
  float *mu = a->mu + r->at, P = 1;
  POINTS_UNROLL for (int i = 0; i < ABSORB_AXES; i++) if (r->chi[i]) P *=
      1 + r->coefficients[i][a->layers.width];
  if (a->kind != SURPLUS_END) {
    *mu = a->kind == SURPLUS_TIMES ? *mu * P : *mu / P;
    return;
  }
  *mu -= a->field.terms.memories ? a->last[r->stored] : e;
  a->after[r->at] -= a->before[r->stored];
  a->field.terms.gradient[r->at] -= a->missing[r->stored] / point_gain_at(&a->field, r->at);
}

#ifdef __cplusplus
}
#endif
#endif
