/* The steps of a shot, and what is due before, between and after them: saved fields, checks, checkpoints, progress. */
#include "shot/shot.h"
#include <inttypes.h>
#include <string.h>
#include "base/error_mpi.h"
#include "propagator/maps.h"
#include "save_checkpoint.h"
#include "save_field.h"
#include "shot/storage.h"

/* --- the loop ---------------------------------------------------------------------------------------------------- */

static bool shot_due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

/* Lets those look that look between passes. Collective, agreed. */
static int shot_look(const stepper *p, error *e) {
  for (const observer *o = p->observers->list; o < p->observers->list + p->observers->count; o++) {
    if (o->agreed && observer_due(o, p->step))
      TRY(o->look(o->self, stepper_field(p, p->current), p->step, STREAM_OUTPUT, e));
  }
  return 0;
}

/* Does it end without a checkpoint? It is done anew then. */
static bool shot_drops(const shot *s) {
  return s->survey ? s->survey->on_stop == ON_STOP_DROP : config_has_gradient(s->config);
}

/* Does what is due after the step just done, which is not the last: lets observers look, then writes a checkpoint, which
 * lists the saved fields. *reason: why the run must end. Collective, agreed. */
static int shot_save_due(shot *s, enum stop_reason *reason, error *e) {
  const config *c = s->config;
  const int64_t step = s->stepper.step;
  bool checkpoint = false;
  const bool field = shot_due(step, c->output_every);
  TRY(shot_look(&s->stepper, e));
  watchdog_tell(s->stepper.watch, WATCH_AGREE, step);
  if (s->saves.writer) writer_collect(s->saves.writer);
  s->stop.trouble = s->saves.writer && writer_failed(s->saves.writer);
  TRY(stop_poll(&s->stop, step, reason, &checkpoint, e));
  if (*reason == STOP_TROUBLE) return save_queue_finish(s, e);
  const bool drops = shot_drops(s);
  if (*reason == STOP_SIGNAL && !s->survey && !drops && !stop_answered()) /* another rank has got it */
    log_line(s->log, "%s received: writing a checkpoint after step %" PRId64,
             stop_signal_name(s->stop.signal), step);
  checkpoint = checkpoint || shot_due(step, c->checkpoint_every_steps) || (*reason != STOP_NOT && !drops);
  s->saves.last = *reason != STOP_NOT;
  if (checkpoint) TRY(save_checkpoint(s, e));
  if (!checkpoint && !field) return 0;
  return stop_checkpointed(&s->stop, s->saves.checkpoint_seconds + save_queue_backlog(s), e);
}

