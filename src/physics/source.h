/* Point sources of the wave equation: which grid points of this slab they act on, and how strongly at each step. */
#ifndef STENCIL_SOURCE_H
#define STENCIL_SOURCE_H

#include "kernels/wavefront.h"
#include "physics.h"

struct wavelet;

/* Spread over this slab: each source over the 8 points around it, with trilinear weights. */
typedef struct sources {
  device *dev;      /* not owned */
  const slab *slab; /* not owned */
  double dt;        /* s */
  int point_count, share_count, signal_count;
  source_point *points; /* sorted by z, y, x; device memory, NULL where there is none */
  source_share *shares; /* likewise; the shares of a point in the order of the sources */
  int reach;        /* ghost planes towards neighbours that have points, too: those a wavefront computes */
  int *plane_begin; /* nz + 2 reach + 1: index of the first point of each plane from -reach on */
  struct wavelet *signals; /* of those sources that act on points here; sources alike share one */
  table *tables;           /* of the files */
  int table_count;
  float *ring;        /* pinned: signals of the latest steps, see signals_at */
  int64_t *ring_step; /* the step that each place of the ring holds, -1: none */
} sources;

/* Spreads the sources over the slab, reads wavelets from their files, and copies the lists to the device. `dt`: s. A
 * rank without points takes no device memory. Collective over files->compute, same error everywhere. sources_close it,
 * also after a failure. */
int sources_open(sources *s, const problem *on, double dt, error *e);
void sources_close(sources *s);

/* For a dry run: reads and checks the wavelet files, and tells what sources_open would take on this rank, in bytes.
 * Collective over files->compute, same error everywhere. */
int sources_bytes(const problem *on, size_t *on_device, size_t *pinned, error *e);

/* Enqueues on `stream` what the sources add to planes [args->z_begin, args->z_end) of args->out at step `step`,
 * that is at time step dt; nothing where they have no points there. Steps must ascend, and at most 16 steps may be
 * unfinished. */
int sources_apply(sources *s, int stream, const kernel_args *args, int64_t step, error *e);

/* Fills `pass` with what the sources add at `steps` steps from `step` on; the same rules hold. Host device only. */
void sources_of_pass(sources *s, int64_t step, int steps, wavefront_sources *pass);

#endif
