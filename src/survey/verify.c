#include "verify.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"

enum { CHANGES = 5, VERIFIED_TEXT = 1024 };
static const double FIRST_CHANGE = 1e-2, RATIO = 4; /* of the velocity; of a change to the next */
static const double DOT_LIMIT = 5e-6, SLOPE_LIMIT = 0.05, QUOTIENT_LIMIT = 1e-3;

typedef struct verify {
  gradient *g;
  batch *b;
  shot *shot;    /* the shot of the batch */
  propagator *p; /* not owned, as is the next one */
  engine *engine;
  shot_setup setup; /* of the shot */
  size_t points;    /* own points of this rank */
  float *m;         /* dt^2 v^2 of the steps, own planes; owned, as is the next one */
  float *start;     /* the field at step 0, own planes */
  float *velocity;  /* the user's velocity, own planes, owned */
  float *weight;    /* the relative change of the velocity for `change` 1, own planes, owned */
  float *field;     /* device memory in place of a medium that is one number; owned; NULL: not needed */
  double traces;    /* sum of the traces' squares times their weights */
  char text[VERIFIED_TEXT];
} verify;

/* A random number in [0, 1) for a point or sample of the whole run. */
static double verify_random(uint64_t index) {
  return (double)(mix64(index + 0x76657269) >> 11) * 0x1p-53;
}

static double verify_sum(const verify *v, double sum, error *e) {
  const int rc = MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, v->engine->comm);
  error_from_mpi(e, rc, "MPI_Allreduce");
  return sum;
}

/* --- forward runs ------------------------------------------------------------------------------------------------- */

static int verify_planes(const verify *v, float *field, float *values, error *e) {
  transfer t = v->p->transfer;
  t.field = field;
  return transfer_to_host(&t, 0, v->engine->slab.nz, values, e);
}

/* Keeps the initial field, divided by sigma, with which the steps multiply it. */
static void verify_start(verify *v, error *e) {
  float *const field = v->engine->medium[MEDIUM_SIGMA];
  float *sigma = field ? malloc(v->points * sizeof *sigma) : NULL;
  if (field && !sigma) FAIL(e, OUT_OF_MEMORY, v->points * sizeof *sigma, "the tests of a gradient");
  if (!e->id) verify_planes(v, v->p->stepper.memory[0], v->start, e);
  if (!e->id && sigma) verify_planes(v, field, sigma, e);
  for (size_t i = 0; sigma && !e->id && i < v->points; i++) v->start[i] /= sigma[i];
  free(sigma);
}

/* Does a forward run on the present medium; afterwards the traces are as they would be written. */
static int verify_run(verify *v, bool keeps, error *e) {
  batch *b = v->b;
  const batch_setup of = b->of;
  TRY(shot_plan(v->shot, v->engine, &v->setup, e));
  TRY(batch_plan(b, v->engine, &v->shot, 1, &of, e));
  TRY(gradient_check(v->g, 0, e));
  TRY(batch_open(b, e));
  if (keeps) TRY(gradient_open(v->g, e));
  TRY(batch_load(b, e));
  verify_start(v, e);
  TRY(error_agree(e, v->engine->comm));
  TRY(batch_steps(b, false, e));
  TRY(propagator_extra_steps(v->p, e));
  const traces all = receivers_traces(&v->shot->at.receivers);
  exact_time_traces(&v->shot->at.receivers.time, &all, false, e);
  return error_agree(e, v->engine->comm);
}

static int verify_change(verify *v, double change, error *e) {
  engine *g = v->engine;
  transfer t = v->p->transfer;
  t.field = g->medium[0] ? g->medium[0] : v->field;
  const size_t plane = (size_t)g->slab.ny * (size_t)g->slab.nx;
  float *values = malloc(plane * sizeof *values + 1);
  if (!values) FAIL(e, OUT_OF_MEMORY, plane * sizeof *values, "a changed velocity");
  for (int z = 0; z < g->slab.nz && !e->id; z++) {
    for (size_t i = 0; i < plane; i++) {
      const size_t at = (size_t)z * plane + i;
      const double factor = 1 + change * (double)v->weight[at];
      values[i] = (float)((double)v->m[at] * factor * factor);
    }
    transfer_to_device(&t, z, 1, values, e);
  }
  free(values);
  return error_agree(e, g->comm);
}

