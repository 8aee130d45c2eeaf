/* Statistics of a field on the host, and what both backends share. statistics.h gives the orders of sums.
 *
 *   statistics_host_units    sums, least and greatest value of each unit
 *   statistics_host_planes   units added up to planes
 *   histogram_host
 *   statistics_find_quantiles */
#include "statistics.h"
#include "kernels/host/host_simd.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LANES = 32 };

#define INLINE static inline __attribute__((always_inline))

double statistics_l2(const field_statistics *s) {
  return sqrt(s->all.squares);
}

double statistics_mean(const field_statistics *s) {
  uint64_t finite = s->points - s->all.nonfinite;
  return finite ? s->all.sum / (double)finite : 0;
}

/* --- units ------------------------------------------------------------------------------------------------------- */

/* Vectors of the compiler's own, for which it uses the widest instructions of the target. */
enum { VECTOR = 8 };
typedef float vector __attribute__((vector_size(VECTOR * sizeof(float))));
typedef int32_t mask __attribute__((vector_size(VECTOR * sizeof(int32_t))));
typedef double wide __attribute__((vector_size(VECTOR * sizeof(double))));

/* The running sums of a unit, and the least and greatest value beside each sum. */
typedef struct unit_running {
  wide sum[UNIT_SUMS / VECTOR], squares[UNIT_SUMS / VECTOR];
  vector min[UNIT_SUMS / VECTOR], max[UNIT_SUMS / VECTOR];
} unit_running;

#define CHOOSE(which, yes, no) ((vector)(((which) & (mask)(yes)) | (~(which) & (mask)(no))))

/* A unit's points: `height` rows of `width` points, `pitch` floats apart. */
typedef struct unit_points {
  const float *first;
  size_t pitch;
  int width, height;
} unit_points;

/* Adds the vectors of column x of a unit to the running sums, which stay in registers while y grows. The last column
 * may be less than VECTOR points wide (`width`): NaN fills it up and adds nothing. `bad` gets -1 for each point that
 * is not finite. */
INLINE void statistics_add_column(unit_running *r, unit_points p, int x, int width, mask *bad) {
  const int k = x % UNIT_SUMS / VECTOR;
  const float *first = p.first + x;
  wide sum = r->sum[k], squares = r->squares[k];
  vector min = r->min[k], max = r->max[k], u = (vector){0} + NAN;
  mask found = {0};
  for (int y = 0; y < p.height; y++) {
    memcpy(&u, first + (size_t)y * p.pitch, (size_t)width * sizeof *first);
    /* of the unit above; may be beyond the field */
    __builtin_prefetch(first + (size_t)(y + UNIT_HEIGHT) * p.pitch);
    mask nonfinite = ((mask)u & 0x7F800000) == 0x7F800000; /* the exponent of NaN and Inf is all ones */
    vector low = CHOOSE(nonfinite, (vector){0} + INFINITY, u);
    vector high = CHOOSE(nonfinite, (vector){0} - INFINITY, u);
    wide w = __builtin_convertvector((vector)((mask)u & ~nonfinite), wide);
    sum += w;
    squares += w * w;
    min = CHOOSE(low < min, low, min);
    max = CHOOSE(high > max, high, max);
    found += nonfinite;
  }
  r->sum[k] = sum, r->squares[k] = squares, r->min[k] = min, r->max[k] = max;
  *bad += found;
}

/* Adds all points of a unit; returns how many of them are not finite. */
INLINE int64_t statistics_add_unit(unit_running *r, unit_points p) {
  mask bad = {0};
  int x = 0;
  for (; x + VECTOR <= p.width; x += VECTOR) statistics_add_column(r, p, x, VECTOR, &bad);
  if (x < p.width) {
    statistics_add_column(r, p, x, p.width - x, &bad);
    for (int i = p.width - x; i < VECTOR; i++) bad[i] += p.height; /* NaN that filled up was no point */
  }
  int64_t count = 0;
  for (int i = 0; i < VECTOR; i++) count -= bad[i];
  return count;
}

typedef int64_t unit_adder(unit_running *r, unit_points p);

#define ADDER(isa, target)                                                                                   \
  target static int64_t statistics_add_unit_##isa(unit_running *r, unit_points p) {                          \
    return statistics_add_unit(r, p);                                                                        \
  }
HOST_ISAS(ADDER)

static double statistics_add_tree(double lanes[LANES]) {
  for (int n = LANES / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) lanes[i] += lanes[i + n];
  return lanes[0];
}

static double statistics_add_running(const wide sums[UNIT_SUMS / VECTOR]) {
  double s[UNIT_SUMS], lanes[LANES];
  memcpy(s, sums, sizeof s);
  for (int i = 0; i < LANES; i++) lanes[i] = (s[4 * i] + s[4 * i + 1]) + (s[4 * i + 2] + s[4 * i + 3]);
  return statistics_add_tree(lanes);
}

static int statistics_is_finite(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (bits & 0x7F800000u) != 0x7F800000u;
}

/* Finds the first point of a unit that is not finite; UINT64_MAX: there is none. */
static uint64_t statistics_first_nonfinite(const field_view *f, unit_place u) {
  const float *row = f->points + (size_t)u.z * f->plane + (size_t)u.y * f->pitch;
  for (int y = u.y; y < u.y + u.height; y++, row += f->pitch)
    for (int x = u.x; x < u.x + u.width; x++)
      if (!statistics_is_finite(row[x]))
        return nonfinite_point((uint64_t)y * (uint64_t)f->nx + (uint64_t)x, row[x]);
  return UINT64_MAX;
}

