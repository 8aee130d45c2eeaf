/* The instruction sets of the host kernels `simd`, so that tests can run each one this machine has. */
#ifndef STENCIL_HOST_SIMD_H
#define STENCIL_HOST_SIMD_H

#include "absorb.h"
#include "host_share.h"

/* Where in memory, at the place of the point being computed, lies what is to be brought to the cache meanwhile: of this
 * plane and the next ones of the group. NULL: nothing. */
enum { AHEAD_STREAMS = 3 };
typedef struct host_ahead {
  const float *stream[AHEAD_STREAMS];
  /* Each line is asked for twice, into the first-level cache, else once, into the second; and a share that is not at
   * y = 0 also asks for rows of the shares below it. */
  bool eager;
} host_ahead;

/* Computes a share that the caller chose; what it stores stays in the cache. */
typedef void host_share_kernel(const kernel_args *args, host_share share, host_ahead ahead);

/* Bytes of output from which on launches of `simd` store around the cache; smaller ones are those of `simd_cached`. */
enum { HOST_SIMD_LARGE = 8 << 20 };

typedef void host_layers_share(const absorb_args *args, host_share share, host_ahead ahead);

typedef struct host_isa {
  const char *name; /* "AVX-512", "AVX2+FMA", "portable C" */
  host_kernel *launch[EQUATION_COUNT];
  host_kernel *cached[EQUATION_COUNT]; /* never store around the cache, as large launches do otherwise */
  host_share_kernel *share[EQUATION_COUNT];
  host_operation *launch_layers, *cached_layers; /* the wave and its layers, args: absorb_args */
  host_layers_share *share_layers;
} host_isa;

/* The instruction sets this machine can run, best first and the portable one last: number `index` of them, or
 * NULL past the last. The kernels `simd` and `simd_cached` run number 0. All give the same bits. */
const host_isa *host_isa_get(int index);

#endif
