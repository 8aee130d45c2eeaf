/* The oracle, whose bits every kernel must give. It is written to be read beside the order of operations in
 * docs/DESIGN.md, one line a step, and not for speed. */
#include "kernels/host_range.h"
#include "kernels/equations/terms.h"

host_kernel host_reference;

/* The weighted sum of the 25 points. */
static float reference_stencil(const kernel_args *a, int z, int y, int x) {
  const ptrdiff_t row = (ptrdiff_t)a->pitch, plane = (ptrdiff_t)a->plane;
  const float *u = a->in + plane * z + row * y + x;

  float acc = a->wz[4] * u[-4 * plane];
  for (int r = 3; r >= 1; r--) acc = fmaf(a->wz[r], u[-r * plane], acc);
  acc = fmaf(a->center, u[0], acc);
  for (int r = 1; r <= 4; r++) {
    acc = a->flat ? acc + 0.0f : fmaf(a->wy[r], u[-r * row] + u[r * row], acc);
    acc = fmaf(a->wx[r], u[-r] + u[r], acc);
  }
  for (int r = 1; r <= 4; r++) acc = fmaf(a->wz[r], u[r * plane], acc);
  return acc;
}

void host_reference(const kernel_args *a, int part, int parts) {
  const host_range range = host_range_of(a, part, parts);
  const bool reads_before = EQUATIONS[a->equation].levels > 1;
  for (int z = range.z_begin; z < range.z_end; z++)
    for (int y = range.y_begin; y < range.y_end; y++)
      for (int x = 0; x < a->nx; x++) {
        const ptrdiff_t at = (ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x;
        const float before = reads_before ? a->out[at] : 0;
        const float stencil = terms_bracket_at(a, at, reference_stencil(a, z, y, x));
        float m[EQUATION_MEDIA];
        point_media(a, at, m);
        ghosts_store(a, z, y, x, point_next(a->equation, stencil, m, a->in[at], before, 2));
      }
}
