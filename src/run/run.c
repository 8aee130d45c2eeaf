/* The step loop and what happens around it: progress, checks, saved fields, report. */
#include "run.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "cores.h"
#include "base/error_mpi.h"
#include "report.h"
#include "simulation.h"
#include "save/save_checkpoint.h"
#include "save/save_field.h"
#include "save/checkpoint_arrays.h"
#include "stop.h"
#include "save/storage.h"

enum { FILES_TEXT = 6 * CONFIG_TEXT + 256 /* all names of the files written */ };

static bool due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

/* The next step at which something must be saved or checked, or the loop ends. */
static int64_t stop_after(const config *c, int64_t step, int64_t last) {
  int64_t stop = last, every[CONFIG_INTERVALS];
  config_intervals(c, every);
  for (int i = 0; i < CONFIG_INTERVALS; i++) {
    int64_t next = every[i] > 0 ? (step / every[i] + 1) * every[i] : last;
    if (next < stop) stop = next;
  }
  return stop;
}

/* What is due at the step just done: saving or checking the field, then a checkpoint, which knows what was saved. */
static int look_after(simulation *s, int64_t last, enum stop_reason *reason, error *e) {
  const config *c = s->config;
  const int64_t step = s->stepper.step;
  bool checkpoint = false;
  const bool field = due(step, c->output_every);
  s->saving.last = step == last;
  s->saving.clock = s->stop.known;
  if (field)
    TRY(save_field(&s->saving, e));
  else if (due(step, c->check_every) && step < last) /* the last is checked when it is saved */
    TRY(save_field_check(&s->saving, e));
  watchdog_tell(s->stepper.watch, WATCH_AGREE, step);
  if (s->saving.writer) output_collect(s->saving.writer);
  s->stop.trouble = s->saving.writer && output_failed(s->saving.writer);
  TRY(stop_poll(&s->stop, step, reason, &checkpoint, e));
  if (*reason == STOP_TROUBLE) return saving_finish(&s->saving, e);
  if (step == last) *reason = STOP_NOT;           /* done all the same */
  if (*reason == STOP_SIGNAL && !stop_answered()) /* another rank has got it */
    log_line(s->log, "%s received: writing a checkpoint after step %" PRId64,
             stop_signal_name(s->stop.signal), step);
  checkpoint = checkpoint || due(step, c->checkpoint_every_steps) || *reason != STOP_NOT;
  s->saving.last = s->saving.last || *reason != STOP_NOT;
  if (checkpoint) TRY(state_save(&s->saving, e));
  if (!checkpoint && !field) return 0;
  return stop_checkpointed(&s->stop, s->saving.checkpoint_seconds + saving_backlog(&s->saving), e);
}

static int stopped(const simulation *s, enum stop_reason reason, error *e) {
  const char *why = reason == STOP_WALL_TIME ? "the wall time runs out" : strsignal(s->stop.signal);
  return FAIL(e, STOPPED, s->stepper.step, s->physics.steps, why);
}

/* Where progress is due: waits for the steps that are begun, or the rate would count them too early. `begin`: when the
 * loop began, after `first` steps. */
static int show_progress(simulation *s, int64_t first, int64_t last, double begin, error *e) {
  const int64_t done = s->stepper.step - first, all = last - first;
  if (!log_progress_due(s->log, done, all, MPI_Wtime() - begin)) return 0;
  TRY(stepper_sync(&s->stepper, e));
  log_progress(s->log, done, all, MPI_Wtime() - begin, config_points(s->config));
  return 0;
}

/* Advances to step `last`, saving, checking and writing checkpoints as configured (`watched`: also stopping early,
 * which is STOPPED). *seconds: wall time of the loop, between two barriers. */
