/* Statistics of a field: sum, sum of squares, least and greatest value, counts of NaN and Inf, a histogram, quantiles.
 *
 * They have the same bits on every device, for every number of ranks and threads and every launch geometry. Least,
 * greatest and counts do not depend on an order. Every float64 sum is formed in one order, which nx and ny determine:
 *
 * - Unit: a plane is cut into units of at most UNIT_WIDTH x UNIT_HEIGHT points. A unit has UNIT_SUMS running
 * sums: its point (y, x) goes into sum x % UNIT_SUMS, those of smaller x first, and of the same x those of smaller y.
 * Neighbouring sums are added four at a time, (0 + 1) + (2 + 3), and the 32 results in a tree: i and i + 16, then i and
 * i + 8, 4, 2, 1.
 *
 * - Plane: has 32 running sums. Unit i of the plane (row by row) goes into sum i % 32; then the same tree.
 *
 * - Field: plane after plane, z growing. A plane lies in one rank, so ranks need only gather their planes.
 *
 * The square of a float32 is exact in float64: fused multiply-add or not, the sum of squares is the same. Points that
 * are not finite count as such and are left out of all else. No sum of float32 values or squares comes near the limits
 * of float64. */
#ifndef STENCIL_STATISTICS_H
#define STENCIL_STATISTICS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  UNIT_WIDTH = 1024,
  UNIT_HEIGHT = 8,
  UNIT_SUMS = 128, /* running sums of a unit: a warp of 32 lanes with four points each */
  QUANTILES = 5,
  HISTOGRAM_BINS = 4096, /* at most */
};

/* Own points of a slab: point (z, y, x) is at z * plane + y * pitch + x. */
typedef struct field_view {
  const float *points; /* own point (0, 0, 0); on a GPU, on a 128-byte line */
  size_t pitch, plane; /* floats; multiples of 32 */
  int nx, ny, nz;
} field_view;

typedef struct partial_statistics {
  double sum, squares; /* over the finite points */
  float min, max;      /* of the finite points; INFINITY and -INFINITY where there are none */
  uint64_t nonfinite;  /* number of points that are NaN or Inf */
  uint64_t first;      /* nonfinite_point of the first of these in order; UINT64_MAX: none */
} partial_statistics;

/* The work of one rank; pointers are to memory of the device or the host that does it. */
typedef struct statistics_args {
  field_view field;
  partial_statistics *units;  /* scratch: units_of_plane(nx, ny) for each of nz planes */
  partial_statistics *planes; /* result: nz; points count from the plane's first */
} statistics_args;

/* A finite value u is in bin histogram_bin(u). */
typedef struct histogram_args {
  field_view field;
  double low, scale; /* bins begin at `low`; scale = bins / (high - low), 0 if high == low */
  int bins;          /* 1 .. HISTOGRAM_BINS */
  uint64_t *counts;  /* result: finite own points in each bin */
} histogram_args;

/* The whole field. */
typedef struct field_statistics {
  int64_t step;
  uint64_t points;
  partial_statistics all;
  int bins; /* of the histogram over [all.min, all.max], the last bin with both ends; 0: none */
  const uint64_t *histogram;   /* owned by whoever measured it, until the next measurement */
  double quantiles[QUANTILES]; /* of the finite values; set where there are bins */
} field_statistics;

#ifdef __CUDACC__
#define STATISTICS_INLINE static __host__ __device__ inline
#else
#define STATISTICS_INLINE static inline
#endif

STATISTICS_INLINE int units_across(int nx) {
  return (nx - 1) / UNIT_WIDTH + 1;
}

STATISTICS_INLINE int64_t units_of_plane(int nx, int ny) {
  return (int64_t)units_across(nx) * ((ny - 1) / UNIT_HEIGHT + 1);
}

/* The place of unit `i` of a slab. All points of a row of units come before those of the next. */
typedef struct unit_place {
  int z, y, x;       /* its first point */
  int width, height; /* points */
} unit_place;