static int verify_begin(verify *v, error *e) {
  const engine *g = v->engine;
  medium_range range;
  v->points = (size_t)g->slab.nz * (size_t)g->slab.ny * (size_t)g->slab.nx;
  v->m = malloc(v->points * sizeof *v->m + 1), v->start = malloc(v->points * sizeof *v->start + 1);
  v->velocity = malloc(v->points * sizeof *v->velocity + 1);
  v->weight = malloc(v->points * sizeof *v->weight + 1);
  if (!v->m || !v->start || !v->velocity || !v->weight)
    FAIL(e, OUT_OF_MEMORY, 4 * v->points * sizeof *v->m, "the tests of a gradient");
  TRY(error_agree(e, g->comm));
  model_read(&(model_target){.to = v->velocity}, &range, g->config, MEDIUM_VELOCITY, g->files, &g->io, e);
  return error_agree(e, g->comm);
}

/* Keeps m. Where m is one number, gives the shot a field of it. */
static int verify_keep_medium(verify *v, error *e) {
  propagator *p = v->p;
  engine *g = v->engine;
  p->stepper.front = NULL; /* the wavefront uses the engine's medium */
  if (g->medium[0]) {
    verify_planes(v, g->medium[0], v->m, e);
    return error_agree(e, g->comm);
  }
  for (size_t i = 0; i < v->points; i++) v->m[i] = g->args.scale[0];
  const size_t bytes = slab_floats(&g->slab) * sizeof(float);
  if (!p->dev->table->alloc(p->dev, (void **)&v->field, bytes, MEMORY_DEVICE, e))
    p->stepper.args.medium[0] = v->field + slab_offset(&g->slab, 0, 0, 0);
  return error_agree(e, g->comm);
}

/* --- the dot product ---------------------------------------------------------------------------------------------- */

/* Fills the residual with random values. sums: its product with the traces, the squares of residual and of traces, and
 * the traces' squares times their weights. */
static void verify_residual(const verify *v, float *residual, double sums[4]) {
  const receivers *r = &v->shot->at.receivers;
  const traces all = receivers_traces(r);
  for (int64_t row = 0; row < r->rows; row++)
    for (int i = 0; i < r->local; i++) {
      const uint64_t index = (uint64_t)row * (uint64_t)r->count + (uint64_t)r->index[i];
      const float *at = traces_at(&all, row, i);
      const double d = *at, x = (float)(2 * verify_random(~index) - 1);
      residual[at - all.x] = (float)x;
      sums[0] += x * d, sums[1] += x * x, sums[2] += d * d,
          sums[3] += misfit_weight(v->g->misfits, at - all.x) * d * d;
    }
}

/* Finds the same product from the gradients. */
static int verify_transposed(verify *v, double *sum, error *e) {
  adjoint *a = &v->g->adjoint;
  const receivers *at = &a->shots->at_sources;
  shot *s = v->shot;
  float *signals = NULL, *initial = malloc(v->points * sizeof *initial + 1);
  if (!initial) FAIL(e, OUT_OF_MEMORY, v->points * sizeof *initial, "the tests of a gradient");
  TRY(error_agree(e, v->engine->comm));
  adjoint_field field = {a, GRADIENT_INITIAL, 0, 0};
  if (s->at.sources.count) adjoint_signals(a, 0, true, &signals, e);
  if (!e->id && s->config->gradient_initial && !adjoint_bring(a, e))
    adjoint_planes(&field, 0, v->engine->slab.nz, initial, e);
  for (int i = 0; !e->id && signals && i < at->local; i++)
    for (int64_t n = 0; n < propagator_last(v->p); n++)
      *sum += (double)signals[n * at->count + at->index[i]] *
              (double)sources_injected(&s->at.sources, at->index[i], n);
  for (size_t i = 0; !e->id && s->config->gradient_initial && i < v->points; i++)
    *sum += (double)initial[i] * (double)v->start[i];
  free(signals);
  free(initial);
  return error_agree(e, v->engine->comm);
}

static int verify_dot(verify *v, bool *right, error *e) {
  shot *s = v->shot;
  double sums[4] = {0}, back = 0;
  TRY(verify_run(v, true, e));
  verify_residual(v, misfit_begin_residual(v->g->misfits), sums);
  for (int i = 0; i < 4; i++) sums[i] = verify_sum(v, sums[i], e);
  v->traces = sums[3];
  TRY(adjoint_take(&v->g->adjoint, 0, v->g->misfits->residual, 1, e));
  TRY(adjoint_run(&v->g->adjoint, e));
  TRY(verify_transposed(v, &back, e));
  back = verify_sum(v, back, e);
  const double norm = sqrt(sums[1] * sums[2]), off = norm > 0 ? fabs(sums[0] - back) / norm : 0;
  *right = off <= DOT_LIMIT;
  snprintf(v->text, sizeof v->text, "dot product: %.9g and %.9g, apart by %.2g of the norms (at most %.1g)%s",
           sums[0], back, off, DOT_LIMIT, *right ? "" : ": WRONG");
  log_line(s->log, "verify: %s", v->text);
  return e->id;
}

