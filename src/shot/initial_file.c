/* Finds the part of a field's energy in short waves along an axis. The points of each plane across the axis are summed
 * with random weights, so that waves do not cancel. On average over the weights the spectrum of the sums is the
 * field's. The field is read once. */
#include "initial_file.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "base/numbers.h"

enum {
  SETS = 2,   /* sets of random weights: results are the mean over them */
  REACH = 12, /* points to each side that the filter for short waves uses */
  RIM = 4,    /* points at an end that do not count, since waves may bend there */
};
static const double PI = 3.14159265358979323846;

/* A number of each set. */
typedef double initial_file_sets __attribute__((vector_size(SETS * sizeof(double)), aligned(8), may_alias));

typedef struct initial_file {
  const slab *slab;
  field_sink *sink;
  void *context;
  int points[3];              /* x y z, of the grid given */
  int before[3];              /* points of the computation before the given ones */
  initial_file_sets *sums[3]; /* points[axis] sums along each axis; owned; all lie in one array, sums[0] */
  pthread_mutex_t lock;       /* of the sums along x and y */
} initial_file;

/* A random number from -1 to 1. */
static initial_file_sets initial_file_weights(int axis, int index) {
  initial_file_sets weights = {0};
  const uint64_t bits = mix64((uint64_t)index * 3 + (uint64_t)axis);
  for (int set = 0; set < SETS; set++) weights[set] = (double)(uint32_t)(bits >> 32 * set) * 0x1p-31 - 1;
  return weights;
}

/* Adds a plane to the sums along x and y, and to *own, the sum of the plane. weights: one set for each x. */
static void initial_file_add_plane(initial_file_sets *own, const float *u, int z, const initial_file *r,
                                   initial_file_sets *along, const initial_file_sets *weights) {
  const initial_file_sets of_z = initial_file_weights(2, z);
  const int *points = r->points;
  *own = (initial_file_sets){0};
  for (int y = 0; y < points[1]; y++, u += r->slab->nx) {
    const initial_file_sets of_y = initial_file_weights(1, y), of_row = of_y * of_z;
    initial_file_sets across = {0};
    for (int x = 0; x < points[0]; x++) {
      along[x] += of_row * (double)u[x];
      across += weights[x] * (double)u[x];
    }
    along[points[0] + y] += of_z * across;
    *own += of_y * across;
  }
}

/* A field_sink. */
static int initial_file_take(void *context, int z, int planes, float *values, error *e) {
  initial_file *r = context;
  const int nx = r->points[0], count = nx + r->points[1], row = r->slab->nx;
  const size_t plane = (size_t)row * (size_t)r->slab->ny,
               first = (size_t)r->before[1] * (size_t)row + (size_t)r->before[0];
  initial_file_sets *along, *weights;
  TRY(ALLOC(e, along, count + nx, "the spectrum of the initial field"));
  weights = along + count;
  for (int x = 0; x < nx; x++) weights[x] = initial_file_weights(0, x);
  for (int i = 0; i < planes; i++) {
    const int at = r->slab->z0 + z + i - r->before[2];
    if (at < 0 || at >= r->points[2]) continue;
    initial_file_add_plane(&r->sums[2][at], values + (size_t)i * plane + first, at, r, along, weights);
  }
  pthread_mutex_lock(&r->lock);
  for (int i = 0; i < count; i++) r->sums[0][i] += along[i];
  pthread_mutex_unlock(&r->lock);
  free(along);
  return r->sink(r->context, z, planes, values, e);
}

/* Number i of n; beyond an end the numbers continue as their point reflection. */
static initial_file_sets initial_file_beyond(const initial_file_sets *u, int n, int i) {
  if (i < 0) return 2 * u[0] - u[-i];
  if (i < n) return u[i];
  return 2 * u[n - 1] - u[2 * (n - 1) - i];
}

/* The part of the energy of n numbers that passes a filter for short waves: half at 3.5 points, 4e-4 at 4.5. */
static double initial_file_measure(const initial_file_sets *u, int n) {
  const double CUT = 0.55; /* of the highest frequency */
  double taps[REACH + 1], sum = 0, all = 0, high = 0;
  for (int i = 0; i <= REACH; i++) {
    taps[i] = (i ? sin(PI * CUT * i) / (PI * i) : CUT) * (0.54 + 0.46 * cos(PI * i / (REACH + 1)));
    sum += (i ? 2 : 1) * taps[i];
  }
  for (int i = 0; i < n && n > REACH; i++) {
    initial_file_sets low = taps[0] * u[i];
    for (int k = 1; k <= REACH; k++)
      low += taps[k] * (initial_file_beyond(u, n, i - k) + initial_file_beyond(u, n, i + k));
    const initial_file_sets rest = u[i] - low / sum;
    for (int set = 0; set < SETS; set++) {
      all += u[i][set] * u[i][set];
      if (i >= RIM && i < n - RIM) high += rest[set] * rest[set];
    }
  }
  return all > 0 ? high / all : 0;
}

static void initial_file_tell(const initial_file *r, const shot *s) {
  const double MUCH = 4e-4; /* of a gaussian of 1.43 points */
  double worst = 0;
  int along = 0;
  for (int axis = 0; axis < 3; axis++) {
    const double part = initial_file_measure(r->sums[axis], r->points[axis]);
    if (part > worst) worst = part, along = axis;
  }
  char text[256] = "";
  if (worst > MUCH)
    snprintf(text, sizeof text,
             "warning: %.2g %% of the field's energy is in waves of fewer than 4 points per wavelength along "
             "%c, which the grid distorts: smooth it, or take a smaller spacing",
             100 * worst, "xyz"[along]);
  io_access_log(s->engine->io.access, s->config->initial_file, text);
}

int initial_file_read(const shot *s, field_sink *sink, void *context, error *e) {
  const engine *g = s->engine;
  const char *file = s->config->initial_file;
  const config *c = s->config;
  initial_file r = {g->io.slab, sink, context, {c->nx, c->ny, c->nz}, {0}, {NULL}, PTHREAD_MUTEX_INITIALIZER};
  const int count = c->nx + c->ny + c->nz;
  if (!equation_has(s->config->equation, HAS_SOURCES))
    return engine_read_field(g, file, QUANTITY_NONE, sink, context, e);
  ALLOC(e, r.sums[0], count, "the spectrum of the initial field");
  TRY(error_agree(e, g->comm));
  for (int axis = 0; axis < 3; axis++) r.before[axis] = config_beyond(c, (enum face)(2 * axis));
  for (int axis = 1; axis < 3; axis++) r.sums[axis] = r.sums[axis - 1] + r.points[axis - 1];
  if (!engine_read_field(g, file, QUANTITY_NONE, initial_file_take, &r, e) &&
      !error_from_mpi(e, mpi_reduce_all(r.sums[0], SETS * count, MPI_DOUBLE, MPI_SUM, g->comm),
                      "MPI_Allreduce"))
    initial_file_tell(&r, s);
  free(r.sums[0]);
  return error_agree(e, g->comm);
}
