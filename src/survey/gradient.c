#include "gradient.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "device/host_memory.h"

/* --- the budget --------------------------------------------------------------------------------------------------- */

/* The free memory of the host, for each of its ranks. */
static double gradient_host_left(const engine *g) {
  const host_memory_limits host = host_memory_limits_read();
  const double left = host.left == UINT64_MAX ? (double)host.total / 2 : (double)host.left;
  return left / g->options.local_ranks;
}

/* Free memory of this rank's device, or host, minus the memory of `runs` such runs. */
static double gradient_free(const batch *b, int runs) {
  const propagator *s = &b->p;
  const double SHARE = 0.8;
  const engine *g = s->engine;
  const double available = s->dev->available ? (double)s->dev->available : gradient_host_left(g);
  const double free =
      SHARE * available - runs * (engine_bytes(s->config, &g->slab) + (double)adjoint_bytes(s));
  return free > 0 ? free : 0;
}

/* On the host backend, host and device share one memory. */
static bool gradient_on_host(const batch *b) {
  return b->p.dev->table->backend == BACKEND_HOST;
}

/* Finds the memory budgets of a rank: bytes in each tier. */
static int gradient_budget(const batch *b, int parts, double budget[PLAN_TIERS], error *e) {
  const double SHARE = 0.5;
  const config *c = b->p.config;
  const double device = gradient_on_host(b) ? c->gradient_host_memory : c->gradient_memory;
  disk_space disk = {.available = 0};
  budget[TIER_DEVICE] = device > 0 ? device : gradient_free(b, parts);
  budget[TIER_HOST] =
      c->gradient_host_memory > 0 ? c->gradient_host_memory : SHARE * gradient_host_left(b->p.engine);
  if (gradient_on_host(b)) budget[TIER_HOST] = 0;
  if (c->gradient_path[0] && c->gradient_file_memory == 0) TRY(space_of(c->gradient_path, &disk, e));
  budget[TIER_FILE] = c->gradient_file_memory > 0 ? c->gradient_file_memory : SHARE * (double)disk.available;
  for (int tier = 0; tier < PLAN_TIERS; tier++) budget[tier] /= parts;
  return 0;
}

/* Finds the need for the largest slab and the smallest memory, since all ranks follow one plan. */
static int gradient_need(const batch *b, int parts, plan_need *need, error *e) {
  const propagator *s = &b->p;
  double least[PLAN_TIERS + 2] = {0, 0, 0, -(double)adjoint_field_bytes(s), -(double)states_bytes(s)};
  gradient_budget(b, parts, least, e);
  TRY(error_agree(e, s->engine->comm));
  MPI_TRY(e, mpi_reduce_all(least, PLAN_TIERS + 2, MPI_DOUBLE, MPI_MIN, s->engine->comm));
  const int64_t steps = s->engine->physics.steps, extra = exact_time_extra(s->engine->config, steps);
  *need = (plan_need){
      larger64(propagator_last(s), steps + extra) + 1, -least[3], -least[4], {least[0], least[1], least[2]}};
  return 0;
}

static double gradient_mib(double bytes) {
  return bytes / 1048576;
}

static const double FORWARD_AND_BACK = 2.75; /* forward runs, by the bytes that a step and its adjoint move */

int gradient_memory_parts(const batch *b, int most, int *parts, error *e) {
  const double MORE = 1.1;
  double least, alone = 0;
  *parts = 1;
  if (gradient_on_host(b)) return 0; /* a shot keeps all cores busy */
  for (int n = 1; n <= most && config_has_gradient(b->p.config); n++) {
    plan_need need;
    plan p;
    TRY(gradient_need(b, n, &need, e));
    const double cost = plan_make(&p, &need, &least) ? FORWARD_AND_BACK + p.again : INFINITY;
    if (n == 1) alone = cost;
    if (cost <= MORE * alone && cost < INFINITY) *parts = n;
  }
  return 0;
}

