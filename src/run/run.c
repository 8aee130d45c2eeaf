/* A run: one engine, one shot. */
#include "run.h"
#include <stdlib.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "survey/announce.h"
#include "base/error_mpi.h"
#include "survey/verify.h"
#include "survey/restart.h"

int run_plan(const job *j, engine *g, shot *s, const checkpoint *from, bool profile, error *e) {
  const engine_setup setup = {j->config, j->files, j->log, from ? from->dt : 0, profile, j->beside, j->stack};
  TRY(engine_plan(g, &setup, e));
  return shot_plan(s, g, &(shot_setup){j->config, j->command, j->log, from, NULL, NULL}, e);
}

/* --- a benchmark ------------------------------------------------------------------------------------------------- */

/* Steps that a benchmark does before it times. */
static int64_t run_warm_up(int64_t steps) {
  return steps < 10 ? steps : 10;
}

/* Loads the fields and does the planned steps but for the last `steps`, which are timed. */
static int run_begin_benchmark(shot *s, int64_t steps, error *e) {
  const int64_t warm_up = s->engine->physics.steps - steps;
  TRY(announce_check_report(s, e));
  TRY(shot_load(s, e));
  while (s->stepper.step < warm_up)
    if (stepper_advance(&s->stepper, warm_up - s->stepper.step, e)) error_abort(e, s->engine->comm);
  if (stepper_reset_phases(&s->stepper, e)) error_abort(e, s->engine->comm);
  return 0;
}

/* The configuration of a benchmark. The field is random: nothing about it is easy for a cache or the hardware. */
static config run_timed_config(const config *c, int64_t steps) {
  config timed = *c;
  timed.timed = true;
  timed.initial = INITIAL_RANDOM, timed.previous = PREVIOUS_REST;
  timed.output_every = timed.check_every = 0;
  timed.output_final = true; /* no remark: it saves nothing in any case */
  timed.steps = run_warm_up(steps) + steps;
  timed.end_time = timed.maps_from = timed.maps_until = 0;
  timed.gradient_observed[0] = timed.gradient_residual[0] = '\0';
  return timed;
}

/* Does so many steps, and sets s->loop to their time, which is the same on every rank. */
static int run_time(shot *s, int64_t steps, error *e) {
  const int64_t last = s->stepper.step + steps;
  MPI_TRY(e, MPI_Barrier(s->engine->comm));
  double seconds = -MPI_Wtime();
  while (s->stepper.step < last)
    if (stepper_advance(&s->stepper, last - s->stepper.step, e)) error_abort(e, s->engine->comm);
  if (stepper_sync(&s->stepper, e)) error_abort(e, s->engine->comm);
  seconds += MPI_Wtime();
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, s->engine->comm));
  s->loop = (loop_times){.steps = steps, .seconds = seconds};
  return 0;
}

/* Times as many steps as take about two seconds, judged by the first few, and no more than are left. */
static int run_sample(shot *s, error *e) {
  const double SECONDS = 2;
  const int64_t few = run_warm_up(s->engine->physics.steps);
  TRY(run_time(s, few, e));
  const double more = floor(SECONDS * (double)few / fmax(s->loop.seconds, 1e-9));
  const int64_t left = s->engine->physics.steps - s->stepper.step;
  if (left < 1 || more < 1) return 0;
  return run_time(s, more < (double)left ? (int64_t)more : left, e);
}

static void run_log_estimate(const shot *s, const config *c, int64_t steps) {
  const loop_times *t = &s->loop;
  const double each = t->seconds / (double)t->steps, all = each * (double)steps;
  log_line(s->log, "measured: %" PRId64 " step%s in %.4g s, %.4g Gpts/s", t->steps, t->steps == 1 ? "" : "s",
           t->seconds, config_points(c) / each * 1e-9);
  log_line(s->log,
           "estimate: %" PRId64 " steps take %.4g s (%" PRId64
           ":%02d:%02d), longer where saving keeps them waiting",
           steps, all, (int64_t)(all / 3600), (int)fmod(all / 60, 60), (int)fmod(all, 60));
  if (c->max_seconds > 0 && all > c->max_seconds)
    log_line(s->log, "warning: [time] max_seconds = %g ends the run before, after a checkpoint",
             c->max_seconds);
}

