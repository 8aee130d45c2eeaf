/* Where a position lies among the grid's points, and the weights of the points around it, for sources and receivers. */
#ifndef STENCIL_PLACE_H
#define STENCIL_PLACE_H

#include "config/config.h"
#include "io/files.h"
#include "kernels/operations/operation.h"

typedef struct place {
  int index;       /* of the point at or before the position, in [0, n) */
  int next;        /* of the point after it; of a periodic axis' last point: 0 */
  double fraction; /* part of the way to `next`: [0, 1), also in float32; 0 at the last, unless it wraps */
} place;

/* Places `position` (m) on the axes x, y, z; on a periodic one modulo its period. A position outside is placed on the
 * nearest face. Returns false where it is further outside than rounding to float32 explains. A position is on a point
 * where both differ by no more than rounding in float64: 0.3 is point 3 of spacing 0.1, though 0.3 / 0.1 < 3. */
bool place_in_grid(const config *c, const double position[3], place p[3]);

/* Appends a dataset's positions (m) to *positions, of which there are *count. Exit 2, naming dataset and row, where one
 * is outside the grid. Collective over files->compute, same error everywhere. */
int place_read(const files *files, const config *c, const char *dataset, double (**positions)[3], int *count,
               error *e);

/* Moves a place to the nearest point; from the middle on, to the upper one. */
void place_round(place p[3]);

/* The weights of the points around a place. `sinc`: 8 points an axis, sinc times a Kaiser window, sum 1; else 2 points,
 * linear. docs/CONFIG.md has the rules at faces. `source`: weights on a neumann face count twice, since the image has
 * half; so source and receiver are reciprocal. Planes are the grid's; those of a periodic axis are not wrapped. */
void place_weigh(const config *c, const place p[3], enum interpolation_kind how, bool source,
                 point_weights *w);

/* Weights of `points` points, an even number, from points / 2 - 1 before on, about a place `fraction` after one, in (0,
 * 1): sinc times a Kaiser window, sum 1. For waves of 4 points or more, 8 points are within 0.1 %, 16 within 5e-6. */
void place_sinc(double fraction, int points, double weight[]);

/* Is a position between points, so that its weights depend on how they are interpolated? */
bool place_is_between(const config *c, const double position[3]);

#endif
