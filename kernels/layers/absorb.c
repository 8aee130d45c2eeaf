/* The absorbing layers on the host, one point after another. This is the oracle, and follows kernels that do not do
 * their layers themselves, as kernels `simd` do (host_layers.h). */
#include <stdbool.h>
#include "absorb.h"
#include "kernels/host_range.h"

/* Adds the layer terms of a point to it, axis by axis. */
static void absorb_add(const absorb_args *a, absorb_point at) {
  const kernel_args *f = &a->field;
  const int place[ABSORB_AXES] = {at.x, at.y, at.z};
  const ptrdiff_t i = (ptrdiff_t)f->plane * at.z + (ptrdiff_t)f->pitch * at.y + at.x;
  float sum = 0;
  bool any = false;
  for (int axis = 0; axis < ABSORB_AXES; axis++) {
    if (!absorb_locate(&a->axis[axis], place[axis]).inward) continue;
    sum += absorb_along(a, axis, at);
    any = true;
  }
  if (any) ghosts_store(f, at.z, at.y, at.x, terms_add(f, i, point_gain_at(f, i), sum, f->out[i]));
}

static void absorb_host(const void *args, int part, int parts) {
  const absorb_args *a = args;
  const host_range range = host_range_of(&a->field, part, parts);
  for (int z = range.z_begin; z < range.z_end; z++)
    for (int y = range.y_begin; y < range.y_end; y++)
      for (int x = 0; x < a->field.nx; x++) absorb_add(a, (absorb_point){z, y, x});
}

OPERATION(absorb, "absorbing layers", absorb_args, .host = absorb_host)
