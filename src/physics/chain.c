#include "chain.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"

/* One rank's part of the rule. With beta = 1 / (rho v^2), averaged, v_f^2 = 1 / (rho_f beta_f):
 *   dJ/dv = (average^T of (dJ/dv_f v_f^3 rho_f)) / (rho v^3),   dJ/dv_f = 2 / v_f times the sum
 * The transpose of averaging is averaging, between a division by and a product with the weights of points: 1/2 for each face
 * that reflects. */
typedef struct chain {
  const config *config;
  const files *files;
  const field_io *io;
  model model;
  size_t plane;   /* points */
  float *v, *rho; /* own planes; rho over its greatest, NULL: 1 */
  double *x;      /* own planes, and one before and after */
} chain;

static void *chain_alloc(size_t count, size_t size, error *e) {
  void *memory = calloc(count, size);
  if (!memory) FAIL(e, OUT_OF_MEMORY, count * size, "the gradient");
  return memory;
}

/* --- rho ---------------------------------------------------------------------------------------------------------- */

/* Index i of an axis, or that of the point whose density it has: at the inner edge of a layer. */
static int chain_settled(const config *c, int axis, int i) {
  const int n = config_axis_of(c, axis).points, lo = config_layer_width(c, (enum face)(2 * axis)),
            hi = n - 1 - config_layer_width(c, (enum face)(2 * axis + 1));
  return i < lo ? lo : i > hi ? hi : i;
}

/* Fills own planes in the layer of one face along z from the plane at its inner edge, which some rank has. */
static int chain_settle_planes(chain *h, int edge, zrange layer, error *e) {
  const slab *s = h->io->slab;
  int owner = 0;
  if (zrange_planes(layer) == 0) return 0;
  while (slab_first_plane(s, owner + 1) <= edge) owner++;
  float *from = chain_alloc(h->plane, sizeof *from, e);
  TRY(error_agree(e, h->files->compute));
  if (owner == s->rank) memcpy(from, h->rho + (size_t)(edge - s->z0) * h->plane, h->plane * sizeof *from);
  const int rc = MPI_Bcast(from, (int)h->plane, MPI_FLOAT, owner, h->files->compute);
  for (int z = larger(layer.begin, s->z0); z < smaller(layer.end, s->z0 + s->nz); z++)
    memcpy(h->rho + (size_t)(z - s->z0) * h->plane, from, h->plane * sizeof *from);
  free(from);
  MPI_TRY(e, rc);
  return 0;
}

static int chain_settle(chain *h, error *e) {
  const config *c = h->config;
  const slab *s = h->io->slab;
  const int lo = config_layer_width(c, FACE_Z_LO), hi = config_layer_width(c, FACE_Z_HI), n = s->nz_global;
  float *plane = chain_alloc(h->plane, sizeof *plane, e);
  TRY(error_agree(e, h->files->compute));
  for (int z = 0; z < s->nz; z++) {
    float *to = h->rho + (size_t)z * h->plane;
    memcpy(plane, to, h->plane * sizeof *plane);
    for (int y = 0; y < s->ny; y++)
      for (int x = 0; x < s->nx; x++)
        to[(size_t)y * (size_t)s->nx + (size_t)x] =
            plane[(size_t)chain_settled(c, 1, y) * (size_t)s->nx + (size_t)chain_settled(c, 0, x)];
  }
  free(plane);
  TRY(chain_settle_planes(h, lo, (zrange){0, lo}, e));
  return chain_settle_planes(h, n - 1 - hi, (zrange){n - hi, n}, e);
}

/* --- averaging ---------------------------------------------------------------------------------------------------- */

static double chain_weight(const config *c, int axis, int i) {
  const bool lo = i == 0 && config_reflects(c, (enum face)(2 * axis)),
             hi = i == config_axis_of(c, axis).points - 1 && config_reflects(c, (enum face)(2 * axis + 1));
  return (lo ? 0.5 : 1) * (hi ? 0.5 : 1);
}

/* Averages n values `apart` floats apart. What lies beyond: low[0] and high[0], or where these are NULL what the axis' ends
 * say. */
static void chain_average(double *x, int n, size_t apart, const config *c, int axis) {
  const bool wraps = config_axis_of(c, axis).periodic;
  const bool even[2] = {config_reflects(c, (enum face)(2 * axis)),
                        config_reflects(c, (enum face)(2 * axis + 1))};
  const double first = x[0], last = x[(size_t)(n - 1) * apart];
  double before = wraps ? last : even[0] ? x[apart] : first;
  const double after = wraps ? first : even[1] ? x[(size_t)(n - 2) * apart] : last;
  for (int i = 0; i < n; i++) {
    double *at = x + (size_t)i * apart;
    const double here = *at, next = i + 1 < n ? at[apart] : after;
    *at = (before + 22 * here + next) / 24;
    before = here;
  }
}

