/* The persistent schedule: each launch does a batch of steps (persistent.cu). It replaces the two streams and
 * the halo exchange of every step. */
#ifndef STENCIL_SCHEDULE_PERSISTENT_H
#define STENCIL_SCHEDULE_PERSISTENT_H

#include "halo/halo.h"
#include "kernels/operations/operation.h"

enum { PERSISTENT_SETS = 3 /* launches whose outcome has not been read, at most */ };

typedef struct persistent {
  halo *halo;                /* not owned */
  persistent_args args;      /* of the next launch */
  persistent_state *state;   /* of the launch under way; device memory, owned */
  persistent_state *outcome; /* of the latest launches; PERSISTENT_SETS, pinned, owned */
  int batch;                 /* steps of a launch, at most */
} persistent;

/* Stands for the schedule where kernels are named; it cannot be launched. */
extern const kernel persistent_kernel;

/* Takes the memory and finds the neighbours' fields. h: open. constants: the same for every launch. TRANSPORT_REFUSED
 * where the slab has neighbours, unless the transport is ipc and all neighbours are on this node. Not collective. Call
 * persistent_close, also after a failure. */
int persistent_open(persistent *p, halo *h, const kernel_args *constants, error *e);
void persistent_close(persistent *p);

/* The outcome of a launch that is done: *waited is the seconds it waited for neighbours. DEVICE_FAILED if it waited too
 * long. */
int persistent_outcome(const persistent *p, int set, double *waited, error *e);

#endif
