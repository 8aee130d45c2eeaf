/* primitives: the C interface under cuda::pipeline: __pipeline_memcpy_async, __pipeline_commit, __pipeline_wait_prior.
 * The stages are those of thread_scope, and so are the instructions. The C interface adds zero-fill: the last bytes of
 * a copy can be zeros instead of what lies in memory. So this kernel never reads past the last ghost of a row, where a
 * pack of 16 bytes holds the last readable points and padding.
 *
 *   row        ... | u u u u | u u g g | g g . . |        u own, g ghost, . padding: not read
 *   copies         |   16    |   16    | 8 + 8 zeros
 *
 *   plane      z-1     z      z+1    z+2   ...  z+STAGES-1
 *   wait             |wait|                                  own copies: __pipeline_wait_prior(STAGES - 2)
 *   barrier          |****|                                  everyone's; everyone is done with plane z-1
 *   copies     slot of z-1 is refilled ........ |issue------->
 *   sums             |add to nine output planes|
 *
 * Expect the speed of thread_scope: a few instructions more in the one tile of four columns that needs it. */
#include <cuda_pipeline_primitives.h>
#include "kernels/cuda/stencil.cuh"

namespace primitives {

/* Copies the first `exist` floats of a pack and fills it up with zeros. Each size has a branch, since the size of a
 * copy is part of the instruction. */
static __device__ __forceinline__ void copy_pack(float4 *to, const float4 *from, int exist) {
  constexpr size_t ALL = sizeof(float4), ONE = sizeof(float);
  if (exist >= stencil::PACK)
    __pipeline_memcpy_async(to, from, ALL);
  else if (exist == 3)
    __pipeline_memcpy_async(to, from, ALL, 1 * ONE);
  else if (exist == 2)
    __pipeline_memcpy_async(to, from, ALL, 2 * ONE);
  else
    __pipeline_memcpy_async(to, from, ALL, 3 * ONE);
}

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    advance(const __grid_constant__ kernel_args a, const __grid_constant__ stencil::cut c) {
  static_assert(S::stages >= 3 && S::stages <= 10, "__pipeline_wait_prior counts up to 8 groups");
  extern __shared__ __align__(16) float ring[];
  const stencil::place<S> tile(a, c);
  const stencil::copier<S> copies(a, tile, (int)threadIdx.x);
  stencil::points<S> points(a, tile, (int)threadIdx.x);

  auto prefetch = [&](int z, int slot) {
    if (z < tile.z_end + RADIUS)
      copies.copy(ring + slot * S::slot, tile.plane(a.in, a, z), tile.owns(z),
                  [&](float4 *to, const float4 *from, bool part) {
                    copy_pack(to, from, part ? a.nx % stencil::PACK : stencil::PACK);
                  });
    __pipeline_commit(); /* also an empty group, since wait_prior counts groups */
  };
  constexpr int AHEAD = S::stages - 1;
  const int first = tile.z_begin - RADIUS;
  for (int i = 0; i < AHEAD; i++) prefetch(first + i, i);

  for (int z = first, slot = 0; z < tile.z_end + RADIUS; z++) {
    __pipeline_wait_prior(AHEAD - 1);
    __syncthreads();
    prefetch(z + AHEAD, stencil::slot_after<S>(slot, AHEAD));
    points.add(z, ring + slot * S::slot, ring + stencil::centre_slot<S>(slot) * S::slot);
    slot = stencil::slot_after<S>(slot, 1);
  }
}

} // namespace primitives

STENCIL_LAUNCHER(primitives, stencil::shape<Q, 128, 36, 3, 4, 1>, stencil::shape<Q, 32, 8, 1, 4, 4>)