static int shot_stopped(const shot *s, enum stop_reason reason, error *e) {
  const char *why =
      reason == STOP_WALL_TIME ? stop_wall_time(s->config->max_seconds) : strsignal(s->stop.signal);
  return FAIL(e, STOPPED, s->stepper.step, s->engine->physics.steps, why,
              shot_drops(s) ? "" : "; checkpoint written, run again with --restart auto");
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

/* A restart may begin beyond the last step. */
int shot_steps_begin(shot *s, bool saves, error *e) {
  const int64_t first = s->stepper.step, steps = s->engine->physics.steps;
  s->saves.io_seconds = s->saves.waited_seconds = 0;
  MPI_TRY(e, mpi_meet(s->engine->comm));
  s->under_way.saves = saves;
  s->under_way.first = first, s->under_way.last = steps > first ? steps : first;
  s->under_way.begin = MPI_Wtime();
  return saves ? 0
               : stop_open(&s->stop, s->engine->comm, (stop_times){.most = s->config->max_seconds}, first, e);
}

/* Of a benchmark the warm-up does not count. */
static int shot_tell(shot *s, error *e) {
  const int64_t first = s->under_way.first, uncounted = s->under_way.saves ? 0 : first;
  const loop_progress p = {.first = first - uncounted,
                           .step = s->stepper.step - uncounted,
                           .steps = s->under_way.last - uncounted};
  return shot_progress(s, p, s->under_way.begin, e);
}

static int shot_steps_end(shot *s, error *e) {
  const int64_t first = s->under_way.first, last = s->under_way.last;
  if (stepper_sync(&s->stepper, e)) error_abort(e, s->engine->comm);
  watchdog_tell(s->stepper.watch, WATCH_AGREE, last);
  MPI_TRY(e, mpi_meet(s->engine->comm));
  const double end = MPI_Wtime();
  s->loop = (loop_times){.steps = last - first,
                         .seconds = end - s->under_way.begin,
                         .io_seconds = s->saves.io_seconds,
                         .wait_seconds = s->saves.waited_seconds,
                         .end = end};
  TRY(shot_tell(s, e));
  return stop_close(&s->stop, e);
}

/* Ends early. What a benchmark has timed until the wall time runs out is its result. */
static int shot_steps_stop(shot *s, enum stop_reason reason, error *e) {
  if (!s->config->timed) return shot_stopped(s, reason, e);
  log_line(s->log, "the wall time runs out: %" PRId64 " of %" PRId64 " steps are timed",
           s->stepper.step - s->under_way.first, s->under_way.last - s->under_way.first);
  s->under_way.last = s->stepper.step;
  return shot_steps_end(s, e);
}

/* A rank that fails alone ends the job: the others may be waiting for it. */
int shot_pass(shot *s, bool *over, error *e) {
  const int64_t last = s->under_way.last;
  enum stop_reason reason = STOP_NOT;
  bool none; /* shot_save_due writes checkpoints */
  *over = true;
  if (s->stepper.step < last) {
    const int64_t checkpoint = observer_every(s->config->checkpoint_every_steps, s->stepper.step),
                  left = last - s->stepper.step;
    if (stepper_advance(&s->stepper, checkpoint < left ? checkpoint : left, e))
      error_abort(e, s->engine->comm);
  }
  if (s->stepper.step == last)
    return shot_steps_end(s, e); /* what is saved then needs no steps beside it: shot_finish */
  TRY(s->under_way.saves ? shot_save_due(s, &reason, e)
                         : stop_poll(&s->stop, s->stepper.step, &reason, &none, e));
  if (shot_tell(s, e)) error_abort(e, s->engine->comm);
  *over = reason != STOP_NOT;
  return *over ? shot_steps_stop(s, reason, e) : 0;
}

int shot_steps(shot *s, bool saves, error *e) {
  bool over = false;
  TRY(shot_steps_begin(s, saves, e));
  while (!over) TRY(shot_pass(s, &over, e));
  return 0;
}

/* --- before and after the loop ----------------------------------------------------------------------------------- */

static int shot_check_files(shot *s, error *e) {
  TRY(shot_check_paths(s, e));
  return storage_check(s, receivers_disk_bytes(&s->receivers) + maps_file_bytes(s->config), false, e);
}

/* Makes the folders, and moves aside what is not this run's. */
static int shot_clear_files(shot *s, bool fresh, error *e) {
  s->receivers.replaces = 0;
  if (!fresh) TRY(shot_make_folders(s, true, false, e));
  if (!s->survey || s->survey->on_stop == ON_STOP_CHECKPOINT) TRY(save_checkpoint_begin(s, e));
  return fresh ? 0 : save_field_begin(s, false, e);
}

int shot_watch(shot *s, error *e) {
  const config *c = s->config;
  const double reserve = save_checkpoint_seconds(s);
  stop_times times = {
      .most = c->max_seconds, .checkpoint_every = c->checkpoint_every_seconds, .reserve = reserve};
  const shot_of_survey *of = s->survey;
  if (of ? of->on_stop != ON_STOP_CHECKPOINT : shot_drops(s)) times.reserve = 0;
  times.deaf = of && of->on_stop == ON_STOP_FINISH;
  TRY(stop_open(&s->stop, s->engine->comm, times, s->stepper.step, e));
  s->saves.checkpoint_seconds = reserve;
  s->stop.heard = of ? of->heard : files_signal;
  s->stop.context = of ? of->context : (void *)(uintptr_t)s->engine->files;
  return 0;
}

int shot_begin(shot *s, error *e) {
  const config *c = s->config;
  const bool fresh = s->survey && s->survey->fresh; /* the survey has looked at the folder */
  TRY(sources_check(&s->sources, c, e));
  if (!fresh) TRY(shot_check_files(s, e));
  if (!s->lead) TRY(shot_load(s, e));
  TRY(shot_clear_files(s, fresh, e));
  if (s->lead) return 0;
  field_set f;
  shot_fields(s, &f);
  if (c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0)
    save_queue_prepare(s, fields_saved(&f, &s->engine->slab));
  else if (c->output_every > 0)
    save_queue_prepare(s, snapshot_field_floats(&s->engine->slab));
  const bool also_last = s->engine->physics.steps == 0 && c->output_final; /* which is saved at the end */
  if (c->output_every > 0 && !s->from && !also_last) TRY(save_field(s, e));
  return shot_watch(s, e);
}

int shot_make_files(shot *s, error *e) {
  const run_meta about = save_queue_run(s, s->engine->physics.steps);
  return receivers_make_file(&s->receivers, s->config->output_path, &about, e);
}

/* Finishes the observers that look at extra steps, or the others, last to first. */
static int shot_finish_observers(shot *s, bool extra, error *e) {
  const run_meta about = save_queue_run(s, shot_step(s));
  for (int i = s->observers.count - 1; i >= 0; i--) {
    const observer *o = &s->observers.list[i];
    if (o->finish && o->extra == extra) TRY(o->finish(o->self, s->config->output_path, &about, e));
  }
  return 0;
}

/* Saved fields finish after the checkpoint: a longer run does not have the last one in its series. */
int shot_finish(shot *s, error *e) {
  const config *c = s->config;
  const bool advanced = s->loop.steps > 0;
  TRY(save_queue_finish(s, e));
  s->saves.last = true;
  if (advanced) TRY(shot_look(&s->stepper, e));
  if (advanced && shot_due(s->stepper.step, c->checkpoint_every_steps)) TRY(save_checkpoint(s, e));
  TRY(shot_finish_observers(s, false, e));
  s->saves.written.maps = config_has_maps(c);
  return 0;
}

/* The shot's step remains the last one of the run. */
int shot_extra_steps(shot *s, error *e) {
  stepper *p = &s->stepper;
  const int64_t done = p->step, last = done + s->receivers.time.extra;
  observers few = {.count = 0};
  for (int i = 0; i < s->observers.count; i++)
    if (s->observers.list[i].extra) few.list[few.count++] = s->observers.list[i];
  p->observers = &few;
  while (p->step < last && !e->id) {
    if (stepper_advance(p, last - p->step, e)) error_abort(e, s->engine->comm);
    shot_look(p, e);
  }
  if (stepper_sync(p, e)) error_abort(e, s->engine->comm);
  p->observers = &s->observers;
  p->step = done;
  return e->id;
}

int shot_finish_traces(shot *s, error *e) {
  TRY(save_queue_finish(s, e));
  TRY(shot_finish_observers(s, true, e));
  s->saves.written.receivers = s->config->receivers != RECEIVERS_NONE;
  return 0;
}

/* Waits for what a shot that failed or was stopped has enqueued: the next one writes the same fields. */
static void shot_settle(const shot *s) {
  error again = {0}; /* what comes next meets it, too */
  for (int stream = 0; s->open && stream < STREAM_COUNT; stream++)
    s->dev->table->sync(s->dev, stream, &again);
}

int shot_end(shot *s, error *e) {
  shot_settle(s);
  save_field_finish(s, e);
  save_queue_stop(s);
  if (!e->id) save_field_replace(s, e);
  return e->id;
}
