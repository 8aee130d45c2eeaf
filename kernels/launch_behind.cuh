/* Launches that, on Hopper and later, get onto the GPU while the launch before them in the stream ends ("programmatic
 * dependent launch"): what a launch costs is then a part of the microsecond or two that it would take. The kernel sees to
 * the order itself: before it touches device memory it calls await_launch_before. */
#ifndef STENCIL_LAUNCH_BEHIND_CUH
#define STENCIL_LAUNCH_BEHIND_CUH

#include <cuda_runtime.h>

/* Which generation of chips this process' device is: 9 for Hopper. */
struct capability {
  int major = 0;
  cudaError_t status;

  capability() {
    int device = 0;
    status = cudaGetDevice(&device);
    if (status == cudaSuccess)
      status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
};

/* `shared`: dynamic shared memory of a block, bytes. `parameters`: as cudaLaunchKernel takes them. */
inline cudaError_t launch_behind(const void *kernel, dim3 grid, unsigned block, size_t shared,
                                 cudaStream_t stream, void **parameters) {
  static const capability of; /* asked once: a process has one device */
  if (of.status != cudaSuccess) return of.status;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = dim3(block), config.dynamicSmemBytes = shared,
  config.stream = stream;
  config.attrs = &early, config.numAttrs = of.major >= 9;
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

/* All that the launch before stored can be read, and what it read be overwritten. */
static __device__ __forceinline__ void await_launch_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/* The next launch in the stream, if it is such a one, may take what this one leaves free as soon as all blocks of this
 * one have begun; else when they end. */
static __device__ __forceinline__ void admit_next_launch() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

#endif
