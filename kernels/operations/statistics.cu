/* Statistics of a field on a CUDA device.
 *
 *   measure        one cooperative launch: a warp measures a unit; the grid meets; a warp adds up a plane's units
 *   count_values   the histogram: each block counts in shared memory
 *
 * Sums have the order of statistics.h, so they go through shuffles of our own. Other results do not depend on the
 * order; they use cg::reduce and atomics. */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include "kernels/resident.cuh"
#include "statistics.h"

namespace cg = cooperative_groups;

enum {
  WARP = 32,
  BLOCK = 256, /* threads */
  BLOCKS_A_SM = 4,
  PER_LANE = UNIT_SUMS / WARP,
  ROWS_AT_ONCE = 4 /* rows that a lane loads before it adds the first: hides the latency of memory */
};
static_assert(PER_LANE == 4, "a lane loads a float4");
static_assert(UNIT_HEIGHT % ROWS_AT_ONCE == 0, "so that no unit but the lowest in a plane has a rest");

using warp_tile = cg::thread_block_tile<WARP>;
using count_t = unsigned long long; /* what atomicAdd takes; the same 64 bits as uint64_t */

struct running {
  double sum[PER_LANE], squares[PER_LANE];
  float min, max;
  count_t nonfinite, first; /* partial_statistics */
};

/* --- units ------------------------------------------------------------------------------------------------------- */

static __device__ void add_point(running &r, int sum, float u) {
  const double wide = u;
  r.sum[sum] += wide;
  r.squares[sum] = fma(wide, wide, r.squares[sum]); /* the square is exact: the host's bits, fused or not */
  r.min = fminf(r.min, u);
  r.max = fmaxf(r.max, u);
}

/* Adds the first `count` of four neighbours; index: of the first in its plane. */
static __device__ void add_points(running &r, float4 four, int count, uint64_t index) {
  const float u[PER_LANE] = {four.x, four.y, four.z, four.w};
  if (count >= PER_LANE && isfinite(u[0]) && isfinite(u[1]) && isfinite(u[2]) && isfinite(u[3])) {
    for (int i = 0; i < PER_LANE; i++) add_point(r, i, u[i]);
    return;
  }
  for (int i = 0; i < PER_LANE && i < count; i++)
    if (isfinite(u[i]))
      add_point(r, i, u[i]);
    else
      r.nonfinite++, r.first = min(r.first, (count_t)nonfinite_point(index + i, u[i]));
}

/* Adds by the tree of statistics.h; lane 0 has the result. */
static __device__ double add_lanes(const warp_tile &warp, double sum) {
  for (int distance = WARP / 2; distance > 0; distance /= 2) sum += warp.shfl_down(sum, distance);
  return sum;
}

/* Combines the values of all lanes; lane 0 stores the result. */
static __device__ void store_partial(const warp_tile &warp, partial_statistics *to, partial_statistics s) {
  s.sum = add_lanes(warp, s.sum);
  s.squares = add_lanes(warp, s.squares);
  s.min = cg::reduce(warp, s.min, cg::less<float>());
  s.max = cg::reduce(warp, s.max, cg::greater<float>());
  s.nonfinite = cg::reduce(warp, (count_t)s.nonfinite, cg::plus<count_t>());
  s.first = cg::reduce(warp, (count_t)s.first, cg::less<count_t>());
  if (warp.thread_rank() == 0) *to = s;
}

static __device__ const float *point_of(const field_view &f, int z, int y, int x) {
  return f.points + (size_t)z * f.plane + (size_t)y * f.pitch + (size_t)x;
}

static __device__ void measure_unit(const warp_tile &warp, const field_view &f, int64_t i,
                                    partial_statistics *unit) {
  const unit_place place = unit_at(&f, i);
  const float *const first = point_of(f, place.z, place.y, place.x);
  running r = {{0}, {0}, INFINITY, -INFINITY, 0, UINT64_MAX};
  for (int x = (int)warp.thread_rank() * PER_LANE; x < place.width; x += UNIT_SUMS)
    for (int y = 0; y < place.height; y += ROWS_AT_ONCE) {
      float4 u[ROWS_AT_ONCE];
#pragma unroll
      for (int row = 0; row < ROWS_AT_ONCE; row++)
        if (y + row < place.height)
          u[row] = *reinterpret_cast<const float4 *>(first + (size_t)(y + row) * f.pitch + x);
#pragma unroll
      for (int row = 0; row < ROWS_AT_ONCE; row++)
        if (y + row < place.height)
          add_points(r, u[row], place.width - x, (uint64_t)(place.y + y + row) * f.nx + (place.x + x));
    }
  store_partial(warp, unit,
                {(r.sum[0] + r.sum[1]) + (r.sum[2] + r.sum[3]),
                 (r.squares[0] + r.squares[1]) + (r.squares[2] + r.squares[3]), r.min, r.max, r.nonfinite,
                 r.first});
}

/* --- planes ------------------------------------------------------------------------------------------------------ */

static __device__ void measure_plane(const warp_tile &warp, const partial_statistics *units, int64_t count,
                                     partial_statistics *plane) {
  partial_statistics mine = statistics_of_nothing();
  for (int64_t i = warp.thread_rank(); i < count; i += WARP) statistics_add(&mine, units + i, 0);
  store_partial(warp, plane, mine);
}

