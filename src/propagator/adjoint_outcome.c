/* The results of the adjoint (adjoint.h): fields on the device, and their planes on the host. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "adjoint.h"
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "kernels/operations/operation.h"
#include "physics/initial.h"
#include "physics/outside.h"

/* --- fields on the device ----------------------------------------------------------------------------------------- */

/* Computes W l or, with g, dJ/dv (operation_gradient) into `to`. `after` is nu of the step after, or another field in
 * its place. Half of a point on a neumann face belongs to the point's image. */
static int adjoint_make(const adjoint *a, const float *g, const float *after, float *to, error *e) {
  const engine *n = a->of->engine;
  const config *c = n->config;
  const slab *s = &n->slab;
  const bool chain = model_needed(c);
  gradient_args args = {.medium = n->args.medium[0],
                        .scale = n->args.scale[0],
                        .g = g,
                        .u = adjoint_slot(a, 0),
                        .nu = stepper_field(&a->stepper, a->stepper.current),
                        .after = after,
                        .to = to,
                        .factor = g && !chain ? 2 * n->physics.dt : 0,
                        .pitch = s->pitch,
                        .plane = s->plane,
                        .nx = s->nx,
                        .ny = s->ny,
                        .nz = s->nz};
  for (int face = 0; face < FACE_COUNT; face++) args.halves[face] = c->boundary[face] == BOUNDARY_NEUMANN;
  args.halves[FACE_Z_LO] = args.halves[FACE_Z_LO] && s->z0 == 0;
  args.halves[FACE_Z_HI] = args.halves[FACE_Z_HI] && s->z0 + s->nz == s->nz_global;
  TRY(a->stepper.dev->table->apply(a->stepper.dev, STREAM_BOUNDARY, &operation_gradient, &args, e));
  return a->stepper.dev->table->sync(a->stepper.dev, STREAM_BOUNDARY, e);
}

/* Turns nu of the last two steps into m lambda. */
static int adjoint_undamp(adjoint *a, error *e) {
  const stepper *p = &a->stepper;
  const kernel_args *k = &p->args;
  const undamp_args undamp = {.medium = k->medium[0],
                              .scale = k->scale[0],
                              .terms = k->terms,
                              .nu = stepper_field(p, p->current),
                              .after = stepper_field(p, !p->current),
                              .pitch = k->pitch,
                              .plane = k->plane,
                              .nx = k->nx,
                              .ny = k->ny,
                              .nz = k->nz};
  TRY(p->dev->table->apply(p->dev, STREAM_BOUNDARY, &operation_undamp, &undamp, e));
  return p->dev->table->sync(p->dev, STREAM_BOUNDARY, e);
}

int adjoint_sum(adjoint *a, error *e) {
  const stepper *p = &a->stepper;
  float *g = a->gradient + slab_offset(p->slab, 0, 0, 0), *after = stepper_field(p, !p->current);
  if (p->args.terms.memories && adjoint_undamp(a, e)) return error_abort(e, a->of->engine->comm);
  if (surplus_end(&a->surplus, &p->args, stepper_field(p, p->current), after, e))
    return error_abort(e, a->of->engine->comm);
  adjoint_make(a, g, after, g, e);
  return error_agree(e, a->of->engine->comm);
}

/* Sets the ghosts of nu of step 1, which operations have changed since the step. */
static int adjoint_ghosts(adjoint *a, error *e) {
  stepper *p = &a->stepper;
  kernel_args args = p->args;
  args.out = stepper_field(p, !p->current);
  args.z_begin = 0, args.z_end = args.nz;
  if (!p->dev->table->apply(p->dev, STREAM_BOUNDARY, &operation_ghosts, &args, e))
    p->dev->table->sync(p->dev, STREAM_BOUNDARY, e);
  TRY(error_agree(e, a->of->engine->comm));
  return halo_exchange(&a->halo, p->memory[!p->current], HALO_UNTIMED, true, e);
}

/* W (nu^0 - (nu^1 + m / 2 L nu^1)) / m, times sigma: the gradient for p. A start at rest adds half of L m lambda^1. The
 * transpose of the layers multiplies nu^1 by P, applies the forward layers, and divides by P. */
