/* [boundary] outside: the grid of a computation is larger than the grid given, which all files are of, by the absorbing layers. There
 * media go on as they are at the edge of the grid given, and initial fields are 0. Without such layers both grids are one, and
 * none of these functions does anything of its own. */
#ifndef STENCIL_OUTSIDE_H
#define STENCIL_OUTSIDE_H

#include "config/config.h"
#include "halo/slab.h"
#include "io/files.h"

/* Of the planes of a slab of the computation, those of the grid given, maybe none: what a rank writes. */
slab outside_written(const config *c, const slab *s);
/* Makes a plane of the computation of one of the grid given, which may lie at its beginning. Beyond it, values go on where
 * `media`; else they are 0. */
void outside_spread(const config *c, const float *from, float *to, bool media);

/* Performs FILES_READ_FIELD into planes of the computation, which are those of r->own.io: of a medium, unless the quantity is
 * QUANTITY_NONE. Collective over files.compute, agreed. */
int outside_read(const files *f, const config *c, const request *r, error *e);
/* Performs FILES_WRITE_FIELD from planes of the computation, `s`; r->own.io is of outside_written. Likewise. */
int outside_write(const files *f, const config *c, const slab *s, const request *r, error *e);

/* The chain rule: adds what the gradient of a medium has outside the grid given to the points at its edge, in one order, and sets it
 * to 0 there. gradient: own planes of the computation. Likewise. */
int outside_fold(const files *f, const config *c, const slab *s, float *gradient, error *e);

#endif