static int loop(simulation *s, int64_t last, bool watched, double *seconds, error *e) {
  const config *c = s->config;
  enum stop_reason reason = STOP_NOT;
  MPI_TRY(e, MPI_Barrier(s->comm));
  double begin = MPI_Wtime();
  s->saving.io_seconds = s->saving.waited_seconds = 0;
  const int64_t first = s->stepper.step, steps = last - first;
  while (s->stepper.step < last && reason == STOP_NOT) {
    if (stepper_advance(&s->stepper, stop_after(c, s->stepper.step, last) - s->stepper.step, e))
      error_abort(e, s->comm);
    if (watched) TRY(look_after(s, last, &reason, e));
    if (s->stepper.step < last && show_progress(s, first, last, begin, e)) error_abort(e, s->comm);
  }
  if (reason != STOP_NOT) return stopped(s, reason, e);
  if (stepper_sync(&s->stepper, e)) error_abort(e, s->comm);
  watchdog_tell(s->stepper.watch, WATCH_AGREE, last);
  MPI_TRY(e, MPI_Barrier(s->comm));
  *seconds = MPI_Wtime() - begin;
  s->loop_end = begin + *seconds;
  s->loop_io_seconds = s->saving.io_seconds;
  s->loop_wait_seconds = s->saving.waited_seconds;
  if (log_progress_due(s->log, steps, steps, *seconds))
    log_progress(s->log, steps, steps, *seconds, config_points(c));
  return 0;
}

/* The loop under the watchdog's eyes. */
static int guarded_loop(simulation *s, int64_t last, bool watched, double *seconds, error *e) {
  watchdog **watch = &s->stepper.watch;
  if (!watchdog_open(watch, s->comm, s->config->watchdog_seconds, s->stepper.step, e))
    loop(s, last, watched, seconds, e);
  watchdog_close(watch);
  return e->id;
}

static report_rank measured(const simulation *s, int64_t steps) {
  const step_phases *p = &s->stepper.phases;
  double measured_steps = p->steps ? (double)p->steps : 1;
  struct rusage usage = {0};
  getrusage(RUSAGE_SELF, &usage);
  const output_totals writer = saving_totals(&s->saving);
  return (report_rank){.boundary = p->boundary / measured_steps,
                       .to_host = p->to_host / measured_steps,
                       .exchange = p->exchange / measured_steps,
                       .to_device = p->to_device / measured_steps,
                       .interior = p->interior / measured_steps,
                       .exposed = p->exposed / measured_steps,
                       .io = steps ? s->loop_io_seconds / (double)steps : 0,
                       .io_wait = steps ? s->loop_wait_seconds / (double)steps : 0,
                       .writer_seconds = writer.seconds,
                       .writer_bytes = (double)writer.bytes,
                       .copy_gbs = s->copy_gbs,
                       .host_bytes = (double)usage.ru_maxrss * 1024,
                       .device_bytes = (double)s->dev->peak_bytes};
}

static report describe(const simulation *s, int64_t steps, double seconds, const report_rank *per_rank) {
  const config *c = s->config;
  return (report){.steps = steps,
                  .seconds = seconds,
                  .ending = MPI_Wtime() - s->loop_end,
                  .nx = c->nx,
                  .ny = c->ny,
                  .nz = c->nz,
                  .ranks = s->ranks,
                  .bytes_per_point = physics_bytes(c),
                  .backend = backend_name(s->dev->table->backend),
                  .kernel = s->stepper.kernel->name,
                  .transport = s->halo.name,
                  .device = s->dev->description,
                  .overlap = c->overlap,
                  .per_rank = per_rank,
                  .statistics = s->saving.statistics.points ? &s->saving.statistics : NULL};
}

/* Gathers what all ranks measured; rank 0 prints it and writes the JSON file. */
static int report_all(simulation *s, int64_t steps, double seconds, error *e) {
  report_rank mine = measured(s, steps), *all = NULL;
  size_t bytes = (size_t)s->ranks * sizeof *all;
  if (s->rank == 0 && !(all = malloc(bytes))) FAIL(e, OUT_OF_MEMORY, bytes, "the report");
  TRY(error_agree(e, s->comm));
  int rc = MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, s->comm);
  if (rc != MPI_SUCCESS) error_from_mpi(e, rc, "MPI_Gather");
  if (s->rank == 0 && !e->id) {
    report r = describe(s, steps, seconds, all);
    if (s->log->to) report_print(&r, s->log->verbose, s->log->to);
    log_flush(s->log);
    if (s->config->report_file[0]) s->saving.written.report = !report_write(&r, s->config->report_file, e);
  }
  free(all);
  return error_agree(e, s->comm);
}