int run_estimate(const job *j, int64_t steps, double *seconds, error *e) {
  const int64_t LEAST = 20; /* steps: fewer tell nothing */
  const int64_t timed = steps > LEAST ? steps : LEAST;
  const config c = run_timed_config(j->config, timed);
  const bool progress = j->log->progress;
  job sample = *j;
  engine g = {.dev = NULL};
  shot s = {.engine = NULL};
  sample.config = &c, sample.stack = 1;
  j->log->progress = false;
  if (!run_plan(&sample, &g, &s, NULL, false, e) && !engine_open(&g, e) && !shot_open(&s, e) &&
      !run_begin_benchmark(&s, timed, e) && !run_sample(&s, e))
    run_log_estimate(&s, j->config, steps);
  if (seconds) *seconds = s.loop.steps ? s.loop.seconds / (double)s.loop.steps * (double)steps : 0;
  j->log->progress = progress;
  shot_close(&s);
  engine_close(&g);
  return e->id;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

/* Once, unless the checkpoint before, which was passed over, had another time step. */
static int run_announce(const shot *s, double *told, error *e) {
  const double dt = s->engine->physics.dt;
  if (*told != dt) TRY(announce(s, e));
  *told = dt;
  return 0;
}

/* From the checkpoint, or the start, to the end. *told: the time step that the log has, or 0. */
static int run_leg(const job *j, const checkpoint *from, double *told, error *e) {
  engine g = {.dev = NULL};
  shot s = {.engine = NULL};
  gradient back = {.shot = NULL};
  const int64_t timed = j->options->benchmark;                          /* steps; 0: a normal run */
  const bool profile = !j->options->quiet || j->config->report_file[0]; /* somebody reads the phases' times */
  if (!run_plan(j, &g, &s, from->name[0] ? from : NULL, profile, e) && !gradient_plan(&back, &s, e) &&
      !gradient_check(&back, 0, &s, e) && !engine_open(&g, e) && !shot_open(&s, e) &&
      !gradient_open(&back, e) && !run_announce(&s, told, e)) {
    gradient_announce(&back);
    if (timed)
      run_begin_benchmark(&s, timed, e);
    else if (!announce_check_report(&s, e))
      shot_begin(&s, e);
    if (!e->id) announce_left(&s);
    if (!e->id && timed) shot_make_folders(&s, false, false, e);
    if (!e->id) watchdog_open(&s.stepper.watch, g.comm, j->config->watchdog_seconds, s.stepper.step, e);
    if (!e->id) shot_steps(&s, !timed, e);
    watchdog_close(&s.stepper.watch);
    if (!e->id && !timed && !shot_finish(&s, e) && !shot_extra_steps(&s, e) && !shot_finish_traces(&s, e))
      gradient_finish(&back, e);
    if (!e->id) announce_report(&s, e);
    shot_end(&s, e);
    announce_files(&s);
  }
  gradient_close(&back);
  shot_close(&s);
  engine_close(&g);
  return e->id;
}

/* --verify-gradient: no file but the gradient's. */
static int run_verify(const job *j, error *e) {
  config *c = malloc(sizeof *c);
  engine g = {.dev = NULL};
  shot s = {.engine = NULL};
  gradient back = {.tests = true};
  job tests = *j;
  if (!c) FAIL(e, OUT_OF_MEMORY, sizeof *c, "the configuration");
  TRY(error_agree(e, j->files->compute));
  *c = *j->config;
  c->gradient_signals = true;
  c->gradient_initial = c->initial != INITIAL_ZERO || c->gradient_initial;
  tests.config = c;
  const shot_setup setup = {c, j->command, j->log, NULL, NULL, NULL};
  if (!config_has_gradient(c))
    FAIL(e, USAGE_OPTION, "--verify-gradient: only with [gradient] observed or adjoint_source");
  if (!e->id && !run_plan(&tests, &g, &s, NULL, false, e) && !gradient_plan(&back, &s, e) &&
      !gradient_check(&back, 0, &s, e) && !engine_open(&g, e) && !shot_open(&s, e) && !announce(&s, e) &&
      !shot_make_folders(&s, true, false, e)) {
    j->log->progress = false;
    gradient_announce(&back);
    verify_gradient(&back, &s, &setup, e);
    shot_end(&s, e);
    announce_files(&s);
  }
  gradient_close(&back);
  shot_close(&s);
  engine_close(&g);
  free(c);
  return e->id;
}

int run(const job *j, error *e) {
  if (j->options->verify) return run_verify(j, e);
  restart r = {
      .name = j->options->restart, .path = j->config->checkpoint_path, .log = j->log, .files = j->files};
  config *timed = j->options->benchmark ? malloc(sizeof *timed) : NULL; /* the stack may be small */
  job leg = *j;
  double told = 0;
  const bool anew = config_has_gradient(j->config);
  if (anew && r.name && strcmp(r.name, "auto") != 0) FAIL(e, GRADIENT_RESTART);
  if (anew) r.name = NULL;
  if (j->options->benchmark && !timed) FAIL(e, OUT_OF_MEMORY, sizeof *timed, "the configuration");
  if (timed) *timed = run_timed_config(j->config, j->options->benchmark), leg.config = timed;
  if (!error_agree(e, j->files->compute) && !restart_open(&r, e)) {
    do run_leg(&leg, &r.from, &told, e);
    while (restart_pass_over(&r, e));
    restart_close(&r);
  }
  free(timed);
  return e->id;
}
