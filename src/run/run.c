/* A run, a benchmark and the tests of a gradient, which use the same driver. */
#include "run.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "step/prove.h"
#include "survey/verify.h"

/* On the heap, since it is too large for a small stack. */
typedef struct run_memory {
  config c;
  survey v;
} run_memory;

survey_job run_job(const job *j, const config *c) {
  return (survey_job){.config = c,
                      .command = j->command,
                      .log = j->log,
                      .files = j->files,
                      .restart = config_has_gradient(c) ? NULL : j->options->restart,
                      .profile = !j->options->quiet || c->report_file[0], /* the phases' times are printed */
                      .lines = j->survey};
}

/* --- a benchmark ------------------------------------------------------------------------------------------------- */

/* Steps that a benchmark does before it begins to time. */
static int64_t run_warm_up(int64_t steps) {
  return steps < 10 ? steps : 10;
}

/* Turns a configuration into a benchmark's. The field is random, so that its values are no easy case for the
 * hardware. */
static void run_time_config(config *timed, int64_t steps) {
  timed->timed = true;
  timed->initial = INITIAL_RANDOM, timed->previous = PREVIOUS_REST;
  timed->output_every = timed->check_every = 0;
  timed->output_final = true; /* avoids a warning, since a benchmark saves nothing */
  timed->steps = run_warm_up(steps) + steps;
  timed->end_time = timed->maps_from = timed->maps_until = 0;
  timed->gradient_observed[0] = timed->gradient_residual[0] = '\0';
}

/* Loads the fields and does the planned steps except the last `steps`, which are timed. */
static int run_warm(batch *b, int64_t steps, error *e) {
  stepper *p = &b->p.stepper;
  const int64_t warm_up = b->p.engine->physics.steps - steps;
  TRY(batch_load(b, e));
  while (p->step < warm_up)
    if (stepper_advance(p, warm_up - p->step, e)) return error_abort(e, b->p.engine->comm);
  if (stepper_reset_phases(p, e)) return error_abort(e, b->p.engine->comm);
  return 0;
}

static int run_benchmark(const job *j, survey_slot *t, error *e) {
  batch *b = &t->batch;
  const engine *g = b->p.engine;
  const shot *s = b->shots[0];
  TRY(run_warm(b, j->options->benchmark, e));
  announce_left(s);
  TRY(shot_make_folders(s, false, false, e));
  watchdog_open(&b->p.stepper.watch, g->comm, j->config->watchdog_seconds, b->p.stepper.step, e);
  if (!e->id) batch_steps(b, false, e);
  watchdog_close(&b->p.stepper.watch);
  if (!e->id) stepper_prove(&b->p.stepper, g->comm, e);
  if (!e->id && !announce_report(b, e) && g->config->report_file[0])
    announce_files(s, g->config->report_file);
  return batch_end(b, e);
}

/* --- how long a run takes ----------------------------------------------------------------------------------------- */

/* Does `steps` steps, and sets b->loop to their time, which is the same on every rank. */
static int run_time(batch *b, int64_t steps, error *e) {
  stepper *p = &b->p.stepper;
  const MPI_Comm comm = b->p.engine->comm;
  const int64_t last = p->step + steps;
  MPI_TRY(e, MPI_Barrier(comm));
  double seconds = -MPI_Wtime();
  while (p->step < last)
    if (stepper_advance(p, last - p->step, e)) return error_abort(e, comm);
  if (stepper_sync(p, e)) return error_abort(e, comm);
  seconds += MPI_Wtime();
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm));
  b->loop = (loop_times){.steps = steps, .seconds = seconds};
  return 0;
}

/* Times about two seconds of steps, whose number the first few steps tell; at most the steps that are left. */
static int run_sample(batch *b, error *e) {
  const double SECONDS = 2;
  const int64_t steps = b->p.engine->physics.steps, few = run_warm_up(steps);
  TRY(run_time(b, few, e));
  const double more = floor(SECONDS * (double)few / fmax(b->loop.seconds, 1e-9));
  const int64_t left = steps - b->p.stepper.step;
  if (left < 1 || more < 1) return 0;
  return run_time(b, more < (double)left ? (int64_t)more : left, e);
}