static int adjoint_rest(adjoint *a, error *e) {
  const propagator *s = a->of;
  kernel_args args = a->stepper.args;
  float *const after = stepper_field(&a->stepper, !a->stepper.current);
  args.in = after;
  args.out = stepper_field(&s->stepper, 0);
  args.z_begin = 0, args.z_end = s->engine->slab.nz;
  if (surplus_at_rest(&a->surplus, SURPLUS_TIMES, &args, after, e) || adjoint_ghosts(a, e))
    return error_abort(e, s->engine->comm);
  args.terms = (kernel_terms){.density = args.terms.density};
  float *p = s->memory[MEMORY_PRESSURE], *scratch = p ? p + slab_offset(&s->engine->slab, 0, 0, 0) : NULL;
  if (!initial_at_rest(s->dev, EQUATIONS[s->config->equation].rest, &args, scratch, a->stepper.absorb, e) &&
      !surplus_at_rest(&a->surplus, SURPLUS_OVER, &args, args.out, e))
    adjoint_make(a, NULL, args.out, args.out, e);
  const scale_args times = scale_as(SCALE_TIMES, args.out, s->engine->args.terms.sigma, args.out, &args);
  if (times.by && !e->id && !s->dev->table->apply(s->dev, STREAM_BOUNDARY, &operation_scale, &times, e))
    s->dev->table->sync(s->dev, STREAM_BOUNDARY, e);
  return error_agree(e, s->engine->comm);
}

/* --- to the host ------------------------------------------------------------------------------------------------- */

bool adjoint_asked(const config *c, enum gradient_field field) {
  return field == GRADIENT_VELOCITY || (field == GRADIENT_INITIAL ? c->gradient_initial : c->gradient_image);
}

static float *adjoint_memory(const adjoint *a, enum gradient_field field) {
  float *const memory[GRADIENT_FIELDS] = {[GRADIENT_VELOCITY] = a->gradient,
                                          [GRADIENT_INITIAL] = a->of->stepper.memory[0],
                                          [GRADIENT_IMAGE] = a->image,
                                          [GRADIENT_ILLUMINATION] = a->illumination};
  return memory[field];
}

/* Points of a plane of a shot. */
static size_t adjoint_plane(const adjoint *a) {
  const slab *s = &a->of->engine->files_slab;
  return (size_t)s->ny * (size_t)s->nx;
}

typedef struct adjoint_bringing {
  const adjoint *a;
  enum gradient_field field;
  atomic_int next;
  pthread_mutex_t lock; /* guards the next members */
  error failed;
} adjoint_bringing;

enum { BROUGHT = 16 /* planes at a time */ };

/* On the device a plane has a row for each shot; on the host each shot is contiguous. */
static int adjoint_bring_planes(const adjoint *a, enum gradient_field field, zrange z, float *values,
                                error *e) {
  const size_t plane = adjoint_plane(a);
  const int nz = a->stepper.slab->nz, shots = a->of->count,
            all = a->stepper.slab->ny / a->of->engine->files_slab.ny;
  transfer t = a->transfer;
  t.field = adjoint_memory(a, field);
  if (all == 1)
    return transfer_to_host(&t, z.begin, zrange_planes(z), a->host[field] + (size_t)z.begin * plane, e);
  TRY(transfer_to_host(&t, z.begin, zrange_planes(z), values, e));
  for (int i = z.begin; i < z.end; i++)
    for (int k = 0; k < shots; k++)
      memcpy(a->host[field] + ((size_t)k * (size_t)nz + (size_t)i) * plane,
             values + ((size_t)(i - z.begin) * (size_t)all + (size_t)k) * plane, plane * sizeof *values);
  return 0;
}

static void *adjoint_bring_main(void *context) {
  adjoint_bringing *b = context;
  const slab *s = b->a->stepper.slab;
  error e = {0};
  float *values;
  ALLOC(&e, values, (size_t)BROUGHT * (size_t)s->ny * (size_t)s->nx, "the gradient");
  for (int z; !e.id && (z = BROUGHT * atomic_fetch_add(&b->next, 1)) < s->nz;)
    adjoint_bring_planes(b->a, b->field, (zrange){z, smaller(z + BROUGHT, s->nz)}, values, &e);
  free(values);
  pthread_mutex_lock(&b->lock);
  if (!b->failed.id) b->failed = e;
  pthread_mutex_unlock(&b->lock);
  return NULL;
}

