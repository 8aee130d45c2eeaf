/* The way back of a shot: the exact adjoint of its steps, which gives the gradient of any function of its traces
 * (docs/GRADIENT.md). With nu = m lambda its step is the forward step: the same kernel on the same medium, from the last step
 * to the first. What receivers got is injected where they are; the layers are transposed (physics/absorb_back.h). Each step
 * adds to the gradient what the forward field of its step, recalled, makes of what m multiplies (kernels/terms.h). */
#ifndef STENCIL_ADJOINT_H
#define STENCIL_ADJOINT_H

#include "physics/chain.h"
#include "states.h"

typedef struct adjoint {
  shot *shot; /* not owned */
  plan plan;
  stepper back;     /* nu of two steps; owned */
  halo halo;        /* of nu */
  absorb layers;    /* transposed; owned, as is the next one */
  sources residual; /* dJ/d(trace), injected */
  float *values;    /* of the residual, as sources_given; owned */
  /* Device memory, laid out as the field; owned; NULL: not needed */
  float *gradient, *image, *illumination;
  float *memory[MEMORIES_MAX]; /* of relaxations */
  float *scaled;               /* nu times sigma; without sigma nu itself is sampled */
  float *sums;                 /* of what transposed layers add, for the kernel: CUDA */
  receivers at_sources;        /* of that, where sources are; owned */
  chain chain;
  float *
      chained; /* dJ/dvelocity, own planes, where it is not that of what a step works on; owned, on the host */
  observers looks; /* at the steps back */
  float *ring;     /* forward fields, own points as in the field (adjoint_slot): owned device memory of */
  size_t slot;     /* plan.ring times so many floats */
  states states;
  /* Steps from `from` to end - 1 are looked at: fields from `part` on go into the ring, states before are kept. */
  stepper *forward;
  bool framed;        /* slots have their ghosts */
  float *own[STATES]; /* the shot's memory of its fields */
  int64_t from, part, end;
  int64_t step;      /* nu is of this step */
  int64_t again;     /* forward steps done again */
  int64_t heeded;    /* how often it has been asked whether to end early */
  transfer transfer; /* a copy of the shot's */
} adjoint;

/* Bytes of a field in the ring, on this rank. */
size_t adjoint_field_bytes(const shot *s);
/* Bytes of device memory that the way back takes besides the plan's. */
size_t adjoint_bytes(const shot *s);

/* Takes the memory for the way back of planned and open shots. `path`: of the plan's file. Zero-initialise it before.
 * Collective, same error everywhere, as are the functions below. adjoint_close it, also after a failure. */
int adjoint_open(adjoint *a, shot *s, const plan *p, const char *path, error *e);
void adjoint_close(adjoint *a);

/* Lets the shot keep what the way back needs: before its first step. */
void adjoint_observe(adjoint *a);

/* From the last step to step 0, with dJ/d(trace as written), laid out as the shot's own traces are (receivers.traces), which it
 * spoils. */
int adjoint_run(adjoint *a, float *residual, error *e);

/* Makes ready for adjoint_velocity, once after adjoint_run. */
int adjoint_chain(adjoint *a, error *e);
/* A field_source of dJ/dv; `context`: the adjoint, after adjoint_run and adjoint_chain. */
int adjoint_velocity(void *context, int z, int planes, float *values, error *e);
/* Likewise: of the sum over the steps of u nu, and of u^2. */
int adjoint_image(void *context, int z, int planes, float *values, error *e);
int adjoint_illumination(void *context, int z, int planes, float *values, error *e);
/* Likewise, of dJ/du at step 0 for a run that begins at rest, after adjoint_rest. */
int adjoint_initial(void *context, int z, int planes, float *values, error *e);
/* Makes ready for adjoint_initial, and overwrites the shot's fields. */
int adjoint_rest(adjoint *a, error *e);
/* dJ/dsignal of each source, or with respect to what is `injected` in its place: steps x sources, on every rank; the caller
 * frees it. */
int adjoint_signals(adjoint *a, bool injected, float **signals, error *e);

#endif
