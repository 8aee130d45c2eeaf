/* A run: open, announce, step, finish. What is due between steps: saved fields, checks, checkpoints, progress. */
#include "run.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "announce.h"
#include "base/error_mpi.h"
#include "report.h"
#include "simulation.h"
#include "save/restart.h"
#include "save/save_checkpoint.h"
#include "save/save_field.h"
#include "save/checkpoint_arrays.h"
#include "stop.h"
#include "save/storage.h"

/* --- the loop ---------------------------------------------------------------------------------------------------- */

static bool run_due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

/* The next step at which something must be saved or checked, or the loop ends. */
static int64_t run_next_stop(const config *c, int64_t step, int64_t last) {
  int64_t stop = last, every[CONFIG_INTERVALS];
  config_intervals(c, every);
  for (int i = 0; i < CONFIG_INTERVALS; i++) {
    int64_t next = every[i] > 0 ? (step / every[i] + 1) * every[i] : last;
    if (next < stop) stop = next;
  }
  return stop;
}

/* Does what is due after the step just done, which is not the last: saves or checks the field, then writes a checkpoint,
 * which lists the saved fields. *reason: why the run must end. Collective, agreed. */
static int run_save_due(simulation *s, enum stop_reason *reason, error *e) {
  const config *c = s->config;
  const int64_t step = s->stepper.step;
  bool checkpoint = false;
  const bool field = run_due(step, c->output_every);
  s->saves.clock = s->stop.known;
  if (field)
    TRY(save_field(&s->saves, e));
  else if (run_due(step, c->check_every))
    TRY(save_field_check(&s->saves, e));
  watchdog_tell(s->stepper.watch, WATCH_AGREE, step);
  if (s->saves.writer) writer_collect(s->saves.writer);
  s->stop.trouble = s->saves.writer && writer_failed(s->saves.writer);
  TRY(stop_poll(&s->stop, step, reason, &checkpoint, e));
  if (*reason == STOP_TROUBLE) return save_queue_finish(&s->saves, e);
  if (*reason == STOP_SIGNAL && !stop_answered()) /* another rank has got it */
    log_line(s->log, "%s received: writing a checkpoint after step %" PRId64,
             stop_signal_name(s->stop.signal), step);
  checkpoint = checkpoint || run_due(step, c->checkpoint_every_steps) || *reason != STOP_NOT;
  s->saves.last = *reason != STOP_NOT;
  if (checkpoint) TRY(save_checkpoint(&s->saves, e));
  if (!checkpoint && !field) return 0;
  return stop_checkpointed(&s->stop, s->saves.checkpoint_seconds + save_queue_backlog(&s->saves), e);
}

static int run_stopped(const simulation *s, enum stop_reason reason, error *e) {
  const char *why = reason == STOP_WALL_TIME ? "the wall time runs out" : strsignal(s->stop.signal);
  return FAIL(e, STOPPED, s->stepper.step, s->physics.steps, why);
}

/* Shows the progress where it is due. Waits for the steps that are enqueued: the rate would count them too early. `p`:
 * all but the time; `begin`: when the loop began. */
static int run_progress(simulation *s, loop_progress p, double begin, error *e) {
  p.seconds = MPI_Wtime() - begin;
  if (!log_progress_due(s->log, &p)) return 0;
  TRY(stepper_sync(&s->stepper, e));
  p.seconds = MPI_Wtime() - begin;
  log_progress(s->log, &p, config_points(s->config));
  return 0;
}

/* Does the steps that are left; a restart may begin beyond the last one. A run that `saves` also checks and writes
 * checkpoints as configured, and may stop early, which is STOPPED. A rank that fails alone ends the job: the others may
 * be waiting for it. */
