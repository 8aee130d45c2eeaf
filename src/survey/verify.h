/* --verify-gradient: is the gradient right on this configuration? The dot product of the map from signals and initial field to
 * traces with its transpose, which is linear; and Taylor's remainder of the misfit where the velocity is changed. */
#ifndef STENCIL_VERIFY_H
#define STENCIL_VERIFY_H

#include "gradient.h"

/* Tests the one planned shot of a batch on an open engine, logs what is found and writes it with the gradient.
 * GRADIENT_WRONG where it is not right. Collective, same error everywhere. */
int verify_gradient(gradient *g, error *e);

#endif
