/* Counts and launches blocks that are on the device at once. */
#ifndef STENCIL_RESIDENT_CUH
#define STENCIL_RESIDENT_CUH

#include <cuda_runtime.h>

struct residency {
  int sms, blocks; /* multiprocessors; blocks of a kernel that fit one of them, 0: the kernel is too large */
};

/* Lets a kernel use `shared` bytes of dynamic shared memory. Finds how many of its blocks of `threads` threads a
 * multiprocessor holds. Call it once a process and kernel. */
inline cudaError_t residency_of(const void *kernel, int threads, size_t shared, residency *r) {
  int device = 0, most = 0;
  cudaFuncAttributes of = {};
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&r->sms, cudaDevAttrMultiProcessorCount, device);
  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&of, kernel);
  r->blocks = 0;
  if (status != cudaSuccess || of.sharedSizeBytes + shared > (size_t)most) return status;
  status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
  if (status == cudaSuccess)
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&r->blocks, kernel, threads, shared);
  return status;
}

/* Launches blocks that may wait for each other: all are resident at once. */
inline cudaError_t launch_together(const void *kernel, int blocks, dim3 block, void **parameters,
                                   cudaStream_t stream) {
  int device = 0, possible = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&possible, cudaDevAttrCooperativeLaunch, device);
  if (status == cudaSuccess && !possible) status = cudaErrorNotSupported;
  return status == cudaSuccess
             ? cudaLaunchCooperativeKernel(kernel, dim3((unsigned)blocks), block, parameters, 0, stream)
             : status;
}

#endif
