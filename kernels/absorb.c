/* The absorbing layers on the host, one point after another: the oracle, and what follows a kernel that does not bring
 * them itself. Kernels `simd` do (host_layers.h). */
#include <stdbool.h>
#include "absorb.h"
#include "host_share.h"

/* Adds to a point what its layers have for it, axis by axis. */
static void absorb_point(const absorb_args *a, int z, int y, int x) {
  const kernel_args *f = &a->field;
  const float *const weights[ABSORB_AXES] = {f->wx, f->wy, f->wz};
  const ptrdiff_t nx = f->nx, stride[ABSORB_AXES] = {1, (ptrdiff_t)f->pitch, (ptrdiff_t)f->plane};
  const ptrdiff_t state_stride[ABSORB_AXES] = {1, nx, nx * f->ny};
  const int place[ABSORB_AXES] = {x, y, z}, both_x = a->axis[0].lo + a->axis[0].hi,
            both_y = a->axis[1].lo + a->axis[1].hi;
  const ptrdiff_t at = stride[2] * z + stride[1] * y + x;
  const ptrdiff_t state[ABSORB_AXES] = {((ptrdiff_t)z * f->ny + y) * both_x, z * both_y * nx + x, y * nx + x};
  float sum = 0;
  bool any = false;
  for (int i = 0; i < ABSORB_AXES; i++) {
    const absorb_axis *s = &a->axis[i];
    const absorb_place p = absorb_locate(s, place[i]);
    if (!p.inward) continue;
    const absorb_line l = absorb_line_of(s, a->width, p, stride[i], state_stride[i]);
    any = true;
    sum += absorb_add(s, &l, a->difference, weights[i], f->in + at, s->psi_in + state[i],
                      s->psi_out + state[i], s->zeta + state[i]);
    for (int k = 1; i == 2 && k <= ABSORB_BEYOND && k <= absorb_left(a, p, z); k++)
      s->psi_out[state[i] + l.psi[k]] = absorb_psi_at(&l, a->difference, f->in + at, s->psi_in + state[i], k);
  }
  if (any) ghosts_store(f, z, y, x, fmaf(f->medium ? f->medium[at] : f->scale, sum, f->out[at]));
}

static void absorb_host(const void *args, int part, int parts) {
  const absorb_args *a = args;
  const host_share share = host_share_of(&a->field, part, parts);
  for (int z = share.z_begin; z < share.z_end; z++)
    for (int y = share.y_begin; y < share.y_end; y++)
      for (int x = 0; x < a->field.nx; x++) absorb_point(a, z, y, x);
}

const operation operation_absorb = {.name = "absorbing layers",
                                    .args_bytes = sizeof(absorb_args),
                                    .host = absorb_host,
#ifdef STENCIL_HAVE_CUDA
                                    .cuda = absorb_cuda
#endif
};