STATISTICS_INLINE unit_place unit_at(const field_view *f, int64_t i) {
  const int64_t of_plane = units_of_plane(f->nx, f->ny), in_plane = i % of_plane;
  const int across = units_across(f->nx);
  unit_place u;
  u.z = (int)(i / of_plane);
  u.y = (int)(in_plane / across) * UNIT_HEIGHT;
  u.x = (int)(in_plane % across) * UNIT_WIDTH;
  u.width = f->nx - u.x < UNIT_WIDTH ? f->nx - u.x : UNIT_WIDTH;
  u.height = f->ny - u.y < UNIT_HEIGHT ? f->ny - u.y : UNIT_HEIGHT;
  return u;
}

/* The greatest value lands on the upper end of the last bin, which is closed. */
STATISTICS_INLINE int histogram_bin(const histogram_args *h, float value) {
  const int bin = (int)(((double)value - h->low) * h->scale);
  return bin < h->bins ? bin : h->bins - 1;
}

/* A point that is not finite, as one number, which ascends with the order of points. index: (z * ny + y) * nx + x. */
STATISTICS_INLINE uint64_t nonfinite_point(uint64_t index, float value) {
  return 4 * index + (value != value ? 0 : value > 0 ? 1 : 2);
}
STATISTICS_INLINE uint64_t nonfinite_index(uint64_t point) {
  return point / 4;
}
/* "NaN", "Inf" or "-Inf". */
static inline const char *nonfinite_name(uint64_t point) {
  static const char *const names[] = {"NaN", "Inf", "-Inf"};
  return names[point % 4];
}

STATISTICS_INLINE partial_statistics statistics_of_nothing(void) {
  const partial_statistics s = {0, 0, INFINITY, -INFINITY, 0, UINT64_MAX};
  return s;
}

/* Adds the statistics of a part of the field, whose points' indices count from point `begin` on. */
STATISTICS_INLINE void statistics_add(partial_statistics *total, const partial_statistics *part,
                                      uint64_t begin) {
  const uint64_t first = part->nonfinite ? part->first + 4 * begin : UINT64_MAX;
  total->sum += part->sum;
  total->squares += part->squares;
  /* + 0 makes 0 of -0: which of two equal zeros is the least depends on the order. */
  total->min = fminf(total->min, part->min) + 0.0f;
  total->max = fmaxf(total->max, part->max) + 0.0f;
  total->nonfinite += part->nonfinite;
  total->first = total->first < first ? total->first : first;
}

/* Quantile i is that of so many percent, "q01" or "q50" in files and reports. */
int quantile_percent(int i);
void quantile_name(int i, char name[8]);

/* Sets the quantiles of the finite values, from their histogram. The values of a bin are taken to lie evenly over it.
 * With n values in `bins` bins of width w / bins from `low` on, and C(i) of them in bins 0 .. i, the p % quantile is
 *
 *   low + (b + (t - C(b - 1)) / (C(b) - C(b - 1))) / bins * w,   t = p n / 100, b the first bin with C(b) >= t
 *
 * in float64, rounded after each operation. So it lies in the bin of the value that p % of all do not exceed. */
void statistics_find_quantiles(field_statistics *s);

/* L2 norm sqrt(sum u^2), not scaled by points or spacing, and mean, over the finite points; 0 if there are
 * none. */
double statistics_l2(const field_statistics *s);
double statistics_mean(const field_statistics *s);

/* The stages of operation_statistics and operation_histogram (operation.h) on the host, each a host_operation. A
 * stage begins when all parts of the one before are done. nz = 0 is allowed. */
void statistics_host_units(const void *args, int part,
                           int parts); /* args: statistics_args, as of the next one */
void statistics_host_planes(const void *args, int part, int parts);
void histogram_host_clear(const void *args, int part,
                          int parts);                       /* args: histogram_args; all of it is part 0 */
void histogram_host(const void *args, int part, int parts); /* adds to the counts */

#ifdef __cplusplus
}
#endif
#endif
