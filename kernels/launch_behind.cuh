/* Launches that start on the GPU while the launch before them in the stream ends ("programmatic dependent launch",
 * Hopper and later). This hides most of the one or two microseconds that a launch costs. The kernel keeps the order
 * itself. It calls await_launch_before before it reads what earlier launches write, or overwrites what they read.
 *
 *   launch_behind         host: enqueues such a launch
 *   await_launch_before   device: waits until the launch before has ended
 *   admit_next_launch     device: lets the next such launch start */
#ifndef STENCIL_LAUNCH_BEHIND_CUH
#define STENCIL_LAUNCH_BEHIND_CUH

#include <cuda_runtime.h>

/* The chip that a kernel's code for this process' device was compiled for: 90 for Hopper. A later device may run PTX
 * of an older chip. It then lacks what the kernel leaves out for the older chip. */
struct compiled {
  int chip = 0;
  cudaError_t status;

  explicit compiled(const void *kernel) {
    cudaFuncAttributes of = {};
    status = cudaFuncGetAttributes(&of, kernel);
    if (status == cudaSuccess) chip = of.ptxVersion < of.binaryVersion ? of.ptxVersion : of.binaryVersion;
  }
};
enum { HOPPER = 90 };

/* `shared`: dynamic shared memory of a block, bytes. `parameters`: as cudaLaunchKernel takes them. */
inline cudaError_t launch_behind(const void *kernel, dim3 grid, unsigned block, size_t shared,
                                 cudaStream_t stream, void **parameters) {
  /* queried once: a process has one device, and one build made all kernels */
  static const compiled of(kernel);
  if (of.status != cudaSuccess) return of.status;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = dim3(block), config.dynamicSmemBytes = shared,
  config.stream = stream;
  config.attrs = &early, config.numAttrs = of.chip >= HOPPER;
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

/* Waits for the launch before: what it stored can now be read, and what it read can be overwritten. */
static __device__ __forceinline__ void await_launch_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/* Lets the next launch, if launch_behind enqueues it, start on free multiprocessors once all blocks of this launch
 * have called this function. Without the call its blocks start when these have ended. */
static __device__ __forceinline__ void admit_next_launch() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

#endif
