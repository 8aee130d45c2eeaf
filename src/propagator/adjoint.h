/* The exact adjoint of a propagator's steps, which gives the gradient of any function of its traces (docs/GRADIENT.md).
 * With nu = m lambda, and mu = P nu in absorbing layers (stretch.h), an adjoint step is a forward step: the same kernel
 * and layers on the same medium, from the last step to the first. Residuals are injected at the receivers. Each step
 * adds to the gradient the recalled forward field u times the bracket of mu, which m multiplies (terms.h). So the ring
 * buffer holds u alone: brackets of forward steps would need their layer terms and relaxations too. surplus.h then
 * corrects the gradient from mu to nu. */
#ifndef STENCIL_ADJOINT_H
#define STENCIL_ADJOINT_H

#include <stdatomic.h>
#include "physics/chain.h"
#include "states.h"
#include "surplus.h"

/* The adjoint at points of a shot: the residual injected there, nu sampled there. */
typedef struct adjoint_points {
  sources residual; /* dJ/d(trace), injected; owned, as are the next ones */
  float *values;    /* the residual, as sources_given, in memory of `held` */
  scratch held;
  receivers at_sources; /* of nu, where the shot's sources are */
  double unit;          /* the residual's unit, a power of two; the results are divided by it */
} adjoint_points;

/* Seconds that the adjoint took. */
typedef struct adjoint_times {
  double again, back; /* forward steps done again, adjoint steps */
} adjoint_times;

enum { ADJOINT_FIELDS = EQUATION_STATES + 3 + MEMORIES_MAX };

typedef struct adjoint {
  propagator *of; /* not owned */
  plan plan;
  stepper stepper; /* mu of two steps; owned */
  halo halo;       /* of mu */
  absorb layers;   /* owned, as are the next two */
  surplus surplus;
  adjoint_points *shots; /* of each shot, at most `most`; owned */
  int most;
  injector residuals; /* of all of them, as is the next one; owned */
  sampler at_sources;
  /* Device memory, laid out as the field; owned: mu of two steps, and the next ones (NULL: not needed) */
  float *fields[ADJOINT_FIELDS];
  int field_count;
  float *gradient, *image, *illumination;
  float *memory[MEMORIES_MAX]; /* of relaxations */
  chain chain;
  /* Own planes of one shot after those of another (adjoint_bring); owned; or NULL */
  float *host[GRADIENT_FIELDS];
  observers looks; /* of the adjoint steps */
  states states;   /* and the ring buffer: forward fields, own points as in the field (adjoint_slot), */
  size_t slot;     /* each of so many floats */
  /* Of steps `from` to end - 1, fields from `begin` on go into the ring buffer; states are kept before it. */
  stepper *forward;
  int64_t framed;              /* slots that have their ghosts */
  float *own[EQUATION_STATES]; /* the propagator's memory of its fields */
  int64_t from, begin, end;
  int64_t step; /* mu is of this step */
  adjoint_times times;
  /* Called after each pass with the number of the call; an error ends the adjoint. The same on every rank. May be
   * NULL. */
  int (*poll)(void *context, int64_t count, error *e);
  void *context;
  int64_t polls;
  transfer transfer; /* a copy of the propagator's */
} adjoint;

/* Bytes of a field in the ring buffer, on this rank. */
size_t adjoint_field_bytes(const propagator *of);
/* Bytes of device memory that the adjoint takes besides the plan's. */
size_t adjoint_bytes(const propagator *of);

/* Takes the memory for the adjoint of an open propagator. `file`: memory for the plan's states in a file, or NULL.
 * Zero-initialise it before. Collective, same error everywhere, as are the functions below. adjoint_close it, also
 * after a failure. */
int adjoint_open(adjoint *a, propagator *of, const plan *p, char *file, error *e);
void adjoint_close(adjoint *a);

/* Makes the propagator keep the states and fields that the adjoint needs. Call it before the first step. */
void adjoint_observe(adjoint *a);

/* Takes dJ/d(trace as written) of shot i, in `unit`, a power of two. `residual` lies as the shot's own traces do, and is
 * overwritten. Threads may take those of different shots at once where a rank has them alone. */
int adjoint_take(adjoint *a, int i, float *residual, double unit, error *e);
/* Does the adjoint steps from the last step to step 0, of the residuals taken. */
int adjoint_run(adjoint *a, error *e);
/* Own point (0, 0, 0) in a slot of the ring buffer. Transfers move whole planes with ghosts. Slots may lack these, so a
 * plane of memory precedes the first slot. */
float *adjoint_slot(const adjoint *a, int64_t slot);
/* After adjoint_run: dJ/dv = (2 / v) W (sum of u^n times the bracket of step n >= 0, - u^0 (nu^0 - nu^1) / m). The last
 * term is of the first step, which begins at rest. 2 / v is left to the chain rule where that follows. */
int adjoint_sum(adjoint *a, error *e);
/* Prepares adjoint_planes, once after adjoint_run: copies fields to the host that belong to several shots or need more
 * work. With `initial` it overwrites the propagator's fields. */
int adjoint_bring(adjoint *a, error *e);
/* The chain rule from dJ/dv of the steps' velocity to the user's, once for each shot after adjoint_bring; threads as
 * above. */
int adjoint_chain(adjoint *a, int i, error *e);

/* Does the configuration want the field? */
bool adjoint_asked(const config *c, enum gradient_field field);
/* A field of a shot. */
typedef struct adjoint_field {
  const adjoint *of;
  enum gradient_field field;
  int i;                    /* of the shot */
  _Atomic uint32_t largest; /* bits of the greatest magnitude that adjoint_planes has returned, in its unit */
} adjoint_field;
/* A field_source of dJ/dv, of dJ/du at step 0 for a run that begins at rest, or of the sum over the steps of u nu or of u^2;
 * `context`: an adjoint_field. */
int adjoint_planes(void *context, int z, int planes, float *values, error *e);
/* A field_measured; `context`: fields, the last of which has `of` NULL. GRADIENT_SMALL where all values of one are too
 * small for float32, but not all 0. */
int adjoint_measured(void *context, error *e);
/* dJ/dsignal of each source of shot i: steps x sources, on every rank; the caller frees it. `injected`: with respect to
 * the transformed signals that are injected, extra steps included. */
int adjoint_signals(adjoint *a, int i, bool injected, float **signals, error *e);

#endif
