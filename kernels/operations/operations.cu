/* The operations on CUDA (operation.h). Points are few, so none of them uses shared memory.
 *
 *   ghosts           the launches of images.cuh
 *   point sources    a block for each tile, a thread for each of its points
 *   receivers        a thread for each column of a receiver
 *   the others       a warp for each 32 points of a row */
#include <cuda_runtime.h>
#include "kernels/images.cuh"
#include "kernels/launch_behind.cuh"
#include "operation.h"

constexpr int BLOCK = 128, WARP = 32;
constexpr long long BLOCKS_MAX = 1 << 16;

/* Blocks for `count` threads, at most BLOCKS_MAX: a thread then does several items. */
static unsigned operation_blocks(long long count) {
  const long long blocks = (count + BLOCK - 1) / BLOCK;
  return (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}

static __device__ __forceinline__ long long operation_first_thread() {
  return (long long)blockIdx.x * BLOCK + threadIdx.x;
}

static __device__ __forceinline__ long long operation_all_threads() {
  return (long long)gridDim.x * BLOCK;
}

/* The value that sources add to point (z, y, x) of a tile. */
static __device__ __forceinline__ void inject_at(const inject_args &a, const source_tile &t, int y, int x) {
  float s = 0, imposed = NAN;
  bool any = false;
  for (int i = t.first; i < t.first + t.count; i++) {
    const source_part k = a.parts[i];
    const point_weights &p = a.places[k.place];
    const int iy = points_index(p.y, y, a.field.ny), ix = points_index(p.x, x, a.field.nx);
    if (iy >= p.ny || ix >= p.nx) continue;
    if (k.signal < 0) {
      imposed = a.signal[~k.signal];
    } else {
      s = inject_add(&a, &k, t.z - p.z, iy, ix, s);
      any = true;
    }
  }
  await_launch_before(); /* only now: what comes before has waited for nothing that steps change */
  if (any) inject_store(&a, &t, y, x, s);
  if (!isnan(imposed)) inject_impose(&a.field, t.z, y, x, imposed);
}

static __global__ void __launch_bounds__(TILE_Y *TILE_X) inject(const __grid_constant__ inject_args a) {
  for (int i = (int)blockIdx.x; i < a.count; i += (int)gridDim.x) {
    const source_tile t = a.tiles[i];
    const int y = t.y + (int)threadIdx.x / TILE_X, x = t.x + (int)threadIdx.x % TILE_X;
    if (y < a.field.ny && x < a.field.nx) inject_at(a, t, y, x);
  }
  await_launch_before(); /* threads that have added nothing, too: what follows waits for this launch alone */
  admit_next_launch();
}

static __device__ __forceinline__ void sample_weights(const float *from, float w[POINTS_MOST]) {
  static_assert(POINTS_MOST == 8 && offsetof(point_weights, wz) % 16 == 0 && sizeof(point_weights) % 16 == 0);
  const float4 low = reinterpret_cast<const float4 *>(from)[0],
               high = reinterpret_cast<const float4 *>(from)[1];
  w[0] = low.x, w[1] = low.y, w[2] = low.z, w[3] = low.w;
  w[4] = high.x, w[5] = high.y, w[6] = high.z, w[7] = high.w;
}

/* Does what sample_column does, for the most points along y and z. Without a branch loads overlap. */
template <bool SCALED>
static __device__ __forceinline__ float sample_whole(const sample_args &a, const point_weights &p, int x) {
  float wz[POINTS_MOST], wy[POINTS_MOST], sum = 0;
  const ptrdiff_t over = a.sigma - a.field;
  const float *u = a.field + (ptrdiff_t)a.plane * p.z + (ptrdiff_t)a.pitch * p.y + points_at(p.x, x, a.nx);
  sample_weights(p.wz, wz);
  sample_weights(p.wy, wy);
#pragma unroll
  for (int z = 0; z < POINTS_MOST; z++, u += a.plane) {
    const float *at = u;
    float row = 0;
#pragma unroll
    for (int y = 0; y < POINTS_MOST; y++, at += a.pitch)
      row = fmaf(wy[y], SCALED ? *at / at[over] : *at, row);
    sum = fmaf(wz[z], row, sum);
  }
  return sum;
}

static __device__ __forceinline__ float sample_lane(const sample_args &a, const point_weights &p, int x) {
  if (x >= p.nx) return 0;
  if (a.adjoint || p.nz < POINTS_MOST || p.ny < POINTS_MOST || p.y + POINTS_MOST > a.ny)
    return sample_column(&a, &p, x);
  return a.sigma ? sample_whole<true>(a, p, x) : sample_whole<false>(a, p, x);
}

/* Each lane has a column; the lanes of a receiver read a row's neighbours. Lanes without a column add nothing. */
static __global__ void __launch_bounds__(BLOCK) sample(const __grid_constant__ sample_args a) {
  const long long columns = (long long)a.count * POINTS_MOST;
  await_launch_before();
  admit_next_launch();
  for (long long i = operation_first_thread(); i < columns; i += operation_all_threads()) {
    const point_weights *p = &a.receivers[i / POINTS_MOST];
    const int k = (int)(i % POINTS_MOST);
    const unsigned lanes = 0xffu << (threadIdx.x % 32 / POINTS_MOST * POINTS_MOST);
    const float column = sample_lane(a, *p, k);
    float s = 0;
    for (int x = 0; x < POINTS_MOST; x++) {
      const float of_x = __shfl_sync(lanes, column, x, POINTS_MOST);
      if (x < p->nx) s = fmaf(p->wx[x], of_x, s);
    }
    if (k == 0) a.samples[i / POINTS_MOST] = s;
  }
}

/* Runs an operation on independent points: own ones, and GHOSTS on all sides of them. */
template <class Args, void (*POINT)(const Args *, int, int, int), int GHOSTS>
static __global__ void __launch_bounds__(BLOCK)
    each_point(const __grid_constant__ Args a, unsigned warps_a_row) {
  const int ny = a.ny + 2 * GHOSTS;
  const unsigned all = warps_a_row * ny * (a.nz + 2 * GHOSTS), lane = threadIdx.x % WARP;
  for (unsigned i = operation_first_thread() / WARP; i < all; i += operation_all_threads() / WARP) {
    const unsigned row = i / warps_a_row; /* 32 bits: division is dear */
    const int x = (int)(i % warps_a_row * WARP + lane) - GHOSTS;
    if (x < a.nx + GHOSTS) POINT(&a, (int)(row / ny) - GHOSTS, (int)(row % ny) - GHOSTS, x);
  }
}

#define POINTS(name, ghosts)                                                                                 \
  extern "C" int operation_##name##_cuda(const void *args, void *stream) {                                   \
    const name##_args *a = static_cast<const name##_args *>(args);                                           \
    const unsigned warps = (unsigned)(a->nx + 2 * (ghosts) + WARP - 1) / WARP;                               \
    const long long rows = (a->ny + 2LL * (ghosts)) * (a->nz + 2 * (ghosts)), threads = rows * warps * WARP; \
    each_point<name##_args, name##_point, ghosts>                                                            \
        <<<operation_blocks(threads), BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(*a, warps);             \
    return (int)cudaGetLastError();                                                                          \
  }
