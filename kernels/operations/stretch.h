/* The layers of an axis, the places of points in them, and the operator P of the adjoint (docs/GRADIENT.md).
 *
 * Adjoint steps are forward steps of mu = P nu. P is the product of 1 + Z over the layers that a point lies in. Z is
 * the filter of zeta (absorb.h): Z x = chi, chi = a chi(before) + b x. So P needs no neighbours, and
 *   P x:   for each axis  chi = a chi + b x, x += chi
 *   e = mu - nu, from 0:  for each axis  chi = (a chi + b (mu - e)) / (1 + b), e += chi */
#ifndef STENCIL_STRETCH_H
#define STENCIL_STRETCH_H

#include <math.h>
#include "kernels/ghosts.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __CUDA_ARCH__
#define POINTS_UNROLL _Pragma("unroll")
#else
#define POINTS_UNROLL
#endif

enum { ABSORB_AXES = 3 };

/* The layers of one axis: at its low face, its high face, or both. State is stored in ascending order of the
 * coordinate: the low layer, then the high one (along z: the slab's part of each). psi of x: (nz, ny, lo + hi); y: (nz,
 * lo + hi, nx); z: (planes held, ny, nx); x fastest. */
typedef struct absorb_axis {
  float *psi_in; /* spacing * du/ds, remembered: as u; only read */
  float *psi_out;
  float *zeta; /* as d2u/ds2; own points only are ever used. NULL for x: absorb_args.layer_terms */
  /* a, b: width each; a', b' of psi: width + ABSORB_BEYOND each, the last ones 0 */
  const float *coefficients;
  int lo, hi;     /* width of the layers; 0: none */
  int points;     /* of the grid along the axis */
  int origin;     /* of the slab's first point in the grid; 0 but for z */
  int lo_first;   /* psi[k] of the low layer is at k - lo_first along the stored axis */
  int hi_last;    /* psi[k] of the high layer is at hi_last - k */
  float center;   /* the stencil's weight of the point itself, this axis' part */
  float slope[2]; /* weights of psi half a point and one and a half points away, / spacing^2 */
} absorb_axis;

/* A point of the slab. */
typedef struct absorb_point {
  int z, y, x;
} absorb_point;

/* A point's place in a layer: i from the outer edge, and the inward direction along the axis; 0: in no layer. */
typedef struct absorb_place {
  int i, inward;
} absorb_place;

GHOSTS_INLINE absorb_place absorb_locate(const absorb_axis *a, int at) {
  const int low = at + a->origin, high = a->points - 1 - low;
  absorb_place p = {0, 0};
  if (low < a->lo)
    p.i = low, p.inward = 1;
  else if (high < a->hi)
    p.i = high, p.inward = -1;
  return p;
}

/* P x at a point; at: x y z; chi of each axis is `apart` floats from that of the one before. */
GHOSTS_INLINE float stretch_point(const absorb_axis axis[ABSORB_AXES], int width, const int at[ABSORB_AXES],
                                  float *chi, ptrdiff_t apart, float x) {
  POINTS_UNROLL for (int i = 0; i < ABSORB_AXES; i++) {
    const absorb_place p = absorb_locate(&axis[i], at[i]);
    if (p.inward == 0) continue;
    const float *c = axis[i].coefficients + p.i;
    chi[i * apart] = fmaf(c[0], chi[i * apart], c[width] * x);
    x += chi[i * apart];
  }
  return x;
}

/* The state of e: chi of the layers of each axis, laid out as zeta, in the planes of the slab and RADIUS beyond. */
typedef struct surplus_layers {
  absorb_axis axis[ABSORB_AXES]; /* without state */
  int width;                     /* 0: no layers */
  int nx, ny, nz;                /* of the slab */
  float
      *chi[ABSORB_AXES]; /* x: (nz + 2 RADIUS, ny, lo + hi); y: (.., lo + hi, nx); z: (planes held, ny, nx) */
} surplus_layers;

/* The number of a point among the layers' points along an axis; n: points of the slab along it. */
GHOSTS_INLINE int surplus_stored(const absorb_axis *a, int n, int at) {
  const int of_grid = at + a->origin, before = a->origin - RADIUS, end = a->origin + n + RADIUS,
            first = before > 0 ? before : 0, low = (a->lo < end ? a->lo : end) - first,
            high = a->points - a->hi;
  if (of_grid < a->lo) return of_grid - first;
  return (low > 0 ? low : 0) + of_grid - (high > before ? high : before);
}

/* Finds the place of a point in a layer; ghosts beyond a face lie in none. */
GHOSTS_INLINE absorb_place surplus_locate(const absorb_axis *a, int at) {
  absorb_place p = absorb_locate(a, at);
  if (p.i < 0) p.inward = 0;
  return p;
}

GHOSTS_INLINE float *surplus_chi(const surplus_layers *s, int axis, absorb_point at) {
  const absorb_axis *a = &s->axis[axis];
  const ptrdiff_t nx = s->nx, ny = s->ny, z = at.z + RADIUS, stored = a->lo + a->hi;
  return s->chi[axis] + (axis == 0   ? (z * ny + at.y) * stored + surplus_stored(a, s->nx, at.x)
                         : axis == 1 ? (z * stored + surplus_stored(a, s->ny, at.y)) * nx + at.x
                                     : (surplus_stored(a, s->nz, at.z) * ny + at.y) * nx + at.x);
}

/* e at a point, which may be a ghost along z. */
GHOSTS_INLINE float surplus_at(const surplus_layers *s, absorb_point at) {
  const int place[ABSORB_AXES] = {at.x, at.y, at.z};
  float e = 0;
  POINTS_UNROLL for (int i = 0; i < ABSORB_AXES; i++) if (surplus_locate(&s->axis[i], place[i]).inward) e +=
      *surplus_chi(s, i, at);
  return e;
}

#ifdef __cplusplus
}
#endif
#endif
