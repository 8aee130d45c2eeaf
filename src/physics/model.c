#include "model.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "fd.h"
#include "outside.h"

static const double TURN = 2 * 3.14159265358979323846;

/* --- reading a medium --------------------------------------------------------------------------------------------- */

/* A medium being read from a file. */
typedef struct model_reader {
  const config *config;
  const medium_row *medium;
  const slab *slab;
  const char *dataset;
  model_target to;
  pthread_mutex_t lock; /* guards the next three */
  float min, max;
  uint64_t digest; /* a sum, so that it does not depend on the partition */
} model_reader;

/* A field_sink. */
static int model_take_values(void *context, int z, int planes, float *values, error *e) {
  model_reader *x = context;
  const config *c = x->config;
  const bool positive = x->medium->field == POSITIVE_SIGN;
  size_t row = (size_t)x->slab->nx, plane = row * (size_t)x->slab->ny;
  uint64_t first = (uint64_t)(x->slab->z0 + z) * plane, digest = 0;
  float min = INFINITY, max = -INFINITY;
  const bool digests = !x->to.next;
  for (size_t i = 0; i < plane * (size_t)planes; i++) {
    float v = values[i];
    if (v < 0 || (positive && v == 0))
      return FAIL(e, MEDIUM_SIGN, x->dataset, x->medium->name, positive ? ">" : ">=", (double)v,
                  config_point_given(c, 2, x->slab->z0 + z + (int)(i / plane)),
                  config_point_given(c, 1, (int)(i % plane / row)), config_point_given(c, 0, (int)(i % row)));
    if (v < min) min = v;
    if (v > max) max = v;
    if (!digests) continue;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    digest += mix64(mix64(first + i) ^ bits);
  }
  if (x->to.to) memcpy(x->to.to + (size_t)z * plane, values, plane * (size_t)planes * sizeof *values);
  pthread_mutex_lock(&x->lock);
  x->min = fminf(x->min, min);
  x->max = fmaxf(x->max, max);
  x->digest += digest;
  pthread_mutex_unlock(&x->lock);
  return x->to.next ? x->to.next(x->to.context, z, planes, values, e) : 0;
}

/* A request_own.take_device. */
static int model_take_device(void *context, const float *values, const float range[2], bool *taken,
                             error *e) {
  model_reader *x = context;
  TRY(x->to.on_device(x->to.context, values, taken, e));
  if (*taken) x->min = range[0], x->max = range[1];
  return 0;
}

enum quantity model_quantity(enum medium which) {
  return (enum quantity)(QUANTITY_OF_MEDIUM + (int)which);
}

int model_read(const model_target *to, medium_range *r, const config *c, enum medium which,
               const files *files, const field_io *io, error *e) {
  const config_medium *given = &c->media[which];
  const size_t points = (size_t)io->slab->nx * (size_t)io->slab->ny * (size_t)io->slab->nz;
  *r = (medium_range){given->number, given->number, 0};
  for (size_t i = 0; to && to->to && !given->file[0] && i < points; i++) to->to[i] = (float)given->number;
  if (!given->file[0]) return 0;
  model_reader x = {c,
                    &MEDIA[which],
                    io->slab,
                    given->file,
                    to ? *to : (model_target){NULL},
                    PTHREAD_MUTEX_INITIALIZER,
                    INFINITY,
                    -INFINITY,
                    0};
  const bool direct = x.to.on_device && !c->boundary_outside;
  const request_own own = {
      .io = io, .sink = model_take_values, .context = &x, .take_device = direct ? model_take_device : NULL};
  const request medium = {FILES_READ_FIELD, .path = given->file, .quantity = model_quantity(which),
                          .own = own};
  TRY(outside_read(files, c, &medium, e));
  float both[2] = {-x.min, x.max};
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_FLOAT, MPI_MAX, files->compute));
  MPI_TRY(e, MPI_Allreduce(&x.digest, &r->digest, 1, MPI_UINT64_T, MPI_SUM, files->compute));
  r->min = -both[0];
  r->max = both[1];
  return 0;
}

/* --- the configuration's media ------------------------------------------------------------------------------------ */

bool model_needed(const config *c) {
  const bool averaged =
      equation_has(c->equation, HAS_TERMS) && c->averaging && c->media[MEDIUM_VELOCITY].file[0];
  return averaged || config_has_terms(c);
}

