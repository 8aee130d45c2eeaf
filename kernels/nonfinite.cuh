/* The search for NaN and Inf on a CUDA device. */
#ifndef STENCIL_NONFINITE_CUH
#define STENCIL_NONFINITE_CUH

#include <cuda_runtime.h>
#include "kernel.h"

/* Enqueues: *first (device memory) = z * nx * ny + y * nx + x, z counted from z_begin, of the first interior
 * point of args->out in the args' z range that is NaN or Inf; all bits set where there is none.
 * The z range may be empty. */
cudaError_t nonfinite_launch(const kernel_args *args, unsigned long long *first, cudaStream_t stream);

#endif
