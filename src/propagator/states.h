/* States of a propagator, kept for later: all that its steps need to go on from there. They lie in device memory shared
 * with the ring buffer, in pinned host memory, and in memory of a private file. A state that leaves the device is first
 * copied beside the fields, so that steps go on meanwhile. */
#ifndef STENCIL_STATES_H
#define STENCIL_STATES_H

#include "plan.h"
#include "propagator.h"

typedef struct states {
  const propagator *of; /* not owned, as is `plan` */
  const plan *plan;
  size_t bytes;                /* of a state */
  char *memory[PLAN_TIERS];    /* owned, except a file's */
  float *shared;               /* device memory: the ring buffer grows from here up */
  char *end;                   /* the end of `shared`: states grow from here down */
  char *spare;                 /* device memory for one state; owned; NULL: no state leaves the device */
  device_event *copied, *left; /* the fields are copied; the state has left `spare`. Owned */
  int64_t waiting;             /* the state that is on its way to `spare`; -1: none */
} states;

/* Bytes of a state on this rank. */
size_t states_bytes(const propagator *of);
/* Takes the memory of the plan, with `slack` bytes more for the ring buffer. `file`: memory for states in a file, not
 * owned. Not collective. Call states_close also after a failure. */
int states_open(states *t, const propagator *of, const plan *p, size_t slack, char *file, error *e);
void states_close(states *t);

/* Enqueues on `stream` a copy of the state at `step`, as *p has just left it. Later steps wait as long as needed. */
int states_keep(states *t, int64_t step, const stepper *p, int stream, error *e);
/* Begins to bring a state back to the device, if the state has left the device. */
int states_fetch(states *t, int64_t step, error *e);
/* Sets *p, which has been restarted, and the layers to a state, and waits until that is done. */
int states_restore(states *t, int64_t step, const stepper *p, error *e);

#endif
