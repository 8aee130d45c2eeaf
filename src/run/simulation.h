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
#include "step/step.h"
#include "stop.h"
#include "save/survey.h"
#include "halo/transfer.h"

/* What the step loop took on this rank. */
typedef struct loop_times {
  int64_t steps;
  double seconds;      /* between two barriers */
  double io_seconds;   /* part of them in which saving kept the steps waiting, */
  double wait_seconds; /* and of that the part in which they waited for the writer */
  double end;          /* MPI_Wtime() at the end */
} loop_times;

typedef struct simulation {
  const config *config;   /* not owned, as is log */
  int threads;            /* of a stream of the host device */
  int most;               /* steps of a pass; 1: no wavefront */
  const checkpoint *from; /* not owned; where the run continues; NULL: it begins with the initial field */
  run_log *log;
  MPI_Comm comm;      /* the computing ranks, in slab order */
  const files *files; /* not owned; its `compute` is `comm` */
  int rank, ranks;
  slab slab;
  device *dev;
  halo halo;
  persistent persistent; /* open where the schedule is persistent */
  transfer transfer;
  field_io io;
  stepper stepper;
  wavefront front;
  physics physics;
  float *medium; /* slab_floats of device memory, owned; NULL where the medium is one number */
  absorb absorb;
  sources sources;
  receivers receivers;
  double copy_gbs;  /* measured copy bandwidth of this rank's device, GB/s read + write */
  save_queue saves; /* what is saved of all this, and what was */
  loop_times loop;
  stop_watch stop;
} simulation;

/* Decides partition, device, kernel, mode of I/O: all that needs no memory for fields. `from`: where the run continues,
 * which must be a checkpoint of this run (CHECKPOINT_DIFFERS); NULL: it begins. `profile`: phases are measured. `j` and
 * `from` must outlive *s. Collective over files->compute, same error everywhere. simulation_close it, also after a
 * failure. */
int simulation_plan(simulation *s, const job *j, const checkpoint *from, bool profile, error *e);
/* Takes the memory and opens the transport of a planned simulation. Collective, same error everywhere. */
int simulation_allocate(simulation *s, error *e);
/* Frees what *s owns and closes its device. Collective. */
void simulation_close(simulation *s);

/* What sources, receivers and layers work on. */
problem simulation_problem(const simulation *s);

/* Can the report and, with `files`, fields and checkpoints be written where they are to be? Better asked now than after
 * a week of steps. Collective, same error everywhere. */
int simulation_check_paths(const simulation *s, bool files, error *e);
/* Makes their folders, which may be missing; with `dry` the log only tells. Likewise. */
int simulation_make_folders(const simulation *s, bool files, bool dry, error *e);

/* Fills both fields and all ghosts: with the initial field, or from the checkpoint. Chooses the kernel and measures the
 * copy bandwidth on the way. Collective, same error everywhere. */
int simulation_load(simulation *s, error *e);

#endif
