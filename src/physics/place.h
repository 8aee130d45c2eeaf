/* Where a position lies among the grid's points: for sources and receivers. */
#ifndef STENCIL_PLACE_H
#define STENCIL_PLACE_H

#include <float.h>
#include <math.h>
#include "config/config.h"

typedef struct place {
  int index; /* of the point at or before the position, in [0, n) */
  int next;  /* of the point after it; of a periodic axis' last point: 0 */
  double
      fraction; /* of the way to the next point, in [0, 1); 0 at the last point of an axis that does not wrap */
} place;

/* Places `position` (m) on an axis; on a periodic one modulo its period. A position outside is placed on the nearest
 * face; the answer is false where it is further outside than a position in float32 is rounded. A position is on a point
 * where the two differ by no more than rounding in float64: 0.3 is point 3 of spacing 0.1, though 0.3 / 0.1 < 3. */
static inline bool place_on_axis(double position, const config_axis *a, place *p) {
  *p = (place){0};
  if (a->spacing == 0) return true;
  const double at = (position - a->first) / a->spacing, last = a->points - 1;
  const double given = (fabs(position) + fabs(a->first)) / a->spacing; /* what the rounding is relative to */
  const double nearest = round(at), slack = FLT_EPSILON * given;
  double i = fabs(at - nearest) <= 2 * DBL_EPSILON * given ? nearest : at;
  if (a->periodic) {
    i = fmod(i, a->points);
    if (i < 0) i += a->points;
    if (i >= a->points) i = 0; /* less than rounding before the first point */
  } else
    i = i > 0 ? i < last ? i : last : 0;
  p->index = (int)i;
  p->next = (p->index + 1) % a->points;
  p->fraction = i - p->index;
  return a->periodic || (at >= -slack && at <= last + slack);
}

/* On the axes x, y, z; false outside the grid. */
static inline bool place_in_grid(const config *c, const double position[3], place p[3]) {
  bool inside = true;
  for (int axis = 0; axis < 3; axis++) {
    const config_axis a = config_axis_of(c, axis);
    inside &= place_on_axis(position[axis], &a, &p[axis]);
  }
  return inside;
}

#endif