static size_t model_points(const slab *s) {
  return (size_t)s->nx * (size_t)s->ny * (size_t)s->nz;
}

static int model_take(float **to, const slab *s, int ghosts, error *e) {
  return ALLOC(e, *to, model_points(s) + 2 * (size_t)ghosts * (size_t)s->nx * (size_t)s->ny, "the medium");
}

void model_keep_averages(model *m) {
  free(m->V);
  free(m->loss);
  free(m->kappa);
  m->V = m->loss = NULL;
  m->kappa = NULL;
}

void model_close(model *m) {
  model_keep_averages(m);
  free(m->velocity);
  free(m->sigma);
  m->velocity = m->sigma = NULL;
}

/* --- planes of other ranks ---------------------------------------------------------------------------------------- */

/* Planes on each side of a slab on which the slab's values depend, through sigma in its ghosts and averaging. */
enum { MODEL_NEAR = 2 * RADIUS + 1 };

/* The planes that this rank computes with: its own, and those of other ranks near them. */
typedef struct model_planes {
  const density_axis *z;
  const slab *s;
  MPI_Comm comm;
  const float **at; /* of each plane of the grid; NULL: not here */
  float *others;
} model_planes;

/* The planes of a slab with sigma: its own, and its ghosts with a neighbour. */
static zrange model_extended(const density_axis *z, int begin, int end) {
  const bool wraps = z->end[0] == DENSITY_WRAP;
  return (zrange){wraps ? begin - RADIUS : larger(begin - RADIUS, 0),
                  wraps ? end + RADIUS : smaller(end + RADIUS, z->points)};
}

/* Sends plane of[0] to rank[0] and receives plane of[1] from rank[1] in `place`, where the grid has these planes. */
static int model_hand_on(model_planes *p, const int of[2], const int rank[2], float *place, error *e) {
  const density_axis *z = p->z;
  const int points = p->s->nx * p->s->ny;
  int at[2], who[2];
  for (int i = 0; i < 2; i++) {
    at[i] = density_inside(z, of[i]);
    const bool there = (of[i] >= 0 && of[i] < z->points) || z->end[0] == DENSITY_WRAP;
    who[i] = there && rank[i] != SLAB_NO_RANK ? rank[i] : MPI_PROC_NULL;
  }
  MPI_TRY(e, MPI_Sendrecv(p->at[at[0]], points, MPI_FLOAT, who[0], 0, place, points, MPI_FLOAT, who[1], 0,
                          p->comm, MPI_STATUS_IGNORE));
  if (who[1] != MPI_PROC_NULL) p->at[at[1]] = place;
  return 0;
}

/* Fetches the planes of other ranks, nearest first: each rank forwards the planes that it has. Collective, agreed. */
static int model_planes_open(model_planes *p, const float *own, error *e) {
  const slab *s = p->s;
  const size_t points = (size_t)s->nx * (size_t)s->ny;
  const int end = s->z0 + s->nz;
  ALLOC(e, p->at, s->nz_global, "planes of the medium");
  ALLOC(e, p->others, 2 * MODEL_NEAR * points, "planes of the medium");
  TRY(error_agree(e, p->comm));
  for (int i = 0; i < s->nz; i++) p->at[s->z0 + i] = own + (size_t)i * points;
  float *place = p->others;
  for (int k = 1; k <= MODEL_NEAR && s->ranks > 1; k++, place += 2 * points) {
    const int up[2] = {end - k, s->z0 - k}, down[2] = {s->z0 - 1 + k, end - 1 + k};
    TRY(model_hand_on(p, up, (const int[2]){s->upper, s->lower}, place, e));
    TRY(model_hand_on(p, down, (const int[2]){s->lower, s->upper}, place + points, e));
  }
  return 0;
}

static void model_planes_close(model_planes *p) {
  free(p->others);
  free(p->at);
}

/* --- density ------------------------------------------------------------------------------------------------------ */

