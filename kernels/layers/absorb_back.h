/* The transpose of absorbing layers (absorb.h), for the way back: nu is the field. With psi and zeta's transposes
 *   chi  = a  chi(before) + b nu                             at points
 *   phi  = a' phi(before) + b' d(nu + chi)/ds                at half points
 * a point gets d2(chi)/ds2 + d(phi)/ds, summed over the axes. The difference from psi to points is minus that from points to
 * psi, transposed: so there is no other. chi of a layer reaches RADIUS points inward of it. There, and among the ghosts of a
 * slab along z, it is known as elsewhere, since it follows from nu at its own point.
 *
 * Nothing depends on the order of points, as there: chi and phi are read from one array and written to another, and a point
 * computes anew what it needs of its neighbours'. The first and the last planes of a slab also write chi of its ghosts. */
#ifndef STENCIL_ABSORB_BACK_H
#define STENCIL_ABSORB_BACK_H

#include "absorb.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BACK_LINE = 2 * RADIUS + 1 /* chi that a point reads */ };

/* layers.axis: psi is phi, zeta is chi of the step before, only read, along x, too; there are no terms. Along z both are
 * stored for the planes of the layer among the slab's and its ghosts. */
typedef struct absorb_back_args {
  absorb_args layers;
  float *chi_out[ABSORB_AXES];
  float *sums; /* of what layers add at points, laid out as the field; NULL: they are added at once */
} absorb_back_args;

/* The layers of planes [z_begin, z_end), after the launch of the kernel; or, with `sums`, these alone, before the launch of a
 * kernel that adds them. */
extern const operation operation_absorb_back;

/* Can it do sums? Not where a layer reaches the other face, or what that one's layer reaches. */
static inline bool absorb_back_sums(const absorb_args *l) {
  bool can = true;
  for (int i = 0; i < ABSORB_AXES; i++) {
    const absorb_axis *s = &l->axis[i];
    const int reach = (s->lo ? s->lo + RADIUS : 0) + (s->hi ? s->hi + RADIUS : 0);
    can = can && (reach == 0 || reach + (s->lo && s->hi ? 0 : RADIUS) <= s->points);
  }
  return can;
}

/* The points that layers reach: for kernel_terms.added. */
static inline kernel_added absorb_back_added(const absorb_back_args *a) {
  kernel_added added = {a->sums, {0, 0, 0}, {0, 0, 0}};
  for (int i = 0; i < ABSORB_AXES; i++) {
    const absorb_axis *s = &a->layers.axis[i];
    added.from[i] = s->lo ? s->lo + RADIUS - s->origin : -s->origin;
    added.to[i] = s->points - s->origin - (s->hi ? s->hi + RADIUS : 0);
  }
  return added;
}

/* A point's place in the reach of a layer, the low one where inward is 1, the high one where it is -1; i: from its outer
 * edge; -1: it is out of reach. */
GHOSTS_INLINE int absorb_back_locate(const absorb_axis *s, int inward, int at) {
  const int low = at + s->origin, width = inward > 0 ? s->lo : s->hi;
  const int i = inward > 0 ? low : s->points - 1 - low;
  return width && i < width + RADIUS ? i : -1;
}

/* What all points of the same i share. Offsets are from where the point's lines begin. */
typedef struct absorb_back_line {
  ptrdiff_t step; /* of nu, inward */
  ptrdiff_t chi[BACK_LINE], phi[ABSORB_BEYOND + 1];
  float a[BACK_LINE], b[BACK_LINE], phi_a[ABSORB_BEYOND + 1], phi_b[ABSORB_BEYOND + 1];
  int inside; /* of the layer: it has a phi */
} absorb_back_line;

