/* The operations on CUDA: a warp a row, a thread a point, a thread a receiver. Few points, no reuse: nothing here is
 * worth shared memory. */
#include <cuda_runtime.h>
#include "operation_points.h"

constexpr int BLOCK = 128, WARP = 32;
constexpr long long BLOCKS_MAX = 1 << 16;

/* Blocks for `count` threads; the kernels go round where that are more than BLOCKS_MAX blocks. */
static unsigned blocks_for(long long count) {
  const long long blocks = (count + BLOCK - 1) / BLOCK;
  return (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}

static __device__ __forceinline__ long long first_thread() {
  return (long long)blockIdx.x * BLOCK + threadIdx.x;
}

static __device__ __forceinline__ long long all_threads() {
  return (long long)gridDim.x * BLOCK;
}

static __global__ void __launch_bounds__(BLOCK) renew_ghosts(const __grid_constant__ kernel_args a) {
  const int lane = (int)(threadIdx.x % WARP), ends = ghosts_end_points(&a);
  const long long rows = (long long)(a.z_end - a.z_begin) * a.ny;
  for (long long row = first_thread() / WARP; row < rows; row += all_threads() / WARP) {
    const int z = a.z_begin + (int)(row / a.ny), y = (int)(row % a.ny);
    if (ghosts_whole_row(&a, z, y))
      for (int x = lane; x < a.nx; x += WARP) ghosts_renew(&a, z, y, x);
    else if (lane < ends)
      ghosts_renew(&a, z, y, ghosts_end_point(&a, lane));
  }
}

static __global__ void __launch_bounds__(BLOCK) inject(const __grid_constant__ inject_args a) {
  for (long long i = first_thread(); i < a.count; i += all_threads()) inject_point(&a, (int)i);
}

static __global__ void __launch_bounds__(BLOCK) sample(const __grid_constant__ sample_args a) {
  for (long long i = first_thread(); i < a.count; i += all_threads()) a.samples[i] = sample_point(&a, (int)i);
}

extern "C" int operation_ghosts_cuda(const void *args, void *stream) {
  const kernel_args *a = static_cast<const kernel_args *>(args);
  const long long rows = (long long)(a->z_end - a->z_begin) * a->ny;
  if (rows <= 0) return cudaSuccess;
  renew_ghosts<<<blocks_for(rows * WARP), BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(*a);
  return (int)cudaGetLastError();
}

extern "C" int operation_inject_cuda(const void *args, void *stream) {
  const inject_args *a = static_cast<const inject_args *>(args);
  if (a->count <= 0) return cudaSuccess;
  inject<<<blocks_for(a->count), BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(*a);
  return (int)cudaGetLastError();
}

extern "C" int operation_sample_cuda(const void *args, void *stream) {
  const sample_args *a = static_cast<const sample_args *>(args);
  if (a->count <= 0) return cudaSuccess;
  sample<<<blocks_for(a->count), BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(*a);
  return (int)cudaGetLastError();
}
