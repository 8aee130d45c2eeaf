/* The oracle: every kernel must give the bits of this one. It is written to be read beside the order of operations in
 * docs/DESIGN.md, one line a step, and not for speed. */
#include "ghosts.h"
#include "host_share.h"
#include <math.h>

host_kernel jacobi_host_reference, heat_host_reference, wave_host_reference;

static const float *reference_point(const kernel_args *a, int z, int y, int x) {
  return a->in + (ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x;
}

/* The weighted sum of the 25 points. */
static float reference_star(const kernel_args *a, int z, int y, int x) {
  const float *u = reference_point(a, z, y, x);
  ptrdiff_t row = (ptrdiff_t)a->pitch, plane = (ptrdiff_t)a->plane;

  float acc = a->wz[4] * u[-4 * plane];
  for (int r = 3; r >= 1; r--) acc = fmaf(a->wz[r], u[-r * plane], acc);
  acc = fmaf(a->center, u[0], acc);
  for (int r = 1; r <= 4; r++) {
    acc = fmaf(a->wy[r], u[-r * row] + u[r * row], acc);
    acc = fmaf(a->wx[r], u[-r] + u[r], acc);
  }
  for (int r = 1; r <= 4; r++) acc = fmaf(a->wz[r], u[r * plane], acc);
  return acc;
}

static float reference_update(enum equation equation, float star, float m, float u, float before) {
  if (equation == EQUATION_HEAT) return fmaf(m, star, u);
  if (equation == EQUATION_WAVE) return fmaf(m, star, fmaf(2, u, -before));
  return star;
}

static float reference_medium(const kernel_args *a, ptrdiff_t at) {
  return a->medium[0] ? a->medium[0][at] : a->scale[0];
}

static void reference_sweep(enum equation equation, const kernel_args *a, int part, int parts) {
  host_share share = host_share_of(a, part, parts);
  for (int z = share.z_begin; z < share.z_end; z++)
    for (int y = share.y_begin; y < share.y_end; y++) {
      ptrdiff_t row = (ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y;
      for (int x = 0; x < a->nx; x++) {
        float before = equation == EQUATION_WAVE ? a->out[row + x] : 0;
        float m = equation == EQUATION_JACOBI ? 0 : reference_medium(a, row + x);
        ghosts_store(
            a, z, y, x,
            reference_update(equation, reference_star(a, z, y, x), m, *reference_point(a, z, y, x), before));
      }
    }
}

void jacobi_host_reference(const kernel_args *a, int part, int parts) {
  reference_sweep(EQUATION_JACOBI, a, part, parts);
}
void heat_host_reference(const kernel_args *a, int part, int parts) {
  reference_sweep(EQUATION_HEAT, a, part, parts);
}
void wave_host_reference(const kernel_args *a, int part, int parts) {
  reference_sweep(EQUATION_WAVE, a, part, parts);
}