GHOSTS_INLINE absorb_back_line absorb_back_line_of(const absorb_args *l, int axis, absorb_place p) {
  const absorb_axis *s = &l->axis[axis];
  const int width = l->width, opposite = l->field.ghosts[2 * axis + (p.inward > 0)];
  const ptrdiff_t nx = l->field.nx, state_stride = axis == 0 ? 1 : axis == 1 ? nx : nx * l->field.ny;
  const float *c = s->coefficients;
  absorb_back_line n;
  n.step = p.inward * (axis == 0 ? 1 : axis == 1 ? (ptrdiff_t)l->field.pitch : (ptrdiff_t)l->field.plane);
  n.inside = p.i < width;
  POINTS_UNROLL for (int d = 0; d < BACK_LINE; d++) {
    int j = p.i + d - RADIUS;
    const int image = j >= s->points && (opposite == GHOST_ODD || opposite == GHOST_EVEN);
    if (image) j = 2 * (s->points - 1) - j; /* nu is the image's, chi its point's */
    const int in = j >= 0 && j < width;
    n.chi[d] = absorb_stored(s, width, p, j < 0 ? 0 : j) * state_stride;
    n.a[d] = !in ? 0 : image && opposite == GHOST_ODD ? -c[j] : c[j];
    n.b[d] = in ? c[width + j] : 0;
  }
  POINTS_UNROLL for (int t = 0; t <= ABSORB_BEYOND; t++) {
    n.phi[t] = absorb_stored(s, width, p, p.i + t) * state_stride;
    n.phi_a[t] = n.inside ? c[2 * width + p.i + t] : 0;
    n.phi_b[t] = n.inside ? c[3 * width + ABSORB_BEYOND + p.i + t] : 0;
  }
  return n;
}

/* chi after this step, from what it was; beyond a layer a and b are 0, and it is +0. */
GHOSTS_INLINE float absorb_back_chi(float a, float b, float nu, float before) {
  return 0.0f + fmaf(a, before, b * nu);
}

/* phi after this step; v: nu + chi at points k, k - 1 ... */
GHOSTS_INLINE float absorb_back_phi(float a, float b, const float difference[2], const float v[4],
                                    float before) {
  return fmaf(a, before, b * fmaf(difference[1], v[0] - v[3], difference[0] * (v[1] - v[2])));
}

/* What a point gets of chi around it. No loop: compilers make vectors of what calls this. */
GHOSTS_INLINE float absorb_back_second(const absorb_axis *s, const float w[5], const float *c) {
  float sum = w[4] * (c[-4] + c[4]);
  sum = fmaf(w[3], c[-3] + c[3], sum);
  sum = fmaf(w[2], c[-2] + c[2], sum);
  sum = fmaf(w[1], c[-1] + c[1], sum);
  return fmaf(s->center, c[0], sum);
}

/* chi and phi after this step on a point's line. */
typedef struct absorb_back_values {
  float chi[BACK_LINE], phi[ABSORB_BEYOND + 1];
} absorb_back_values;

/* What the layer adds at a point, from nu there and the beginnings of its lines; `inside` as in *n, a constant where it can
 * be. */
GHOSTS_INLINE float absorb_back_point(const absorb_args *l, int axis, const absorb_back_line *n, int inside,
                                      const float *nu, const float *chi, const float *phi,
                                      absorb_back_values *now) {
  const absorb_axis *s = &l->axis[axis];
  const float *w = axis == 0 ? l->field.wx : axis == 1 ? l->field.wy : l->field.wz;
  float v[BACK_LINE];
  POINTS_UNROLL for (int d = 0; d < BACK_LINE; d++) {
    const float u = nu[(d - RADIUS) * n->step];
    now->chi[d] = absorb_back_chi(n->a[d], n->b[d], u, chi[n->chi[d]]);
    v[d] = u + now->chi[d];
  }
  const float second = absorb_back_second(s, w, now->chi + RADIUS);
  if (!inside) return second;
  POINTS_UNROLL for (int t = 0; t <= ABSORB_BEYOND; t++) {
    const float from[4] = {v[RADIUS + t], v[RADIUS + t - 1], v[RADIUS + t - 2], v[RADIUS + t - 3]};
    now->phi[t] = absorb_back_phi(n->phi_a[t], n->phi_b[t], l->difference, from, phi[n->phi[t]]);
  }
  return second + absorb_slope(s, now->phi[0], now->phi[1], now->phi[2], now->phi[3]);
}

