/* The way back of a propagator: the exact adjoint of its steps, which gives the gradient of any function of its traces
 * (docs/GRADIENT.md). With nu = m lambda, and mu = P nu in absorbing layers (stretch.h), its step is the forward step: the
 * same kernel and layers on the same medium, from the last step to the first. Residuals are injected at the receivers.
 * Each step adds to the gradient the recalled forward field times what m multiplies (terms.h). A pass then corrects it
 * from mu to nu (surplus.h). */
#ifndef STENCIL_ADJOINT_H
#define STENCIL_ADJOINT_H

#include <stdatomic.h>
#include "physics/chain.h"
#include "states.h"
#include "surplus.h"

/* What goes in and comes out at points of a shot. */
typedef struct adjoint_points {
  sources residual; /* dJ/d(trace), injected; owned, as are the next ones */
  float *values;    /* of the residual, as sources_given; it is in: */
  scratch held;
  receivers at_sources; /* of nu, where the shot's sources are */
  double
      unit; /* of the residual and what is made of it, a power of two; adjoint_planes and others take it out */
} adjoint_points;

/* What the way back took, in seconds. */
typedef struct adjoint_times {
  double again, back; /* steps done again, steps back */
} adjoint_times;

enum { ADJOINT_FIELDS = EQUATION_STATES + 3 + MEMORIES_MAX };

typedef struct adjoint {
  propagator *of; /* not owned */
  plan plan;
  stepper stepper; /* mu of two steps; owned */
  halo halo;       /* of mu */
  absorb layers;   /* owned, as are the next two */
  surplus surplus;
  adjoint_points *shots; /* of each shot, of which there are most `most`; owned */
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
  observers looks; /* at the steps back */
  states states;   /* and the ring: forward fields, own points as in the field (adjoint_slot), */
  size_t slot;     /* each of so many floats */
  /* Steps from `from` to end - 1 are looked at: fields from `begin` on go into the ring, states before are kept. */
  stepper *forward;
  int64_t framed;              /* slots that have their ghosts */
  float *own[EQUATION_STATES]; /* the propagator's memory of its fields */
  int64_t from, begin, end;
  int64_t step; /* mu is of this step */
  adjoint_times times;
  /* NULL, or asked after each pass, with the count of such questions: an error ends the way back. The same on every
   * rank. */
  int (*poll)(void *context, int64_t count, error *e);
  void *context;
  int64_t polls;
  transfer transfer; /* a copy of the propagator's */
} adjoint;

/* Bytes of a field in the ring, on this rank. */
size_t adjoint_field_bytes(const propagator *of);
/* Bytes of device memory that the way back takes besides the plan's. */
size_t adjoint_bytes(const propagator *of);

/* Takes the memory for the way back of an open propagator. `file`: memory for the plan's states in a file, or NULL.
 * Zero-initialise it before. Collective, same error everywhere, as are the functions below. adjoint_close it, also
 * after a failure. */
int adjoint_open(adjoint *a, propagator *of, const plan *p, char *file, error *e);
void adjoint_close(adjoint *a);

/* Lets the propagator keep what the way back needs: before its first step. */
void adjoint_observe(adjoint *a);

/* Takes dJ/d(trace as written) of shot i, in `unit`, a power of two. `residual` lies as the shot's own traces do, and is
 * overwritten. Threads may take those of different shots at once where a rank has them alone. */
int adjoint_take(adjoint *a, int i, float *residual, double unit, error *e);
/* From the last step to step 0, with what was taken. */
int adjoint_run(adjoint *a, error *e);
/* Own point (0, 0, 0) in a slot of the ring. Transfers take whole planes, with ghosts that slots may not have: so there is a plane
 * before the first slot. */
float *adjoint_slot(const adjoint *a, int64_t slot);
/* At its end: dJ/dv = (2 / v) W (sum of u^n times the bracket of step n >= 0, - u^0 (nu^0 - nu^1) / m): the latter of the first step
 * and the step before it, which begin at rest. Without the factor where the chain rule follows. */
int adjoint_sum(adjoint *a, error *e);
/* Makes ready for adjoint_planes, once after adjoint_run: brings to the host what belongs to several shots or is not what the
 * device has. With `initial` it overwrites the propagator's fields. */
int adjoint_bring(adjoint *a, error *e);
/* From dJ/dv of what a step works on to that of the user's velocity, once for each shot after adjoint_bring; threads as above. */
int adjoint_chain(adjoint *a, int i, error *e);

/* Is the field asked for? */
bool adjoint_asked(const config *c, enum gradient_field field);
/* A field of a shot. */
typedef struct adjoint_field {
  const adjoint *of;
  enum gradient_field field;
  int i; /* of the shot */
  _Atomic uint32_t
      largest; /* bits of the greatest magnitude that adjoint_planes has handed out, in its unit */
} adjoint_field;
/* A field_source of dJ/dv, of dJ/du at step 0 for a run that begins at rest, or of the sum over the steps of u nu or of u^2;
 * `context`: an adjoint_field. */
int adjoint_planes(void *context, int z, int planes, float *values, error *e);
/* A field_measured; `context`: fields, the last of which has `of` NULL. GRADIENT_SMALL where all values of one are too
 * small for float32, but not all 0. */
int adjoint_measured(void *context, error *e);
/* dJ/dsignal of each source of shot i, or with respect to what is `injected` in its place, in extra steps too: steps x sources, on
 * every rank; the caller frees it. */
int adjoint_signals(adjoint *a, int i, bool injected, float **signals, error *e);

#endif
