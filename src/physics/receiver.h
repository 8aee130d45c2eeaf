/* Receivers: the field at places between grid points, recorded every so many steps. */
#ifndef STENCIL_RECEIVER_H
#define STENCIL_RECEIVER_H

#include <stdbool.h>
#include "kernels/wavefront.h"
#include "physics.h"

/* A receiver belongs to the rank that owns the plane at or below it, which keeps its receivers in the order that a
 * wavefront comes to them (wavefront_receivers). A sample of all is a row of the traces: row i
 * is of step i every. Rows pass from the device to the host in batches. */
typedef struct receivers {
  device *dev;                 /* not owned */
  const slab *slab;            /* not owned */
  const files *files;          /* not owned */
  int count;                   /* of all ranks */
  int64_t every;               /* steps */
  int64_t first_step;          /* steps from here to the last step of the run are sampled */
  int64_t rows;                /* of the whole run */
  int64_t taken;               /* rows so far, batch included; rows before first_step count as taken */
  double (*positions)[3];      /* count: x y z, m; owned */
  int local, before;           /* this rank's; those of the ranks before it */
  int *index;                  /* local: which of `count` each is */
  int *row, *layer_begin;      /* local; 2 slab->nz + 1: as in wavefront_receivers; owned */
  receiver *places;            /* local; device memory */
  float *batch, *staging;      /* two halves of batch_rows x local each; device, pinned */
  int64_t batch_rows, batched; /* of a half; rows in the one being filled: the last of those taken */
  int half;                    /* the one being filled; the other is on its way to the traces: */
  int64_t moving, moved;       /* its rows, and how many of them are in the traces */
  float *traces;               /* rows x local; those still in the halves are missing */
} receivers;

/* Which steps are sampled, and how many a pass advances at most. */
typedef struct receivers_span {
  int pass;
  int64_t first; /* rows of earlier steps are NaN until a checkpoint fills them */
  int64_t last;  /* of the run */
} receivers_span;

/* Reads and places the receivers; one outside the grid is exit 2 naming file, dataset and row. Of the span's steps those
 * divisible by [receivers] every are sampled. Collective over files->compute, same error everywhere. Does nothing where
 * there are no receivers. receivers_close it, also after a failure. */
int receivers_open(receivers *r, const problem *on, receivers_span span, error *e);
void receivers_close(receivers *r);

/* For a dry run: reads and checks the positions, and tells what receivers_open would take on this rank, in bytes, and
 * the size of the file. Collective over files->compute, same error everywhere. */
typedef struct receivers_size {
  int count;
  size_t on_device, pinned, on_host, on_disk;
} receivers_size;
int receivers_bytes(const problem *on, receivers_span span, receivers_size *size, error *e);

/* Bytes of the file with the traces of the whole run. */
static inline size_t receivers_file_bytes(const receivers *r) {
  return (size_t)r->rows * ((size_t)r->count * sizeof(float) + sizeof(double)) +
         (size_t)r->count * sizeof *r->positions;
}

/* Is this step to be sampled? The same on every rank. */
bool receivers_due(const receivers *r, int64_t step);

/* Steps from `step`, which is done, to the next that may be due. */
static inline int64_t receivers_ahead(const receivers *r, int64_t step) {
  return r->every - step % r->every;
}

/* Makes room for the samples of all but the last of `steps` steps from `step` on, and fills `pass` with what they take:
 * the pass must do them, and STREAM_BOUNDARY wait for it before the next call of any of these functions. The last step
 * is left to receivers_sample. Not collective. Host device only. */
int receivers_of_pass(receivers *r, int64_t step, int steps, wavefront_receivers *pass, error *e);

/* Enqueues on STREAM_BOUNDARY the samples of `field`, own point (0, 0, 0) of this step's field, complete with ghosts;
 * does nothing unless the step is due. Steps must ascend. Full batches are copied in the background. Not collective.
 */
int receivers_sample(receivers *r, const float *field, int64_t step, error *e);

/* Waits for what is under way and adds it to the traces: now they are complete up to `taken`. Not collective. */
int receivers_flush(receivers *r, error *e);

/* Writes the rows taken so far to PATH.receivers.h5 (io/receivers_file.h), receivers in the user's order; `dt`: s.
 * Collective, same error everywhere. Does nothing where there are no receivers. */
int receivers_write(receivers *r, const char *path, double dt, error *e);

#endif
