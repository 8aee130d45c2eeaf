/* The chain rule from the steps' velocity to the user's, in a medium that is averaged or absorbs. With beta = 1 / (rho
 * v^2), averaged, v_f^2 = 1 / (rho_f beta_f):
 *   dJ/dv = (average^T of (dJ/dv_f v_f^3 rho_f)) / (rho v^3),   dJ/dv_f = 2 / v_f times the sum
 * The transpose of averaging is averaging, between a division by and a product with the weights of points: 1/2 for each
 * face that reflects. */
#ifndef STENCIL_CHAIN_H
#define STENCIL_CHAIN_H

#include "physics.h"

/* One rank's part of the rule. It owns nothing. */
typedef struct chain {
  bool averaged;
  const files *files;
  const field_io *io;
  density_axis axis[3];
  size_t plane;        /* points */
  int threads;         /* threads that compute */
  const model *model;  /* what steps work on */
  float *const *given; /* v and rho, as physics has them */
} chain;

/* Opens the rule for a run whose physics has a model and is loaded; `p` must outlive `h`. h->threads is then 1; the
 * caller may raise it. */
void chain_open(chain *h, const config *c, const physics *p, const files *files, const field_io *io);
/* Turns the weighted sum over the steps of u times the bracket (own planes, dense) into dJ/dvelocity, in place. Density
 * and losses are constants. Collective over files->compute, same error everywhere. */
int chain_velocity(const chain *h, float *gradient, error *e);

#endif
