/* Statistics of a field equal those of a plain computation, with the same bits for every number of ranks and threads,
 * on every backend of this machine. */
#include "test.h"
#include "mpi_main.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include "propagator/snapshot.h"
#include "propagator/measure.h"
#include "halo/transfer.h"

typedef struct grid {
  int nx, ny, nz;
} grid;

/* Sizes below and above a unit (1024 x 8 points), its 128 running sums and its 32 lanes; sizes that none of these
 * divides; and enough units for several in a lane. */
static const grid GRIDS[] = {{13, 9, 16},  {5, 3, 19},     {1, 1, 29},    {129, 8, 17},
                             {3, 700, 16}, {1029, 19, 16}, {130, 70, 21}, {2305, 17, 16}};

static size_t points_of(grid g) {
  return (size_t)g.nx * (size_t)g.ny * (size_t)g.nz;
}

/* --- fields: each makes another of random values in [-1, 1) ----------------------------------------------
 */

static void none_is_bad(float *u, size_t n, uint64_t *seed) {
  (void)u, (void)n, (void)seed;
}

static void first_is_bad(float *u, size_t n, uint64_t *seed) {
  (void)n, (void)seed;
  u[0] = NAN;
}

static void last_is_bad(float *u, size_t n, uint64_t *seed) {
  (void)seed;
  u[n - 1] = -INFINITY;
}

static size_t somewhere(size_t n, uint64_t *seed) {
  return (size_t)((0.5 + 0.5 * (double)test_random(seed)) * (double)n);
}

static void some_are_bad(float *u, size_t n, uint64_t *seed) {
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < 5; i++) u[somewhere(n, seed)] = bad[i % 3];
}

static void one_in_ten_is_bad(float *u, size_t n, uint64_t *seed) {
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < n; i++)
    if (test_random(seed) < -0.8f) u[i] = bad[i % 3];
}

static void upper_half_is_bad(float *u, size_t n, uint64_t *seed) {
  (void)seed;
  for (size_t i = n / 2; i < n; i++) u[i] = NAN;
}

static void all_are_bad(float *u, size_t n, uint64_t *seed) {
  (void)seed;
  for (size_t i = 0; i < n; i++) u[i] = NAN;
}

/* All that float32 can hold: sums of such numbers differ with every change of their order. */
static void wide_range(float *u, size_t n, uint64_t *seed) {
  for (size_t i = 0; i < n; i++) u[i] = ldexpf(u[i], (int)(138 * (test_random(seed) - 0.08f)));
  u[n / 2] = FLT_MAX;
  u[n / 3] = FLT_TRUE_MIN;
}

/* The least value is a zero, of either sign at many points. */
static void zeros(float *u, size_t n, uint64_t *seed) {
  for (size_t i = 0; i < n; i++)
    if (u[i] < 0) u[i] = test_random(seed) < 0 ? -0.0f : 0.0f;
}

typedef void field_maker(float *u, size_t n, uint64_t *seed);
static field_maker *const MAKERS[] = {none_is_bad,  first_is_bad,      last_is_bad,
                                      some_are_bad, one_in_ten_is_bad, upper_half_is_bad,
                                      all_are_bad,  wide_range,        zeros};
static const int BINS[] = {7, 0, 64, HISTOGRAM_BINS, 1};
enum { MAKER_COUNT = sizeof MAKERS / sizeof *MAKERS, BINS_COUNT = sizeof BINS / sizeof *BINS };

/* --- measuring -------------------------------------------------------------------------------------------
 */

/* A result that outlives its measurement. */
typedef struct measured {
  field_statistics s;
  uint64_t histogram[HISTOGRAM_BINS];
} measured;

/* The same of a copy in host memory, which begins at the first ghost of plane 0: not on a line. */
static void measure_copy(device *dev, const slab *s, MPI_Comm comm, const float *field, const measured *m) {
  measure v;
  size_t floats = (size_t)s->nz * s->plane, bytes = floats * sizeof(float);
  float *copy = malloc(bytes);
  field_statistics again = {.step = 79};
  assert_non_null(copy);
  const copy_args planes = {copy, field + slab_offset(s, 0, -RADIUS, -RADIUS), bytes, COPY_TO_HOST};
  OK(dev->table->copy(dev, STREAM_INTERIOR, &planes, &E));
  OK(dev->table->sync(dev, STREAM_INTERIOR, &E));
  OK(measure_open(&v, NULL, s, comm, m->s.bins, &E));
  OK(measure_field(&v, snapshot_points(s, copy), true, &again, &E));
  assert_memory_equal(&again.all, &m->s.all, sizeof again.all);
  assert_true(again.bins == m->s.bins && again.points == m->s.points);
  for (int i = 0; i < again.bins; i++) assert_int_equal(again.histogram[i], m->histogram[i]);
  if (again.bins) assert_memory_equal(again.quantiles, m->s.quantiles, sizeof again.quantiles);
  measure_close(&v);
  free(copy);
}

