/* What a device does with a field besides the star: ghosts at the start, point sources, receivers, many steps in one
 * launch, absorbing layers (absorb.h), and the statistics of a saved field (statistics.h). device_table.apply enqueues an
 * operation as it does a launch. An operation gives the same bits on every backend, for every number of threads and every
 * cut of the planes: inject_point and sample_point are one source for the host and CUDA. */
#ifndef STENCIL_OPERATION_H
#define STENCIL_OPERATION_H

#include <stdint.h>
#include "point.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does part `part` of `parts` of the work; `args` is of the operation's own type. */
typedef void host_operation(const void *args, int part, int parts);
/* Enqueues the work on a cudaStream_t and returns a cudaError_t. */
typedef int cuda_operation(const void *args, void *stream);

typedef struct operation {
  const char *name; /* for messages */
  size_t args_bytes;
  host_operation *host;
  host_operation *then[2]; /* stages that follow, each when all parts of the one before are done; or NULL */
  cuda_operation *cuda;    /* NULL where CUDA is not compiled in */
  /* Host: how many parts to make for each of `threads` threads, as host_share_pieces; NULL: one. */
  int (*pieces)(const void *args, int threads);
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

/* out += gain * sum over the point's shares of weight * signal, in their order: s = fma(weight, signal, s) from 0, then
 * fma(gain, s, out), stored with its images; gain: what multiplies the star. */
typedef struct inject_args {
  kernel_args field;          /* out, equation, media, geometry, ghosts */
  const source_point *points; /* of the planes [field.z_begin, field.z_end); distinct; device memory */
  int count;
  const source_share *shares; /* device memory */
  const float *signal;        /* of this step, one a source; device or pinned memory */
} inject_args;
extern const operation operation_inject;

/* Adds to point i of the list what its sources give. */
GHOSTS_INLINE void inject_point(const inject_args *a, int i) {
  const kernel_args *f = &a->field;
  const source_point p = a->points[i];
  const ptrdiff_t at = (ptrdiff_t)f->plane * p.z + (ptrdiff_t)f->pitch * p.y + p.x;
  float s = 0;
  for (int k = p.first; k < p.first + p.count; k++)
    s = fmaf(a->shares[k].weight, a->signal[a->shares[k].source], s);
  ghosts_store(f, p.z, p.y, p.x, fmaf(point_gain_at(f, at), s, f->out[at]));
}

/* --- receivers -------------------------------------------------------------------------------------------------- */

/* A place between 8 grid points. */
typedef struct receiver {
  ptrdiff_t at; /* the lowest of the 8, floats from own point (0, 0, 0) */
  ptrdiff_t
      next_y; /* floats to the next along y, an own point: a periodic axis' last point is followed by the first, */
  int next_x;       /* and to the next along x; along z it is in the next plane, which may be a ghost */
  float fz, fy, fx; /* in [0, 1): how far to the next, in spacings */
} receiver;

/* samples[i] = trilinear interpolation of the field at receivers[i]. Corner (z, y, x) of 0 and 1 has weight
 * (wz * wy) * wx, each 1 - f or f; s = fma(weight, u, s) from 0, z slowest, x fastest, corners of weight 0 left out
 * (they may be no points at all). */
typedef struct sample_args {
  const float *field; /* own point (0, 0, 0), ghosts along z up to date */
  size_t plane;
  const receiver *receivers; /* device memory */
  int count;
  float *samples; /* count; device memory */
} sample_args;
extern const operation operation_sample;

/* Interpolates the field at receiver i of the list. */
GHOSTS_INLINE float sample_point(const sample_args *a, int i) {
  const receiver r = a->receivers[i];
  const float wz[2] = {1 - r.fz, r.fz}, wy[2] = {1 - r.fy, r.fy}, wx[2] = {1 - r.fx, r.fx};
  float s = 0;
  for (int corner = 0; corner < 8; corner++) {
    const int z = corner >> 2, y = corner >> 1 & 1, x = corner & 1;
    const float weight = (wz[z] * wy[y]) * wx[x];
    if (weight != 0)
      s = fmaf(weight, a->field[r.at + z * (ptrdiff_t)a->plane + y * r.next_y + x * r.next_x], s);
  }
  return s;
}

/* --- many steps in one launch ----------------------------------------------------------------------------------- */

/* What a launch reports. In device memory; the launcher sets it to 0. */
typedef struct persistent_state {
  unsigned done;      /* pieces of boundary planes finished, of all steps */
  unsigned failed;    /* a neighbour's planes did not come in time */
  uint64_t waited_ns; /* in which one block, done with its step, waited for neighbours' planes */
} persistent_state;

/* Step i reads fields[i % 2] and writes fields[(i + 1) % 2], own points with their images, as a kernel of one step does
 * (kernel.h). Where there is a neighbour on a side it also writes the 4 planes next to it into the neighbour's ghosts
 * and sets the neighbour's counter to counter_before + i + 1. The next step begins when this device's counter of that
 * side has come as far. The counters wrap around. */
typedef struct persistent_args {
  kernel_args constants; /* in, out and the z range are ignored */
  float *fields[2];      /* own point (0, 0, 0) */
  int steps;
  /* [side][which field]: the neighbour's ghost point (first ghost plane, 0, 0); NULL: none. */
  float *remote[2][2];
  uint32_t *remote_counter[2]; /* in the neighbour's memory */
  const uint32_t *counter[2];  /* in this device's */
  uint32_t counter_before;
  persistent_state *state;
} persistent_args;

/* For slabs so small that a launch takes longer than a step: the blocks stay on the GPU, meet after each step, and write
 * boundary planes to the neighbours' devices themselves. CUDA only. cudaErrorNotSupported: the device cannot do
 * cooperative launches. */
extern const operation operation_persistent;

/* --- statistics (statistics.h) ---------------------------------------------------------------------------------- */

/* Args: statistics_args, histogram_args and quantiles_args. A CUDA device that cannot do cooperative launches answers
 * operation_statistics with cudaErrorNotSupported. */
extern const operation operation_statistics, operation_histogram, operation_quantiles;

#ifdef __cplusplus
}
#endif
#endif
