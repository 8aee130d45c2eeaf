/* What a device does with a field besides the star: ghosts at the start, point sources, absorbing layers, receivers, and
 * the statistics of a saved field (statistics.h). device_table.apply enqueues an operation as it does a launch. An
 * operation gives the same bits on every backend, for every number of threads and every cut of the planes. */
#ifndef STENCIL_OPERATION_H
#define STENCIL_OPERATION_H

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does share `part` of `parts` of the work; `args` is of the operation's own type. */
typedef void host_operation(const void *args, int part, int parts);
/* Enqueues the work on a cudaStream_t and returns a cudaError_t. */
typedef int cuda_operation(const void *args, void *stream);

typedef struct operation {
  const char *name; /* for messages */
  size_t args_bytes;
  host_operation *host;
  host_operation
      *then[2]; /* host: stages that follow; each begins when all parts of the one before are done; or NULL */
  cuda_operation *cuda; /* NULL where CUDA is not compiled in */
  /* Host: into how many pieces to cut each of so many shares, as host_share_pieces; NULL: one. */
  int (*pieces)(const void *args, int shares);
} operation;

/* Args: kernel_args. After a field was loaded: stores the images of own points of planes [z_begin, z_end) of `out`, and
 * 0 at held points. Besides `out` it reads only the geometry. */
extern const operation operation_ghosts;

/* --- point sources ---------------------------------------------------------------------------------------------- */

/* A grid point that sources act on, and its range of the list of shares. */
typedef struct source_point {
  int z, y, x; /* own point */
  int first, count;
} source_point;

typedef struct source_share {
  int source;   /* index into signal */
  float weight; /* trilinear */
} source_share;

/* out += m * sum over the point's shares of weight * signal, in their order: s = fma(weight, signal, s) from 0, then
 * fma(m, s, out), stored with its images. */
typedef struct inject_args {
  kernel_args field;          /* out, medium or scale (m = dt^2 v^2), geometry, ghosts */
  const source_point *points; /* of the planes [field.z_begin, field.z_end); distinct; device memory */
  int count;
  const source_share *shares; /* device memory */
  const float *signal;        /* of this step, one a source; device or pinned memory */
} inject_args;
extern const operation operation_inject;

/* --- receivers -------------------------------------------------------------------------------------------------- */

/* A place between 8 grid points. */
typedef struct receiver {
  ptrdiff_t at;     /* the lowest of the 8, floats from own point (0, 0, 0) */
  float fz, fy, fx; /* in [0, 1): how far from it to the next, in spacings */
} receiver;

/* samples[i] = trilinear interpolation of the field at receivers[i]. Corner (z, y, x) of 0 and 1 has weight
 * (wz * wy) * wx, each 1 - f or f; s = fma(weight, u, s) from 0, z slowest, x fastest, corners of weight 0 left out
 * (they may be no points at all). */
typedef struct sample_args {
  const float *field; /* own point (0, 0, 0), ghosts up to date */
  size_t pitch, plane;
  const receiver *receivers; /* device memory */
  int count;
  float *samples; /* count; device memory */
} sample_args;
extern const operation operation_sample;

/* --- statistics (statistics.h) ---------------------------------------------------------------------------------- */

/* Args: statistics_args, histogram_args and quantiles_args. A CUDA device that cannot do cooperative launches answers
 * operation_statistics with cudaErrorNotSupported. */
extern const operation operation_statistics, operation_histogram, operation_quantiles;

#ifdef __cplusplus
}
#endif
#endif