/* Fills own planes in a layer along z from the plane at its inner edge, which one rank has. */
static int model_settle_planes(const model_planes *p, float *rho, int edge, zrange layer, float *plane,
                               error *e) {
  const slab *s = p->s;
  const size_t points = (size_t)s->nx * (size_t)s->ny, bytes = points * sizeof *rho;
  int owner = 0;
  if (zrange_planes(layer) == 0) return 0;
  while (slab_first_plane(s, owner + 1) <= edge) owner++;
  if (owner == s->rank) memcpy(plane, rho + (size_t)(edge - s->z0) * points, bytes);
  MPI_TRY(e, MPI_Bcast(plane, (int)points, MPI_FLOAT, owner, p->comm));
  for (int z = larger(layer.begin, s->z0); z < smaller(layer.end, s->z0 + s->nz); z++)
    memcpy(rho + (size_t)(z - s->z0) * points, plane, bytes);
  return 0;
}

typedef struct model_settling {
  const density_axis *axis;
  float *rho;
} model_settling;

/* For thread_each: settles rho in own plane z, along x, then along y. */
static void model_settle_plane(void *context, int z) {
  const model_settling *w = context;
  const density_axis *ax = &w->axis[0], *ay = &w->axis[1];
  const size_t nx = (size_t)ax->points;
  float *plane = w->rho + (size_t)z * nx * (size_t)ay->points;
  for (int y = 0; y < ay->points; y++)
    for (int x = 0; x < ax->points; x++)
      plane[(size_t)y * nx + (size_t)x] = plane[(size_t)y * nx + (size_t)density_settled(ax, x)];
  for (int y = 0; y < ay->points; y++)
    if (density_settled(ay, y) != y)
      memcpy(plane + (size_t)y * nx, plane + (size_t)density_settled(ay, y) * nx, nx * sizeof *plane);
}

/* Sets rho at points of layers to that at their inner edges. Collective, agreed. */
static int model_settle(const model_planes *p, const density_axis axis[3], float *rho, int threads,
                        error *e) {
  const slab *s = p->s;
  const int n = axis[2].points, lo = density_settled(&axis[2], 0), hi = density_settled(&axis[2], n - 1);
  model_settling w = {axis, rho};
  float *plane;
  ALLOC(e, plane, (size_t)s->nx * (size_t)s->ny, "planes of the medium");
  thread_each(threads, s->nz, model_settle_plane, &w);
  if (!error_agree(e, p->comm) && !model_settle_planes(p, rho, lo, (zrange){0, lo}, plane, e))
    model_settle_planes(p, rho, hi, (zrange){hi + 1, n}, plane, e);
  free(plane);
  return e->id;
}

/* Planes of the grid, in `count` parts, which threads compute. */
typedef struct model_work {
  const density_model *from;
  density_fields to;
  zrange all;
  int count;
  atomic_int next; /* part */
  atomic_bool failed;
} model_work;

static void *model_run_parts(void *argument) {
  model_work *w = argument;
  const int planes = zrange_planes(w->all);
  error lack = {0}; /* of memory */
  for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->count;)
    if (density_compute(w->from, w->all.begin + planes * i / w->count,
                        w->all.begin + planes * (i + 1) / w->count, &w->to, &lack))
      w->failed = true;
  return NULL;
}

/* Computes the fields on the threads that compress files. */
static int model_compute(model *m, const density_model *from, const slab *s, int threads, error *e) {
  const int end = s->z0 + s->nz;
  model_work w = {
      .from = from, .to = {s->z0, s->nz, RADIUS, m->sigma, m->V, m->velocity}, .all = {s->z0, end}};
  if (m->sigma) w.all = model_extended(&from->axis[2], s->z0, end);
  w.count = smaller(threads, larger(zrange_planes(w.all) / 16, 1));
  thread_run(w.count, model_run_parts, &w);
  return w.failed ? FAIL(e, OUT_OF_MEMORY, model_points(s) * sizeof *m->velocity, "planes of the density")
                  : 0;
}

void model_axes(density_axis axis[3], const config *c) {
  double w[5];
  fd_weights(c->space_order, w);
  for (int i = 0; i < 3; i++) {
    const config_axis a = config_axis_of(c, i);
    density_axis *to = &axis[i];
    to->points = a.points;
    for (int side = 0; side < 2; side++) {
      const enum face face = (enum face)(2 * i + side);
      to->layers[side] = config_layer_width(c, face);
      to->end[side] = a.periodic ? DENSITY_WRAP : config_reflects(c, face) ? DENSITY_EVEN : DENSITY_EDGE;
    }
    for (int r = 0; r < 5; r++) to->weight[r] = a.spacing > 0 ? w[r] / (a.spacing * a.spacing) : 0;
  }
}

