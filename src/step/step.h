/* One time step: boundary on stream 0, interior on stream 1 during the halo exchange, swap. */
#ifndef STENCIL_STEP_H
#define STENCIL_STEP_H

#include "physics/absorb.h"
#include "halo/halo.h"
#include "persistent.h"
#include "acquisition/observer.h"
#include "acquisition/injector.h"
#include "watchdog.h"
#include "wavefront.h"

/* Seconds on this rank, the sum over `steps` steps; estimated from the steps that are measured (stepper.profile). */
typedef struct step_phases {
  int64_t steps;
  double boundary;  /* both boundary kernels */
  double to_host;   /* D2H of the boundary planes */
  double exchange;  /* MPI */
  double to_device; /* H2D of the ghost planes */
  double interior;  /* interior kernel */
  double exposed;   /* no kernel runs: communication that computing does not cover */
} step_phases;

/* A pass records its own events and waits for those of the pass before it. The exposed time of a pass uses its events
 * and the next one's. So there are three sets. */
enum pass_event {
  BOUNDARY_BEGIN,
  BOUNDARY_END,
  INTERIOR_BEGIN,
  INTERIOR_END,
  PASS_TIMED,          /* the events above carry times */
  GHOSTS = PASS_TIMED, /* a pass without a boundary may now read its ghosts */
  BOUNDARY_DONE,       /* passes wait for BOUNDARY_DONE and INTERIOR_DONE */
  INTERIOR_DONE,
  PASS_EVENTS
};
enum { PASS_SETS = HALO_SETS };

typedef struct stepper {
  device *dev; /* not owned, as are the next three */
  halo *halo;  /* open, on dev */
  const slab *slab;
  const kernel *kernel;          /* of dev's backend; for the interior */
  const kernel *boundary_kernel; /* of dev's backend, for the thin launches at the boundary */
  kernel_args args;              /* constants of every launch; pointers and z range are set for each */
  bool overlap; /* off: every phase waits for the one before it; the reference for correctness and timing */
  bool profile; /* measure phases; the device must be open with it */
  persistent *persistent; /* not owned; NULL: the two streams advance */
  absorb *absorb;         /* not owned, as are the next two; NULL: none */
  injector *sources;
  const observers *observers; /* called after steps */
  watchdog *watch;            /* not owned; NULL: off */
  /* The fields that steps alternate between, stepper_states of them, slab_floats of device memory each; the caller owns
   * them. Before the first step memory[i] holds the field of i steps earlier, if the equation reads it. */
  float *memory[EQUATION_STATES];
  /* Not owned. The next step writes into it, not over the oldest field; it then replaces that field in memory[]. Only
   * where nothing is exchanged, with kernels that have KERNEL_GRADIENT. NULL: the step overwrites. */
  float *next;
  wavefront *front;                             /* not owned; NULL: one step a pass */
  int current;                                  /* memory[current] holds the newest field */
  device_event *events[PASS_SETS][PASS_EVENTS]; /* owned */
  /* After this event memory[i] has been copied for a file and may be overwritten; or NULL. */
  device_event *copying[EQUATION_STATES];
  int64_t step; /* steps done */
  /* Passes done. A pass advances one step or several and exchanges ghosts once, or is a batch of the persistent
   * schedule. */
  int64_t pass;
  int64_t measured_from;   /* step at which `phases` began */
  int64_t measured_pass;   /* pass at which `phases` began */
  int64_t measured_always; /* the pass from which all are measured; 0: only some are */
  int64_t harvested;       /* passes whose times have been added */
  step_phases sampled;     /* of the passes that were measured; `steps` counts them */
  step_phases phases;      /* of all passes, at the last stepper_sync */
} stepper;

/* Makes the events. Call stepper_close, also after a failure. */
int stepper_open(stepper *s, error *e);
/* Frees the events; all steps must be done. */
void stepper_close(stepper *s);

/* Forgets the steps done: memory[0] is to hold the first field. */
void stepper_restart(stepper *s);

/* Advances one pass, of at most `limit` (>= 1) steps, or as far as an observer allows. Observers that are not `agreed`
 * have looked. On return its launches are enqueued, at most two passes are unfinished, and memory[current] is the
 * newest field; after stepper_sync it is complete with ghosts. Collective over the halo's ranks. An error is of this
 * rank alone: the others may be waiting for it, so abort. */
int stepper_advance(stepper *s, int64_t limit, error *e);

/* Makes later work of another stream of the device wait for all steps enqueued so far. */
int stepper_await(const stepper *s, int stream, error *e);

/* Waits until all steps are done, reports their asynchronous errors and completes `phases`. */
int stepper_sync(stepper *s, error *e);

/* stepper_sync, then forgets the phases measured so far (after a warm-up). */
int stepper_reset_phases(stepper *s, error *e);

/* How many fields the steps work on. */
static inline int stepper_states(const stepper *s) {
  return equation_states(s->args.equation);
}
/* The index in memory of the field of so many steps, fewer than stepper_states, before the newest. */
static inline int stepper_ago(const stepper *s, int steps) {
  return (s->current + steps) % stepper_states(s);
}
/* The index in memory of the field after `steps` more steps; one step replaces the oldest. */
static inline int stepper_ahead(const stepper *s, int steps) {
  return stepper_ago(s, stepper_states(s) - steps % stepper_states(s));
}
/* Pointer to own point (0, 0, 0) of field memory[which]. */
float *stepper_field(const stepper *s, int which);

#endif
