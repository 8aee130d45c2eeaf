/* The instruction sets of the host kernels `simd`, so that tests can run each one this machine has. */
#ifndef STENCIL_HOST_SIMD_H
#define STENCIL_HOST_SIMD_H

#include "kernels/layers/absorb.h"
#include "base/isa.h"
#include "kernels/host_range.h"
#include "kernels/operations/operation.h"

/* The arrays that a kernel prefetches for this plane and the next ones of the group, relative to the point being
 * computed. NULL: none. */
enum { AHEAD_MEMORIES = 2 + EQUATION_MEDIA, AHEAD_ARRAYS = AHEAD_MEMORIES + MEMORIES_MAX };
typedef struct host_ahead {
  const float *array[AHEAD_ARRAYS];
} host_ahead;

enum { PREFETCH_ROWS = 1 /* rows by which the prefetch of a plane is ahead of the computation */ };
/* Launches of `simd` store around the cache from so many bytes of output on; smaller ones are the same as
 * `simd_cached`. */
enum { HOST_SIMD_LARGE = 8 << 20 };

/* Adds the sources to rows [y_begin, y_end) of a tile; takes the samples of receivers [begin, end). */
typedef void host_inject(const inject_args *args, const source_tile *tile, int y_begin, int y_end);
typedef void host_sample(const sample_args *args, int begin, int end);

/* The order in which a launch does a block of rows, and its stores. */
enum host_form {
  HOST_SIMD,    /* row by row; large launches store around the caches */
  HOST_CACHED,  /* row by row; no launch stores around the caches */
  HOST_COLUMNS, /* as HOST_SIMD, but a block's rows in columns so narrow that a stencil's rows stay in L1 */
  HOST_FORMS
};

struct simd_launch;
typedef void host_block(const struct simd_launch *s, block b, int z_begin, int z_end);

typedef struct host_isa {
  const char *name; /* "AVX-512", "AVX2+FMA", "portable C" */
  int lanes;        /* floats of a vector */
  host_block *(*block_of)(const struct simd_launch *s);
  host_inject *inject;
  host_sample *sample;
} host_isa;
extern const host_isa host_isa_avx512, host_isa_avx2, host_isa_portable;
host_sample host_sample_avx2, host_sample_portable;

/* The instruction set number `index` of those that this machine can run, best first and the portable one last. NULL
 * past the last. The kernels `simd...` run number 0. All give the same bits. */
const host_isa *host_isa_get(int index);

/* Does part `part` of `parts` of a launch, with the layers of its points, whose field is *a, or NULL. */
void host_simd_launch(const host_isa *isa, enum host_form form, const kernel_args *a,
                      const absorb_args *layers, int part, int parts);
/* Computes a range that the caller chose. The stored values stay in the cache. */
void host_simd_range(const host_isa *isa, const kernel_args *a, const absorb_args *layers, host_range range,
                     host_ahead ahead);

#endif
