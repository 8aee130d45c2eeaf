/* Where a position lies among the points of an axis: for sources and receivers. */
#ifndef STENCIL_PLACE_H
#define STENCIL_PLACE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

typedef struct place {
  int index;       /* of the point at or before the position, in [0, n) */
  double fraction; /* of the way to the next point, in [0, 1); 0 at the last point */
} place;

/* Places `position` (m) on an axis whose n points lie at origin + i spacing (m). A position outside is placed on the
 * nearest face; the answer is false where it is further outside than a position in float32 is rounded. A position is on
 * a point where the two differ by no more than rounding in float64: 0.3 is point 3 of spacing 0.1, though 0.3 / 0.1 <
 * 3. */
static inline bool place_on_axis(double position, double origin, double spacing, int n, place *p) {
  const double at = (position - origin) / spacing, last = n - 1;
  const double given = (fabs(position) + fabs(origin)) / spacing; /* what the rounding is relative to */
  const double nearest = round(at), slack = FLT_EPSILON * given;
  double i = fabs(at - nearest) <= 2 * DBL_EPSILON * given ? nearest : at;
  i = i > 0 ? i < last ? i : last : 0;
  p->index = (int)i;
  p->fraction = i - p->index;
  return at >= -slack && at <= last + slack;
}

#endif
