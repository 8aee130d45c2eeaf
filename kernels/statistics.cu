/* Statistics of a field on a CUDA device.
 *
 *   measure          one cooperative launch: a warp measures a unit; the grid meets; a warp adds up a plane's units;
 * the
 *                    grid meets again; one warp lists the first values that are not finite
 *   count_values     the histogram: each block counts in shared memory
 *   find_quantiles   one warp goes through the bins
 *
 * Sums have the order of statistics.h, so they go through shuffles of our own. Extremes and counts do not depend on an
 * order and use cg::reduce and atomics. */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_runtime.h>
#include "plan.cuh"
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
};

/* --- units ------------------------------------------------------------------------------------------------------- */

static __device__ void add_point(running &r, int sum, float u) {
  const double wide = u;
  r.sum[sum] += wide;
  r.squares[sum] = fma(wide, wide, r.squares[sum]); /* the square is exact: the host's bits, fused or not */
  r.min = fminf(r.min, u);
  r.max = fmaxf(r.max, u);
}

/* Adds the first `count` of four neighbours. Of the lanes that find values that are not finite at the same moment, one
 * adds the number that all of them have found. */
static __device__ void add_points(running &r, float4 four, int count, count_t *nonfinite) {
  const float u[PER_LANE] = {four.x, four.y, four.z, four.w};
  if (count >= PER_LANE && isfinite(u[0]) && isfinite(u[1]) && isfinite(u[2]) && isfinite(u[3])) {
    for (int i = 0; i < PER_LANE; i++) add_point(r, i, u[i]);
    return;
  }
  unsigned bad = 0;
  for (int i = 0; i < PER_LANE; i++) {
    if (i >= count) continue;
    if (isfinite(u[i]))
      add_point(r, i, u[i]);
    else
      bad++;
  }
  if (bad == 0) return;
  const cg::coalesced_group met = cg::coalesced_threads();
  const unsigned all = cg::reduce(met, bad, cg::plus<unsigned>());
  if (met.thread_rank() == 0) atomicAdd(nonfinite, (count_t)all);
}

/* The tree of statistics.h; the result is lane 0's. */
static __device__ double add_lanes(const warp_tile &warp, double sum) {
  for (int distance = WARP / 2; distance > 0; distance /= 2) sum += warp.shfl_down(sum, distance);
  return sum;
}

/* Lane 0 writes what the lanes have, except for the count of what is not finite. */
static __device__ void write_partial(const warp_tile &warp, partial_statistics *to, double sum,
                                     double squares, float min, float max) {
  sum = add_lanes(warp, sum);
  squares = add_lanes(warp, squares);
  min = cg::reduce(warp, min, cg::less<float>());
  max = cg::reduce(warp, max, cg::greater<float>());
  if (warp.thread_rank() != 0) return;
  to->sum = sum;
  to->squares = squares;
  to->min = min;
  to->max = max;
}

static __device__ const float *point_of(const field_view &f, int z, int y, int x) {
  return f.points + (size_t)z * f.plane + (size_t)y * f.pitch + (size_t)x;
}

static __device__ void measure_unit(const warp_tile &warp, const field_view &f, int64_t i,
                                    partial_statistics *unit) {
  const unit_place place = unit_at(&f, i);
  const float *const first = point_of(f, place.z, place.y, place.x);
  count_t *const nonfinite = reinterpret_cast<count_t *>(&unit->nonfinite);
  if (warp.thread_rank() == 0) *nonfinite = 0;
  warp.sync();
  running r = {{0}, {0}, INFINITY, -INFINITY};
  for (int x = (int)warp.thread_rank() * PER_LANE; x < place.width; x += UNIT_SUMS)
    for (int y = 0; y < place.height; y += ROWS_AT_ONCE) {
      float4 u[ROWS_AT_ONCE];
#pragma unroll
      for (int row = 0; row < ROWS_AT_ONCE; row++)
        if (y + row < place.height)
          u[row] = *reinterpret_cast<const float4 *>(first + (size_t)(y + row) * f.pitch + x);
#pragma unroll
      for (int row = 0; row < ROWS_AT_ONCE; row++)
        if (y + row < place.height) add_points(r, u[row], place.width - x, nonfinite);
    }
  write_partial(warp, unit, (r.sum[0] + r.sum[1]) + (r.sum[2] + r.sum[3]),
                (r.squares[0] + r.squares[1]) + (r.squares[2] + r.squares[3]), r.min, r.max);
}

/* --- planes ------------------------------------------------------------------------------------------------------ */

static __device__ void measure_plane(const warp_tile &warp, const partial_statistics *units, int64_t count,
                                     partial_statistics *plane) {
  double sum = 0, squares = 0;
  float min = INFINITY, max = -INFINITY;
  count_t nonfinite = 0;
  for (int64_t i = warp.thread_rank(); i < count; i += WARP) {
    sum += units[i].sum;
    squares += units[i].squares;
    min = fminf(min, units[i].min);
    max = fmaxf(max, units[i].max);
    nonfinite += units[i].nonfinite;
  }
  write_partial(warp, plane, sum, squares, min, max);
  nonfinite = cg::reduce(warp, nonfinite, cg::plus<count_t>());
  if (warp.thread_rank() == 0) plane->nonfinite = nonfinite;
}

