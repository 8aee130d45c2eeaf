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

/* The points of a shot where the adjoint injects residuals or samples nu. */
typedef struct adjoint_points {
  sources residual; /* dJ/d(trace), injected; owned, as are the next ones */
  float *values;    /* the residual, as sources_given, in memory of `held` */
  scratch held;
  receivers at_sources; /* sample nu where the shot's sources are */
  double unit;          /* the residual's unit, a power of two; the results are divided by it */
} adjoint_points;

/* Seconds that the adjoint took. */
typedef struct adjoint_times {
  double again, back; /* of forward steps done again; of adjoint steps */
} adjoint_times;

enum { ADJOINT_FIELDS = EQUATION_STATES + 3 + MEMORIES_MAX };

typedef struct adjoint {
  propagator *of; /* not owned */
  plan plan;
  stepper stepper; /* mu of two steps; owned */
  halo halo;       /* of mu */
  absorb layers;   /* owned, as are the next two */
  surplus surplus;
  adjoint_points *shots; /* one for each shot, room for `most`; owned */
  int most;
  injector residuals; /* injects the residuals of all shots; owned, as is the next one */
  sampler at_sources;
  /* Device memory, laid out as the field; owned. `fields` lists mu of two steps and the next members (NULL: not
   * needed). */
  float *fields[ADJOINT_FIELDS];
  int field_count;
  float *gradient, *image, *illumination;
  float *memory[MEMORIES_MAX]; /* of relaxations */
  chain chain;
  /* Own planes, shot after shot (adjoint_bring); owned; or NULL */
  float *host[GRADIENT_FIELDS];
  observers looks; /* look at the adjoint steps */
  states states; /* also holds the ring buffer of forward fields; own points as in the field (adjoint_slot) */
  size_t slot;   /* floats from one slot of the ring buffer to the next */
  /* Forward steps run from `from` to end - 1. From `begin` on their fields go into the ring buffer; before it states
   * are kept. */
  stepper *forward;
  int64_t framed;              /* slots that have their ghosts */
  float *own[EQUATION_STATES]; /* the propagator's memory of its fields */
  int64_t from, begin, end;
  int64_t step; /* the step of the newest mu */
  adjoint_times times;
  /* Called after each pass with the number of the call; an error ends the adjoint. Returns the same on every rank. May
   * be NULL. */
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
 * Zero-initialise `a` before. Collective, same error everywhere, as are the functions below. Call adjoint_close also
 * after a failure. */
int adjoint_open(adjoint *a, propagator *of, const plan *p, char *file, error *e);
void adjoint_close(adjoint *a);

/* Makes the propagator keep the states and fields that the adjoint needs. Call it before the first step. */
void adjoint_observe(adjoint *a);

/* Takes dJ/d(trace as written) of shot i, in `unit`, a power of two. `residual` is laid out as the shot's own traces,
 * and is overwritten. A rank without neighbours may take residuals of different shots in several threads at once. */
int adjoint_take(adjoint *a, int i, float *residual, double unit, error *e);
/* Does the adjoint steps of the residuals taken, from the last step to step 0. */
int adjoint_run(adjoint *a, error *e);
/* Returns own point (0, 0, 0) in a slot of the ring buffer. Transfers move whole planes with ghosts. Slots may lack
 * these, so a plane of memory precedes the first slot. */
float *adjoint_slot(const adjoint *a, int64_t slot);
/* After adjoint_run: dJ/dv = (2 / v) W (sum of u^n times the bracket of step n >= 0, - u^0 (nu^0 - nu^1) / m). The last
 * term comes from the first step, which begins at rest. Where the chain rule follows, it multiplies by 2 / v. */
int adjoint_sum(adjoint *a, error *e);
/* Prepares adjoint_planes, once after adjoint_run: copies to the host fields that belong to several shots or need more
 * work. With `initial` it overwrites the propagator's fields. */
int adjoint_bring(adjoint *a, error *e);
/* Applies the chain rule from dJ/dv of the steps' velocity to dJ/dv of the user's. Call it once for each shot after
 * adjoint_bring; threads as in adjoint_take. */
int adjoint_chain(adjoint *a, int i, error *e);

/* Does the configuration ask for the field? */
bool adjoint_asked(const config *c, enum gradient_field field);
/* A gradient field of a shot. */
typedef struct adjoint_field {
  const adjoint *of;
  enum gradient_field field;
  int i;                    /* number of the shot */
  _Atomic uint32_t largest; /* bits of the greatest magnitude that adjoint_planes has returned, in its unit */
} adjoint_field;
/* A field_source; `context` is an adjoint_field. It gives dJ/dv, dJ/du at step 0 of a run that begins at rest, or the
 * sum over the steps of u nu or u^2. */
int adjoint_planes(void *context, int z, int planes, float *values, error *e);
/* A field_measured; `context`: a list of fields that ends with `of` NULL. GRADIENT_SMALL where a field is not all 0,
 * but all its values are too small for float32. */
int adjoint_measured(void *context, error *e);
/* Finds dJ/dsignal of each source of shot i: steps x sources, on every rank; the caller frees it. `injected`: the
 * derivative is with respect to the transformed signals as injected, extra steps included. */
int adjoint_signals(adjoint *a, int i, bool injected, float **signals, error *e);

#endif
