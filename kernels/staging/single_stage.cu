/* single_stage: a cuda::pipeline of block scope with one stage, the simplest form there is. All threads copy a plane,
 * wait for it, add it, and only when all have released it does the next one start on its way.
 *
 *   plane      |-------- z --------|------- z+1 -------|
 *   copies     |issue-->           |issue-->           |
 *   wait               |===latency=|           |===latency=|
 *   sums                           |add|                   |add|
 *
 * Nothing of a block overlaps: each plane costs the whole latency of memory plus its arithmetic. Other blocks of the
 * same multiprocessor hide the latency, so tiles are small and many; but small tiles read more halo. Expect three
 * quarters of what multi_stage reaches. */
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include "kernels/cuda/stencil.cuh"

#pragma nv_diag_suppress static_var_with_dynamic_init /* make_pipeline initialises what the state holds */

namespace single_stage {

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    advance(const __grid_constant__ kernel_args a, const __grid_constant__ stencil::cut c) {
  static_assert(S::stages == 1, "what the name says");
  extern __shared__ __align__(16) float ring[];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
  cuda::pipeline<cuda::thread_scope_block> pipe =
      cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
  const stencil::place<S> tile(a, c);
  const stencil::copier<S> copies(a, tile, (int)threadIdx.x);
  stencil::points<S> points(a, tile, (int)threadIdx.x);

  for (int z = tile.z_begin - RADIUS, slot = 0; z < tile.z_end + RADIUS; z++) {
    pipe.producer_acquire(); /* everyone has released plane z-1 */
    copies.copy(ring + slot * S::slot, tile.plane(a.in, a, z), tile.owns(z),
                [&](float4 *to, const float4 *from, bool) {
                  cuda::memcpy_async(to, from, cuda::aligned_size_t<16>(16), pipe);
                });
    pipe.producer_commit();
    pipe.consumer_wait(); /* everyone's copies of plane z have landed */
    points.add(z, ring + slot * S::slot, ring + stencil::centre_slot<S>(slot) * S::slot);
    pipe.consumer_release();
    slot = stencil::slot_after<S>(slot, 1); /* jacobi: the same slot; else z-4 .. z-1 stay for their centres */
  }
}

} // namespace single_stage

STENCIL_LAUNCHER(single_stage, stencil::shape<Q, 64, 24, 3, 1, 3>, stencil::shape<Q, 32, 8, 1, 1, 8>)
