/* The chain rule from what a step works on to what is given: velocities of a medium that is averaged or absorbs. */
#ifndef STENCIL_CHAIN_H
#define STENCIL_CHAIN_H

#include "model.h"

/* From the sum over the steps of u times what m multiplies, weighed (own planes, dense), to dJ/dvelocity, in place; density and
 * losses are constants. Collective over files->compute, same error everywhere. */
int chain_velocity(float *gradient, const config *c, const files *files, const field_io *io, error *e);

#endif
