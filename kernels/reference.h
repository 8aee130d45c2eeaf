/* The oracle of the kernel tests in float64; the float32 one is the kernel `reference`. */
#ifndef STENCIL_REFERENCE_H
#define STENCIL_REFERENCE_H

#include "kernel.h"

/* jacobi at one point, from the float32 field and weights of `args` but accumulated in float64. Unlike a
 * kernel it returns its value, so that nothing is rounded to float32. (z, y, x) is an own point. */
double jacobi_reference_f64(const kernel_args *args, int z, int y, int x);

#endif
