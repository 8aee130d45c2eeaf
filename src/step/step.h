/* One time step: boundary on stream 0, interior on stream 1, halo exchange meanwhile, swap. */
#ifndef STENCIL_STEP_H
#define STENCIL_STEP_H

#include "physics/absorb.h"
#include "halo/halo.h"
#include "persistent.h"
#include "physics/receiver.h"
#include "physics/source.h"
#include "watchdog.h"
#include "wavefront.h"

/* Seconds on this rank, summed over `steps` steps; measured with events (profile) in some of them. */
typedef struct step_phases {
  int64_t steps;
  double boundary;  /* both boundary kernels */
  double to_host;   /* D2H of the boundary planes */
  double exchange;  /* MPI */
  double to_device; /* H2D of the ghost planes */
  double interior;  /* interior kernel */
  double exposed;   /* neither kernel of this pass nor of the next runs: communication nothing covered */
} step_phases;

typedef struct stepper {
  device *dev; /* not owned, as are the next three */
  halo *halo;  /* open, on dev */
  const slab *slab;
  const kernel *kernel;          /* of dev's backend; for the interior */
  const kernel *boundary_kernel; /* likewise, for the thin launches at the boundary */
  kernel_args args;              /* constants of every launch; pointers and z range are set for each */
  /* Of launches (kernel_args): all kernels of this run can, and nothing else reads ghosts in x. */
  bool virtual_x;
  bool overlap; /* off: every phase waits for the one before it, the reference for correctness and timing */
  bool profile; /* measure phases; the device must be open with it */
  persistent *persistent; /* not owned; advances in place of the two streams; NULL: it does not */
  absorb *absorb;         /* not owned, as are the next two; each NULL where there is none */
  sources *sources;
  receivers *receivers;
  watchdog *watch; /* not owned; NULL: off */
  /* The two fields, device memory, slab_floats each; owned by whoever made the stepper. Before the first step of the
   * wave, memory[1] holds the field of one step earlier. */
  float *memory[2];
  /* Not owned; advances several steps a pass; NULL: one at a time. Ghosts towards neighbours are RADIUS planes for each
   * step. */
  wavefront *front;
  int current;    /* memory[current] holds the newest field */
  int copying[2]; /* event after which memory[i] has been copied for a file and may be overwritten, or 0 */
  int64_t step;   /* steps done */
  /* Passes done; a pass advances one step or several and exchanges ghosts once, or is a batch of the persistent
   * schedule. */
  int64_t pass;
  int64_t measured_from;   /* step at which `phases` began */
  int64_t measured_pass;   /* likewise, the pass */
  int64_t measured_always; /* pass from which on all are measured; 0: some are */
  int64_t harvested;       /* passes whose times have been taken */
  step_phases sampled;     /* of the passes that were measured; `steps` counts them */
  step_phases phases;      /* of all, as of the last stepper_sync */
} stepper;

/* Advances one pass, of at most `limit` (>= 1) steps. On return its launches are enqueued and at most two passes are
 * unfinished; memory[current] is the newest field, complete with ghosts once stepper_sync has returned. Collective over
 * the halo's ranks. An error means that this rank failed: the others may be waiting for it. */
int stepper_advance(stepper *s, int64_t limit, error *e);

/* Makes later work of another stream of the device wait for all steps enqueued so far. */
int stepper_await(const stepper *s, int stream, error *e);

/* Waits until all steps are done, reports their asynchronous errors and completes `phases`. */
int stepper_sync(stepper *s, error *e);

/* Syncs, then forgets the phases measured so far (after a warm-up). */
int stepper_reset_phases(stepper *s, error *e);

/* Pointer to own point (0, 0, 0) of field memory[which]. */
float *stepper_field(const stepper *s, int which);

#endif
