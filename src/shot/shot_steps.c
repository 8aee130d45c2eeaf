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

/* Lets those look that look between passes. Collective, agreed. */
static int shot_look(shot *s, error *e) {
  const stepper *p = &s->stepper;
  for (int i = 0; i < s->observers.count; i++) {
    const observer *o = &s->observers.list[i];
    if (o->agreed && observer_due(o, p->step))
      TRY(o->look(o->self, stepper_field(p, p->current), p->step, STREAM_OUTPUT, e));
  }
  return 0;
}

/* Does what is due after the step just done, which is not the last: lets observers look, then writes a checkpoint, which
 * lists the saved fields. *reason: why the run must end. Collective, agreed. */
static int shot_save_due(shot *s, enum stop_reason *reason, error *e) {
  const config *c = s->config;
  const int64_t step = s->stepper.step;
  bool checkpoint = false;
  const bool field = shot_due(step, c->output_every);
  TRY(shot_look(s, e));
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
    const int64_t checkpoint = observer_every(c->checkpoint_every_steps, s->stepper.step),
                  left = last - s->stepper.step;
    if (stepper_advance(&s->stepper, checkpoint < left ? checkpoint : left, e))
      error_abort(e, s->engine->comm);
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

/* Observers finish last to first. Saved fields do so after the checkpoint: a longer run would not have the last one in its
 * series. */
int shot_finish(shot *s, error *e) {
  const config *c = s->config;
  const bool advanced = s->loop.steps > 0;
  TRY(stop_close(&s->stop, e));
  TRY(save_queue_finish(s, e));
  s->saves.last = true;
  if (advanced) TRY(shot_look(s, e));
  if (advanced && shot_due(s->stepper.step, c->checkpoint_every_steps)) TRY(save_checkpoint(s, e));
  const run_meta about = save_queue_run(s);
  for (int i = s->observers.count - 1; i >= 0; i--) {
    const observer *o = &s->observers.list[i];
    if (o->finish) TRY(o->finish(o->self, c->output_path, &about, e));
  }
  s->saves.written.receivers = c->receivers != RECEIVERS_NONE;
  return 0;
}

int shot_end(shot *s, error *e) {
  save_field_finish(s, e);
  save_queue_stop(s);
  return e->id;
}