/* Sets axes and numbers. rho is relative to its greatest value, so that sigma is 1 where density is constant. */
static density_model model_density_of(const model *m, const config *c) {
  density_model d = {
      .averaged = c->averaging, .rho = 1, .v = c->media[MEDIUM_VELOCITY].number, .unit = m->density.max};
  model_axes(d.axis, c);
  return d;
}

/* Computes sigma, V and the velocity to step with, from own planes of the given media (model_find). Settles rho.
 * Collective, agreed. */
static int model_find_velocity(model *m, const config *c, const files *files, const slab *s,
                               float *const given[2], error *e) {
  float *const v = given[0], *const rho = given[1];
  density_model d = model_density_of(m, c);
  model_planes of_rho = {&d.axis[2], s, files->compute, NULL, NULL}, of_v = of_rho;
  const int threads = files->access->compressors;
  if (rho && !model_settle(&of_rho, d.axis, rho, threads, e)) model_planes_open(&of_rho, rho, e);
  if (!e->id && c->media[MEDIUM_VELOCITY].file[0]) model_planes_open(&of_v, v, e);
  d.planes_of_rho = of_rho.at, d.planes_of_v = of_v.at;
  if (!e->id) model_compute(m, &d, s, threads, e);
  model_planes_close(&of_rho);
  model_planes_close(&of_v);
  return error_agree(e, files->compute);
}

/* --- the greatest of something ------------------------------------------------------------------------------------ */

typedef struct model_scan {
  const model *m;
  double (*at)(const struct model_scan *w, size_t i); /* the value at point i */
  double sum, slowed;                                 /* parameters of `at` */
  size_t plane;                                       /* points */
  double *greatest;                                   /* of each own plane */
} model_scan;

/* Called by thread_each. */
static void model_scan_plane(void *context, int z) {
  const model_scan *w = context;
  double greatest = 0;
  for (size_t i = (size_t)z * w->plane; i < (size_t)(z + 1) * w->plane; i++) {
    const double here = w->at(w, i);
    if (here > greatest) greatest = here;
  }
  w->greatest[z] = greatest;
}

/* Finds the greatest value on all ranks; at least 0. Collective over files->compute, agreed. */
static int model_find_greatest(model_scan *w, const files *files, const slab *s, double *most, error *e) {
  w->plane = (size_t)s->nx * (size_t)s->ny;
  *most = 0;
  ALLOC(e, w->greatest, s->nz, "planes of the medium");
  TRY(error_agree(e, files->compute));
  thread_each(files->access->compressors, s->nz, model_scan_plane, w);
  for (int z = 0; z < s->nz; z++) *most = fmax(*most, w->greatest[z]);
  free(w->greatest);
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, most, 1, MPI_DOUBLE, MPI_MAX, files->compute));
  return 0;
}

/* --- absorption --------------------------------------------------------------------------------------------------- */

static void model_set_law(model *m, const config *c) {
  const double DECADE = sqrt(10);
  const double reference = TURN * config_reference(c);
  const bool band = c->absorption_band[0] > 0;
  m->law = (loss_law){.reference = reference,
                      .lowest = band ? TURN * c->absorption_band[0] : reference / DECADE,
                      .highest = band ? TURN * c->absorption_band[1] : reference * DECADE,
                      .power = c->absorption_power - 1};
}

/* Converts Q or alpha0 in m->loss to the loss at the reference; the strongest loss determines the law. Collective. */
static int model_find_losses(model *m, const config *c, const files *files, const slab *s, const float *v,
                             error *e) {
  const bool quality = config_has_medium(c, MEDIUM_QUALITY);
  const double COUNTS = 0.1; /* of the strongest loss; weaker ones attenuate little */
  double power, least = INFINITY;
  model_set_law(m, c);
  for (size_t i = 0; i < model_points(s); i++) {
    double loss;
    if (quality)
      relaxation_of_quality(m->loss[i], &loss, &power);
    else
      loss = relaxation_of_attenuation(m->loss[i], c->absorption_power, m->law.reference, v[i]);
    m->loss[i] = (float)loss;
    m->law.loss = fmax(m->law.loss, m->loss[i]);
  }
  if (quality) relaxation_of_quality(m->strength.min, &power, &m->law.power);
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &m->law.loss, 1, MPI_DOUBLE, MPI_MAX, files->compute));
  for (size_t i = 0; i < model_points(s); i++)
    if (m->loss[i] >= COUNTS * m->law.loss) least = fmin(least, m->loss[i]);
  MPI_TRY(e, MPI_Allreduce(&least, &m->law.least, 1, MPI_DOUBLE, MPI_MIN, files->compute));
  return 0;
}

