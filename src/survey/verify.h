/* --verify-gradient tests whether the gradient is right for this configuration. The dot product test compares the map
 * from signals and initial field to traces, which is linear, with its transpose. Taylor's remainder of the misfit tests
 * changes of the velocity. */
#ifndef STENCIL_VERIFY_H
#define STENCIL_VERIFY_H

#include "gradient.h"

/* Tests the only planned shot of a batch on an open engine. Logs the results and writes them with the gradient.
 * GRADIENT_WRONG where the gradient is wrong. Collective, same error everywhere. */
int verify_gradient(gradient *g, error *e);

#endif