/* One line on where this runs; warnings of devices, once. */
static int announce(simulation *s, error *e) {
  const config *c = s->config;
  log_line(s->log, "%s: %d x %d x %d points, %lld steps, %d rank%s%s", equation_name(c->equation), c->nx,
           c->ny, c->nz, (long long)s->physics.steps, s->ranks, s->ranks == 1 ? "" : "s",
           s->files->served ? " and a data server" : "");
  if (c->equation != EQUATION_JACOBI)
    log_line(s->log, "dt = %.6g s%s, %.3g of the stability bound; ends at %.6g s", s->physics.dt,
             s->from && c->dt <= 0 ? " (of the checkpoint)" : "", s->physics.dt / s->physics.bound,
             s->physics.dt * (double)s->physics.steps);
  log_line(s->log, "device %s; kernel %s; transport %s, overlap %s; schedule %s; io %s", s->dev->description,
           c->kernel, s->halo.name, c->overlap ? "on" : "off", schedule_name(c->schedule),
           io_name(s->io.mode));
  if (s->halo.story[0]) log_line(s->log, "transport auto: %s (%s)", s->halo.name, s->halo.story);
  if (s->halo.way[0]) log_detail(s->log, "transport %s: %s", s->halo.name, s->halo.way);
  TRY(cores_log(s->comm, s->threads, s->log, e));
  simulation_remarks(s);
  int warned = s->dev->warning[0] ? s->rank : s->ranks, first;
  char text[sizeof s->dev->warning];
  snprintf(text, sizeof text, "%s", s->dev->warning);
  MPI_TRY(e, MPI_Allreduce(&warned, &first, 1, MPI_INT, MPI_MIN, s->comm));
  if (first == s->ranks) return 0;
  MPI_TRY(e, MPI_Bcast(text, sizeof text, MPI_CHAR, first, s->comm));
  log_line(s->log, "warning: %s", text);
  return 0;
}

/* Better now than after a week of steps. */
static int check_paths(const simulation *s, bool files, error *e) {
  const config *c = s->config;
  if (files) TRY(files_path_check(s->files, c->output_path, false, e));
  if (files) TRY(files_path_check(s->files, c->checkpoint_path, true, e));
  if (s->rank == 0 && !e->id && c->report_file[0]) report_check(c->report_file, e);
  return error_agree(e, s->comm);
}

static int simulate(simulation *s, error *e) {
  const config *c = s->config;
  double seconds;
  TRY(check_paths(s, true, e));
  TRY(storage_check(&s->saving, (double)receivers_file_bytes(&s->receivers), false, e));
  TRY(simulation_load(s, e));
  TRY(state_begin(&s->saving, e));
  if (c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0)
    saving_prepare(&s->saving, state_floats(&s->saving));
  else if (c->output_every > 0)
    saving_prepare(&s->saving, snapshot_field_floats(&s->slab));
  if (c->output_every > 0 && !s->from) TRY(save_field(&s->saving, e));
  const int64_t first = s->stepper.step, last = s->physics.steps > first ? s->physics.steps : first;
  TRY(stop_open(&s->stop, s->comm, c->max_seconds, c->checkpoint_every_seconds, state_seconds(&s->saving),
                first, e));
  s->saving.checkpoint_seconds = state_seconds(&s->saving);
  s->stop.heard = files_signal;
  s->stop.context = (void *)(uintptr_t)s->files;
  TRY(guarded_loop(s, last, true, &seconds, e));
  TRY(stop_close(&s->stop, e));
  TRY(saving_finish(&s->saving, e));
  s->saving.last = true;
  if (c->output_every == 0 || last % c->output_every != 0) TRY(save_field(&s->saving, e));
  if (s->stepper.receivers) TRY(receivers_write(&s->receivers, c->output_path, s->physics.dt, e));
  s->saving.written.receivers = s->stepper.receivers;
  return report_all(s, last - first, seconds, e);
}

