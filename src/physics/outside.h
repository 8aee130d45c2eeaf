/* [boundary] outside: the grid of a computation is larger, by the absorbing layers, than the grid given, to which all
 * files belong. Beyond the grid given media keep the values of its edge, and initial fields are 0. Without such layers
 * both grids are equal, and these functions only pass requests on. */
#ifndef STENCIL_OUTSIDE_H
#define STENCIL_OUTSIDE_H

#include "config/config.h"
#include "halo/slab.h"
#include "io/files.h"

/* The planes of the grid given in a slab of the computation, maybe none, which a rank writes. */
slab outside_written(const config *c, const slab *s);
/* Extends a plane of the grid given, which may lie at the beginning of `to`, to one of the computation. With `media`
 * the values of its edge continue beyond it; else they are 0. */
void outside_spread(const config *c, const float *from, float *to, bool media);

/* Performs FILES_READ_FIELD into planes of the computation, those of r->own.io. The field is a medium, unless the
 * quantity is QUANTITY_NONE. Collective over files.compute, agreed. */
int outside_read(const files *f, const config *c, const request *r, error *e);
/* Performs FILES_WRITE_FIELD from planes of the computation, `s`; r->own.io is of outside_written. Collective over
 * files.compute, agreed. */
int outside_write(const files *f, const config *c, const slab *s, const request *r, error *e);

/* The chain rule: adds the gradient of a medium outside the grid given to the points at its edge, in a fixed order, and
 * sets it to 0 outside. gradient: own planes of the computation. Collective over files.compute, agreed. */
int outside_fold(const files *f, const config *c, const slab *s, float *gradient, error *e);

#endif
