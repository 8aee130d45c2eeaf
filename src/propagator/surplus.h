/* Turns mu = P nu (stretch.h), the field of adjoint steps, into nu after each step: memory and launches. */
#ifndef STENCIL_SURPLUS_STATE_H
#define STENCIL_SURPLUS_STATE_H

#include "kernels/layers/surplus.h"
#include "physics/absorb.h"

/* A zero-initialised surplus has no layers, and every function below does nothing. */
typedef struct surplus {
  device *dev;       /* not owned, as is the next one */
  absorb *layers;    /* the layers of adjoint steps */
  surplus_args args; /* of the launches, without the fields */
  char *memory;      /* device memory, owned */
  size_t bytes;
} surplus;

/* Bytes of device memory that surplus_open takes on this slab, with so many relaxations. */
size_t surplus_bytes(const config *c, const slab *s, int memories);
/* Takes the memory for the points of `layers`, which must be open and outlive *u. Not collective. Call
 * surplus_close. */
int surplus_open(surplus *u, const problem *on, absorb *layers, int memories, error *e);
void surplus_close(surplus *u);
/* Resets *u to the state before the first step, and waits until that is done. */
int surplus_clear(surplus *u, error *e);

/* Enqueues what follows a step (surplus_kind) in planes [begin, end), in fields of args->nz planes. mu is the step's
 * field, args are those of its launches; ghosts of mu in these planes must be up to date. `holds`: another step of the
 * same ring follows, and its call does both steps in one visit of the points. Until then both fields of mu, and u, must
 * stay unchanged. */
int surplus_after_step(surplus *u, int stream, const kernel_args *args, const float *mu, zrange planes,
                       bool holds, error *e);
/* Turns mu of steps 0 and 1 into nu, once absorption is undone, and completes the gradient. Waits until that is
 * done. */
int surplus_end(surplus *u, const kernel_args *args, float *mu, float *after, error *e);
/* Multiplies (SURPLUS_TIMES) or divides (SURPLUS_OVER) a field by P for waves at rest. Waits until that is done. */
int surplus_at_rest(surplus *u, enum surplus_kind kind, const kernel_args *args, float *field, error *e);

#endif
