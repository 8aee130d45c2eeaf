#include "chain.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"

static const char CHAIN[] = "the gradient"; /* what memory is for */

/* --- averaging ---------------------------------------------------------------------------------------------------- */

static double chain_weight(const density_axis *a, int i) {
  const bool lo = i == 0 && a->end[0] == DENSITY_EVEN, hi = i == a->points - 1 && a->end[1] == DENSITY_EVEN;
  return (lo ? 0.5 : 1) * (hi ? 0.5 : 1);
}

/* Averages n values, `apart` floats apart, between those before and after them. */
static void chain_average(double *x, size_t apart, int n, double before, double after) {
  for (int i = 0; i < n; i++) {
    double *at = x + (size_t)i * apart;
    const double here = *at, next = i + 1 < n ? at[apart] : after;
    *at = (before + 22 * here + next) / 24;
    before = here;
  }
}

/* The same of all points of an axis. */
static void chain_average_axis(double *x, size_t apart, const density_axis *a) {
  const size_t before = (size_t)density_inside(a, -1), after = (size_t)density_inside(a, a->points);
  if (a->points > 1) chain_average(x, apart, a->points, x[before * apart], x[after * apart]);
}

/* The planes before and after the slab's own, from the neighbours or, at the ends of the grid, its own. */
static int chain_exchange(const chain *h, double *x, error *e) {
  const slab *s = h->io->slab;
  const density_axis *az = &h->axis[2];
  const int points = (int)h->plane;
  double *first = x + h->plane, *last = x + (size_t)s->nz * h->plane, *after = last + h->plane;
  const int lower = s->lower == SLAB_NO_RANK ? MPI_PROC_NULL : s->lower,
            upper = s->upper == SLAB_NO_RANK ? MPI_PROC_NULL : s->upper;
  MPI_TRY(e, MPI_Sendrecv(first, points, MPI_DOUBLE, lower, 0, after, points, MPI_DOUBLE, upper, 0,
                          h->files->compute, MPI_STATUS_IGNORE));
  MPI_TRY(e, MPI_Sendrecv(last, points, MPI_DOUBLE, upper, 1, x, points, MPI_DOUBLE, lower, 1,
                          h->files->compute, MPI_STATUS_IGNORE));
  const size_t before_first = (size_t)(density_inside(az, -1) - s->z0 + 1),
               after_last = (size_t)(density_inside(az, az->points) - s->z0 + 1);
  if (lower == MPI_PROC_NULL) memcpy(x, x + before_first * h->plane, h->plane * sizeof *x);
  if (upper == MPI_PROC_NULL) memcpy(after, x + after_last * h->plane, h->plane * sizeof *x);
  return 0;
}

/* What several threads do, by planes or rows. x: own planes, and one before and after. */
typedef struct chain_work {
  const chain *h;
  double *x;
  float *gradient;
} chain_work;

/* Averages row y of all planes along z; that of the plane before the first then holds the row before. */
static void chain_average_z(void *context, int y) {
  const chain_work *w = context;
  const size_t plane = w->h->plane, nx = (size_t)w->h->io->slab->nx;
  double *const before = w->x + (size_t)y * nx, *at = before + plane;
  for (int z = 0; z < w->h->io->slab->nz; z++, at += plane)
    for (size_t i = 0; i < nx; i++) {
      const double here = at[i];
      at[i] = (before[i] + 22 * here + at[plane + i]) / 24;
      before[i] = here;
    }
}

/* Averages own plane z along y and x. */
static void chain_average_plane(void *context, int z) {
  const chain_work *w = context;
  const chain *h = w->h;
  const slab *s = h->io->slab;
  const size_t nx = (size_t)s->nx;
  double *own = w->x + (size_t)(z + 1) * h->plane;
  for (size_t i = 0; i < nx; i++) chain_average_axis(own + i, nx, &h->axis[1]);
  for (int y = 0; y < s->ny; y++) chain_average_axis(own + (size_t)y * nx, 1, &h->axis[0]);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static double chain_weight_of(const chain *h, int z, size_t i) {
  const slab *s = h->io->slab;
  return chain_weight(&h->axis[0], (int)(i % (size_t)s->nx)) *
         chain_weight(&h->axis[1], (int)(i / (size_t)s->nx)) * chain_weight(&h->axis[2], s->z0 + z);
}

/* From the gradient to what is averaged, of own plane z. */
static void chain_begin_plane(void *context, int z) {
  const chain_work *w = context;
  const chain *h = w->h;
  const model *m = &h->model;
  const size_t first = (size_t)z * h->plane;
  for (size_t k = 0, i = first; k < h->plane; k++, i++) {
    const double v = m->velocity[i], sigma = m->sigma ? (double)m->sigma[RADIUS * h->plane + i] : 1;
    w->x[h->plane + i] = 2 * w->gradient[i] * v * v / (sigma * sigma) / chain_weight_of(h, z, k);
  }
}

/* And back. */
static void chain_end_plane(void *context, int z) {
  const chain_work *w = context;
  const chain *h = w->h;
  const size_t first = (size_t)z * h->plane;
  for (size_t k = 0, i = first; k < h->plane; k++, i++) {
    const double v = h->given[0][i], rho = h->given[1] ? h->given[1][i] / h->model.density.max : 1;
    w->gradient[i] = (float)(w->x[h->plane + i] * chain_weight_of(h, z, k) / (rho * v * v * v));
  }
}

static int chain_through_averages(const chain *h, float *gradient, error *e) {
  const slab *s = h->io->slab;
  chain_work w = {.h = h, .gradient = gradient};
  ALLOC(e, w.x, ((size_t)s->nz + 2) * h->plane, CHAIN);
  if (!error_agree(e, h->files->compute)) {
    thread_each(h->threads, s->nz, chain_begin_plane, &w);
    chain_exchange(h, w.x, e);
  }
  if (!e->id) {
    thread_each(h->threads, s->ny, chain_average_z, &w);
    thread_each(h->threads, s->nz, chain_average_plane, &w);
    thread_each(h->threads, s->nz, chain_end_plane, &w);
  }
  free(w.x);
  return e->id;
}

int chain_open(chain *h, const config *c, const files *files, const field_io *io, int threads, error *e) {
  const size_t plane = (size_t)io->slab->nx * (size_t)io->slab->ny, points = plane * (size_t)io->slab->nz;
  medium_range range;
  *h = (chain){.averaged = c->averaging, .files = files, .io = io, .plane = plane, .threads = threads};
  if (!model_needed(c)) return 0;
  model_axes(h->axis, c);
  if (h->averaged) {
    model_open(&h->model, c, files, io, h->given, e);
    model_keep_averages(&h->model);
    return e->id;
  }
  ALLOC(e, h->given[0], points, CHAIN);
  TRY(error_agree(e, files->compute));
  model_read(h->given[0], &range, c, MEDIUM_VELOCITY, files, io, e);
  return error_agree(e, files->compute);
}

int chain_velocity(const chain *h, float *gradient, error *e) {
  const size_t points = h->plane * (size_t)h->io->slab->nz;
  if (h->averaged) chain_through_averages(h, gradient, e);
  for (size_t i = 0; !h->averaged && i < points; i++)
    gradient[i] = (float)(2 * (double)gradient[i] / h->given[0][i]);
  return error_agree(e, h->files->compute);
}

void chain_close(chain *h) {
  model_close(&h->model);
  free(h->given[0]);
  free(h->given[1]);
  *h = (chain){.files = NULL};
}
