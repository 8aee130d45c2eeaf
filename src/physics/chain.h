/* The chain rule from what a step works on to what is given: velocities of a medium that is averaged or absorbs.
 * With beta = 1 / (rho v^2), averaged, v_f^2 = 1 / (rho_f beta_f):
 *   dJ/dv = (average^T of (dJ/dv_f v_f^3 rho_f)) / (rho v^3),   dJ/dv_f = 2 / v_f times the sum
 * The transpose of averaging is averaging, between a division by and a product with the weights of points: 1/2 for each face
 * that reflects. */
#ifndef STENCIL_CHAIN_H
#define STENCIL_CHAIN_H

#include "density.h"
#include "model.h"

/* One rank's part of the rule: host memory, which serves one gradient after another. */
typedef struct chain {
  bool averaged;
  const files *files; /* not owned, as is the next one */
  const field_io *io;
  density_axis axis[3];
  size_t plane;    /* points */
  int threads;     /* that do it */
  model model;     /* what steps work on, where it is averaged */
  float *given[2]; /* v and, where it is averaged, rho as model_open gives them; owned */
} chain;

/* Reads the media again, and averages them. Does nothing where the run has no model. Collective over files->compute, same error
 * everywhere, as is chain_velocity. chain_close it, also after a failure. */
int chain_open(chain *h, const config *c, const files *files, const field_io *io, int threads, error *e);
/* From the sum over the steps of u times what m multiplies, weighed (own planes, dense), to dJ/dvelocity, in place; density and
 * losses are constants. */
int chain_velocity(const chain *h, float *gradient, error *e);
void chain_close(chain *h);

#endif
