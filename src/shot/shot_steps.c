/* The steps of a shot, and what is due before, between and after them: saved fields, checks, checkpoints, progress. */
#include "shot.h"
#include <inttypes.h>
#include <string.h>
#include "base/error_mpi.h"
#include "save_checkpoint.h"
#include "save_field.h"
#include "storage.h"

/* --- the loop ---------------------------------------------------------------------------------------------------- */

static bool shot_due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

/* The next step at which something must be saved or checked, or the loop ends. */
static int64_t shot_next_stop(const config *c, int64_t step, int64_t last) {
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
static int shot_save_due(shot *s, enum stop_reason *reason, error *e) {
  const config *c = s->config;
  const int64_t step = s->stepper.step;
  bool checkpoint = false;
  const bool field = shot_due(step, c->output_every);
  if (field)
    TRY(save_field(s, e));
  else if (shot_due(step, c->check_every))
    TRY(save_field_check(s, e));
  watchdog_tell(s->stepper.watch, WATCH_AGREE, step);
  if (s->saves.writer) writer_collect(s->saves.writer);
  s->stop.trouble = s->saves.writer && writer_failed(s->saves.writer);
  TRY(stop_poll(&s->stop, step, reason, &checkpoint, e));
  if (*reason == STOP_TROUBLE) return save_queue_finish(s, e);
  if (*reason == STOP_SIGNAL && !stop_answered()) /* another rank has got it */
    log_line(s->log, "%s received: writing a checkpoint after step %" PRId64,
             stop_signal_name(s->stop.signal), step);
  checkpoint = checkpoint || shot_due(step, c->checkpoint_every_steps) || *reason != STOP_NOT;
  s->saves.last = *reason != STOP_NOT;
  if (checkpoint) TRY(save_checkpoint(s, e));
  if (!checkpoint && !field) return 0;
  return stop_checkpointed(&s->stop, s->saves.checkpoint_seconds + save_queue_backlog(s), e);
}

static int shot_stopped(const shot *s, enum stop_reason reason, error *e) {
  const char *why = reason == STOP_WALL_TIME ? "the wall time runs out" : strsignal(s->stop.signal);
  return FAIL(e, STOPPED, s->stepper.step, s->engine->physics.steps, why);
}

/* Shows the progress where it is due. Waits for the steps that are enqueued: the rate would count them too early. `p`:
 * all but the time; `begin`: when the loop began. */
static int shot_progress(shot *s, loop_progress p, double begin, error *e) {
  p.seconds = MPI_Wtime() - begin;
  if (!log_progress_due(s->log, &p)) return 0;
  TRY(stepper_sync(&s->stepper, e));
  p.seconds = MPI_Wtime() - begin;
  log_progress(s->log, &p, config_points(s->config));
  return 0;
}

/* A restart may begin beyond the last step. A rank that fails alone ends the job: the others may be waiting for it. */
int shot_steps(shot *s, bool saves, error *e) {
  const config *c = s->config;
  const int64_t first = s->stepper.step,
                last = s->engine->physics.steps > first ? s->engine->physics.steps : first;
  const int64_t uncounted = saves ? 0 : first; /* a benchmark's warm-up */
  loop_progress progress = {.first = first - uncounted, .steps = last - uncounted};
  enum stop_reason reason = STOP_NOT;
  MPI_TRY(e, MPI_Barrier(s->engine->comm));
  const double begin = MPI_Wtime();
  s->saves.io_seconds = s->saves.waited_seconds = 0;
  while (s->stepper.step < last && reason == STOP_NOT) {
    const int64_t stop = shot_next_stop(c, s->stepper.step, last);
    if (stepper_advance(&s->stepper, stop - s->stepper.step, e)) error_abort(e, s->engine->comm);
    if (s->stepper.step == last) break; /* what is saved then needs no steps beside it: shot_finish */
    if (saves) TRY(shot_save_due(s, &reason, e));
    progress.step = s->stepper.step - uncounted;
    if (shot_progress(s, progress, begin, e)) error_abort(e, s->engine->comm);
  }
  if (reason != STOP_NOT) return shot_stopped(s, reason, e);
  if (stepper_sync(&s->stepper, e)) error_abort(e, s->engine->comm);
  watchdog_tell(s->stepper.watch, WATCH_AGREE, last);
  MPI_TRY(e, MPI_Barrier(s->engine->comm));
  const double end = MPI_Wtime();
  s->loop = (loop_times){last - first, end - begin, s->saves.io_seconds, s->saves.waited_seconds, end};
  progress.step = progress.steps;
  return shot_progress(s, progress, begin, e);
}

/* --- before and after the loop ----------------------------------------------------------------------------------- */

int shot_begin(shot *s, error *e) {
  const config *c = s->config;
  field_set f;
  shot_fields(s, &f);
  TRY(sources_check(&s->sources, c, e));
  TRY(shot_check_paths(s, e));
  TRY(storage_check(s, (double)receivers_file_bytes(&s->receivers), false, e));
  TRY(shot_load(s, e));
  TRY(shot_make_folders(s, true, false, e));
  TRY(save_checkpoint_begin(s, e));
  TRY(save_field_begin(s, false, e));
  if (c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0)
    save_queue_prepare(s, fields_saved(&f, &s->engine->slab));
  else if (c->output_every > 0)
    save_queue_prepare(s, snapshot_field_floats(&s->engine->slab));
  if (c->output_every > 0 && !s->from) TRY(save_field(s, e));
  const stop_times times = {c->max_seconds, c->checkpoint_every_seconds, save_checkpoint_seconds(s)};
  TRY(stop_open(&s->stop, s->engine->comm, times, s->stepper.step, e));
  s->saves.checkpoint_seconds = save_checkpoint_seconds(s);
  s->stop.heard = files_signal;
  s->stop.context = (void *)(uintptr_t)s->engine->files;
  return 0;
}

/* Saves the last field, unless the run before a restart has, or checks it, a checkpoint where it is due, and the traces.
 */
int shot_finish(shot *s, error *e) {
  const config *c = s->config;
  const int64_t step = s->stepper.step;
  const bool advanced = s->loop.steps > 0, field = shot_due(step, c->output_every);
  TRY(stop_close(&s->stop, e));
  TRY(save_queue_finish(s, e));
  s->saves.last = true;
  if (field && advanced) TRY(save_field(s, e));
  if (advanced && shot_due(step, c->checkpoint_every_steps)) TRY(save_checkpoint(s, e));
  if (!field) /* after the checkpoint: a longer run would not have it in its series */
    TRY(c->output_final ? save_field(s, e) : save_field_check(s, e));
  const run_meta about = save_queue_run(s);
  if (s->stepper.receivers) TRY(receivers_write(&s->receivers, c->output_path, &about, e));
  s->saves.written.receivers = s->stepper.receivers;
  return 0;
}

int shot_end(shot *s, error *e) {
  save_field_finish(s, e);
  save_queue_stop(s);
  return e->id;
}
