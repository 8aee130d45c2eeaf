/* The instruction sets of the host kernels `simd`, so that tests can run each one this machine has. */
#ifndef STENCIL_HOST_SIMD_H
#define STENCIL_HOST_SIMD_H

#include "kernel.h"

typedef struct host_isa {
  const char *name; /* "AVX-512", "AVX2+FMA", "portable C" */
  host_kernel *jacobi, *heat, *wave;
} host_isa;

/* The instruction sets this machine can run, best first and the portable one last: number `index` of them, or
 * NULL past the last. The kernels `simd` run number 0. All give the same bits. */
const host_isa *host_isa_get(int index);

#endif