/* Measures the dense field `u` divided among the ranks of `comm`. Ghosts and padding hold NaN. */
static void measure_on(device *dev, MPI_Comm comm, grid g, const float *u, int bins, measured *m) {
  slab s;
  measure v;
  transfer t;
  int me, of;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &of);
  OK(slab_init(&s, &(slab_shape){.nx = g.nx, .ny = g.ny, .nz = g.nz}, me, of, &E));
  OK(transfer_open(&t, dev, &s, (float[FACE_COUNT]){NAN, NAN, NAN, NAN, NAN, NAN}, &E));
  size_t bytes = slab_floats(&s) * sizeof(float);
  OK(dev->table->alloc(dev, (void **)&t.field, bytes, MEMORY_DEVICE, &E));
  OK(transfer_to_device(&t, 0, s.nz, (float *)(uintptr_t)u + (size_t)s.z0 * (size_t)g.nx * (size_t)g.ny, &E));
  OK(measure_open(&v, dev, &s, comm, bins, &E));
  m->s.step = 77;
  OK(measure_field(&v, t.field + slab_offset(&s, 0, 0, 0), true, &m->s, &E));
  if (m->s.bins) memcpy(m->histogram, m->s.histogram, (size_t)bins * sizeof *m->histogram);
  field_statistics again = {.step = 78}; /* nothing is left over from the time before, and no histogram */
  OK(measure_field(&v, t.field + slab_offset(&s, 0, 0, 0), false, &again, &E));
  assert_memory_equal(&again.all.sum, &m->s.all.sum, sizeof again.all.sum);
  assert_true(again.all.nonfinite == m->s.all.nonfinite && again.bins == 0 && again.step == 78);
  measure_close(&v);
  measure_copy(dev, &s, comm, t.field, m);
  OK(dev->table->free(dev, t.field, MEMORY_DEVICE, &E));
  transfer_close(&t);
}

/* --- the obvious computation ------------------------------------------------------------------------------
 */

static void check_sums(const float *u, size_t n, const field_statistics *s) {
  long double sum = 0, squares = 0, absolute = 0;
  float min = INFINITY, max = -INFINITY;
  uint64_t bad = 0;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(u[i])) {
      if (bad++) continue;
      assert_int_equal(nonfinite_index(s->all.first), i);
      assert_string_equal(nonfinite_name(s->all.first), isnan(u[i]) ? "NaN" : u[i] > 0 ? "Inf" : "-Inf");
      continue;
    }
    sum += u[i];
    absolute += fabsl(u[i]);
    squares += (long double)u[i] * u[i];
    min = fminf(min, u[i]);
    max = fmaxf(max, u[i]);
  }
  assert_int_equal(s->points, n);
  assert_int_equal(s->all.nonfinite, bad);
  assert_true(s->all.min == min && s->all.max == max && !(min == 0 && signbit(s->all.min)));
  assert_true(fabsl(s->all.sum - sum) <= 1e-13L * absolute);
  assert_true(fabsl(s->all.squares - squares) <= 1e-13L * squares);
  assert_true(fabsl(statistics_l2(s) - sqrtl(squares)) <= 1e-13L * sqrtl(squares));
  assert_true(fabsl(statistics_mean(s) * (double)(n - bad) - sum) <= 1e-12L * absolute);
}

/* The order of statistics.h, one point after the other; sums of the values or, for power 2, of their squares.
 */
static double ordered_tree(double sums[32]) {
  for (int n = 16; n > 0; n /= 2)
    for (int i = 0; i < n; i++) sums[i] += sums[i + n];
  return sums[0];
}

static double ordered_unit(grid g, const float *plane, int y_begin, int x_begin, int power) {
  double sums[UNIT_SUMS] = {0}, lanes[32];
  for (int x = x_begin; x < g.nx && x < x_begin + UNIT_WIDTH; x++)
    for (int y = y_begin; y < g.ny && y < y_begin + UNIT_HEIGHT; y++) {
      double u = plane[y * g.nx + x];
      if (isfinite(u)) sums[x % UNIT_SUMS] += power == 2 ? u * u : u;
    }
  for (int i = 0; i < 32; i++)
    lanes[i] = (sums[4 * i] + sums[4 * i + 1]) + (sums[4 * i + 2] + sums[4 * i + 3]);
  return ordered_tree(lanes);
}

static double ordered_sum(grid g, const float *u, int power) {
  double total = 0;
  for (int z = 0; z < g.nz; z++, u += g.nx * g.ny) {
    double lanes[32] = {0};
    int unit = 0;
    for (int y = 0; y < g.ny; y += UNIT_HEIGHT)
      for (int x = 0; x < g.nx; x += UNIT_WIDTH) lanes[unit++ % 32] += ordered_unit(g, u, y, x, power);
    total += ordered_tree(lanes);
  }
  return total;
}