int gradient_plan(gradient *g, batch *b, error *e) {
  const engine *n = b->p.engine;
  plan_need need;
  double least;
  g->b = b;
  if (!config_has_gradient(b->p.config) || g->adjoint.of) return 0; /* the first batch plans for all */
  g->most = larger(n->setup.together, 1);
  if (!g->misfits) ALLOC(e, g->misfits, g->most, "the misfits");
  if (!g->made && !e->id) ALLOC(e, g->made, g->most, "the gradients");
  TRY(error_agree(e, n->comm));
  TRY(gradient_need(b, larger(g->parts, 1), &need, e));
  if (plan_make(&g->plan, &need, &least)) return 0;
  if (gradient_on_host(b))
    return FAIL(e, GRADIENT_HOST_MEMORY, gradient_mib(need.budget[TIER_DEVICE]),
                gradient_mib(need.budget[TIER_FILE]), gradient_mib(least));
  return FAIL(e, GRADIENT_MEMORY, gradient_mib(need.budget[0]), gradient_mib(need.budget[1]),
              gradient_mib(need.budget[2]), gradient_mib(least));
}

void gradient_announce(const gradient *g, run_log *log) {
  const batch *b = g->b;
  const plan *p = &g->plan;
  if (!config_has_gradient(b->p.config)) return;
  const int64_t ring = plan_beside(p, p->near);
  const bool on_host = gradient_on_host(b);
  const char *where = on_host ? "host" : "device";
  char states[200] = "", on_the_host[2][40] = {"", ""};
  if (!on_host) {
    snprintf(on_the_host[0], sizeof *on_the_host, ", %lld on the host", (long long)p->tier[TIER_HOST]);
    snprintf(on_the_host[1], sizeof *on_the_host, ", %.1f MiB on the host",
             gradient_mib(p->bytes[TIER_HOST]));
  }
  if (p->segments > 1)
    snprintf(states, sizeof states, ", states every %lld steps%s: %lld on the %s%s, %lld in a file",
             (long long)(p->parts > 1 ? p->part : ring), p->parts > 1 ? " and within" : " or fewer",
             (long long)p->tier[TIER_DEVICE], where, on_the_host[0], (long long)p->tier[TIER_FILE]);
  log_line(log, "gradient: a ring buffer of %lld of %lld fields%s", (long long)ring,
           (long long)p->need.fields, states);
  log_line(log,
           "gradient: %.1f MiB a rank on the %s besides %.1f MiB for the adjoint%s, %.1f MiB in a file; "
           "%.2f forward runs in all",
           gradient_mib(p->bytes[TIER_DEVICE]), where, gradient_mib((double)adjoint_bytes(&b->p)),
           on_the_host[1], gradient_mib(p->bytes[TIER_FILE]), FORWARD_AND_BACK + p->again);
  if (g->parts > 1)
    log_line(log, "gradient: that is a part in %d: a shot goes back while the next one steps", g->parts);
}

/* --- a batch ------------------------------------------------------------------------------------------------------ */

int gradient_check(gradient *g, int i, error *e) {
  const shot *s = g->b->shots[i];
  const config *c = s->config;
  if (!config_has_gradient(c)) return 0;
  const bool given = c->gradient_residual[0];
  const char *dataset = given ? c->gradient_residual : c->gradient_observed;
  misfit *m = &g->misfits[i];
  error other = {0};
  misfit_close(m);
  TRY(misfit_open(m, s, dataset, (misfit_use){given, g->dry, g->caller}, e));
  if (m->caller) return 0;
  if (!misfit_check_origin(m, s, &other)) return 0;
  if (!g->tests) *e = other;
  if (g->tests && !g->warned)
    log_line(s->log, "warning: %s; for tests of the gradient they will do", other.text);
  if (g->tests) g->warned = true;
  return e->id;
}

