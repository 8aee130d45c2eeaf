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
} host_ahead;

/* Computes a share that the caller chose; what it stores stays in the cache. */
typedef void host_share_kernel(const kernel_args *args, host_share share, host_ahead ahead);

/* Bytes of output from which on launches of `simd` store around the cache; smaller ones are those of `simd_cached`. */
enum { HOST_SIMD_LARGE = 8 << 20 };

typedef void host_layers_share(const absorb_args *args, host_share share, host_ahead ahead);

/* How a launch goes through a block of rows, and stores. */
enum host_form {
  HOST_SIMD,   /* row by row; large launches store around the caches */
  HOST_CACHED, /* the same, but none does */
  HOST_COLUMNS, /* as HOST_SIMD, but a block's rows in columns so narrow that a star's rows stay in the first-level cache */
  HOST_FORMS
};

typedef struct host_isa {
  const char *name; /* "AVX-512", "AVX2+FMA", "portable C" */
  host_kernel *launch[HOST_FORMS][EQUATION_COUNT];
  host_share_kernel *share[EQUATION_COUNT];
  host_operation *launch_layers[HOST_FORMS]; /* the wave and its layers, args: absorb_args */
  host_layers_share *share_layers;
} host_isa;

/* The instruction sets this machine can run, best first and the portable one last: number `index` of them, or
 * NULL past the last. The kernels `simd...` run number 0. All give the same bits. */
const host_isa *host_isa_get(int index);

#endif
