/* Everything one run holds, and the steps of its life: open, load, advance, save, close. */
#ifndef STENCIL_SIMULATION_H
#define STENCIL_SIMULATION_H

#include <mpi.h>
#include "config/config.h"
#include "io/files.h"
#include "base/log.h"
#include "physics/physics.h"
#include "run.h"
#include "save/save_queue.h"
#include "step/plan_wavefront.h"
#include "step/step.h"
#include "stop.h"
#include "save/survey.h"
#include "halo/transfer.h"

/* The files that a run has completed. */
typedef struct written_files {
  int fields;
  int64_t first, last; /* steps of the fields */
  int64_t checkpoint;  /* step of the newest one; -1: none */
  bool receivers, report;
} written_files;

typedef struct simulation {
  const config *config; /* not owned, as are command and log */
  int threads;          /* of the host device, a stream's */
  wavefront_plan plan;
  const checkpoint *from; /* where it goes on from; NULL: from the initial field */
  const char *command;
  run_log *log;
  MPI_Comm comm;      /* the computing ranks, in slab order */
  const files *files; /* not owned; whose `compute` that is */
  int rank, ranks;
  slab slab;
  device *dev;
  halo halo;
  persistent persistent; /* open where the schedule is */
  transfer transfer;
  field_io io;
  stepper stepper;
  wavefront front;
  physics physics;
  float *medium; /* the kernels' medium, device memory, slab_floats; NULL where it is one number */
  absorb absorb;
  sources sources;
  receivers receivers;
  survey survey;
  field_statistics statistics; /* of the field when it was last measured on the device */
  int64_t
      checked_step; /* whose field is known to be finite, or the writer knows better before it saves more */
  double copy_gbs;  /* measured copy bandwidth of this rank's device, GB/s read + write */
  saving saving;
  double io_seconds;         /* that saving has kept the steps waiting since the loop began */
  double loop_io_seconds;    /* the same at the end of the loop, */
  double loop_wait_seconds;  /* the part in which the steps waited for the writer */
  double loop_end;           /* MPI_Wtime() then */
  double checkpoint_seconds; /* that the last checkpoint took */
  checkpoint_mark self;      /* whose the checkpoints are that this run writes */
  stop_watch stop;
  char *config_text;    /* the effective config, owned */
  series_entry *series; /* fields saved so far or given to the writer, owned; rank 0 only */
  int series_count;
  written_files written;
  int series_whole;   /* of them, those whose files are complete: the first ones */
  double series_told; /* clock that all ranks know, when a list was last given to the writer; s */
  bool series_behind; /* PATH.xdmf does not list all of these; known on every rank, as are these two */
} simulation;

/* What is planned: a dry run, for which nothing is measured; a run; or one whose phases are measured. */
enum plan_purpose { PLAN_DRY, PLAN_RUN, PLAN_PROFILE };

/* Partition, device, kernel, mode of I/O: all that can be said before memory is taken. Collective over
 * files->compute, same error everywhere. `from`: where the run goes on; NULL: it begins. Close it also after a failure. */
int simulation_plan(simulation *s, const job *j, const checkpoint *from, enum plan_purpose purpose, error *e);
/* Tells the log what in the configuration has no effect, or is probably a mistake. */
void simulation_remarks(const simulation *s);
/* Takes the memory and opens the transport of a planned simulation. Collective. */
int simulation_allocate(simulation *s, error *e);
void simulation_close(simulation *s);

/* What sources, receivers and layers work on. */
problem simulation_problem(const simulation *s);

/* Fills both fields with the initial field and all ghosts; measures the copy bandwidth on the way.
 * Collective. */
int simulation_load(simulation *s, error *e);

/* Saves the newest field with its statistics and histogram, unless it holds NaN or Inf; logs them, and lists the
 * field in the series: beside the steps where that can be (saving.h), measuring included, and then what fails does so
 * at a later call. Collective. */
int simulation_save(simulation *s, error *e);

/* Brings PATH.xdmf up to date where it is behind, as it may be by a second or so while the run goes on. After a failure,
 * `e`, too, which stays what it is unless the run was only stopped. Collective, agreed. */
int simulation_finish_series(simulation *s, error *e);

/* Lists in the series those fields that the run before a restart saved at these steps and that are still there. `steps`
 * is the same on every rank. Collective, agreed. */
int simulation_list(simulation *s, const int64_t *steps, int64_t count, error *e);

/* Measures the newest field (but for the histogram). ERROR_NONFINITE, naming the step and the first bad
 * point, if it holds NaN or Inf. Collective. */
int simulation_check(simulation *s, error *e);

#endif
