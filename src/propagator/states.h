/* States of a propagator kept for later: all that its steps need to go on from there. In device memory, which is the ring's too, in
 * pinned host memory, and in memory of a file that nobody else sees. A state that leaves the device is first copied beside the fields, so
 * that steps go on meanwhile. */
#ifndef STENCIL_STATES_H
#define STENCIL_STATES_H

#include "plan.h"
#include "propagator.h"

typedef struct states {
  const propagator *of; /* not owned, as is the next one */
  const plan *plan;
  size_t bytes;             /* of a state */
  char *memory[PLAN_TIERS]; /* owned, but that of a file */
  float *shared; /* the device's: the ring from here up, with a plane before it and after the end; */
  char *end;     /* states from here down */
  char *spare;   /* a state's of device memory; owned; NULL: none leaves the device */
  device_event *copied, *left; /* the fields have been copied; what `spare` held is where it belongs. Owned */
  int64_t waiting;             /* the state that is on its way to `spare`; -1: none */
} states;

/* Bytes of a state on this rank. */
size_t states_bytes(const propagator *of);
/* Takes the memory of the plan, its ring's too, with `slack` bytes more for the latter. `file`: memory of the states in a
 * file, not owned. Not collective. states_close it, also after a failure. */
int states_open(states *t, const propagator *of, const plan *p, size_t slack, char *file, error *e);
void states_close(states *t);

/* Enqueues on `stream` that the state at `step` is kept, as *p has just left it; later steps wait as long as needed. */
int states_keep(states *t, int64_t step, const stepper *p, int stream, error *e);
/* Begins to bring a state back to the device, if it has left it. */
int states_fetch(states *t, int64_t step, error *e);
/* Sets *p, which has been restarted, and the layers to a state, and waits until they are so. */
int states_restore(states *t, int64_t step, const stepper *p, error *e);

#endif
