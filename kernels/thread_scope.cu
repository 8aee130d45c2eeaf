/* jacobi, thread_scope: of a few shapes takes the one that is cheapest for a launch (see the .cuh files). */
#include "thread_scope_launch.cuh"

namespace thread_scope {

enum { SHAPES = 3 };

/* The program's shapes and what the device makes of them. */
struct choice {
  variant shapes[SHAPES];
  residency limits[SHAPES];
  cudaError_t status;
};

static choice make_choice() {
  choice c = {
      {variant_of<shape<128, 36, 3, 6, 1>>("128x36"), /* 768 x 768: one tile an SM of a 132-SM device */
       variant_of<shape<128, 32, 4, 6, 1>>("128x32"),
       variant_of<shape<32, 8, 1, 4, 8>>("32x8")}, /* thin launches and small grids: many blocks */
      {},
      cudaSuccess};
  for (int i = 0; i < SHAPES && c.status == cudaSuccess; i++) c.status = query(c.shapes[i], &c.limits[i]);
  return c;
}

cudaError_t select(const kernel_args *args, selection *s) {
  static const choice c = make_choice(); /* asked once: a process has one device */
  for (int i = 0; i < SHAPES && c.status == cudaSuccess; i++) {
    const plan p = plan_variant(c.shapes[i], c.limits[i], args);
    if (i == 0 || p.cost < s->p.cost) *s = {&c.shapes[i], p};
  }
  return c.status;
}

} // namespace thread_scope

extern "C" int jacobi_cuda_thread_scope(const kernel_args *args, void *stream) {
  if (args->z_end <= args->z_begin) return cudaSuccess;
  thread_scope::selection s;
  const cudaError_t status = thread_scope::select(args, &s);
  if (status != cudaSuccess) return (int)status;
  return (int)thread_scope::launch_plan(*s.v, s.p, args, (cudaStream_t)stream);
}
