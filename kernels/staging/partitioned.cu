/* partitioned: a cuda::pipeline of block scope whose threads have fixed roles (cuda::pipeline_role). Whole
 * warps of producers do nothing but copy, up to STAGES planes ahead; the others do nothing but add. Neither
 * waits for the other except through the pipeline, so producers run ahead as far as the ring allows.
 *
 *   producers   acquire, copy z+3, commit | acquire, copy z+4, commit | ... quit()
 *                        \  full                  \  full
 *   ring          [z+2][z+1][ z ][z-1]
 *                          full \      / empty
 *   consumers       wait z, add z, release | wait z+1, add z+1, release | ...
 *
 * A thread arrives only for its own role, and a late warp does not delay the copies of others. But each of a
 * multiprocessor's four schedulers owns a quarter of its registers: one warp more than a multiple of four takes
 * registers from all threads of a quarter. So producers replace workers: 12 warps of 168 registers, or 16 of 128, less
 * the producers'. All lanes of a producer warp commit together. Producers leave early and say so with quit(). It takes
 * back no arrival, which is sound because every plane has been committed by then. */
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include "kernels/cuda/stencil.cuh"

#pragma nv_diag_suppress static_var_with_dynamic_init /* make_pipeline initialises what the state holds */

namespace partitioned {

template <class S>
static __device__ __forceinline__ void copy_planes(const kernel_args &a, const stencil::place<S> &tile,
                                                   float *ring,
                                                   cuda::pipeline<cuda::thread_scope_block> &pipe) {
  const stencil::copier<S, S::helpers> copies(a, tile, (int)threadIdx.x - S::workers);
  for (int z = tile.z_begin - RADIUS, slot = 0; z < tile.z_end + RADIUS; z++) {
    pipe.producer_acquire();
    copies.copy(ring + slot * S::slot, tile.plane(a.in, a, z), tile.owns(z),
                [&](float4 *to, const float4 *from, bool) {
                  cuda::memcpy_async(to, from, cuda::aligned_size_t<16>(16), pipe);
                });
    __syncwarp();
    pipe.producer_commit();
    slot = stencil::slot_after<S>(slot, 1);
  }
  (void)pipe.quit();
}

template <class S>
static __device__ __forceinline__ void add_planes(const kernel_args &a, const stencil::place<S> &tile,
                                                  const float *ring,
                                                  cuda::pipeline<cuda::thread_scope_block> &pipe) {
  stencil::points<S> points(a, tile, (int)threadIdx.x);
  for (int z = tile.z_begin - RADIUS, slot = 0; z < tile.z_end + RADIUS; z++) {
    pipe.consumer_wait();
    points.add(z, ring + slot * S::slot, ring + stencil::centre_slot<S>(slot) * S::slot);
    pipe.consumer_release();
    slot = stencil::slot_after<S>(slot, 1);
  }
}

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    advance(const __grid_constant__ kernel_args a, const __grid_constant__ stencil::cut c) {
  static_assert(S::workers % 32 == 0 && S::helpers % 32 == 0 && S::helpers > 0, "whole warps of each role");
  extern __shared__ __align__(16) float ring[];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, S::stages> state;
  const auto role = threadIdx.x < S::workers ? cuda::pipeline_role::consumer : cuda::pipeline_role::producer;
  cuda::pipeline<cuda::thread_scope_block> pipe =
      cuda::make_pipeline(cooperative_groups::this_thread_block(), &state, role);
  const stencil::place<S> tile(a, c);
  if (role == cuda::pipeline_role::producer)
    copy_planes<S>(a, tile, ring, pipe);
  else
    add_planes<S>(a, tile, ring, pipe);
}

} // namespace partitioned

STENCIL_LAUNCHER(partitioned, stencil::shape<Q, 128, 30, 3, 4, 1, 64>, stencil::shape<Q, 32, 8, 1, 4, 4, 32>)