static int run_steps(simulation *s, bool saves, error *e) {
  const config *c = s->config;
  const int64_t first = s->stepper.step, last = s->physics.steps > first ? s->physics.steps : first;
  const int64_t uncounted = saves ? 0 : first; /* a benchmark's warm-up */
  loop_progress progress = {.first = first - uncounted, .steps = last - uncounted};
  enum stop_reason reason = STOP_NOT;
  MPI_TRY(e, MPI_Barrier(s->comm));
  const double begin = MPI_Wtime();
  s->saves.io_seconds = s->saves.waited_seconds = 0;
  while (s->stepper.step < last && reason == STOP_NOT) {
    const int64_t stop = run_next_stop(c, s->stepper.step, last);
    if (stepper_advance(&s->stepper, stop - s->stepper.step, e)) error_abort(e, s->comm);
    if (s->stepper.step == last) break; /* what is saved then needs no steps beside it: run_finish */
    if (saves) TRY(run_save_due(s, &reason, e));
    progress.step = s->stepper.step - uncounted;
    if (run_progress(s, progress, begin, e)) error_abort(e, s->comm);
  }
  if (reason != STOP_NOT) return run_stopped(s, reason, e);
  if (stepper_sync(&s->stepper, e)) error_abort(e, s->comm);
  watchdog_tell(s->stepper.watch, WATCH_AGREE, last);
  MPI_TRY(e, MPI_Barrier(s->comm));
  const double end = MPI_Wtime();
  s->loop = (loop_times){last - first, end - begin, s->saves.io_seconds, s->saves.waited_seconds, end};
  progress.step = progress.steps;
  return run_progress(s, progress, begin, e);
}

/* --- before and after the loop ----------------------------------------------------------------------------------- */

/* Loads the fields, saves the first one, and listens to signals. */
static int run_begin(simulation *s, error *e) {
  const config *c = s->config;
  TRY(sources_check(&s->sources, c, e));
  TRY(simulation_check_paths(s, true, e));
  TRY(storage_check(&s->saves, (double)receivers_file_bytes(&s->receivers), false, e));
  TRY(simulation_load(s, e));
  TRY(simulation_make_folders(s, true, false, e));
  TRY(save_checkpoint_begin(&s->saves, e));
  TRY(save_field_begin(&s->saves, false, e));
  if (c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0)
    save_queue_prepare(&s->saves, checkpoint_arrays_floats(&s->saves));
  else if (c->output_every > 0)
    save_queue_prepare(&s->saves, snapshot_field_floats(&s->slab));
  if (c->output_every > 0 && !s->from) TRY(save_field(&s->saves, e));
  const stop_times times = {c->max_seconds, c->checkpoint_every_seconds, save_checkpoint_seconds(&s->saves)};
  TRY(stop_open(&s->stop, s->comm, times, s->stepper.step, e));
  s->saves.checkpoint_seconds = save_checkpoint_seconds(&s->saves);
  s->stop.heard = files_signal;
  s->stop.context = (void *)(uintptr_t)s->files;
  return 0;
}

/* Saves the last field, unless the run before a restart has, or checks it, a checkpoint where it is due, and the traces.
 */
static int run_finish(simulation *s, error *e) {
  const config *c = s->config;
  const int64_t step = s->stepper.step;
  const bool advanced = s->loop.steps > 0, field = run_due(step, c->output_every);
  TRY(stop_close(&s->stop, e));
  TRY(save_queue_finish(&s->saves, e));
  s->saves.last = true;
  if (field && advanced) TRY(save_field(&s->saves, e));
  if (advanced && run_due(step, c->checkpoint_every_steps)) TRY(save_checkpoint(&s->saves, e));
  if (!field) /* after the checkpoint: a longer run would not have it in its series */
    TRY(c->output_final ? save_field(&s->saves, e) : save_field_check(&s->saves, e));
  const run_meta about = save_queue_run(&s->saves);
  if (s->stepper.receivers) TRY(receivers_write(&s->receivers, c->output_path, &about, e));
  s->saves.written.receivers = s->stepper.receivers;
  return 0;
}

/* --- a benchmark ------------------------------------------------------------------------------------------------- */

/* Steps that a benchmark does before it times. */
static int64_t run_warm_up(int64_t steps) {
  return steps < 10 ? steps : 10;
}

/* Loads the fields and does the planned steps but for the last `steps`, which are timed. */
static int run_begin_benchmark(simulation *s, int64_t steps, error *e) {
  const int64_t warm_up = s->physics.steps - steps;
  TRY(simulation_check_paths(s, false, e));
  TRY(simulation_load(s, e));
  while (s->stepper.step < warm_up)
    if (stepper_advance(&s->stepper, warm_up - s->stepper.step, e)) error_abort(e, s->comm);
  if (stepper_reset_phases(&s->stepper, e)) error_abort(e, s->comm);
  return 0;
}