/* Fails with the first own point whose loss no kappa gives. */
static int model_refuse_losses(const model *m, const config *c, const slab *s, double most, error *e) {
  const size_t nx = (size_t)s->nx, ny = (size_t)s->ny;
  for (size_t i = 0; i < model_points(s); i++)
    if (m->loss[i] > most)
      return FAIL(e, MEDIUM_LOSS, (double)m->loss[i], config_point_given(c, 2, s->z0 + (int)(i / nx / ny)),
                  config_point_given(c, 1, (int)(i / nx % ny)), config_point_given(c, 0, (int)(i % nx)),
                  most);
  return 0;
}

int model_fit(model *m, const config *c, const files *files, const slab *s, double dt, error *e) {
  if (!m->absorbs || m->law.loss <= 0) return 0;
  bool carried = relaxation_fit(&m->fit, &m->law, c->mechanisms, dt);
  MPI_TRY(e, MPI_Bcast(&m->fit, sizeof m->fit, MPI_BYTE, 0, files->compute));
  if (!carried) FAIL(e, MEDIUM_BAND, dt, m->law.highest / TURN);
  TRY(error_agree(e, files->compute));
  if (!m->kappa) ALLOC(e, m->kappa, 2 * (MODEL_STEPS + 1), "the losses of the medium");
  m->speed = m->kappa + MODEL_STEPS + 1;
  const double most = relaxation_loss(&m->fit, 0.95 / relaxation_strength(&m->fit));
  model_refuse_losses(m, c, s, most, e);
  TRY(error_agree(e, files->compute));
  for (int i = 0; i <= MODEL_STEPS; i++) {
    m->kappa[i] = i ? relaxation_kappa(&m->fit, m->law.loss * i / MODEL_STEPS) : 0;
    m->speed[i] = relaxation_speed(&m->fit, m->kappa[i]);
  }
  return 0;
}

const char *model_fit_cure(const model *m) {
  return m->law.power > 1    ? "relaxations rise with f^2 at most: take a narrower absorption_band"
         : m->fit.count == 1 ? "take more mechanisms, a narrower absorption_band or a smaller dt"
         : m->fit.count == 2 ? "take mechanisms = 3, a narrower absorption_band or a smaller dt"
                             : "take a narrower absorption_band or a smaller dt";
}

int model_check_fit(const model *m, error *e) {
  const double most = m->fit.count > 1 ? 0.35 : 0.5; /* docs/CONFIG.md says how accurate one mechanism is */
  if (m->fit.worst <= most) return 0;
  return FAIL(e, MEDIUM_FIT, m->fit.count, 100 * m->fit.worst, m->law.lowest / TURN, m->law.highest / TURN,
              100 * most, model_fit_cure(m));
}

static double model_at(const double *table, const model *m, double loss) {
  const double place = m->law.loss > 0 ? loss / m->law.loss * MODEL_STEPS : 0;
  const int i = smaller((int)place, MODEL_STEPS - 1);
  return table[i] + (place - i) * (table[i + 1] - table[i]);
}

float model_kappa(const model *m, float loss) {
  return m->fit.count ? (float)model_at(m->kappa, m, loss) : 0;
}

double model_speed(const model *m, float loss) {
  return m->fit.count ? model_at(m->speed, m, loss) : 1;
}

static double model_stiffness_at(const model_scan *w, size_t i) {
  const model *m = w->m;
  const double v = m->velocity[i], here = v * v * (w->sum + (m->V ? (double)m->V[i] : 0));
  if (!m->loss) return here;
  return here * (model_speed(m, m->loss[i]) * (1 - (double)model_kappa(m, m->loss[i]) * w->slowed));
}