/* Takes the memory of the adjoint, and an unnamed file for its states. */
static int gradient_open_adjoint(gradient *g, error *e) {
  const config *c = g->b->p.config;
  const char *path = c->gradient_path[0] ? c->gradient_path : c->output_path;
  const size_t bytes = (size_t)g->plan.tier[TIER_FILE] * states_bytes(&g->b->p);
  if (bytes) scratch_open(&g->file, path, bytes, e);
  TRY(error_agree(e, g->b->p.engine->comm));
  return adjoint_open(&g->adjoint, &g->b->p, &g->plan, g->file.memory, e);
}

static void gradient_close_adjoint(gradient *g) {
  adjoint_close(&g->adjoint);
  scratch_close(&g->file);
}

int gradient_open(gradient *g, error *e) {
  if (!config_has_gradient(g->b->p.config)) return 0;
  if (g->adjoint.of &&
      propagator_last(&g->b->p) >= g->plan.need.fields) { /* earlier batches had fewer extra steps */
    gradient_close_adjoint(g);
    TRY(gradient_plan(g, g->b, e));
  }
  if (!g->adjoint.of) TRY(gradient_open_adjoint(g, e));
  adjoint_observe(&g->adjoint);
  return 0;
}

/* The content of a gradient file. */
typedef struct gradient_parts {
  field_name names[GRADIENT_FIELDS];
  adjoint_field fields[GRADIENT_FIELDS + 1]; /* the last one has no `of` */
  field_planes planes[GRADIENT_FIELDS];
  const char *base;
  gradient_meta of;
  field_meta meta;
} gradient_parts;

/* Describes a shot's gradient file, as for a run that reaches its end. */
static void gradient_describe_file(const gradient *g, int number, const char *verified, gradient_parts *p) {
  const shot *s = g->b->shots[number];
  const config *c = s->config;
  const misfit *m = &g->misfits[number];
  const char *slash = strrchr(c->output_path, '/');
  int count = 0;
  memset(p, 0, sizeof *p);
  for (int i = 0; i < GRADIENT_FIELDS; i++) {
    if (!adjoint_asked(c, i)) continue;
    p->names[count] = GRADIENT_NAMES[i];
    p->fields[count] = (adjoint_field){&g->adjoint, i, number, 0};
    p->planes[count] = (field_planes){adjoint_planes, &p->fields[count]};
    count++;
  }
  p->base = slash ? slash + 1 : c->output_path;
  p->of = (gradient_meta){.shots = 1,
                          .names = &p->base,
                          .misfit = m->given && !m->caller ? NULL : &m->value,
                          .signals = c->gradient_signals ? s->at.sources.count : 0,
                          .steps = s->engine->physics.steps,
                          .verified = verified};
  p->meta = (field_meta){.run = batch_run(g->b, number, s->engine->physics.steps),
                         .origin = {c->origin[0], c->origin[1], c->origin[2]},
                         .spacing = {c->dx, c->dy, c->dz},
                         .ending = GRADIENT_ENDING,
                         .fields = count,
                         .names = p->names,
                         .gradient = &p->of,
                         .measured = adjoint_measured};
}

int gradient_make_file(gradient *g, int i, error *e) {
  const shot *s = g->b->shots[i];
  gradient_parts p;
  if (!config_has_gradient(s->config)) return 0;
  gradient_describe_file(g, i, NULL, &p);
  const request file = {FILES_CREATE_FIELD, .field = &p.meta, .own = {.io = &s->io, .creates = &g->made[i]}};
  return files_do(s->engine->files, &file, e);
}

void gradient_drop_file(gradient *g, int i) {
  if (g->made) new_file_drop(&g->made[i], &(error){0});
}

static int gradient_write_file(gradient *g, int i, const float *signals, const char *verified, error *e) {
  const shot *s = g->b->shots[i];
  new_file *made = &g->made[i];
  gradient_parts p;
  gradient_describe_file(g, i, verified, &p);
  p.of.signal_gradient = signals;
  const request_own own = {.io = &s->io, .planes = p.planes, .made = made->plan.temporary[0] ? made : NULL};
  engine_write_field(s->engine, &p.meta, s->config->output_path, own, e);
  made->plan.temporary[0] = '\0';
  return e->id;
}