/* The configuration of a benchmark. The field is random: nothing about it is easy for a cache or the hardware. */
static config run_timed_config(const config *c, int64_t steps) {
  config timed = *c;
  timed.initial = INITIAL_RANDOM;
  timed.output_every = timed.check_every = 0;
  timed.output_final = true; /* no remark: it saves nothing in any case */
  timed.steps = run_warm_up(steps) + steps;
  timed.end_time = 0;
  return timed;
}

/* Does so many steps, and sets s->loop to their time, which is the same on every rank. */
static int run_time(simulation *s, int64_t steps, error *e) {
  const int64_t last = s->stepper.step + steps;
  MPI_TRY(e, MPI_Barrier(s->comm));
  double seconds = -MPI_Wtime();
  while (s->stepper.step < last)
    if (stepper_advance(&s->stepper, last - s->stepper.step, e)) error_abort(e, s->comm);
  if (stepper_sync(&s->stepper, e)) error_abort(e, s->comm);
  seconds += MPI_Wtime();
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, s->comm));
  s->loop = (loop_times){.steps = steps, .seconds = seconds};
  return 0;
}

/* Times as many steps as take about two seconds, judged by the first few, and no more than are left. */
static int run_sample(simulation *s, error *e) {
  const double SECONDS = 2;
  const int64_t few = run_warm_up(s->physics.steps);
  TRY(run_time(s, few, e));
  const double more = floor(SECONDS * (double)few / fmax(s->loop.seconds, 1e-9));
  const int64_t left = s->physics.steps - s->stepper.step;
  if (left < 1 || more < 1) return 0;
  return run_time(s, more < (double)left ? (int64_t)more : left, e);
}

static void run_log_estimate(const simulation *s, const config *c, int64_t steps) {
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

int run_estimate(const job *j, int64_t steps, error *e) {
  const int64_t LEAST = 20; /* steps: fewer tell nothing */
  const int64_t timed = steps > LEAST ? steps : LEAST;
  const config c = run_timed_config(j->config, timed);
  const bool progress = j->log->progress;
  job sample = *j;
  simulation s;
  sample.config = &c;
  j->log->progress = false;
  if (!simulation_plan(&s, &sample, NULL, false, e) && !simulation_allocate(&s, e) &&
      !run_begin_benchmark(&s, timed, e) && !run_sample(&s, e))
    run_log_estimate(&s, j->config, steps);
  j->log->progress = progress;
  simulation_close(&s);
  return e->id;
}

/* --- the whole --------------------------------------------------------------------------------------------------- */

/* From the checkpoint, or the start, to the end. */
static int run_leg(const job *j, const checkpoint *from, error *e) {
  simulation s;
  const int64_t timed = j->options->benchmark;                          /* steps; 0: a normal run */
  const bool profile = !j->options->quiet || j->config->report_file[0]; /* somebody reads the phases' times */
  if (!simulation_plan(&s, j, from->name[0] ? from : NULL, profile, e) && !simulation_allocate(&s, e) &&
      !announce(&s, e)) {
    timed ? run_begin_benchmark(&s, timed, e) : run_begin(&s, e);
    if (!e->id && timed) simulation_make_folders(&s, false, false, e);
    if (!e->id) watchdog_open(&s.stepper.watch, s.comm, j->config->watchdog_seconds, s.stepper.step, e);
    if (!e->id) run_steps(&s, !timed, e);
    watchdog_close(&s.stepper.watch);
    if (!e->id && !timed) run_finish(&s, e);
    if (!e->id) announce_report(&s, e);
    if (!timed) save_field_finish(&s.saves, e);
    announce_files(&s);
  }
  simulation_close(&s);
  return e->id;
}

int run(const job *j, error *e) {
  const config timed = run_timed_config(j->config, j->options->benchmark);
  restart r = {
      .name = j->options->restart, .path = j->config->checkpoint_path, .log = j->log, .files = j->files};
  job leg = *j;
  if (j->options->benchmark) leg.config = &timed;
  TRY(restart_open(&r, e));
  do run_leg(&leg, &r.from, e);
  while (restart_pass_over(&r, e));
  restart_close(&r);
  return e->id;
}
