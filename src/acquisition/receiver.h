/* The receivers of a shot, which record the field at positions between grid points, every so many steps. */
#ifndef STENCIL_RECEIVER_H
#define STENCIL_RECEIVER_H

#include <stdbool.h>
#include "exact_time.h"
#include "io/bytes/scratch.h"
#include "io/checkpoint/checkpoint.h"
#include "physics/physics.h"

/* The most bytes of traces that a rank keeps in memory. Where some rank has more, each rank keeps its traces in a file
 * (scratch.h). */
enum { RECEIVERS_HELD = 64 << 20 /* bytes */ };

/* The receivers of a shot. A receiver belongs to the rank that owns the plane at or below it, and reads ghosts of both
 * sides. A rank keeps its receivers in the order in which a wavefront reaches them (wavefront_receivers). The samples
 * of one step are a row of the traces: row i is of step i * every. Receivers take no device memory; samplers do
 * (sampler.h). */
typedef struct receivers {
  const slab *slab; /* of a shot; not owned, as are the next two */
  const config *config;
  const files *files;
  int count;              /* of all ranks */
  int64_t every;          /* steps */
  int64_t first_step;     /* the first step that is sampled */
  int64_t rows;           /* of the whole run; rows of extra steps (time.extra) follow */
  int64_t taken;          /* rows that the traces have, those before first_step included */
  int pass;               /* steps that a pass advances at most */
  double (*positions)[3]; /* count: x y z, m; owned */
  int local, before;      /* receivers of this rank; of the ranks before it */
  bool in_file;       /* files hold traces, and a gradient's arrays of their size; the same on all ranks */
  double unallocated; /* bytes of these files, of all ranks, before they are created */
  int *index;         /* local: the number of each among `count`; owned */
  int *row, *layer_begin; /* local; 2 slab->nz + 1: as in wavefront_receivers; owned */
  point_weights *own;     /* local; owned */
  scratch held;           /* traces of this rank: row i is sample i % capacity. Owned */
  int64_t capacity;       /* all rows; of a benchmark, which writes none, what fits into memory */
  int64_t width;          /* traces.width */
  int sources;            /* these as in receivers_meta; the caller's */
  const double (*source_positions)[3];
  int replaces;
  new_file made;     /* by receivers_make_file; its plan.temporary is "" where there is none */
  int64_t made_step; /* steps done according to `made` */
  exact_time time;   /* whether dispersion is removed from written traces; a caller may raise its `extra` */
} receivers;

/* The steps that are sampled. */
typedef struct receivers_span {
  int pass;      /* steps that a pass advances at most */
  int64_t first; /* rows of earlier steps are NaN until a checkpoint fills them in */
  int64_t last;  /* of the run, without extra steps */
  int64_t held;  /* bytes of traces in memory; 0: RECEIVERS_HELD */
} receivers_span;

/* Reads and places the receivers; needs no device. It will sample the steps that [receivers] every divides, of the span
 * and of the time->extra steps after it. `r` is zero-initialised, or was planned before. Exit 2 where a receiver is
 * outside the grid, naming file, dataset and row. Does nothing where there are no receivers. Collective over
 * files->compute, same error everywhere. Call receivers_close, also after a failure. */
int receivers_plan(receivers *r, const problem *on, const exact_time *time, receivers_span span, error *e);
/* Takes the memory of planned receivers for their traces. Not collective. */
int receivers_open(receivers *r, error *e);
/* Frees all memory. */
void receivers_close(receivers *r);

/* Bytes of the traces of planned receivers on this rank. */
size_t receivers_bytes(const receivers *r);

/* Bytes of the file that holds the traces of the whole run. */
static inline size_t receivers_file_bytes(const receivers *r) {
  return (size_t)r->rows * ((size_t)r->count * sizeof(float) + sizeof(double)) +
         ((size_t)r->count + (size_t)r->sources) * (sizeof *r->positions + sizeof(int64_t));
}

/* Bytes that the run has yet to take on disk for the receivers. */
double receivers_disk_bytes(const receivers *r);
/* Takes `bytes` for an array like the traces, where they are. In memory, too, where this rank can create or map no
 * file. Exit 2 where the disk is too full, OUT_OF_MEMORY. Not collective. */
int receivers_take(const receivers *r, scratch *s, size_t bytes, error *e);

/* The traces, as far as they have come (sampler_flush). */
traces receivers_traces(const receivers *r);

/* For a checkpoint's array of traces: the number of samples when it was made. */
typedef struct receivers_sampled {
  receivers *of;
  int64_t count;
} receivers_sampled;
/* Describes to checkpoints all samples so far, after sampler_flush. *part must stay where it is as long as *array. */
void receivers_array(receivers *r, checkpoint_array *array, receivers_sampled *part);

/* Creates the file of receivers_write for a run that ends as *run says, with all rows. So only the traces are left to
 * be written. Does nothing where more than one process uses files. Any thread may call it while steps are done. */
int receivers_make_file(receivers *r, const char *path, const run_meta *run, error *e);

/* Writes the rows of the run taken so far to PATH.receivers.h5 (io/output/receivers_file.h), receivers in the user's
 * order; where dispersion is removed it transforms the traces, so call it once. Nothing may be sampled after this call.
 * Does nothing where there are no receivers. Collective over files->compute, same error everywhere: exit 2 where the
 * file cannot be written. */
int receivers_write(receivers *r, const char *path, const run_meta *run, error *e);

#endif