int gradient_residual(gradient *g, int i, error *e) {
  const shot *s = g->b->shots[i];
  if (!config_has_gradient(s->config)) return 0;
  misfit *m = &g->misfits[i];
  TRY(misfit_residual(m, s, e));
  if (!m->given || m->caller) log_line(s->log, "gradient: misfit %.9g", m->value);
  return adjoint_take(&g->adjoint, i, m->residual, m->unit, e);
}

/* Shows the progress, and ends the adjoint early if a signal or the wall time requires it, on all ranks together. */
static int gradient_poll(void *context, int64_t count, error *e) {
  gradient *g = context;
  stop_watch *w = &g->b->stop;
  enum stop_reason reason;
  bool unused;
  batch_advance(g->b, true, 1 - (double)g->adjoint.step / (double)(propagator_last(&g->b->p) + 1));
  if (stop_poll(w, count, &reason, &unused, e)) return error_abort(e, w->comm);
  return reason == STOP_NOT ? 0 : batch_stopped(g->b, reason, g->adjoint.step, ", in the adjoint", e);
}

/* Creates missing files while the device steps. A failure is ignored here: it occurs again, and is reported, when the
 * file is written. */
static void *gradient_make_files(void *context) {
  gradient *g = context;
  for (int i = 0; i < g->b->count && !g->tests; i++) {
    error later = {0};
    if (!g->b->shots[i]->failed.id && !g->made[i].plan.temporary[0]) gradient_make_file(g, i, &later);
  }
  return NULL;
}

int gradient_back(gradient *g, error *e) {
  pthread_t files;
  adjoint *a = &g->adjoint;
  if (!config_has_gradient(g->b->p.config)) return 0;
  a->poll = gradient_poll, a->context = g;
  TRY(batch_watch(g->b, 0, e));
  const bool beside = !thread_start(&files, gradient_make_files, g);
  adjoint_run(a, e);
  if (beside) pthread_join(files, NULL);
  TRY(e->id);
  TRY(stop_close(&g->b->stop, e));
  return adjoint_bring(a, e);
}

int gradient_chain(gradient *g, int i, error *e) {
  return config_has_gradient(g->b->p.config) ? adjoint_chain(&g->adjoint, i, e) : 0;
}

int gradient_write(gradient *g, int i, const char *verified, error *e) {
  shot *s = g->b->shots[i];
  const config *c = s->config;
  float *signals = NULL;
  if (!config_has_gradient(c)) return 0;
  if (c->gradient_signals && s->at.sources.count) adjoint_signals(&g->adjoint, i, false, &signals, e);
  if (!e->id) gradient_write_file(g, i, signals, verified, e);
  free(signals);
  s->written.gradient = !e->id;
  return e->id;
}

void gradient_close(gradient *g) {
  for (int i = 0; g->misfits && i < g->most; i++) misfit_close(&g->misfits[i]), gradient_drop_file(g, i);
  free(g->misfits);
  free(g->made);
  gradient_close_adjoint(g);
  *g = (gradient){.b = NULL};
}

/* --- the time step ------------------------------------------------------------------------------------------------ */

int gradient_time(config *c, const files *files, run_log *log, error *e) {
  char name[CONFIG_TEXT + 16];
  table t;
  if (!c->gradient_observed[0] || c->dt > 0) return 0;
  misfit_beside(c->gradient_observed, "time", name);
  const table_form form = {.flat = true, .columns = 1, .quantity = QUANTITY_TIME, .measured = 1};
  TRY(files_do(files, &(request){FILES_READ_TABLE, .path = name, .form = form, .own.table = &t}, e));
  const double each =
      t.rows > 1 ? (t.values[t.rows - 1] - t.values[0]) / (double)(t.rows - 1) / (double)c->receivers_every
                 : 0;
  if (each > 0) {
    c->dt = each;
    log_line(log, "dt = %.6g s, as the observed traces have it", each);
  }
  table_free(&t);
  return 0;
}