/* --- points that are not finite ---------------------------------------------------------------------------------- */

/* Lists those of one row. `place` is the first one's place in the list, and moves on. The warp splits in two groups,
 * finite and not; a lane's rank in its group is its place among the points that are not finite. */
static __device__ void list_row(const warp_tile &warp, const statistics_args &a, int z, int y,
                                count_t &place) {
  const field_view &f = a.field;
  const float *const row = point_of(f, z, y, 0);
  const uint64_t first = ((uint64_t)z * (uint64_t)f.ny + (uint64_t)y) * (uint64_t)f.nx;
  for (int begin = 0; begin < f.nx && place < BAD_POINTS; begin += WARP) {
    const int x = begin + (int)warp.thread_rank();
    const float u = x < f.nx ? row[x] : 0.0f;
    const bool finite = isfinite(u);
    const cg::coalesced_group alike = cg::binary_partition(warp, finite);
    if (!finite && place + alike.thread_rank() < BAD_POINTS) {
      bad_point *const bad = a.bad + place + alike.thread_rank();
      bad->index = first + (uint64_t)x;
      bad->value = u;
    }
    place += finite ? WARP - alike.num_threads() : alike.num_threads();
  }
}

/* Lists those of one plane, looking into no row of units that has none. */
static __device__ void list_plane(const warp_tile &warp, const statistics_args &a, int z, count_t place) {
  const field_view &f = a.field;
  const int across = units_across(f.nx);
  const partial_statistics *units = a.units + units_of_plane(f.nx, f.ny) * z;
  for (int band = 0; band < f.ny && place < BAD_POINTS; band += UNIT_HEIGHT, units += across) {
    bool bad = false;
    for (int i = 0; i < across; i++) bad = bad || units[i].nonfinite > 0;
    if (!bad) continue;
    const int end = f.ny - band < UNIT_HEIGHT ? f.ny : band + UNIT_HEIGHT;
    for (int y = band; y < end; y++) list_row(warp, a, z, y, place);
  }
}

/* Lists the first BAD_POINTS of the slab, 32 planes at a time: a scan over their counts is the place of each
 * plane's first. */
static __device__ void list_bad(const warp_tile &warp, const statistics_args &a) {
  count_t found = 0;
  for (int begin = 0; begin < a.field.nz && found < BAD_POINTS; begin += WARP) {
    const int z = begin + (int)warp.thread_rank();
    const count_t mine = z < a.field.nz ? a.planes[z].nonfinite : 0;
    const count_t place = found + cg::exclusive_scan(warp, mine, cg::plus<count_t>());
    for (unsigned todo = warp.ballot(mine > 0 && place < BAD_POINTS); todo; todo &= todo - 1) {
      const int lane = __ffs((int)todo) - 1;
      list_plane(warp, a, begin + lane, warp.shfl(place, lane));
    }
    found = warp.shfl(place + mine, WARP - 1);
  }
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
  grid.sync();
  if (me == 0) list_bad(warp, a);
}

/* As many blocks as the device holds at once, but not more than there are units. */
static cudaError_t grid_size(const field_view &f, const void *kernel, size_t shared, unsigned *blocks) {
  star::residency r = {};
  const cudaError_t status = star::query({kernel, 0, 0, 0, BLOCK, shared}, &r);
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
  return star::launch_together(kernel, (int)blocks, dim3(BLOCK), arguments,
                               static_cast<cudaStream_t>(stream));
}

/* --- histogram: a launch of its own, since its range is known only when all ranks have been measured ------------- */

/* Neighbours in space often share a bin, so one atomic serves all lanes of a warp that do. On Hopper finding them costs
 * more than plain atomics on shared memory would, which does not matter for a field that is being saved:
 * 0.8 ms (smooth field) to 3.7 ms (random, 4096 bins) at 768^3 on an H200, against 0.5 ms without. */
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

/* A block counts in its own shared memory. 32 bits are enough: no device has so few multiprocessors for its
 * memory that one block's share of a field could be 2^32 points, 16 GiB. */
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

/* --- quantiles: a warp, since their 4096 bins at most are less work than a launch ------------------------------- */

static __global__ void __launch_bounds__(WARP) find_quantiles(const __grid_constant__ quantiles_args a) {
  const warp_tile warp = cg::tiled_partition<WARP>(cg::this_thread_block());
  count_t before = 0;
  for (int begin = 0; begin < a.bins; begin += WARP) {
    const int bin = begin + (int)warp.thread_rank();
    const count_t mine = bin < a.bins ? a.counts[bin] : 0;
    const count_t up_to = before + cg::inclusive_scan(warp, mine, cg::plus<count_t>());
    if (bin < a.bins) quantiles_in_bin(&a, bin, up_to);
    before = warp.shfl(up_to, WARP - 1);
  }
}

extern "C" int operation_quantiles_cuda(const void *args, void *stream) {
  find_quantiles<<<1, WARP, 0, static_cast<cudaStream_t>(stream)>>>(
      *static_cast<const quantiles_args *>(args));
  return (int)cudaGetLastError();
}
