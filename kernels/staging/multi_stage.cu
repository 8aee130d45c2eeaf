/* multi_stage: a cuda::pipeline of block scope with several stages, unified: every thread both copies and
 * adds. Prolog, steady state and epilog are one loop: before a plane is waited for, whatever fits the
 * pipeline is put on its way: AHEAD planes at the start, one a plane from then on, none near the end.
 *
 *   plane      z            z+1          z+2
 *   acquire    stage of z-2 | of z-1     | of z        everyone has released it
 *   copies     |z+AHEAD-1-->|z+AHEAD --->|             on their way while planes are added
 *   wait       |z|          |z+1|        |z+2|         everyone's copies have landed
 *   sums         |add z|        |add z+1|    |add z+2|
 *   release            |r|              |r|
 *
 * The pipeline's barriers do what a block barrier does in thread_scope, but arriving and waiting are two
 * things: a warp that has released a plane goes on, and as one stage stays free it may be a plane ahead of the
 * slowest. That pays for three arrivals of every thread a plane (its copies, its commit, its release). Expect
 * the most of all forms without a copy engine where arithmetic limits (jacobi). */
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include "kernels/cuda/star.cuh"

#pragma nv_diag_suppress static_var_with_dynamic_init /* make_pipeline initialises what the state holds */

namespace multi_stage {

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    sweep(const __grid_constant__ kernel_args a, const __grid_constant__ star::cut c) {
  constexpr int AHEAD = S::stages - 1; /* planes in the pipeline */
  static_assert(AHEAD >= 2, "a plane to add and one on its way");
  extern __shared__ __align__(16) float ring[];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, S::stages> state;
  cuda::pipeline<cuda::thread_scope_block> pipe =
      cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
  const star::place<S> tile(a, c);
  const star::copier<S> copies(a, tile, (int)threadIdx.x);
  star::points<S> points(a, tile, (int)threadIdx.x);

  const int first = tile.z_begin - RADIUS, last = tile.z_end + RADIUS;
  for (int z = first, next = first, slot = 0, fill = 0; z < last; z++) {
    for (; next < last && next < z + AHEAD; next++) {
      pipe.producer_acquire();
      copies.copy(ring + fill * S::slot, tile.plane(a.in, a, next), tile.owns(next),
                  [&](float4 *to, const float4 *from, bool) {
                    cuda::memcpy_async(to, from, cuda::aligned_size_t<16>(16), pipe);
                  });
      pipe.producer_commit();
      fill = star::slot_after<S>(fill, 1);
    }
    pipe.consumer_wait();
    points.add(z, ring + slot * S::slot, ring + star::centre_slot<S>(slot) * S::slot);
    pipe.consumer_release();
    slot = star::slot_after<S>(slot, 1);
  }
}

} // namespace multi_stage

STAR_LAUNCHER(multi_stage,
              star::by_operands<Q, star::shape<Q, 128, 36, 3, 4, 1>, star::shape<Q, 128, 36, 3, 5, 1>,
                                star::shape<Q, 128, 32, 2, 4, 1>>,
              star::shape<Q, 32, 8, 1, 4, 4>)