/* Where the lines of a point, or of a row from x on, begin in the stored arrays of an axis. */
GHOSTS_INLINE ptrdiff_t absorb_back_state(const absorb_args *l, int axis, absorb_point at) {
  const absorb_axis *s = &l->axis[axis];
  const ptrdiff_t nx = l->field.nx, ny = l->field.ny, stored = s->lo + s->hi;
  return axis == 0 ? (at.z * ny + at.y) * stored : axis == 1 ? at.z * stored * nx + at.x : at.y * nx + at.x;
}

/* How the ghosts beside plane z of the slab follow it inward: 1, or -1 outward; 0: it has none beside. */
GHOSTS_INLINE int absorb_back_beside(const kernel_args *f, int inward, int z) {
  return z == f->nz - 1 ? inward : z == 0 ? -inward : 0;
}

/* Stores what a point along z knows besides its own chi and phi: chi of ghosts, and phi inward of the slab's last plane. */
GHOSTS_INLINE void absorb_back_store_beyond(const absorb_back_args *a, const absorb_back_line *n,
                                            absorb_place p, absorb_point at, const absorb_back_values *now) {
  const absorb_args *l = &a->layers;
  const ptrdiff_t state = absorb_back_state(l, 2, at);
  const int beside = absorb_back_beside(&l->field, p.inward, at.z);
  for (int d = 1; d <= RADIUS && beside; d++) {
    const int j = p.i + d * beside;
    if (j >= 0 && j < l->width)
      a->chi_out[2][state + n->chi[RADIUS + d * beside]] = now->chi[RADIUS + d * beside];
  }
  for (int t = 1; t <= ABSORB_BEYOND && beside > 0; t++)
    if (p.i + t < l->width) l->axis[2].psi_out[state + n->phi[t]] = now->phi[t];
}

/* What the layer of one face adds at a point in its reach; stores what follows the step. */
GHOSTS_INLINE float absorb_back_along(const absorb_back_args *a, int axis, absorb_place p, absorb_point at) {
  const absorb_args *l = &a->layers;
  const kernel_args *f = &l->field;
  const absorb_axis *s = &l->axis[axis];
  const ptrdiff_t state = absorb_back_state(l, axis, at);
  const float *nu = f->in + ((ptrdiff_t)f->plane * at.z + (ptrdiff_t)f->pitch * at.y + at.x);
  const absorb_back_line n = absorb_back_line_of(l, axis, p);
  absorb_back_values now;
  const float sum = absorb_back_point(l, axis, &n, n.inside, nu, s->zeta + state, s->psi_in + state, &now);
  if (n.inside) {
    a->chi_out[axis][state + n.chi[RADIUS]] = now.chi[RADIUS];
    s->psi_out[state + n.phi[0]] = now.phi[0];
  }
  if (axis == 2) absorb_back_store_beyond(a, &n, p, at, &now);
  return sum;
}

/* Adds to a point what the layers in whose reach it lies have for it, axis by axis. */
GHOSTS_INLINE void absorb_back_add(const absorb_back_args *a, absorb_point at) {
  const kernel_args *f = &a->layers.field;
  const ptrdiff_t i = (ptrdiff_t)f->plane * at.z + (ptrdiff_t)f->pitch * at.y + at.x;
  float sum = 0;
  int any = 0;
  for (int axis = 0; axis < ABSORB_AXES; axis++)
    for (int inward = 1; inward >= -1; inward -= 2) {
      const int place = absorb_back_locate(&a->layers.axis[axis], inward,
                                           axis == 0   ? at.x
                                           : axis == 1 ? at.y
                                                       : at.z);
      if (place < 0) continue;
      const absorb_place p = {place, inward};
      sum += absorb_back_along(a, axis, p, at);
      any = 1;
    }
  if (any) ghosts_store(f, at.z, at.y, at.x, terms_add(f, i, point_gain_at(f, i), sum, f->out[i]));
}

#ifdef __cplusplus
}
#endif
#endif