/* --- Taylor's remainder ------------------------------------------------------------------------------------------- */

/* Finds J of the traces; with a given residual, J is its product with the traces. */
static int verify_misfit(verify *v, double *J, error *e) {
  const receivers *r = &v->shot->at.receivers;
  double sum = 0;
  misfit *m = v->g->misfits;
  if (!m->given) {
    TRY(misfit_residual(m, v->shot, e));
    *J = m->value;
    return 0;
  }
  const traces all = receivers_traces(r);
  for (int64_t row = 0; row < r->rows; row++)
    for (int i = 0; i < r->local; i++) {
      const float *at = traces_at(&all, row, i);
      sum += (double)m->residual[at - all.x] * (double)*at;
    }
  *J = m->unit * verify_sum(v, sum, e);
  return e->id;
}

static int verify_misfit_at(verify *v, double change, double *J, error *e) {
  TRY(verify_change(v, change, e));
  TRY(verify_run(v, false, e));
  return verify_misfit(v, J, e);
}

/* J and its dependence on changes of the velocity. */
typedef struct taylor {
  double J, derivative, /* by the gradient */
      sum,              /* the absolute terms of the derivative, for its rounding error */
      curvature, quotients[CHANGES];
  bool square; /* for some changes the remainder falls as their square */
} taylor;

/* Chooses the relative change of the velocity at each point. It is random, with the sign of the gradient, so that J
 * changes most. Where media are averaged, absorb or continue outside, it is the same everywhere. */
static int verify_derivative(verify *v, taylor *t, error *e) {
  const engine *g = v->engine;
  const uint64_t first = (uint64_t)g->slab.z0 * (uint64_t)g->slab.ny * (uint64_t)g->slab.nx;
  adjoint_field velocity = {&v->g->adjoint, GRADIENT_VELOCITY, 0, 0};
  double *unit = &v->g->adjoint.shots->unit;
  const double scale = *unit;
  const bool same = g->physics.model.needed || config_extends(g->config);
  *unit = 1; /* undivided, since values may be very small */
  adjoint_planes(&velocity, 0, g->slab.nz, v->weight, e);
  *unit = scale;
  for (size_t i = 0; !e->id && i < v->points; i++) {
    const double slope = (double)v->weight[i], random = verify_random(first + i);
    v->weight[i] = same ? 1 : (float)(slope < 0 ? -random : random);
    const double change = (double)v->velocity[i] * (double)v->weight[i];
    t->derivative += scale * slope * change, t->sum += scale * fabs(change);
  }
  TRY(error_agree(e, g->comm));
  t->derivative = verify_sum(v, t->derivative, e), t->sum = verify_sum(v, t->sum, e);
  return e->id;
}

static void verify_add(verify *v, const char *text) {
  const size_t used = strlen(v->text);
  snprintf(v->text + used, sizeof v->text - used, "; %s", text);
  log_line(v->shot->log, "verify: %s", text);
}

/* A derivative found from difference quotients, and its error. */
typedef struct quotient {
  double value, error;
} quotient;

static double verify_step(int i) {
  return FIRST_CHANGE / pow(RATIO, i);
}

/* Ridders' extrapolation of difference quotients to changes of 0. It returns the extrapolation with the smallest error,
 * estimated from its parts and the `noise` of J. */
static quotient verify_extrapolate(const double q[CHANGES], double noise) {
  double a[CHANGES][CHANGES];
  quotient best = {NAN, INFINITY};
  for (int i = 0; i < CHANGES; i++) {
    a[0][i] = q[i];
    for (int j = 1; j <= i; j++) {
      const double power = pow(RATIO, 2 * j);
      a[j][i] = (power * a[j - 1][i] - a[j - 1][i - 1]) / (power - 1);
      const double apart = fmax(fabs(a[j][i] - a[j - 1][i]), fabs(a[j][i] - a[j - 1][i - 1])),
                   error = fmax(apart, noise / verify_step(i));
      if (error < best.error) best = (quotient){a[j][i], error};
    }
  }
  return best;
}

/* The derivative's rounding error that is not the quotients'. It comes from the traces, whose change is the root of the
 * curvature, and from gradient values too small to be normal numbers. */
static double verify_rounding(const verify *v, const taylor *t) {
  const double TRACES = 8; /* times the rounding of one number; the largest value seen is 6.3 */
  const misfit *m = v->g->misfits;
  const double each = v->engine->physics.dt * (double)m->of->every;
  const double traces = m->given ? 0 : sqrt(each * v->traces * fmax(0, t->curvature));
  return fmax(TRACES * FLT_EPSILON / 2 * traces, FLT_MIN * t->sum);
}