static void check_histogram(const float *u, size_t n, int bins, const measured *m) {
  static uint64_t expected[HISTOGRAM_BINS];
  double low = m->s.all.min, high = m->s.all.max;
  memset(expected, 0, sizeof expected);
  assert_int_equal(m->s.bins, m->s.all.nonfinite < n ? bins : 0);
  if (m->s.bins == 0) return;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(u[i])) continue;
    double bin = floor((u[i] - low) * (high > low ? bins / (high - low) : 0));
    expected[bin < bins ? (int)bin : bins - 1]++;
  }
  assert_memory_equal(m->histogram, expected, (size_t)bins * sizeof *expected);
}

static int ascending(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* A quantile lies in the bin of the value that p % of all do not exceed. Within the bin its place is linear in the
 * number of values. */
static void check_quantiles(const float *u, size_t n, const measured *m) {
  static const int percents[QUANTILES] = {1, 5, 50, 95, 99};
  const double low = m->s.all.min, width = (m->s.all.max - low) / (m->s.bins ? m->s.bins : 1);
  size_t finite = 0;
  if (m->s.bins == 0) return;
  float *sorted = malloc(n * sizeof *sorted);
  for (size_t i = 0; i < n; i++)
    if (isfinite(u[i])) sorted[finite++] = u[i];
  qsort(sorted, finite, sizeof *sorted, ascending);
  for (int i = 0; i < QUANTILES; i++) {
    const double wanted = (double)finite * percents[i] / 100;
    const float value = sorted[(size_t)ceil(wanted) - 1];
    const double place = width > 0 ? floor((value - low) / (m->s.all.max - low) * m->s.bins) : 0,
                 bin = fmin(place, m->s.bins - 1);
    uint64_t before = 0;
    for (int k = 0; k < (int)bin; k++) before += m->histogram[k];
    const double part = (wanted - (double)before) / (double)m->histogram[(int)bin];
    assert_true(part > 0 && part <= 1);
    assert_true(fabs(m->s.quantiles[i] - (low + (bin + part) * width)) <= 1e-14 * m->s.bins * width);
  }
  free(sorted);
}

static void check_same_bits(const measured *a, const measured *b) {
  assert_int_equal(a->s.step, b->s.step);
  assert_int_equal(a->s.points, b->s.points);
  assert_memory_equal(&a->s.all, &b->s.all, sizeof a->s.all);
  assert_int_equal(a->s.bins, b->s.bins);
  if (a->s.bins) assert_memory_equal(a->histogram, b->histogram, (size_t)a->s.bins * sizeof *a->histogram);
  if (a->s.bins) assert_memory_equal(a->s.quantiles, b->s.quantiles, sizeof a->s.quantiles);
}

static device *open_device(const char *backend, int threads) {
  const device_options options = {.local_rank = rank, .local_ranks = ranks, .threads = threads};
  device *dev;
  OK(device_open(backend, &options, &dev, &E));
  return dev;
}

/* First the whole field on one thread of the host, against a plain computation; then on `backend`, whole and
 * divided. */
static void one_field(device *plain, device *tested, grid g, int number) {
  static measured expected, found;
  size_t n = points_of(g);
  float *u = malloc(n * sizeof *u);
  uint64_t seed = 1000 + (uint64_t)number + 31 * n;
  for (size_t i = 0; i < n; i++) u[i] = test_random(&seed);
  MAKERS[number % MAKER_COUNT](u, n, &seed);
  int bins = BINS[number % BINS_COUNT];
  measure_on(plain, MPI_COMM_SELF, g, u, bins, &expected);
  check_sums(u, n, &expected.s);
  check_histogram(u, n, bins, &expected);
  check_quantiles(u, n, &expected);
  assert_true(expected.s.all.sum == ordered_sum(g, u, 1) && expected.s.all.squares == ordered_sum(g, u, 2));
  measure_on(tested, MPI_COMM_SELF, g, u, bins, &found);
  check_same_bits(&expected, &found);
  measure_on(tested, MPI_COMM_WORLD, g, u, bins, &found);
  check_same_bits(&expected, &found);
  free(u);
}

TEST_OF(all_fields, const char *backend) {
  device *plain = open_device("host", 1), *tested = open_device(backend, 3);
  /* A checker of every access is slow: fewer points for it. */
#if defined __SANITIZE_THREAD__
  int grids = 5;
#else
  int grids = getenv("STENCIL_TEST_SMALL") ? 5 : (int)(sizeof GRIDS / sizeof *GRIDS);
#endif
  for (int i = 0; i < grids; i++)
    for (int k = 0; k < MAKER_COUNT; k++) one_field(plain, tested, GRIDS[i], i * (MAKER_COUNT + 1) + k);
  plain->table->close(plain);
  tested->table->close(tested);
}

MPI_MAIN
