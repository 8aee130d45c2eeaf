/* Turns mu = P nu (stretch.h), the field of adjoint steps, into nu after each step: memory and launches. */
#ifndef STENCIL_SURPLUS_STATE_H
#define STENCIL_SURPLUS_STATE_H

#include "kernels/layers/surplus.h"
#include "physics/absorb.h"

/* Zero-initialised there are no layers, and every function below does nothing. */
typedef struct surplus {
  device *dev;       /* not owned, as is the next one */
  absorb *layers;    /* of the steps back */
  surplus_args args; /* of the launches, without the fields */
  char *memory;      /* device memory, owned */
  size_t bytes;
} surplus;

/* Bytes of device memory that surplus_open takes on this slab, with so many relaxations. */
size_t surplus_bytes(const config *c, const slab *s, int memories);
/* Takes the memory for the points of `layers`, which are open and outlive it. Not collective. surplus_close it. */
int surplus_open(surplus *u, const problem *on, absorb *layers, int memories, error *e);
void surplus_close(surplus *u);
/* Resets it to the state before the first step. Waits until that is done. */
int surplus_clear(surplus *u, error *e);

/* Enqueues what follows a step (surplus_kind) in planes [begin, end), in fields of args->nz planes. mu: of the step, args: of its
 * launches; the ghosts of mu that are in these planes are up to date. `holds`: another step of the same ring follows, whose
 * call does both in one visit of the points; until then both fields of mu, and u, must stay as they are. */
int surplus_after_step(surplus *u, int stream, const kernel_args *args, const float *mu, zrange planes,
                       bool holds, error *e);
/* Makes nu of mu of steps 0 and 1, once absorption is undone, and ends the gradient. Waits until it is done. */
int surplus_end(surplus *u, const kernel_args *args, float *mu, float *after, error *e);
/* Multiplies a field by P, or divides it, for waves at rest: SURPLUS_TIMES or SURPLUS_OVER. Waits until it is done. */
int surplus_at_rest(surplus *u, enum surplus_kind kind, const kernel_args *args, float *field, error *e);

#endif
