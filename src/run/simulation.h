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

typedef struct simulation {
  const config *config; /* not owned, as are command and log */
  int threads;          /* of the host device, a stream's */
  wavefront_plan plan;
  const checkpoint *from; /* where it goes on from; NULL: from the initial field */
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
  double copy_gbs;          /* measured copy bandwidth of this rank's device, GB/s read + write */
  saving saving;            /* what is saved of all this, and what was */
  double loop_io_seconds;   /* saving.io_seconds at the end of the loop, */
  double loop_wait_seconds; /* the part in which the steps waited for the writer */
  double loop_end;          /* MPI_Wtime() then */
  stop_watch stop;
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

#endif