/* Adds a file to the list. */
static void list_file(char list[FILES_TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void list_file(char list[FILES_TEXT], const char *format, ...) {
  size_t used = strlen(list);
  va_list args;
  if (used) used += (size_t)snprintf(list + used, FILES_TEXT - used, ", ");
  va_start(args, format);
  vsnprintf(list + used, FILES_TEXT - used, format, args);
  va_end(args);
}

/* The end of the log: the files written. Older checkpoints of the run may be there, too. */
static void log_files(const simulation *s) {
  const written_files *w = &s->saving.written;
  const char *path = s->config->output_path;
  char list[FILES_TEXT] = "";
  if (w->fields == 1) list_file(list, "%s.%08" PRId64 ".hdf", path, w->last);
  if (w->fields > 1)
    list_file(list, "%s.%08" PRId64 ".hdf to %s.%08" PRId64 ".hdf (%d fields)", path, w->first, path, w->last,
              w->fields);
  if (w->fields) list_file(list, "%s.xdmf", path);
  if (w->receivers) list_file(list, "%s.receivers.h5", path);
  if (w->checkpoint >= 0)
    list_file(list, "%s.%08" PRId64 ".h5 (the newest checkpoint)", s->config->checkpoint_path, w->checkpoint);
  if (w->report) list_file(list, "%s", s->config->report_file);
  if (list[0]) log_line(s->log, "written: %s", list);
}

/* Steps that a benchmark does before it times. */
static int64_t warm_up_of(int64_t steps) {
  return steps < 10 ? steps : 10;
}

/* The planned steps, of which the last `steps` are timed. */
static int benchmark(simulation *s, int64_t steps, error *e) {
  const int64_t warm_up = s->physics.steps - steps;
  double seconds;
  TRY(check_paths(s, false, e));
  TRY(simulation_load(s, e));
  while (s->stepper.step < warm_up)
    if (stepper_advance(&s->stepper, warm_up - s->stepper.step, e)) error_abort(e, s->comm);
  if (stepper_reset_phases(&s->stepper, e)) error_abort(e, s->comm);
  TRY(guarded_loop(s, warm_up + steps, false, &seconds, e));
  return report_all(s, steps, seconds, e);
}

/* The configuration of a benchmark. The field is random: nothing about it is easy for a cache or the hardware. */
static config timed_config(const config *c, int64_t steps) {
  config timed = *c;
  timed.initial = INITIAL_RANDOM;
  timed.output_every = timed.check_every = 0;
  timed.steps = warm_up_of(steps) + steps;
  timed.end_time = 0;
  return timed;
}

/* From the checkpoint, or the start, to the end. */
static int run_leg(const job *j, const checkpoint *from, error *e) {
  simulation s;
  const bool seen = !j->options->quiet || j->config->report_file[0]; /* the times of the phases */
  if (!simulation_plan(&s, j, from->name[0] ? from : NULL, seen ? PLAN_PROFILE : PLAN_RUN, e) &&
      !simulation_allocate(&s, e) && !announce(&s, e)) {
    if (j->options->benchmark)
      benchmark(&s, j->options->benchmark, e);
    else {
      simulate(&s, e);
      save_field_finish(&s.saving, e);
    }
    log_files(&s);
  }
  simulation_close(&s);
  return e->id;
}

int run(const job *j, error *e) {
  const config timed = timed_config(j->config, j->options->benchmark);
  checkpoint from = {.file = -1, .fd = -1};
  job leg = *j;
  if (j->options->benchmark) leg.config = &timed;
  if (j->options->restart) TRY(state_open(&from, j->options->restart, j->config, j->log, j->files, e));
  do run_leg(&leg, &from, e);
  while (state_pass_over(&from, j->options->restart, j->config, j->log, j->files, e));
  if (from.name[0]) files_checkpoint_close(j->files, &from);
  return e->id;
}