static int adjoint_bring_field(adjoint *a, enum gradient_field field, error *e) {
  const size_t points = (size_t)a->most * adjoint_plane(a) * (size_t)a->stepper.slab->nz;
  adjoint_bringing b = {.a = a, .field = field, .lock = PTHREAD_MUTEX_INITIALIZER};
  if (!a->host[field]) ALLOC(e, a->host[field], points, "the gradient");
  if (a->host[field]) thread_run(a->of->engine->files->access->threads, adjoint_bring_main, &b);
  if (!e->id) *e = b.failed;
  return error_agree(e, a->of->engine->comm);
}

int adjoint_bring(adjoint *a, error *e) {
  const config *c = a->of->config;
  const bool together =
      a->stepper.slab->ny > a->of->engine->files_slab.ny; /* planes have rows of several shots */
  for (int i = 0; i < GRADIENT_FIELDS; i++) {
    if (!adjoint_asked(c, i)) continue;
    if (i == GRADIENT_INITIAL) TRY(adjoint_rest(a, e));
    if (together || i == GRADIENT_INITIAL ||
        (i == GRADIENT_VELOCITY && (model_needed(c) || config_extends(c))))
      TRY(adjoint_bring_field(a, i, e));
  }
  return 0;
}

/* The first own plane of shot i. */
static float *adjoint_of_shot(const adjoint *a, enum gradient_field field, int i) {
  return a->host[field] + (size_t)i * (size_t)a->stepper.slab->nz * adjoint_plane(a);
}

int adjoint_chain(adjoint *a, int i, error *e) {
  const engine *g = a->of->engine;
  float *velocity = a->host[GRADIENT_VELOCITY] ? adjoint_of_shot(a, GRADIENT_VELOCITY, i) : NULL;
  if (model_needed(g->config)) TRY(chain_velocity(&a->chain, velocity, e));
  return outside_fold(g->files, g->config, &g->files_slab, velocity, e);
}

static double adjoint_unit(const adjoint_field *f) {
  return f->field == GRADIENT_ILLUMINATION ? 1 : f->of->shots[f->i].unit;
}

static float adjoint_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Magnitudes have the order of their bits; Inf and NaN are the greatest. */
static uint32_t adjoint_greatest(const float *values, size_t count) {
  uint32_t greatest = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    bits &= INT32_MAX;
    if (bits > greatest) greatest = bits;
  }
  return greatest;
}

/* Large residuals may overflow the adjoint, a sum over it, or the values that are written. */
static int adjoint_refuse(const adjoint_field *f, int z, const float *values, error *e) {
  const size_t plane = adjoint_plane(f->of), nx = (size_t)f->of->of->engine->files_slab.nx;
  const config *c = f->of->of->config;
  size_t i = 0;
  while (isfinite(values[i])) i++;
  return FAIL(e, GRADIENT_NONFINITE, GRADIENT_NAMES[f->field].name, isnan(values[i]) ? "NaN" : "Inf",
              config_point_given(c, 2, f->of->stepper.slab->z0 + z + (int)(i / plane)),
              config_point_given(c, 1, (int)(i % plane / nx)), config_point_given(c, 0, (int)(i % nx)));
}

/* Divides values of the adjoint by their unit. */
static int adjoint_state_planes(adjoint_field *f, int z, int planes, float *values, error *e) {
  const size_t points = (size_t)planes * adjoint_plane(f->of);
  const double unit = adjoint_unit(f);
  const uint32_t greatest = adjoint_greatest(values, points);
  uint32_t had = f->largest;
  while (had < greatest && !atomic_compare_exchange_weak(&f->largest, &had, greatest)) continue;
  for (size_t i = 0; i < points && unit != 1; i++) values[i] = (float)(unit * (double)values[i]);
  return isfinite((float)(unit * (double)adjoint_float(greatest))) ? 0 : adjoint_refuse(f, z, values, e);
}

/* From this magnitude on, float32 has its full relative accuracy, in sums too. */
static const double LEAST = 0x1p-100;

