/* thread_scope: a cuda::pipeline of thread scope. Each thread copies its part of every plane, 16 bytes at a time, and
 * its pipeline waits for its own copies. Such a pipeline knows nothing of other threads (its producer_acquire and
 * consumer_release do nothing). So one block barrier a plane makes sure that all copies have landed, and that all
 * threads have read the slot to be refilled.
 *
 *   plane      z-1     z      z+1    z+2   ...  z+STAGES-1
 *   wait             |wait|                                  own copies: consumer_wait_prior<STAGES - 2>
 *   barrier          |****|                                  everyone's; everyone is done with plane z-1
 *   copies     slot of z-1 is refilled ........ |issue------->
 *   sums             |add to nine output planes|
 *
 * STAGES - 1 planes are on their way at any time. It costs one barrier a plane and the copies themselves (a pack of 16
 * bytes is one LDGSTS and its predicate). Warps cannot drift apart: at every barrier all wait for the slowest. Where
 * arithmetic limits (jacobi), expect a few percent less than multi_stage; where memory does (wave), as much as any. */
#include <cuda/pipeline>
#include "kernels/cuda/stencil.cuh"

namespace thread_scope {

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    advance(const __grid_constant__ kernel_args a, const __grid_constant__ stencil::cut c) {
  static_assert(S::stages >= 3 && S::stages <= 10, "pipeline_consumer_wait_prior counts up to 8 groups");
  extern __shared__ __align__(16) float ring[];
  const stencil::place<S> tile(a, c);
  const stencil::copier<S> copies(a, tile, (int)threadIdx.x);
  stencil::points<S> points(a, tile, (int)threadIdx.x);
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();

  auto prefetch = [&](int z, int slot) {
    if (z < tile.z_end + RADIUS)
      copies.copy(ring + slot * S::slot, tile.plane(a.in, a, z), tile.owns(z),
                  [&](float4 *to, const float4 *from, bool) {
                    cuda::memcpy_async(to, from, cuda::aligned_size_t<16>(16), pipe);
                  });
    pipe.producer_commit(); /* also an empty group, since wait_prior counts groups */
  };
  constexpr int AHEAD = S::stages - 1;
  const int first = tile.z_begin - RADIUS;
  for (int i = 0; i < AHEAD; i++) prefetch(first + i, i);

  for (int z = first, slot = 0; z < tile.z_end + RADIUS; z++) {
    cuda::pipeline_consumer_wait_prior<AHEAD - 1>(pipe);
    __syncthreads();
    prefetch(z + AHEAD, stencil::slot_after<S>(slot, AHEAD));
    points.add(z, ring + slot * S::slot, ring + stencil::centre_slot<S>(slot) * S::slot);
    slot = stencil::slot_after<S>(slot, 1);
  }
}

/* 768 x 768 points are 132 tiles of 128 x 36, one an SM; 32 x 8 is for thin launches and small grids: many blocks. */
template <enum equation Q>
using large = stencil::by_operands<Q, stencil::shape<Q, 128, 36, 3, 4, 1>,
                                   stencil::shape<Q, 128, 36, 3, 5, 1>, stencil::shape<Q, 128, 36, 3, 5, 1>>;
template <enum equation Q>
using middle = stencil::by_operands<Q, stencil::shape<Q, 128, 32, 4, 4, 1>, large<Q>, large<Q>>;
template <enum equation Q>
using small = stencil::by_operands<Q, stencil::shape<Q, 32, 8, 1, 4, 8>, stencil::shape<Q, 32, 8, 1, 3, 4>,
                                   stencil::shape<Q, 32, 8, 1, 3, 4>>;

} // namespace thread_scope

STENCIL_LAUNCHER(thread_scope, thread_scope::large<Q>, thread_scope::middle<Q>, thread_scope::small<Q>)
