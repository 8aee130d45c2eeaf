/* What operations do at one point, the same source for host and CUDA, so that both give the same bits. */
#ifndef STENCIL_OPERATION_POINTS_H
#define STENCIL_OPERATION_POINTS_H

#include <math.h>
#include "ghosts.h"
#include "operation.h"

/* Holds and images anew own point (z, y, x) of a->out. */
GHOSTS_INLINE void ghosts_renew(const kernel_args *a, int z, int y, int x) {
  ghosts_store(a, z, y, x, a->out[(ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x]);
}

/* Has every point of row (z, y) an image along y or z, or is it held? Otherwise only points near the ends of the row
 * can be: ghosts_end_points. */
GHOSTS_INLINE int ghosts_whole_row(const kernel_args *a, int z, int y) {
  const unsigned char *g = a->ghosts;
  return ghosts_touch(z, a->nz, g[FACE_Z_LO], g[FACE_Z_HI]) ||
         ghosts_touch(y, a->ny, g[FACE_Y_LO], g[FACE_Y_HI]);
}

/* Points at the two ends of any other row that may have images in x, both ends together: at most nx, 0 without rules
 * in x. ghosts_end_point gives them their x. */
GHOSTS_INLINE int ghosts_end_points(const kernel_args *a) {
  const int both = 2 * (GHOST_REACH + 1);
  if (a->ghosts[FACE_X_LO] == GHOST_KEEP && a->ghosts[FACE_X_HI] == GHOST_KEEP) return 0;
  return a->nx < both ? a->nx : both;
}

GHOSTS_INLINE int ghosts_end_point(const kernel_args *a, int i) {
  return i <= GHOST_REACH ? i : a->nx - ghosts_end_points(a) + i;
}

/* Adds its sources to point i of the list. */
GHOSTS_INLINE void inject_point(const inject_args *a, int i) {
  const kernel_args *f = &a->field;
  const source_point p = a->points[i];
  const ptrdiff_t at = (ptrdiff_t)f->plane * p.z + (ptrdiff_t)f->pitch * p.y + p.x;
  float s = 0;
  for (int k = p.first; k < p.first + p.count; k++)
    s = fmaf(a->shares[k].weight, a->signal[a->shares[k].source], s);
  ghosts_store(f, p.z, p.y, p.x, fmaf(f->medium ? f->medium[at] : f->scale, s, f->out[at]));
}

/* Interpolates the field at receiver i of the list. */
GHOSTS_INLINE float sample_point(const sample_args *a, int i) {
  const receiver r = a->receivers[i];
  const float wz[2] = {1 - r.fz, r.fz}, wy[2] = {1 - r.fy, r.fy}, wx[2] = {1 - r.fx, r.fx};
  float s = 0;
  for (int corner = 0; corner < 8; corner++) {
    const int z = corner >> 2, y = corner >> 1 & 1, x = corner & 1;
    const float weight = (wz[z] * wy[y]) * wx[x];
    if (weight != 0)
      s = fmaf(weight, a->field[r.at + z * (ptrdiff_t)a->plane + y * (ptrdiff_t)a->pitch + x], s);
  }
  return s;
}

#endif
