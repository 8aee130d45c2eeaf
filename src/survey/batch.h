/* A batch: shots that step as one, their saves, and their end. */
#ifndef STENCIL_BATCH_H
#define STENCIL_BATCH_H

#include "base/stop.h"
#include "propagator/adjoint.h"
#include "save_queue.h"
#include "shot/shot.h"

/* The tasks of a batch besides its steps. */
typedef struct batch_setup {
  run_log *log;
  enum on_stop_kind on_stop;   /* what a signal or the wall time does to the batch */
  int (*heard)(void *context); /* as in stop_watch */
  void *context;
} batch_setup;

/* Seconds that a gradient took after the steps; 0: there is none. */
typedef struct gradient_times {
  adjoint_times adjoint;
  double sums; /* the rest: residual, chain rule, file */
} gradient_times;

/* Seconds that the step loop took on this rank. */
typedef struct loop_times {
  int64_t steps;
  double seconds;      /* between two barriers */
  double io_seconds;   /* seconds in which saving kept the steps waiting */
  double wait_seconds; /* seconds of io_seconds in which the steps waited for the writer */
  double end;          /* MPI_Wtime() at the end */
  gradient_times gradient;
} loop_times;

typedef struct batch {
  propagator p;
  shot **shots; /* owned, but not what it lists */
  int count;    /* of shots */
  batch_setup of;
  save_queue saves;
  field_statistics statistics; /* of the field last measured, all shots together */
  int64_t checked_step;        /* newest step whose field is finite, or will be checked by the writer */
  loop_times loop;
  struct {
    bool saves;
    int64_t first, last; /* steps */
    double begin;        /* MPI_Wtime() */
  } under_way;           /* set by batch_steps_begin */
  stop_watch stop;
} batch;

/* Makes planned shots step together (propagator_plan). Zero-initialise the batch before the first shots; b->p.dev may
 * be set. All functions are collective over the engine's ranks, same error everywhere, unless they say otherwise. Call
 * batch_close also after a failure. */
int batch_plan(batch *b, engine *g, shot *const *shots, int count, const batch_setup *setup, error *e);
/* Takes missing memory, and starts the writer. */
int batch_open(batch *b, error *e);
/* Fills the fields with the initial field, or from the shot's checkpoint. */
int batch_load(batch *b, error *e);
/* Does batch_load, prepares all saves, and saves the first field. */
int batch_begin(batch *b, error *e);
/* Does the steps that are left. With `saves` it also checks and writes as configured, and may stop early: STOPPED. */
int batch_steps(batch *b, bool saves, error *e);
/* The same in parts, where several batches step at once: call batch_steps_begin, then batch_pass until *over. */
int batch_steps_begin(batch *b, bool saves, error *e);
int batch_pass(batch *b, bool *over, error *e);
/* Starts the watch for signals and the wall time, after `step` steps. */
int batch_watch(batch *b, int64_t step, error *e);
/* Logs that this part of the steps, or of the adjoint, is done. Not collective. */
void batch_advance(const batch *b, bool back, double part);
/* Fails with STOPPED at `step` for `reason`; `after`: the end of the message. Not collective. */
int batch_stopped(const batch *b, enum stop_reason reason, int64_t step, const char *after, error *e);
/* Creates the files that batch_finish_traces writes for shot i, where possible. Another thread may call it while the
 * batch steps. Not collective. */
int batch_make_files(batch *b, int i, error *e);
/* Saves what is due after the last step, except traces. */
int batch_finish(batch *b, error *e);
/* Saves the traces of shot i; call it after propagator_extra_steps. */
int batch_finish_traces(batch *b, int i, error *e);
/* Waits for the writer, and brings the lists of saved fields up to date. Call it last, also after a failure. */
int batch_end(batch *b, error *e);
void batch_close(batch *b);

/* Calls `each` for every shot. A rank without neighbours uses several threads. */
void batch_for_each(const batch *b, void (*each)(void *context, int i), void *context);
/* Calls `each` for every shot that has not failed. An error fails that shot; *e is set only if all have failed. */
int batch_each(batch *b, int (*each)(void *context, int i, error *e), void *context, error *e);
/* Sets *e where all shots have failed. */
int batch_failed(const batch *b, error *e);
/* The run's attributes for a file of shot i that is saved after `step`. */
run_meta batch_run(const batch *b, int i, int64_t step);

#endif