int model_stiffness(const model *m, const files *files, const slab *s, double sum, double *most, error *e) {
  model_scan w = {.m = m, .at = model_stiffness_at, .sum = sum};
  for (int l = 0; l < m->fit.count; l++) w.slowed += m->fit.b[l] / (1 + m->fit.a[l]);
  return model_find_greatest(&w, files, s, most, e);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int model_take_memory(model *m, const config *c, const slab *s, float **rho, error *e) {
  TRY(model_take(&m->velocity, s, 0, e));
  if (m->absorbs) TRY(model_take(&m->loss, s, 0, e));
  if (!config_density_varies(c)) return 0;
  TRY(model_take(&m->sigma, s, RADIUS, e));
  const size_t ghosts = RADIUS * (size_t)s->nx * (size_t)s->ny; /* no other code sets them beyond the grid */
  for (size_t i = 0; i < ghosts; i++) m->sigma[i] = m->sigma[ghosts + model_points(s) + i] = 1;
  TRY(model_take(&m->V, s, 0, e));
  return model_take(rho, s, 0, e);
}

static double model_velocity_at(const model_scan *w, size_t i) {
  return w->m->velocity[i];
}

/* given: memory for the velocity as it is given, and for the density, or NULL. */
static int model_find(model *m, const config *c, const files *files, const field_io *io,
                      float *const given[2], error *e) {
  float *const v = given[0], *const rho = given[1];
  const enum medium strength = config_has_medium(c, MEDIUM_QUALITY) ? MEDIUM_QUALITY : MEDIUM_ABSORPTION;
  model_read(&(model_target){.to = v}, &m->given, c, MEDIUM_VELOCITY, files, io, e);
  TRY(error_agree(e, files->compute));
  if (rho) model_read(&(model_target){.to = rho}, &m->density, c, MEDIUM_DENSITY, files, io, e);
  TRY(error_agree(e, files->compute));
  if (m->absorbs) {
    model_read(&(model_target){.to = m->loss}, &m->strength, c, strength, files, io, e);
    TRY(error_agree(e, files->compute));
    TRY(model_find_losses(m, c, files, io->slab, v, e));
  }
  if (rho || c->averaging)
    TRY(model_find_velocity(m, c, files, io->slab, given, e));
  else
    memcpy(m->velocity, v, model_points(io->slab) * sizeof *v);
  model_scan w = {.m = m, .at = model_velocity_at};
  return model_find_greatest(&w, files, io->slab, &m->fastest, e);
}

int model_open(model *m, const config *c, const files *files, const field_io *io, float **given, error *e) {
  float *own[2] = {NULL, NULL};
  if (!given) given = own;
  *m = (model){.needed = model_needed(c), .absorbs = config_medium_absorbs(c)};
  if (!m->needed) return 0;
  if (!model_take(&given[0], io->slab, 0, e)) model_take_memory(m, c, io->slab, &given[1], e);
  if (!error_agree(e, files->compute)) model_find(m, c, files, io, given, e);
  free(own[0]);
  free(own[1]);
  return error_agree(e, files->compute);
}

int model_describe(const model *m, const config *c, char *text, size_t size) {
  const bool quality = config_has_medium(c, MEDIUM_QUALITY);
  const medium_row *row = &MEDIA[quality ? MEDIUM_QUALITY : MEDIUM_ABSORPTION];
  int n = 0;
  text[0] = 0;
  if (!m->needed) return 0;
  n += snprintf(text + n, size - (size_t)n, "medium:%s", c->averaging ? " averaged over cells" : "");
  if (config_density_varies(c))
    n += snprintf(text + n, size - (size_t)n, "%s density %g to %g kg/m3", c->averaging ? "," : "",
                  m->density.min, m->density.max);
  if (m->absorbs && m->fit.count == 0)
    n += snprintf(text + n, size - (size_t)n, "%s no loss", n > 7 ? "," : "");
  if (m->fit.count == 0) return n;
  n += snprintf(
      text + n, size - (size_t)n,
      "%s %s %g to %g, velocity at %g Hz; %d relaxation%s fitted from %.4g to %.4g Hz, worst error %.2g %%:",
      n > 7 ? "," : "", row->name, m->strength.min, m->strength.max, m->law.reference / TURN, m->fit.count,
      m->fit.count > 1 ? "s" : "", m->law.lowest / TURN, m->law.highest / TURN, 100 * m->fit.worst);
  for (int l = 0; l < m->fit.count; l++)
    n += snprintf(text + n, size - (size_t)n, "%s a %.9g, b %.9g", l ? ";" : "", m->fit.a[l], m->fit.b[l]);
  return n;
}