int adjoint_measured(void *context, error *e) {
  adjoint_field *f = context;
  uint32_t largest[GRADIENT_FIELDS];
  int count = 0;
  for (; f[count].of; count++) largest[count] = f[count].largest;
  MPI_TRY(e, mpi_reduce_all(largest, count, MPI_UINT32_T, MPI_MAX, f->of->of->engine->comm));
  for (int i = 0; i < count; i++) {
    const double value = adjoint_unit(&f[i]) * (double)adjoint_float(largest[i]);
    /* squares may underflow, so that the illumination is all 0 although the field leaves an image */
    const bool zero = !largest[i] && !(f[i].field == GRADIENT_ILLUMINATION && largest[i - 1]);
    if (!zero && value < LEAST) return FAIL(e, GRADIENT_SMALL, GRADIENT_NAMES[f[i].field].name, value, LEAST);
  }
  return 0;
}

int adjoint_planes(void *context, int z, int planes, float *values, error *e) {
  adjoint_field *f = context;
  const adjoint *a = f->of;
  const size_t plane = adjoint_plane(a);
  transfer t = a->transfer;
  t.field = adjoint_memory(a, f->field);
  if (!a->host[f->field])
    TRY(transfer_to_host(&t, z, planes, values, e));
  else
    memcpy(values, adjoint_of_shot(a, f->field, f->i) + (size_t)z * plane,
           (size_t)planes * plane * sizeof *values);
  return adjoint_state_planes(f, z, planes, values, e);
}

/* The transform of the derivative by injected values into the derivative by signals. */
typedef struct adjoint_injected {
  const receivers *at; /* the sources */
  double scale;
  int64_t steps; /* steps without the extra ones */
  float *all;    /* steps x sources */
} adjoint_injected;

/* A signal enters the step from n to n + 1: sample `last` - n of nu. */
static void adjoint_signal_get(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]) {
  const adjoint_injected *w = context;
  const traces nu = receivers_traces(w->at);
  for (int64_t k = 0; k < n; k++) x[k][lane] = w->scale * (double)*traces_at(&nu, n - k, i);
}

static void adjoint_signal_put(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]) {
  const adjoint_injected *w = context;
  (void)n;
  for (int64_t k = 0; k < w->steps; k++) w->all[k * w->at->count + w->at->index[i]] = (float)x[k][lane];
}

/* Divides signals of the adjoint by their unit. `injected` ones are not written, so they may be small. */
static int adjoint_state_signals(const adjoint_points *p, bool injected, float *all, size_t count, error *e) {
  const double most = p->unit * (double)adjoint_float(adjoint_greatest(all, count));
  const size_t sources = (size_t)p->at_sources.count;
  for (size_t i = 0; i < count; i++) {
    all[i] = (float)(p->unit * (double)all[i]);
    if (!isfinite(all[i]))
      return FAIL(e, GRADIENT_SIGNALS, isnan(all[i]) ? "NaN" : "Inf", (int64_t)(i / sources),
                  (int)(i % sources) + 1);
  }
  return !injected && most != 0 && most < LEAST ? FAIL(e, GRADIENT_SMALL, "signals", most, LEAST) : 0;
}

int adjoint_signals(adjoint *a, int i, bool injected, float **signals, error *e) {
  const receivers *r = &a->shots[i].at_sources;
  const acquisition *s = a->of->shots[i];
  const engine *g = a->of->engine;
  const int64_t last = propagator_last(a->of), steps = injected ? last : g->physics.steps;
  const size_t count = (size_t)steps * (size_t)r->count;
  float *all;
  ALLOC(e, all, count, "the gradient");
  *signals = all;
  const traces nu = receivers_traces(r);
  adjoint_injected injected_at = {r, injected ? 1 : sources_strength(s->config), steps, all};
  const dispersion_series series = {.kind = DISPERSION_SOURCE,
                                    .transposed = true,
                                    .every = 1,
                                    .count = r->local,
                                    .n = last,
                                    .kept = s->sources.transforms,
                                    .context = &injected_at,
                                    .get = adjoint_signal_get,
                                    .put = adjoint_signal_put};
  if (!e->id && !injected && s->sources.injected)
    dispersion_transform(&series, s->receivers.time.threads, e);
  else
    for (int64_t k = 0; k < steps * r->local && !e->id; k++)
      all[k / r->local * r->count + r->index[k % r->local]] =
          (float)(injected_at.scale * (double)*traces_at(&nu, last - k / r->local, k % r->local));
  TRY(error_agree(e, g->comm));
  MPI_TRY(e, mpi_reduce_all(all, (int)count, MPI_FLOAT, MPI_SUM, g->comm));
  return adjoint_state_signals(&a->shots[i], injected, all, count, e);
}