static void run_log_estimate(run_log *log, const loop_times *t, const config *c, int64_t steps) {
  const double each = t->seconds / (double)t->steps, all = each * (double)steps;
  log_line(log, "measured: %" PRId64 " step%s in %.4g s, %.4g Gpts/s", t->steps, t->steps == 1 ? "" : "s",
           t->seconds, config_points(c) / each * 1e-9);
  log_line(log,
           "estimate: %" PRId64 " steps take %.4g s (%" PRId64
           ":%02d:%02d), longer where saving keeps them waiting",
           steps, all, (int64_t)(all / 3600), (int)fmod(all / 60, 60), (int)fmod(all, 60));
  if (c->max_seconds > 0 && all > c->max_seconds)
    log_line(log, "warning: [time] max_seconds = %g ends the run before, after a checkpoint", c->max_seconds);
}

int run_estimate(const job *j, const survey *v, int64_t steps, double *seconds, error *e) {
  const int64_t LEAST = 20; /* steps: fewer are unreliable */
  const int64_t timed = steps > LEAST ? steps : LEAST;
  const bool progress = v->log->progress;
  run_memory *m;
  survey_slot *t;
  ALLOC(e, m, 1, "the configuration");
  TRY(error_agree(e, v->active));
  m->c = *j->config;
  run_time_config(&m->c, timed);
  config_single(&m->c);
  const survey_job sample = {
      .config = &m->c, .command = j->command, .log = v->log, .files = v->files, .samples = true};
  v->log->progress = false;
  if (!survey_plan(&m->v, &sample, e) && !survey_open(&m->v, e) && !survey_batch(&m->v, &t, e) &&
      !run_warm(&t->batch, timed, e) && !run_sample(&t->batch, e)) {
    const loop_times *times = &t->batch.loop;
    run_log_estimate(v->log, times, j->config, steps);
    *seconds = times->steps ? times->seconds / (double)times->steps * (double)steps : 0;
  }
  v->log->progress = progress;
  survey_close(&m->v);
  free(m);
  return e->id;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

/* --verify-gradient: writes no file except the gradient's. */
static int run_verify(const job *j, survey_slot *t, error *e) {
  const shot *s = t->batch.shots[0];
  TRY(shot_make_folders(s, true, false, e));
  j->log->progress = false;
  t->gradient.tests = true;
  verify_gradient(&t->gradient, e);
  batch_end(&t->batch, e);
  announce_files(s, NULL);
  return e->id;
}

static int run_one(const job *j, survey *v, int (*does)(const job *j, survey_slot *t, error *e), error *e) {
  survey_slot *t;
  if (survey_open(v, e)) return e->id;
  TRY(survey_batch(v, &t, e));
  return does(j, t, e);
}

/* Applies the options to the configuration. */
static void run_ask(const cli *o, config *c) {
  if (o->benchmark) run_time_config(c, o->benchmark);
  if (!o->verify) return;
  c->gradient_signals = true;
  c->gradient_initial = c->initial != INITIAL_ZERO || c->gradient_initial;
}

int run(const job *j, error *e) {
  const cli *o = j->options;
  const bool gradient = config_has_gradient(j->config);
  run_memory *m;
  ALLOC(e, m, 1, "the configuration");
  if (gradient && o->restart && strcmp(o->restart, "auto") != 0 && !o->benchmark) FAIL(e, GRADIENT_RESTART);
  if (o->verify && !gradient)
    FAIL(e, USAGE_OPTION, "--verify-gradient: only with [gradient] observed or adjoint_source");
  if (!error_agree(e, j->files->compute)) {
    m->c = *j->config;
    run_ask(o, &m->c);
    const survey_job what = run_job(j, &m->c);
    if (!survey_plan(&m->v, &what, e) && survey_active(&m->v)) {
      if (o->benchmark || o->verify)
        run_one(j, &m->v, o->verify ? run_verify : run_benchmark, e);
      else
        survey_run(&m->v, e);
    }
    survey_close(&m->v);
  }
  free(m);
  return error_agree(e, j->files->compute);
}