POINTS(scale, 0)
POINTS(spread, 0)
POINTS(undamp, 0)
POINTS(gradient, 0)
POINTS(maps, 0)
POINTS(frame, RADIUS)
#undef POINTS

extern "C" int operation_ghosts_cuda(const void *args, void *stream) {
  return (int)images::launch(static_cast<const kernel_args *>(args), static_cast<cudaStream_t>(stream));
}

extern "C" int operation_inject_cuda(const void *args, void *stream) {
  const inject_args *a = static_cast<const inject_args *>(args);
  if (a->count <= 0) return cudaSuccess;
  void *parameters[] = {const_cast<inject_args *>(a)};
  return (int)launch_behind(reinterpret_cast<const void *>(inject),
                            operation_blocks((long long)a->count * BLOCK), TILE_Y * TILE_X, 0,
                            static_cast<cudaStream_t>(stream), parameters);
}

extern "C" int operation_sample_cuda(const void *args, void *stream) {
  const sample_args *a = static_cast<const sample_args *>(args);
  if (a->count <= 0) return cudaSuccess;
  void *parameters[] = {const_cast<sample_args *>(a)};
  return (int)launch_behind(reinterpret_cast<const void *>(sample),
                            operation_blocks((long long)a->count * POINTS_MOST), BLOCK, 0,
                            static_cast<cudaStream_t>(stream), parameters);
}
