/* Plans how many steps a run advances a pass on the host device. */
#ifndef STENCIL_PLAN_WAVEFRONT_H
#define STENCIL_PLAN_WAVEFRONT_H

#include <mpi.h>
#include "base/log.h"
#include "config/config.h"
#include "step.h"

/* The run that is planned. It owns nothing. */
typedef struct wavefront_run {
  const config *config;
  int threads; /* of the host device, a stream's */
  MPI_Comm comm;
  int ranks;
  run_log *log;
  /* Measure where nothing is remembered; else the plan is the deepest pass possible, which takes most memory. */
  bool measure;
} wavefront_run;

typedef struct wavefront_plan {
  wavefront_shape shape; /* depth 1: one step a pass */
  const char *kernel;    /* the name of the kernel to run, or "auto" */
} wavefront_plan;

/* Makes the plan, and sets the kernels of the stepper, whose device is open, where a pass has several steps. `kernel =
 * auto` takes a wavefront only where no cache holds the fields and a measurement finds it faster; `kernel = wavefront`
 * takes the fastest way. Where a pass cannot have several steps the log says why. Collective over run->comm, same
 * plan and error everywhere. */
int plan_wavefront(const wavefront_run *run, stepper *p, wavefront_plan *plan, error *e);

/* Do slabs of this run have neighbours in z? Where the grid is periodic and a pass has several steps, a single rank is
 * its own neighbour: kernels wrap fewer ghosts than such a pass needs. */
bool plan_neighbours(const config *c, int ranks);

#endif
