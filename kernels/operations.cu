/* The operations on CUDA (operation.h). Points are few and nothing is read twice, so none of them uses shared memory.
 *
 *   ghosts           the launches of images.cuh
 *   point sources    a thread for each point
 *   receivers        a thread for each receiver */
#include <cuda_runtime.h>
#include "images.cuh"
#include "operation.h"

constexpr int BLOCK = 128;
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

static __global__ void __launch_bounds__(BLOCK) inject(const __grid_constant__ inject_args a) {
  for (long long i = operation_first_thread(); i < a.count; i += operation_all_threads())
    inject_point(&a, (int)i);
}

static __global__ void __launch_bounds__(BLOCK) sample(const __grid_constant__ sample_args a) {
  for (long long i = operation_first_thread(); i < a.count; i += operation_all_threads())
    a.samples[i] = sample_point(&a, (int)i);
}

extern "C" int operation_ghosts_cuda(const void *args, void *stream) {
  return (int)images::launch(static_cast<const kernel_args *>(args), static_cast<cudaStream_t>(stream));
}

extern "C" int operation_inject_cuda(const void *args, void *stream) {
  const inject_args *a = static_cast<const inject_args *>(args);
  if (a->count <= 0) return cudaSuccess;
  inject<<<operation_blocks(a->count), BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(*a);
  return (int)cudaGetLastError();
}

extern "C" int operation_sample_cuda(const void *args, void *stream) {
  const sample_args *a = static_cast<const sample_args *>(args);
  if (a->count <= 0) return cudaSuccess;
  sample<<<operation_blocks(a->count), BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(*a);
  return (int)cudaGetLastError();
}
