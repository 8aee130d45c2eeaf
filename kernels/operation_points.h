/* What operations do at one point: inject_point (point sources) and sample_point (receivers). Host and CUDA compile the
 * same source, so both give the same bits. */
#ifndef STENCIL_OPERATION_POINTS_H
#define STENCIL_OPERATION_POINTS_H

#include <math.h>
#include "ghosts.h"
#include "operation.h"

/* Adds to point i of the list what its sources give. */
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