/* --- the launch -------------------------------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(BLOCK, BLOCKS_A_SM)
    measure(const __grid_constant__ statistics_args a) {
  const cg::grid_group grid = cg::this_grid();
  const warp_tile warp = cg::tiled_partition<WARP>(cg::this_thread_block());
  const int64_t me = (int64_t)(grid.thread_rank() / WARP), warps = (int64_t)(grid.num_threads() / WARP);
  const int64_t of_plane = units_of_plane(a.field.nx, a.field.ny), units = of_plane * a.field.nz;

  for (int64_t i = me; i < units; i += warps) measure_unit(warp, a.field, i, a.units + i);
  grid.sync();
  for (int64_t z = me; z < a.field.nz; z += warps)
    measure_plane(warp, a.units + z * of_plane, of_plane, a.planes + z);
}

/* The number of blocks: as many as the device holds at once, at most one a unit. */
static cudaError_t grid_size(const field_view &f, const void *kernel, size_t shared, unsigned *blocks) {
  residency r = {};
  const cudaError_t status = residency_of(kernel, BLOCK, shared, &r);
  const int64_t most = (int64_t)r.sms * r.blocks, units = units_of_plane(f.nx, f.ny) * f.nz;
  const int64_t wanted = (units + BLOCK / WARP - 1) / (BLOCK / WARP);
  *blocks = (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
  return status;
}

extern "C" int operation_statistics_cuda(const void *args, void *stream) {
  const statistics_args *a = static_cast<const statistics_args *>(args);
  unsigned blocks = 0;
  const void *kernel = reinterpret_cast<const void *>(measure);
  const cudaError_t status = grid_size(a->field, kernel, 0, &blocks);
  if (status != cudaSuccess) return status;
  void *arguments[] = {const_cast<statistics_args *>(a)};
  return launch_together(kernel, (int)blocks, dim3(BLOCK), arguments, static_cast<cudaStream_t>(stream));
}

/* --- histogram: a launch of its own, since its range is known only when all ranks have been measured ------------- */

/* Neighbours in space often share a bin, so one atomic serves all lanes of a warp that do. Finding these lanes costs
 * more on Hopper than plain atomics on shared memory would. That does not matter for a field that is being saved: 0.8
 * ms (smooth field) to 3.7 ms (random, 4096 bins) at 768^3 on an H200, against 0.5 ms without. */
static __device__ void count_point(unsigned *counts, const histogram_args &a, float u) {
  if (!isfinite(u)) return;
  const int bin = histogram_bin(&a, u);
  const cg::coalesced_group same = cg::labeled_partition(cg::coalesced_threads(), bin);
  if (same.thread_rank() == 0) atomicAdd(counts + bin, same.num_threads());
}

static __device__ void count_unit(const warp_tile &warp, unsigned *counts, const histogram_args &a,
                                  int64_t i) {
  const unit_place place = unit_at(&a.field, i);
  const float *const first = point_of(a.field, place.z, place.y, place.x);
  for (int x = (int)warp.thread_rank(); x < place.width; x += WARP) {
    float u[UNIT_HEIGHT];
#pragma unroll
    for (int y = 0; y < UNIT_HEIGHT; y++)
      u[y] = y < place.height ? first[(size_t)y * a.field.pitch + x] : NAN;
#pragma unroll
    for (int y = 0; y < UNIT_HEIGHT; y++) count_point(counts, a, u[y]);
  }
}

/* A block counts in its own shared memory. Counts of 32 bits suffice: every device has so many multiprocessors that a
 * block's part of a field is less than 2^32 points, 16 GiB. */
static __global__ void __launch_bounds__(BLOCK) count_values(const __grid_constant__ histogram_args a) {
  extern __shared__ unsigned counts[];
  const cg::thread_block block = cg::this_thread_block();
  const warp_tile warp = cg::tiled_partition<WARP>(block);
  const int64_t units = units_of_plane(a.field.nx, a.field.ny) * a.field.nz;
  for (int i = (int)block.thread_rank(); i < a.bins; i += BLOCK) counts[i] = 0;
  block.sync();
  const int64_t me = (int64_t)blockIdx.x * (BLOCK / WARP) + warp.meta_group_rank();
  for (int64_t i = me; i < units; i += (int64_t)gridDim.x * (BLOCK / WARP)) count_unit(warp, counts, a, i);
  block.sync();
  for (int i = (int)block.thread_rank(); i < a.bins; i += BLOCK)
    if (counts[i]) atomicAdd(reinterpret_cast<count_t *>(a.counts + i), (count_t)counts[i]);
}

extern "C" int operation_histogram_cuda(const void *args, void *stream) {
  const histogram_args *a = static_cast<const histogram_args *>(args);
  const cudaStream_t s = static_cast<cudaStream_t>(stream);
  const size_t shared = (size_t)a->bins * sizeof(unsigned);
  unsigned blocks = 0;
  cudaError_t status = cudaMemsetAsync(a->counts, 0, (size_t)a->bins * sizeof *a->counts, s);
  if (status == cudaSuccess)
    status = grid_size(a->field, reinterpret_cast<const void *>(count_values), shared, &blocks);
  if (status != cudaSuccess) return status;
  count_values<<<blocks, BLOCK, shared, s>>>(*a);
  return cudaGetLastError();
}
