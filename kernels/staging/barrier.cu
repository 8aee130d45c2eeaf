/* barrier: a pair of cuda::barrier for each stage, `full` and `empty`. A partitioned cuda::pipeline consists of these.
 * Whole warps of producers copy with __pipeline_memcpy_async; __pipeline_arrive_on makes the stage's full barrier wait
 * for the copies of the calling thread, besides its own arrival.
 *
 *   producers   wait empty[z+2], copy, arrive_on and arrive full[z+2] | wait empty[z+3], ...
 *                                           |
 *   stages      [z+2: filling][z+1: full][ z: in use ]
 *                                              |
 *   consumers   wait full[z], add z, arrive empty[z] | wait full[z+1], ...
 *
 * The kernel counts phases by hand: one bit flips each time round the ring of stages. Expect the speed of partitioned,
 * which hides exactly this. (cuda::memcpy_async bound to a barrier would be shorter, but on Hopper it becomes one bulk
 * copy for each row of the tile. A row of 544 bytes takes the copy engine 45 ns, however many warps issue them, so a
 * plane of jacobi takes 1.7 us instead of 1.2.) */
#include <cuda_pipeline_primitives.h>
#include <cuda/barrier>
#include "kernels/cuda/stencil.cuh"

#pragma nv_diag_suppress static_var_with_dynamic_init /* init() does what their constructors would */

namespace barrier {

using block_barrier = cuda::barrier<cuda::thread_scope_block>;
enum { WARP = 32 };

/* A stage of the pipeline and how often the ring of stages has gone round. */
template <class S> struct ring_slot {
  int stage = 0;
  bool odd = false;

  __device__ __forceinline__ void next() {
    if (++stage == S::stages) stage = 0, odd = !odd;
  }
};

template <class S>
static __device__ __forceinline__ void fill_stages(const kernel_args &a, const stencil::place<S> &tile,
                                                   float *ring, block_barrier *full, block_barrier *empty) {
  const stencil::copier<S, S::helpers> copies(a, tile, (int)threadIdx.x - S::workers);
  ring_slot<S> t;
  for (int z = tile.z_begin - RADIUS, slot = 0; z < tile.z_end + RADIUS; z++) {
    empty[t.stage].wait_parity(!t.odd); /* the round before the first counts as done */
    copies.copy(ring + slot * S::slot, tile.plane(a.in, a, z), tile.owns(z),
                [](float4 *to, const float4 *from, bool) { __pipeline_memcpy_async(to, from, sizeof *to); });
    __syncwarp();
    __pipeline_arrive_on(cuda::device::barrier_native_handle(full[t.stage]));
    (void)full[t.stage].arrive();
    slot = stencil::slot_after<S>(slot, 1);
    t.next();
  }
}

template <class S>
static __device__ __forceinline__ void add_stages(const kernel_args &a, const stencil::place<S> &tile,
                                                  const float *ring, block_barrier *full,
                                                  block_barrier *empty) {
  stencil::points<S> points(a, tile, (int)threadIdx.x);
  ring_slot<S> t;
  for (int z = tile.z_begin - RADIUS, slot = 0; z < tile.z_end + RADIUS; z++) {
    full[t.stage].wait_parity(t.odd);
    points.add(z, ring + slot * S::slot, ring + stencil::centre_slot<S>(slot) * S::slot);
    (void)empty[t.stage].arrive();
    slot = stencil::slot_after<S>(slot, 1);
    t.next();
  }
}

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    advance(const __grid_constant__ kernel_args a, const __grid_constant__ stencil::cut c) {
  static_assert(S::workers % WARP == 0 && S::helpers % WARP == 0 && S::helpers > 0,
                "whole warps of each role");
  extern __shared__ __align__(16) float ring[];
  __shared__ block_barrier full[S::stages], empty[S::stages];
  if (threadIdx.x == 0)
    for (int i = 0; i < S::stages; i++) {
      init(&full[i], S::helpers);
      init(&empty[i], S::workers);
    }
  __syncthreads();
  const stencil::place<S> tile(a, c);
  if (threadIdx.x >= S::workers)
    fill_stages<S>(a, tile, ring, full, empty);
  else
    add_stages<S>(a, tile, ring, full, empty);
}

} // namespace barrier

STENCIL_LAUNCHER(barrier, stencil::shape<Q, 128, 30, 3, 3, 1, 64>, stencil::shape<Q, 32, 8, 1, 3, 4, 32>)
