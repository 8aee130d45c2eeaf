/* The persistent schedule: batches of steps in one launch each (kernels/persistent.h), in place of the step loop's two
 * streams and a halo exchange a step. */
#ifndef STENCIL_SCHEDULE_PERSISTENT_H
#define STENCIL_SCHEDULE_PERSISTENT_H

#include "halo/halo.h"
#include "kernels/persistent.h"

enum { PERSISTENT_SETS = 3 /* launches whose outcome has not been looked at, at most */ };

typedef struct persistent {
  halo *halo;                /* not owned */
  persistent_args args;      /* of the next launch */
  persistent_state *state;   /* device memory, owned; of the launch under way */
  persistent_state *outcome; /* pinned, PERSISTENT_SETS, owned */
  int batch;                 /* steps a launch, at most */
} persistent;

/* What it is called where kernels are named. */
extern const kernel persistent_kernel;

/* `fields`: own point (0, 0, 0) of both; `constants`, of every launch, and equation: as the kernels' own. `h` is open;
 * where the slab has neighbours its transport must be ipc, with all of them on this node: TRANSPORT_REFUSED otherwise.
 * Not collective. persistent_close it, also after a failure. */
int persistent_open(persistent *p, halo *h, const kernel_args *constants, enum equation equation,
                    float *const fields[2], error *e);
void persistent_close(persistent *p);

/* The outcome of a launch that is over: seconds it waited for neighbours; DEVICE_FAILED if that took too long. */
int persistent_outcome(const persistent *p, int set, double *waited, error *e);

#endif