static partial_statistics statistics_measure_unit(const field_view *f, int64_t i, unit_adder *add) {
  unit_running r = {0};
  for (int k = 0; k < UNIT_SUMS / VECTOR; k++) {
    r.min[k] += INFINITY;
    r.max[k] -= INFINITY;
  }
  unit_place u = unit_at(f, i);
  unit_points points = {f->points + (size_t)u.z * f->plane + (size_t)u.y * f->pitch + u.x, f->pitch, u.width,
                        u.height};
  partial_statistics unit = statistics_of_nothing();
  unit.nonfinite = (uint64_t)add(&r, points);
  if (unit.nonfinite) unit.first = statistics_first_nonfinite(f, u);
  unit.sum = statistics_add_running(r.sum);
  unit.squares = statistics_add_running(r.squares);
  for (int k = 1; k < UNIT_SUMS / VECTOR; k++) {
    r.min[0] = CHOOSE(r.min[k] < r.min[0], r.min[k], r.min[0]);
    r.max[0] = CHOOSE(r.max[k] > r.max[0], r.max[k], r.max[0]);
  }
  for (int lane = 0; lane < VECTOR; lane++) {
    unit.min = fminf(unit.min, r.min[0][lane]);
    unit.max = fmaxf(unit.max, r.max[0][lane]);
  }
  return unit;
}

static int64_t statistics_share_begin(int64_t n, int part, int parts) {
  return n / parts * part + n % parts * part / parts;
}

void statistics_host_units(const void *args, int part, int parts) {
  const statistics_args *a = args;
  unit_adder *add = HOST_ISA_OF(statistics_add_unit);
  int64_t units = units_of_plane(a->field.nx, a->field.ny) * a->field.nz;
  int64_t begin = statistics_share_begin(units, part, parts),
          end = statistics_share_begin(units, part + 1, parts);
  for (int64_t i = begin; i < end; i++) a->units[i] = statistics_measure_unit(&a->field, i, add);
}

/* --- planes ------------------------------------------------------------------------------------------------------ */

static partial_statistics statistics_measure_plane(const partial_statistics *units, int64_t count) {
  double sum[LANES] = {0}, squares[LANES] = {0};
  partial_statistics plane = statistics_of_nothing();
  for (int64_t i = 0; i < count; i++) {
    sum[i % LANES] += units[i].sum;
    squares[i % LANES] += units[i].squares;
    statistics_add(&plane, &units[i], 0); /* except the sums, which have another order */
  }
  plane.sum = statistics_add_tree(sum);
  plane.squares = statistics_add_tree(squares);
  return plane;
}

void statistics_host_planes(const void *args, int part, int parts) {
  const statistics_args *a = args;
  int64_t count = units_of_plane(a->field.nx, a->field.ny);
  int64_t begin = statistics_share_begin(a->field.nz, part, parts),
          end = statistics_share_begin(a->field.nz, part + 1, parts);
  for (int64_t z = begin; z < end; z++) a->planes[z] = statistics_measure_plane(a->units + z * count, count);
}

/* --- histogram --------------------------------------------------------------------------------------------------- */

void histogram_host_clear(const void *args, int part, int parts) {
  const histogram_args *a = args;
  (void)parts;
  if (part == 0) memset(a->counts, 0, (size_t)a->bins * sizeof *a->counts);
}

void histogram_host(const void *args, int part, int parts) {
  const histogram_args *a = args;
  const field_view *f = &a->field;
  uint64_t mine[HISTOGRAM_BINS] = {0};
  int64_t rows = (int64_t)f->nz * f->ny, end = statistics_share_begin(rows, part + 1, parts);
  for (int64_t i = statistics_share_begin(rows, part, parts); i < end; i++) {
    const float *row = f->points + (size_t)(i / f->ny) * f->plane + (size_t)(i % f->ny) * f->pitch;
    for (int x = 0; x < f->nx; x++)
      if (statistics_is_finite(row[x])) mine[histogram_bin(a, row[x])]++;
  }
  for (int i = 0; i < a->bins; i++) __atomic_fetch_add(&a->counts[i], mine[i], __ATOMIC_RELAXED);
}

/* --- quantiles --------------------------------------------------------------------------------------------------- */

int quantile_percent(int i) {
  static const int percents[QUANTILES] = {1, 5, 50, 95, 99};
  return percents[i];
}

void quantile_name(int i, char name[8]) {
  snprintf(name, 8, "q%02d", quantile_percent(i));
}

void statistics_find_quantiles(field_statistics *s) {
  const double low = s->all.min, width = (double)s->all.max - low;
  const uint64_t points = s->points - s->all.nonfinite;
  uint64_t before = 0;
  for (int bin = 0; bin < s->bins; before += s->histogram[bin++])
    for (int i = 0; i < QUANTILES; i++) {
      const double count = (double)s->histogram[bin],
                   wanted = (double)(points * (uint64_t)quantile_percent(i)) / 100.0,
                   into = wanted - (double)before;
      if (into > 0 && wanted <= (double)(before + s->histogram[bin]))
        s->quantiles[i] = low + (bin + into / count) / s->bins * width;
    }
}
