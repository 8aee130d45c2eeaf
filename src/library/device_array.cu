#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_runtime.h>
#include <cfloat>
#include <climits>
#include <cstring>
#include "device_array.h"

/* Makes `device` the thread's own, and the one before it again at the end. */
struct device_array_scope {
  int before = -1;
  explicit device_array_scope(int device) {
    cudaGetDevice(&before);
    cudaSetDevice(device);
  }
  ~device_array_scope() {
    if (before >= 0) cudaSetDevice(before);
  }
};

static int device_array_failed(cudaError_t rc, const char *call, error *e) {
  return rc == cudaSuccess ? 0 : FAIL(e, DEVICE_FAILED, "cuda", call, cudaGetErrorString(rc));
}

int device_array_check(const char *name, const void *memory, int device, error *e) {
  cudaPointerAttributes found;
  const cudaError_t rc = cudaPointerGetAttributes(&found, memory);
  const bool there =
      rc == cudaSuccess && (found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged);
  if (rc != cudaSuccess) cudaGetLastError(); /* it is said here */
  if (there && found.device == device) return 0;
  return FAIL(e, LIBRARY_INPUT, name,
              there ? "its memory is another CUDA device's" : "its memory is no CUDA device's");
}

static int device_array_copy(void *to, const void *from, size_t bytes, int device, cudaMemcpyKind kind,
                             error *e) {
  const device_array_scope here(device);
  return device_array_failed(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy", e);
}

namespace cg = cooperative_groups;

/* The bits of positive numbers are in the order of these. found: bits of the least and the greatest, and whether one is not
 * normal or not above 0. */
static __global__ void device_array_find(const float *values, size_t count, unsigned *found) {
  unsigned least = UINT_MAX, greatest = 0, unsound = 0;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += (size_t)gridDim.x * blockDim.x) {
    const float v = values[i];
    const unsigned bits = __float_as_uint(v);
    unsound |= !(v >= FLT_MIN && v <= FLT_MAX);
    least = min(least, bits), greatest = max(greatest, bits);
  }
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  least = cg::reduce(warp, least, cg::less<unsigned>());
  greatest = cg::reduce(warp, greatest, cg::greater<unsigned>());
  unsound = cg::reduce(warp, unsound, cg::bit_or<unsigned>());
  if (warp.thread_rank() != 0) return;
  atomicMin(&found[0], least);
  atomicMax(&found[1], greatest);
  atomicOr(&found[2], unsound);
}

int device_array_range(const float *values, size_t count, int device, float range[2], bool *sound, error *e) {
  enum { BLOCK = 256, BLOCKS = 1024 };
  const device_array_scope here(device);
  unsigned bits[3] = {UINT_MAX, 0, 0}, *found = nullptr;
  cudaError_t rc = cudaMalloc(&found, sizeof bits);
  if (rc == cudaSuccess) rc = cudaMemcpy(found, bits, sizeof bits, cudaMemcpyHostToDevice);
  if (rc == cudaSuccess) {
    device_array_find<<<BLOCKS, BLOCK>>>(values, count, found);
    rc = cudaGetLastError();
  }
  if (rc == cudaSuccess) rc = cudaMemcpy(bits, found, sizeof bits, cudaMemcpyDeviceToHost);
  cudaFree(found);
  memcpy(range, bits, 2 * sizeof *range);
  *sound = !bits[2];
  return device_array_failed(rc, "the range of an array", e);
}

bool device_array_is_here(int device) {
  int here = -1;
  return cudaGetDevice(&here) == cudaSuccess && here == device;
}

int device_array_get(void *to, const void *from, size_t bytes, int device, error *e) {
  return device_array_copy(to, from, bytes, device, cudaMemcpyDeviceToHost, e);
}

int device_array_put(void *to, const void *from, size_t bytes, int device, error *e) {
  return device_array_copy(to, from, bytes, device, cudaMemcpyHostToDevice, e);
}

int device_array_await(void *stream, error *e) {
  return device_array_failed(cudaStreamSynchronize((cudaStream_t)stream), "cudaStreamSynchronize", e);
}
