/* Absorbing layers of a run: their profiles, their state in device memory, their launches. kernels/layers has the
 * arithmetic. */
#ifndef STENCIL_ABSORB_STATE_H
#define STENCIL_ABSORB_STATE_H

#include <stdbool.h>
#include "config/config.h"
#include "kernels/layers/absorb.h"
#include "device/device.h"
#include "fields.h"
#include "physics.h"

/* The layers of one slab. Zero-initialised it has no layers, and every function below does nothing. */
typedef struct absorb {
  device *dev;         /* not owned */
  absorb_args args;    /* of the launches, without the field; axis[].psi_in is the current psi */
  float *memory;       /* device memory: psi twice, zeta or layer terms, coefficients */
  int z0, nz;          /* of the slab */
  device_buffer zeros; /* what absorb_clear copies */
} absorb;

enum { ABSORB_PINNED = 1 << 20 /* bytes of pinned memory that layers take */ };
/* Bytes of device memory that absorb_open takes on this slab; 0 without absorbing faces. */
size_t absorb_bytes(const config *c, const slab *s);

/* The greatest velocity and the time step: the same on every slab. */
typedef struct absorb_motion {
  double v_max; /* the greatest velocity of the grid, m/s */
  double dt;    /* s */
} absorb_motion;

/* Plans the layers of on->slab, without memory. `a` is zero-initialised. */
void absorb_plan(absorb *a, const problem *on);
/* Takes device memory for the layers of on->slab and sets all state to 0. weights: wx, wy, wz of the stencil, 1/m^2.
 * Takes nothing without absorbing faces. on->dev must outlive it; on->files is not used. Not collective. Call
 * absorb_close, also after a failure. */
int absorb_open(absorb *a, const problem *on, const kernel_args *weights, absorb_motion motion, error *e);
/* Enqueues on STREAM_BOUNDARY that bytes of device memory are set to 0. */
int absorb_zero(absorb *a, char *to, size_t bytes, error *e);
/* Sets the layers' state to 0, as at the start of a run. Waits until that is done. */
int absorb_clear(absorb *a, error *e);
/* Does this slab have absorbing layers? */
bool absorb_needed(const absorb *a);

/* Enqueues kernel `k` and the layers on planes [field->z_begin, field->z_end): in one launch where the kernel can do
 * both (kernel.layers), else the layers after the kernel. Launches of one step may run at the same time if their planes
 * differ; each must cover all of x and y. */
int absorb_launch(const absorb *a, int stream, const kernel *k, const kernel_args *field, error *e);

/* Adds to half->out the layer terms of a field half->in that has always been there. `half`: the args of a step with
 * half the stencil's weights. Without this a field that begins in a layer drifts at a constant velocity until alpha
 * stops it. Sets the layers' state to 0; waits until that is done. Only where absorb_needed. */
int absorb_at_rest(absorb *a, const kernel_args *half, error *e);

/* The coefficients of an axis at rest, as absorb_axis has them; NULL: the axis has no layers. */
const float *absorb_rest_coefficients(const absorb *a, int axis);

/* Call after `steps` steps are enqueued: the psi that the last one wrote becomes the current one. */
void absorb_advance(absorb *a, int steps);

/* Appends the arrays of the layers' state: "psi_x", "layer_term_lo", "zeta_y" ... Along the layers' axis an array has
 * the layers of both faces, the low one first; layer terms (absorb_layer_terms) are an array for each face. `values` of
 * psi point to the current one, which changes with each step. */
void absorb_fields(const absorb *a, field_set *f);

/* Frees the device memory; all steps must be done. */
void absorb_close(absorb *a);

#endif
