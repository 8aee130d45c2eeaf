/* Absorbing layers of a run: their profiles, their state in device memory, and the operation at work. What a
 * layer is and computes: kernels/absorb.h. */
#ifndef STENCIL_ABSORB_STATE_H
#define STENCIL_ABSORB_STATE_H

#include <stdbool.h>
#include "config/config.h"
#include "kernels/absorb.h"
#include "device/device.h"
#include "halo/slab.h"

/* The layers of one slab. Zero-initialised: none, and everything below does nothing. */
typedef struct absorb {
  device *dev;      /* not owned */
  absorb_args args; /* all but the field; axis[].psi_in is the current psi */
  float *memory;    /* device memory: psi twice, zeta, coefficients */
  int z0, nz;       /* of the slab */
} absorb;

enum { ABSORB_STATES = 2 * ABSORB_AXES, ABSORB_SLICES = 2 };

/* What a slab holds of a state array: planes [local, local + held) of it are planes [global, ...) of the
 * whole. Of them [own, own + owned), counted from the first held, are no other slab's: they are to be saved;
 * all are to be loaded. */
typedef struct absorb_slice {
  int local, global, held;
  int own, owned;
} absorb_slice;

/* A state array, for checkpoints. As a global array it has shape `shape`, the layers of both faces next to
 * each other (the low one first) in place of the axis: the same for every number of slabs. */
typedef struct absorb_state {
  char name[8]; /* "psi_x", "zeta_x" ... */
  int64_t shape[3];
  float *values; /* device memory, planes of shape[1] x shape[2], as many as the slices hold */
  int count;
  absorb_slice slices[ABSORB_SLICES];
} absorb_state;

/* Device memory, bytes, that absorb_open takes on this slab: 0 without a layer. */
size_t absorb_bytes(const config *c, const slab *s);

/* Takes the memory and makes all state 0. weights: of the star, per square of the spacing (wx, wy, wz).
 * v_max: the greatest velocity of the grid, m/s; dt in s: both the same on every slab. `dev` must outlive it.
 * Close it also after a failure. */
int absorb_open(absorb *a, device *dev, const slab *s, const config *c, const kernel_args *weights,
                double v_max, double dt, error *e);
bool absorb_needed(const absorb *a);

/* Enqueues kernel `k` on planes [field->z_begin, field->z_end), with their layers: in one launch where the kernel can
 * (kernel.layers), else the layers behind it. Ranges of a step may run at the same time; a range must not be split
 * further along x, y. */
int absorb_launch(const absorb *a, int stream, const kernel *k, const kernel_args *field, error *e);

/* Steps are enqueued: what the last one wrote is what the next one reads. */
void absorb_advance(absorb *a, int steps);

/* Fills states[ABSORB_STATES] and returns how many there are. psi's `values` are the current ones: ask anew
 * after each step. */
int absorb_states(const absorb *a, absorb_state states[ABSORB_STATES]);

void absorb_close(absorb *a);

#endif
