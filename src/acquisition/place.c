#include "place.h"
#include <float.h>
#include <math.h>
#include <string.h>
#include "base/error_mpi.h"

/* The best value for 8 points and all waves of 4 points per wavelength or more: the greatest error along an axis is 0.1
 * %. */
static const double KAISER = 6.2;

enum { BEFORE = POINTS_MOST / 2 - 1 /* points of the sinc before a place's own */ };

static bool place_on_axis(double position, const config_axis *a, place *p) {
  *p = (place){0};
  if (a->spacing == 0) return true;
  const double at = (position - a->first) / a->spacing, last = a->points - 1;
  /* the rounding error is relative to `given` */
  const double given = (fabs(position) + fabs(a->first)) / a->spacing;
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
  if (p->fraction < FLT_MIN) p->fraction = 0;
  if ((float)p->fraction == 1) *p = (place){p->next, (p->next + 1) % a->points, 0};
  return a->periodic || (at >= -slack && at <= last + slack);
}

bool place_in_grid(const config *c, const double position[3], place p[3]) {
  bool inside = true;
  for (int axis = 0; axis < 3; axis++) {
    const config_axis a = config_axis_given(c, axis);
    inside &= place_on_axis(position[axis], &a, &p[axis]);
    p[axis].index += config_beyond(c, (enum face)(2 * axis));
    p[axis].next = (p[axis].index + 1) % config_axis_of(c, axis).points;
  }
  return inside;
}

/* Checks all positions. All ranks check the same numbers, so they agree. */
static int place_check(const config *c, const char *dataset, const table *t, error *e) {
  for (int64_t i = 0; i < t->rows; i++) {
    const double *position = t->values + 3 * i;
    place p[3];
    if (!place_in_grid(c, position, p))
      return FAIL(e, RECEIVERS_OUTSIDE, dataset, i, position[0], position[1], position[2]);
  }
  return 0;
}

int place_read(const files *files, const config *c, const char *dataset, double (**positions)[3], int *count,
               error *e) {
  const table_form form = {.columns = 3, .quantity = QUANTITY_LENGTH, .measured = 3};
  table t = {0};
  const request all = {FILES_READ_TABLE, .path = dataset, .form = form, .own.table = &t};
  if (!files_do(files, &all, e) && !place_check(c, dataset, &t, e) &&
      !GROW(e, *positions, *count + t.rows, "positions")) {
    memcpy(*positions + *count, t.values, (size_t)t.rows * sizeof **positions);
    *count += (int)t.rows; /* fewer than a table may have */
  }
  table_free(&t);
  return error_agree(e, files->compute);
}

void place_round(place p[3]) {
  for (int axis = 0; axis < 3; axis++)
    p[axis] = (place){.index = p[axis].fraction >= 0.5 ? p[axis].next : p[axis].index};
}

bool place_is_between(const config *c, const double position[3]) {
  place p[3];
  place_in_grid(c, position, p);
  return p[0].fraction > 0 || p[1].fraction > 0 || p[2].fraction > 0;
}

/* The modified Bessel function of order 0. */
static double place_bessel(double x) {
  double sum = 1, term = 1;
  for (int k = 1; term > sum * DBL_EPSILON; k++) sum += term *= x * x / (4.0 * k * k);
  return sum;
}

/* The sine is the same for all points but for the sign, so dividing by the sum of weights drops it. */
void place_sinc(double fraction, int points, double weight[]) {
  const double half = 0.5 * points, window = KAISER * points / POINTS_MOST;
  double sum = 0;
  for (int i = 0; i < points; i++) {
    const double distance = i - (half - 1) - fraction, part = distance / half;
    sum += weight[i] = (i % 2 ? 1 : -1) / distance * place_bessel(window * sqrt(1 - part * part));
  }
  for (int i = 0; i < points; i++) weight[i] /= sum;
}

/* Weights along an axis: of points first to first + count - 1. */
typedef struct place_row {
  int first, count;
  double weight[POINTS_MOST];
} place_row;

/* Has the field images at those points from `first` to `last` that lie beyond the grid? */
static bool place_continues(const config *c, int axis, int first, int last) {
  const config_axis a = config_axis_of(c, axis);
  const enum face lo = (enum face)(2 * axis), hi = (enum face)(2 * axis + 1);
  return a.periodic ||
         ((first >= 0 || config_reflects(c, lo)) && (last < a.points || config_reflects(c, hi)));
}

static place_row place_row_of(const config *c, int axis, const place *p, enum interpolation_kind how) {
  const int first = p->index - BEFORE;
  place_row r = {first, POINTS_MOST, {0}};
  if (p->fraction == 0) return (place_row){p->index, 1, {1}};
  if (how == INTERPOLATION_LINEAR || !place_continues(c, axis, first, first + POINTS_MOST - 1))
    return (place_row){p->index, 2, {1 - p->fraction, p->fraction}};
  place_sinc(p->fraction, POINTS_MOST, r.weight);
  return r;
}

/* Gives the weights of images to the points that they are images of. Axes of few points wrap more than once. */
static place_row place_fold(const config *c, int axis, const place_row *r) {
  const config_axis a = config_axis_of(c, axis);
  const enum boundary_kind *faces = &c->boundary[2 * axis];
  const int n = a.points, last = r->first + r->count - 1;
  if (a.periodic && axis == 2) return *r;
  place_row own = {r->first > 0 ? r->first : 0, 0, {0}};
  if (a.periodic && n >= r->count) own.first = (r->first + n) % n;
  if (a.periodic && n < r->count) own.first = 0;
  own.count = a.periodic ? (n < r->count ? n : r->count) : (last < n ? last : n - 1) - own.first + 1;
  for (int i = 0; i < r->count; i++) {
    const int at = r->first + i;
    const bool below = !a.periodic && at < 0, above = !a.periodic && at >= n;
    const bool odd = (below && faces[0] == BOUNDARY_DIRICHLET) || (above && faces[1] == BOUNDARY_DIRICHLET);
    const int of = a.periodic ? (at + 2 * n) % n : below ? -at : above ? 2 * (n - 1) - at : at;
    own.weight[points_index(own.first, of, n)] += odd ? -r->weight[i] : r->weight[i];
  }
  return own;
}

void place_weigh(const config *c, const place p[3], enum interpolation_kind how, bool source,
                 point_weights *w) {
  int *const first[3] = {&w->x, &w->y, &w->z};
  unsigned char *const count[3] = {&w->nx, &w->ny, &w->nz};
  float *const weight[3] = {w->wx, w->wy, w->wz};
  *w = (point_weights){0};
  for (int axis = 0; axis < 3; axis++) {
    const place_row whole = place_row_of(c, axis, &p[axis], how), r = place_fold(c, axis, &whole);
    const enum boundary_kind *faces = &c->boundary[2 * axis];
    const int last = config_axis_of(c, axis).points - 1;
    *first[axis] = r.first;
    *count[axis] = (unsigned char)r.count;
    for (int i = 0; i < r.count; i++) {
      const int at = r.first + i;
      const bool twice = source && ((at == 0 && faces[0] == BOUNDARY_NEUMANN) ||
                                    (at == last && faces[1] == BOUNDARY_NEUMANN));
      weight[axis][i] = (float)(twice ? 2 * r.weight[i] : r.weight[i]);
    }
  }
}