/* The planes before and after the slab's own, from the neighbours or the ends of the grid. */
static int chain_exchange(chain *h, error *e) {
  const slab *s = h->io->slab;
  const size_t own = h->plane, bytes = own * sizeof *h->x;
  double *first = h->x + own, *last = h->x + (size_t)s->nz * own, *after = last + own;
  const bool wraps = h->config->boundary[FACE_Z_LO] == BOUNDARY_PERIODIC;
  const int lower = s->lower == SLAB_NO_RANK ? MPI_PROC_NULL : s->lower,
            upper = s->upper == SLAB_NO_RANK ? MPI_PROC_NULL : s->upper;
  const bool even[2] = {config_reflects(h->config, FACE_Z_LO), config_reflects(h->config, FACE_Z_HI)};
  MPI_TRY(e, MPI_Sendrecv(first, (int)own, MPI_DOUBLE, lower, 0, after, (int)own, MPI_DOUBLE, upper, 0,
                          h->files->compute, MPI_STATUS_IGNORE));
  MPI_TRY(e, MPI_Sendrecv(last, (int)own, MPI_DOUBLE, upper, 1, h->x, (int)own, MPI_DOUBLE, lower, 1,
                          h->files->compute, MPI_STATUS_IGNORE));
  if (lower == MPI_PROC_NULL) memcpy(h->x, wraps ? last : even[0] ? first + own : first, bytes);
  if (upper == MPI_PROC_NULL) memcpy(after, wraps ? first : even[1] ? last - own : last, bytes);
  return 0;
}

static int chain_average_all(chain *h, error *e) {
  const config *c = h->config;
  const slab *s = h->io->slab;
  const size_t nx = (size_t)s->nx;
  TRY(chain_exchange(h, e));
  for (size_t i = 0; i < h->plane; i++) {
    double before = h->x[i];
    for (int z = 1; z <= s->nz; z++) {
      double *at = h->x + (size_t)z * h->plane + i;
      const double here = *at;
      *at = (before + 22 * here + at[h->plane]) / 24;
      before = here;
    }
  }
  for (int z = 1; z <= s->nz; z++) {
    double *own = h->x + (size_t)z * h->plane;
    for (size_t x = 0; x < nx && s->ny > 1; x++) chain_average(own + x, s->ny, nx, c, 1);
    for (int y = 0; y < s->ny && s->nx > 1; y++) chain_average(own + (size_t)y * nx, s->nx, 1, c, 0);
  }
  return 0;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static double chain_weight_of(const chain *h, size_t i) {
  const slab *s = h->io->slab;
  const int x = (int)(i % (size_t)s->nx), y = (int)(i / (size_t)s->nx % (size_t)s->ny),
            z = s->z0 + (int)(i / h->plane);
  return chain_weight(h->config, 0, x) * chain_weight(h->config, 1, y) * chain_weight(h->config, 2, z);
}

static int chain_through_averages(chain *h, float *gradient, error *e) {
  const model *m = &h->model;
  const size_t points = h->plane * (size_t)h->io->slab->nz;
  for (size_t i = 0; i < points; i++) {
    const double v = m->velocity[i], sigma = m->sigma ? (double)m->sigma[RADIUS * h->plane + i] : 1;
    h->x[h->plane + i] = 2 * gradient[i] * v * v / (sigma * sigma) / chain_weight_of(h, i);
  }
  TRY(chain_average_all(h, e));
  for (size_t i = 0; i < points; i++) {
    const double v = h->v[i], rho = h->rho ? h->rho[i] / m->density.max : 1;
    gradient[i] = (float)(h->x[h->plane + i] * chain_weight_of(h, i) / (rho * v * v * v));
  }
  return 0;
}

static int chain_open(chain *h, error *e) {
  const size_t points = h->plane * (size_t)h->io->slab->nz;
  medium_range range;
  h->v = chain_alloc(points, sizeof *h->v, e);
  h->x = chain_alloc(points + 2 * h->plane, sizeof *h->x, e);
  if (model_has_density(h->config)) h->rho = chain_alloc(points, sizeof *h->rho, e);
  TRY(error_agree(e, h->files->compute));
  TRY(model_open(&h->model, h->config, h->files, h->io, e));
  model_read(h->v, &range, h->config, MEDIUM_VELOCITY, h->files, h->io, e);
  TRY(error_agree(e, h->files->compute));
  if (!h->rho) return 0;
  model_read(h->rho, &range, h->config, MEDIUM_DENSITY, h->files, h->io, e);
  TRY(error_agree(e, h->files->compute));
  return chain_settle(h, e);
}

int chain_velocity(float *gradient, const config *c, const files *files, const field_io *io, error *e) {
  chain h = {.config = c, .files = files, .io = io, .plane = (size_t)io->slab->nx * (size_t)io->slab->ny};
  const size_t points = h.plane * (size_t)io->slab->nz;
  if (!chain_open(&h, e)) {
    if (c->averaging)
      chain_through_averages(&h, gradient, e);
    else
      for (size_t i = 0; i < points; i++) gradient[i] = (float)(2 * (double)gradient[i] / h.v[i]);
  }
  model_close(&h.model);
  free(h.v);
  free(h.rho);
  free(h.x);
  return error_agree(e, files->compute);
}
