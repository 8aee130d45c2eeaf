/* naive: one thread a point, every neighbour from global memory, through the caches. The tests compare every other
 * CUDA kernel with it bit for bit. So it does only stencil::sum_at, which spells out the order of operations. */
#include "kernels/cuda/stencil.cuh"
#include "kernels/equations/terms.h"

namespace naive {

enum { BLOCK_X = 32, BLOCK_Y = 8, GRID_MAX = 65535 /* blocks a launch may have along y and z */ };

template <enum equation Q>
static __global__ void __launch_bounds__(BLOCK_X *BLOCK_Y) advance(const __grid_constant__ kernel_args a) {
  const int x = (int)(blockIdx.x * BLOCK_X + threadIdx.x);
  if (x >= a.nx) return;
  for (int z = a.z_begin + (int)blockIdx.z; z < a.z_end; z += (int)gridDim.z)
    for (int y = (int)(blockIdx.y * BLOCK_Y + threadIdx.y); y < a.ny; y += (int)(gridDim.y * BLOCK_Y)) {
      const ptrdiff_t at = (ptrdiff_t)z * (ptrdiff_t)a.plane + (ptrdiff_t)y * (ptrdiff_t)a.pitch + x;
      float m[EQUATION_MEDIA] = {};
#pragma unroll
      for (int i = 0; i < stencil::media_of<Q>; i++) m[i] = a.medium[i] ? a.medium[i][at] : a.scale[i];
      const float before = stencil::reads_before<Q> ? a.out[at] : 0.0f;
      const float sum = stencil::sum_at(a.in + at, a);
      a.out[at] = point_next(Q, terms_bracket_at(&a, at, sum), m, a.in[at], before, 2.0f);
    }
}

template <enum equation Q> static int launch_advance(const kernel_args *args, void *stream) {
  if (args->z_end <= args->z_begin) return cudaSuccess;
  const int blocks_y = (args->ny - 1) / BLOCK_Y + 1, planes = args->z_end - args->z_begin;
  const dim3 grid((unsigned)((args->nx - 1) / BLOCK_X + 1),
                  (unsigned)(blocks_y < GRID_MAX ? blocks_y : GRID_MAX),
                  (unsigned)(planes < GRID_MAX ? planes : GRID_MAX));
  advance<Q><<<grid, dim3(BLOCK_X, BLOCK_Y), 0, (cudaStream_t)stream>>>(*args);
  const cudaError_t status = cudaGetLastError();
  return (int)(status == cudaSuccess ? images::launch(args, (cudaStream_t)stream) : status);
}

} // namespace naive

extern "C" int cuda_naive(const kernel_args *args, void *stream) {
  return stencil::of_equation(
      args->equation, [=](auto q) { return naive::launch_advance<decltype(q)::value>(args, stream); });
}
