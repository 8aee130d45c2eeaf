/* cg_memcpy: cooperative_groups::memcpy_async. A group copies together: here each warp copies a row of the plane at a
 * time, split over its lanes by the library. cooperative_groups::wait_prior<N> waits for all but the last N copies and
 * is a barrier of the block.
 *
 *   warp 0     row 0 | row 12 | row 24 | row 36        ROWS_A_WARP copies a plane, each its own group
 *   warp 1     row 1 | row 13 | ...
 *   plane      z-1     z      z+1    z+STAGES-1
 *   wait             |wait|                            wait_prior<(STAGES - 2) * ROWS_A_WARP>(block)
 *   copies     slot of z-1 is refilled |issue--->
 *   sums             |add|
 *
 * The shortest staging code of all. Its price: every call commits a group of its own and the hardware counts to eight,
 * which limits the planes on their way; and a row of 34 packs takes a warp two rounds, the second nearly empty. Expect
 * the speed of thread_scope for large tiles, and far less for small ones. The group is a coalesced_group because for a
 * thread_block_tile the library lets all lanes past a row's end copy its last pack again: the same bytes, but a race,
 * and it cost jacobi a fifth of its speed. */
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier> /* cuda::aligned_size_t */
#include "kernels/cuda/stencil.cuh"

namespace cg = cooperative_groups;

namespace cg_memcpy {

/* Row `row` of a slot, copied in one piece of a multiple of 16 bytes: floats `to` from the slot's start, `from` from
 * the tile's first point. The size is 0 where no stored point reads the row in plane z. The last pack may hold
 * padding, which is readable and not used. */
template <class S> struct row_piece {
  int to, bytes;
  ptrdiff_t from;

  __device__ __forceinline__ row_piece(const kernel_args &a, const stencil::place<S> &tile, int row, int z) {
    const int y = row - RADIUS;
    const bool own = y >= 0 && y < S::tile_y, plane_needs_halo = tile.owns(z);
    const int reach = own && plane_needs_halo ? RADIUS : 0; /* in x */
    const bool exists = y < S::tile_y + RADIUS && tile.y + y < a.ny + RADIUS && z < tile.z_end + RADIUS;
    const int floats = min(S::tile_x, a.nx - tile.x) + 2 * reach;
    to = row * S::pitch + RADIUS - reach;
    from = (ptrdiff_t)y * (ptrdiff_t)a.pitch - reach;
    bytes = exists && (own || plane_needs_halo)
                ? (floats + stencil::PACK - 1) / stencil::PACK * (int)sizeof(float4)
                : 0;
  }
};

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    advance(const __grid_constant__ kernel_args a, const __grid_constant__ stencil::cut c) {
  constexpr int WARPS = S::threads / 32, ROWS_A_WARP = (S::tile_y + 2 * RADIUS + WARPS - 1) / WARPS;
  constexpr int AHEAD = S::stages - 1, LATER = (AHEAD - 1) * ROWS_A_WARP;
  static_assert(AHEAD >= 2 && LATER <= 8, "wait_prior counts up to 8 groups");
  extern __shared__ __align__(16) float ring[];
  const cg::thread_block block = cg::this_thread_block();
  const cg::coalesced_group warp = cg::coalesced_threads(); /* all 32 lanes: nothing has diverged */
  const stencil::place<S> tile(a, c);
  stencil::points<S> points(a, tile, (int)threadIdx.x);

  auto prefetch = [&](int z, int slot) {
    const float *plane = tile.plane(a.in, a, z);
    for (int i = 0; i < ROWS_A_WARP; i++) {
      const row_piece<S> row(a, tile, (int)threadIdx.x / 32 + i * WARPS, z); /* may be empty */
      cg::memcpy_async(warp, ring + slot * S::slot + row.to, plane + row.from,
                       cuda::aligned_size_t<16>(row.bytes));
    }
  };
  const int first = tile.z_begin - RADIUS;
  for (int i = 0; i < AHEAD; i++) prefetch(first + i, i);

  for (int z = first, slot = 0; z < tile.z_end + RADIUS; z++) {
    cg::wait_prior<LATER>(block);
    prefetch(z + AHEAD, stencil::slot_after<S>(slot, AHEAD));
    points.add(z, ring + slot * S::slot, ring + stencil::centre_slot<S>(slot) * S::slot);
    slot = stencil::slot_after<S>(slot, 1);
  }
}

} // namespace cg_memcpy

STENCIL_LAUNCHER(cg_memcpy, stencil::shape<Q, 128, 36, 3, 4, 1>, stencil::shape<Q, 32, 8, 1, 3, 4>)
