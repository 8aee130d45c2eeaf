/* The transpose of absorbing layers on the host. */
#include "absorb_back.h"
#include "host_share.h"

static void absorb_back_host(const void *args, int part, int parts) {
  const absorb_back_args *a = args;
  const host_share share = host_share_of(&a->layers.field, part, parts);
  for (int z = share.z_begin; z < share.z_end; z++)
    for (int y = share.y_begin; y < share.y_end; y++)
      for (int x = 0; x < a->layers.field.nx; x++) absorb_back_add(a, (absorb_point){z, y, x});
}

const operation operation_absorb_back = {.name = "absorbing layers on the way back",
                                         .args_bytes = sizeof(absorb_back_args),
                                         .host = absorb_back_host,
#ifdef STENCIL_HAVE_CUDA
                                         .cuda = absorb_back_cuda
#endif
};