/* Does the derivative agree with the quotients? The smallest changes show the rounding error of the quotients. */
static bool verify_judge(verify *v, const taylor *t) {
  char text[260];
  double noise = 0;
  quotient best = verify_extrapolate(t->quotients, 0);
  for (int i = CHANGES - 2; i < CHANGES; i++)
    noise = fmax(noise, fabs(t->quotients[i] - best.value) * verify_step(i));
  best = verify_extrapolate(t->quotients, noise);
  const double size = fmax(fabs(t->derivative), fabs(best.value)),
               off = fabs(best.value - t->derivative) / size,
               error = fmax(best.error, verify_rounding(v, t)) / size;
  const bool nothing = size == 0 || (t->derivative == 0 && t->J == 0), right = off <= QUOTIENT_LIMIT + error,
             known = error <= QUOTIENT_LIMIT;
  const char *why = t->J == 0        ? "the misfit is 0 here: nothing to compare"
                    : v->traces == 0 ? "cannot be judged: no wave comes to the receivers, the traces are 0"
                                     : "cannot be judged: the traces do not depend on the velocity";
  snprintf(text, sizeof text,
           "slope 2 +- %.2g: %s; derivative %.9g, by differences %.9g: apart by %.2g, known to %.2g, within "
           "%.1g: %s",
           SLOPE_LIMIT, t->square ? "yes" : "hidden by rounding", t->derivative, best.value, off, error,
           QUOTIENT_LIMIT,
           !right  ? "NO"
           : known ? "yes"
                   : "cannot be judged, rounding hides it");
  verify_add(v, nothing ? why : text);
  return right || nothing;
}

/* Finds J for smaller and smaller changes of both signs. The remainder must fall as the square of the change until
 * rounding hides it. */
static int verify_taylor(verify *v, double J, bool *right, error *e) {
  char text[160], slope_text[64] = "";
  taylor t = {.J = J};
  double before = 0;
  TRY(verify_derivative(v, &t, e));
  for (int i = 0; i < CHANGES; i++) {
    const double change = verify_step(i);
    double more, less;
    slope_text[0] = 0;
    TRY(verify_misfit_at(v, change, &more, e));
    TRY(verify_misfit_at(v, -change, &less, e));
    const double remainder = fabs(more - J - change * t.derivative);
    t.quotients[i] = (more - less) / (2 * change);
    if (i > 0 && before > 0 && remainder > 0) { /* the first change has no predecessor */
      const double slope = log(before / remainder) / log(RATIO);
      t.square = t.square || fabs(slope - 2) <= SLOPE_LIMIT;
      snprintf(slope_text, sizeof slope_text, "slope of the remainder %.3f, ", slope);
    }
    if (i == 0) t.curvature = (more + less - 2 * J) / (change * change);
    before = remainder;
    snprintf(text, sizeof text, "velocity changed by %.2g: %squotient of differences off by %.2g", change,
             slope_text, fabs(t.quotients[i] / t.derivative - 1));
    if (t.derivative != 0 || t.quotients[i] != 0) verify_add(v, text);
  }
  *right = verify_judge(v, &t) && *right;
  return e->id;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static int verify_all(verify *v, error *e) {
  gradient *g = v->g;
  bool right;
  double J;
  TRY(verify_begin(v, e));
  TRY(verify_dot(v, &right, e));
  TRY(verify_run(v, true, e));
  TRY(verify_misfit(v, &J, e));
  TRY(adjoint_take(&g->adjoint, 0, g->misfits->residual, g->misfits->unit, e));
  TRY(gradient_back(g, e));
  TRY(gradient_chain(g, 0, e));
  TRY(verify_keep_medium(v, e));
  TRY(verify_taylor(v, J, &right, e));
  TRY(verify_change(v, 0, e));
  if (gradient_write(g, 0, v->text, e) == ERROR_GRADIENT_SMALL) { /* the gradient may still be right */
    log_line(v->shot->log, "warning: %s; it is not written", e->text);
    *e = (error){0};
  }
  return e->id || right ? e->id : FAIL(e, GRADIENT_WRONG);
}

int verify_gradient(gradient *g, error *e) {
  batch *b = g->b;
  shot *s = b->shots[0];
  verify v = {.g = g, .b = b, .shot = s, .p = &b->p, .engine = b->p.engine, .setup = s->of};
  verify_all(&v, e);
  free(v.m);
  free(v.start);
  free(v.velocity);
  free(v.weight);
  error ignored = {0};
  if (v.field) b->p.dev->table->free(b->p.dev, v.field, MEMORY_DEVICE, &ignored);
  return e->id;
}
