/* Receivers record the field at positions between grid points, every so many steps. */
#ifndef STENCIL_RECEIVER_H
#define STENCIL_RECEIVER_H

#include <stdbool.h>
#include "exact_time.h"
#include "io/bytes/scratch.h"
#include "observer.h"
#include "physics/physics.h"

/* What receivers take of the device. It serves one shot after another. */
typedef struct receivers_memory {
  device_buffer places, batch, staging;
  device_event *copied[2]; /* a half has come to the host */
} receivers_memory;

/* Traces of a rank that are in memory, at most: where those of some rank are more, each rank has its own in a file
 * (scratch.h). */
enum { RECEIVERS_HELD = 64 << 20 /* bytes */ };

/* A receiver belongs to the rank that owns the plane at or below it, and reads ghosts of both sides. A rank keeps its
 * receivers in the order in which a wavefront reaches them (wavefront_receivers). The samples of one step are a row of the traces: row i is of step
 * i * every. Rows are copied from the device to the host in batches. */
typedef struct receivers {
  device *dev;            /* not owned */
  const slab *slab;       /* not owned */
  const config *config;   /* not owned */
  const files *files;     /* not owned */
  int count;              /* of all ranks */
  int64_t every;          /* steps */
  int64_t first_step;     /* the first step that is sampled */
  int64_t rows;           /* of the whole run; those of extra steps (time.extra) follow */
  int64_t taken;          /* rows so far, batch included, and those before first_step */
  double (*positions)[3]; /* count: x y z, m; owned */
  int local, before;      /* receivers of this rank; of the ranks before it */
  bool in_file; /* traces are, as are arrays of their size that a gradient needs: the same on all ranks */
  double unallocated;     /* bytes of these files, of all ranks, before they are created */
  int *index;             /* local: the number of each among `count`; owned */
  int *row, *layer_begin; /* local; 2 slab->nz + 1: as in wavefront_receivers; owned */
  point_weights *own;     /* local; owned */
  point_weights *places;  /* the same on the device; it, and the halves, are in: */
  receivers_memory kept;  /* owned */
  float *batch, *staging; /* two halves of batch_rows x local each; device, pinned */
  int64_t batch_rows;     /* rows that a half holds */
  int64_t batched;        /* rows in the half being filled, the last ones taken */
  int half;               /* the half being filled; the other one is being copied to the traces */
  int64_t moving, moved;  /* rows of the other half; how many of them the traces have */
  scratch
      held; /* traces of this rank, without the rows still in the halves: row i is sample i % room. Owned */
  int64_t room;  /* all rows; of a benchmark, which writes none, what fits into memory */
  int64_t width; /* traces.width */
  int sources;   /* these as in receivers_meta; the caller's */
  const double (*source_positions)[3];
  int replaces;
  new_file made;     /* by receivers_make_file; its plan.temporary is "" where there is none */
  int64_t made_step; /* that it says that the run has done */
  exact_time time;   /* whether dispersion is removed from what is written; a caller may raise its `extra` */
  struct receivers **parts; /* these are all of theirs (receivers_join); the list is owned, they are not */
  int part_count;
  const float *sigma;         /* of the device: sample_args; not owned, as is the next one */
  const surplus_layers *back; /* samples are of nu, from mu; NULL: they are of the field */
  int stream;                 /* what takes samples and copies them runs on it: the halo's */
} receivers;

/* Which steps are sampled. */
typedef struct receivers_span {
  int pass;      /* steps that a pass advances at most */
  int64_t first; /* rows of earlier steps are NaN until a checkpoint fills them in */
  int64_t last;  /* of the run, without extra steps */
  int64_t held;  /* bytes of traces in memory; 0: RECEIVERS_HELD */
} receivers_span;

/* Reads and places the receivers; needs no device. It will sample the steps that [receivers] every divides, of the span
 * and of the time->extra steps after it. `r` is zero-initialised, or was planned before: then it keeps its memory. Exit
 * 2 where a receiver is outside the grid, naming file, dataset and row. Does nothing where there are no receivers.
 * Collective over files->compute, same error everywhere. receivers_close it, also after a failure. */
int receivers_plan(receivers *r, const problem *on, const exact_time *time, receivers_span span, error *e);
/* Makes `r` of all receivers of `count` others, planned on a slab of one row, which sample the same steps: those of parts[i]
 * are in row i of `slab`. What they sample becomes the parts' traces. They must live as long as it does; it takes the list,
 * which was allocated. */
int receivers_join(receivers *r, receivers **parts, int count, device *dev, const slab *slab, error *e);
/* Takes what memory is missing for planned receivers. Not collective. */
int receivers_open(receivers *r, error *e);
/* Frees all memory; what is enqueued must be done. */
void receivers_close(receivers *r);

/* Bytes that planned receivers take on this rank. */
typedef struct receivers_size {
  size_t on_device, pinned, traces;
} receivers_size;

receivers_size receivers_bytes(const receivers *r);

/* Bytes of the file that holds the traces of the whole run. */
static inline size_t receivers_file_bytes(const receivers *r) {
  return (size_t)r->rows * ((size_t)r->count * sizeof(float) + sizeof(double)) +
         ((size_t)r->count + (size_t)r->sources) * (sizeof *r->positions + sizeof(int64_t));
}

/* All that the run has yet to take on disk for them. */
double receivers_disk_bytes(const receivers *r);
/* Takes `bytes` for an array like the traces, where they are. In memory, too, where this rank can create or map no
 * file. Exit 2 where the disk has too little room, OUT_OF_MEMORY. Not collective. */
int receivers_take(const receivers *r, scratch *s, size_t bytes, error *e);

/* Rows with those of extra steps. */
int64_t receivers_all_rows(const receivers *r);
/* Is this step to be sampled? The same on every rank. */
bool receivers_due(const receivers *r, int64_t step);

/* Makes room for the samples of the next `steps` steps after `step`, except the last one, and fills *pass so that a
 * wavefront takes them. r->stream must wait for that pass before the next call of any of these functions. Call
 * receivers_sample for the last step. Not collective. Host device only. */
int receivers_of_pass(receivers *r, int64_t step, int steps, wavefront_receivers *pass, error *e);

/* Enqueues on r->stream the samples of `field`: own point (0, 0, 0) of this step's field, whose ghosts are
 * filled. Does nothing unless the step is due. Steps must ascend. Full batches are copied in the background. Not
 * collective. */
int receivers_sample(receivers *r, const float *field, int64_t step, error *e);

/* Waits for the copies under way and adds them to the traces, which then have all rows to `taken`. Not collective. */
int receivers_flush(receivers *r, error *e);

/* The traces; after receivers_flush. */
traces receivers_traces(const receivers *r);

/* The receivers as an observer: the first that a pass looks at. */
observer receivers_observer(receivers *r);

/* Creates the file of receivers_write for a run that ends as *run says, with all rows, so that only its traces are left to be written.
 * Does nothing where more than one process uses files. Any thread may call it while the receivers sample. */
int receivers_make_file(receivers *r, const char *path, const run_meta *run, error *e);

/* Writes the rows of the run taken so far to PATH.receivers.h5 (io/output/receivers_file.h), receivers in the user's order; where dispersion
 * is removed it transforms them, so call it once. Nothing may be sampled after it. Does nothing where there are no
 * receivers. Collective over files->compute, same error everywhere: exit 2 where the file cannot be written. */
int receivers_write(receivers *r, const char *path, const run_meta *run, error *e);

#endif
