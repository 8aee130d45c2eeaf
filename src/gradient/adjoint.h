/* The way back of a shot: the exact adjoint of its steps, which gives the gradient of any function of its traces
 * (docs/GRADIENT.md). With nu = m lambda its step is the forward step: the same kernel on the same medium, from the last step
 * to the first. What receivers got is injected where they are; the layers are transposed (physics/absorb_back.h). Each step
 * adds to the gradient what the forward field of its step, recalled, makes of what m multiplies (kernels/terms.h). */
#ifndef STENCIL_ADJOINT_H
#define STENCIL_ADJOINT_H

#include "shot/shot.h"

typedef struct adjoint {
  shot *shot;       /* not owned */
  stepper back;     /* nu of two steps; owned */
  halo halo;        /* of nu */
  absorb layers;    /* transposed; owned, as is the next one */
  sources residual; /* dJ/d(trace), injected */
  float *values;    /* of the residual, as sources_given; owned */
  float *gradient;  /* device memory, laid out as the field; owned */
  float
      *ring; /* forward fields: device memory of `slots` x `slot` floats, own points as in the field; owned */
  size_t slot;
  int64_t slots;
  int64_t first, last; /* the steps that the forward run puts into the ring; none: first > last */
  int64_t step;        /* nu is of this step */
  transfer transfer;   /* a copy of the shot's */
} adjoint;

/* Takes the memory for the way back of planned and open shots, with so many fields in the ring. Zero-initialise it before.
 * Collective, same error everywhere, as are the functions below. adjoint_close it, also after a failure. */
int adjoint_open(adjoint *a, shot *s, int64_t slots, error *e);
void adjoint_close(adjoint *a);

/* Lets the shot put the fields of steps `first` to `last` into the ring: before its first step. */
void adjoint_observe(adjoint *a, int64_t first, int64_t last);

/* Begins at the last step, with dJ/d(trace as written), laid out as the shot's own traces are (receivers.traces), which it
 * spoils. */
int adjoint_begin(adjoint *a, float *residual, error *e);
/* Goes back to `step` >= 1; the forward fields from the step where it is down to there are in the ring. */
int adjoint_steps(adjoint *a, int64_t step, error *e);

/* A field_source of dJ/dv; `context`: the adjoint, at step 1. */
int adjoint_velocity(void *context, int z, int planes, float *values, error *e);

#endif
