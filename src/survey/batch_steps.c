/* The steps of a batch, with the work before, between and after steps: saved fields, checks, checkpoints, progress. */
#include "batch.h"
#include <inttypes.h>
#include <string.h>
#include "base/error_mpi.h"
#include "propagator/maps.h"
#include "save_checkpoint.h"
#include "save_field.h"
#include "shot/storage.h"

/* --- the loop ---------------------------------------------------------------------------------------------------- */

static bool batch_due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

/* Does an early end write a checkpoint? Otherwise the shot later begins anew. */
static bool batch_keeps(const batch *b) {
  return b->of.on_stop == ON_STOP_CHECKPOINT;
}

/* Does the saves that are due after a step other than the last. Observers look first, since the checkpoint lists the
 * saved fields. *reason: why the run must end. Collective, agreed. */
static int batch_save_due(batch *b, enum stop_reason *reason, error *e) {
  const config *c = b->p.config;
  const int64_t step = b->p.stepper.step;
  bool checkpoint = false;
  const bool field = batch_due(step, c->output_every);
  TRY(propagator_look(&b->p, e));
  watchdog_mark(b->p.stepper.watch, WATCH_AGREE, step);
  if (b->saves.writer) writer_collect(b->saves.writer);
  b->stop.trouble = b->saves.writer && writer_failed(b->saves.writer);
  TRY(stop_poll(&b->stop, step, reason, &checkpoint, e));
  if (*reason == STOP_TROUBLE) return save_queue_finish(b, e);
  if (*reason == STOP_SIGNAL && batch_keeps(b) && b->of.log->to && !stop_answered()) /* another rank got it */
    log_line(b->of.log, "%s received: writing a checkpoint after step %" PRId64,
             stop_signal_name(b->stop.signal), step);
  checkpoint = checkpoint || batch_due(step, c->checkpoint_every_steps) || *reason != STOP_NOT;
  b->saves.last = *reason != STOP_NOT;
  if (checkpoint && batch_keeps(b)) TRY(save_checkpoint(b, e));
  if (!(checkpoint && batch_keeps(b)) && !field) return 0;
  return stop_checkpointed(&b->stop, b->saves.checkpoint_seconds + save_queue_backlog(b), e);
}

int batch_stopped(const batch *b, enum stop_reason reason, int64_t step, const char *after, error *e) {
  const char *why =
      reason == STOP_WALL_TIME ? stop_wall_time(b->p.config->max_seconds) : strsignal(b->stop.signal);
  return FAIL(e, STOPPED, step, b->p.engine->physics.steps, why, after);
}

void batch_advance(const batch *b, bool back, double part) {
  const double FORWARD = 0.35; /* the forward part of forward and adjoint steps */
  const run_log *l = b->of.log;
  const bool both = config_has_gradient(b->p.config);
  if (l->advance) l->advance(l->hearer, back ? FORWARD + (1 - FORWARD) * part : both ? FORWARD * part : part);
}

/* Shows the progress when it is due. First it waits for enqueued steps, which the rate would otherwise count too early.
 * A benchmark's warm-up does not count. */
static int batch_tell(batch *b, error *e) {
  const int64_t first = b->under_way.first, uncounted = b->under_way.saves ? 0 : first;
  loop_progress p = {.first = first - uncounted,
                     .step = b->p.stepper.step - uncounted,
                     .steps = b->under_way.last - uncounted,
                     .seconds = MPI_Wtime() - b->under_way.begin};
  batch_advance(b, false, (double)(p.step - p.first) / (double)(p.steps - p.first + !p.steps));
  if (!log_progress_due(b->of.log, &p)) return 0;
  TRY(stepper_sync(&b->p.stepper, e));
  p.seconds = MPI_Wtime() - b->under_way.begin;
  log_progress(b->of.log, &p, config_points(b->p.config));
  return 0;
}

/* A restart may begin beyond the last step. */
int batch_steps_begin(batch *b, bool saves, error *e) {
  const int64_t first = b->p.stepper.step, steps = b->p.engine->physics.steps;
  const MPI_Comm comm = b->p.engine->comm;
  b->saves.io_seconds = b->saves.waited_seconds = 0;
  MPI_TRY(e, mpi_meet(comm));
  b->under_way.saves = saves;
  b->under_way.first = first, b->under_way.last = steps > first ? steps : first;
  b->under_way.begin = MPI_Wtime();
  return saves ? 0 : stop_open(&b->stop, comm, (stop_times){.most = b->p.config->max_seconds}, first, e);
}

static int batch_steps_end(batch *b, error *e) {
  const int64_t first = b->under_way.first, last = b->under_way.last;
  const MPI_Comm comm = b->p.engine->comm;
  if (stepper_sync(&b->p.stepper, e)) return error_abort(e, comm);
  watchdog_mark(b->p.stepper.watch, WATCH_AGREE, last);
  MPI_TRY(e, mpi_meet(comm));
  const double end = MPI_Wtime();
  b->loop = (loop_times){.steps = last - first,
                         .seconds = end - b->under_way.begin,
                         .io_seconds = b->saves.io_seconds,
                         .wait_seconds = b->saves.waited_seconds,
                         .end = end};
  TRY(batch_tell(b, e));
  return stop_close(&b->stop, e);
}

/* Ends the steps early. A benchmark then reports the steps timed so far. */
static int batch_steps_stop(batch *b, enum stop_reason reason, error *e) {
  const int64_t step = b->p.stepper.step;
  if (!b->p.config->timed)
    return batch_stopped(b, reason, step,
                         batch_keeps(b) ? "; checkpoint written, run again with --restart auto" : "", e);
  log_line(b->of.log, "the wall time runs out: %" PRId64 " of %" PRId64 " steps are timed",
           step - b->under_way.first, b->under_way.last - b->under_way.first);
  b->under_way.last = step;
  return batch_steps_end(b, e);
}

/* A rank that fails alone ends the job, since the other ranks may be waiting for it. */
int batch_pass(batch *b, bool *over, error *e) {
  stepper *p = &b->p.stepper;
  const int64_t last = b->under_way.last;
  enum stop_reason reason = STOP_NOT;
  bool none; /* unused: only batch_save_due writes checkpoints */
  *over = true;
  if (p->step < last) {
    const int64_t checkpoint = observer_every(b->p.config->checkpoint_every_steps, p->step),
                  left = last - p->step;
    if (stepper_advance(p, checkpoint < left ? checkpoint : left, e))
      return error_abort(e, b->p.engine->comm);
  }
  if (p->step == last)
    return batch_steps_end(b, e); /* batch_finish saves the last field, while no steps run */
  TRY(b->under_way.saves ? batch_save_due(b, &reason, e) : stop_poll(&b->stop, p->step, &reason, &none, e));
  if (batch_tell(b, e)) return error_abort(e, b->p.engine->comm);
  *over = reason != STOP_NOT;
  return *over ? batch_steps_stop(b, reason, e) : 0;
}

int batch_steps(batch *b, bool saves, error *e) {
  bool over = false;
  TRY(batch_steps_begin(b, saves, e));
  while (!over) TRY(batch_pass(b, &over, e));
  return 0;
}

/* --- before the loop ---------------------------------------------------------------------------------------------- */

/* Called by batch_each, as is the next one. */
static int batch_check_files(void *context, int i, error *e) {
  const batch *b = context;
  const shot *s = b->shots[i];
  TRY(sources_check(&s->at.sources, s->config, e));
  if (s->of.fresh) return 0;
  TRY(shot_check_paths(s, e));
  return storage_check(s, &b->p, false, e);
}

/* Makes the folders, and moves aside what is not this run's. */
static int batch_clear_files(void *context, int i, error *e) {
  const batch *b = context;
  shot *s = b->shots[i];
  s->at.receivers.replaces = 0;
  if (!s->of.fresh) TRY(shot_make_folders(s, true, false, e));
  if (batch_keeps(b)) TRY(save_checkpoint_begin(s, e));
  return s->of.fresh ? 0 : save_field_clear(s, false, e);
}

int batch_watch(batch *b, int64_t step, error *e) {
  const config *c = b->p.config;
  const double reserve = save_checkpoint_seconds(b);
  const stop_times times = {.most = c->max_seconds,
                            .checkpoint_every = c->checkpoint_every_seconds,
                            .reserve = batch_keeps(b) ? reserve : 0,
                            .deaf = b->of.on_stop == ON_STOP_FINISH};
  TRY(stop_open(&b->stop, b->p.engine->comm, times, step, e));
  b->saves.checkpoint_seconds = reserve;
  b->stop.heard = b->of.heard, b->stop.context = b->of.context;
  return 0;
}

int batch_begin(batch *b, error *e) {
  const config *c = b->p.config;
  const slab *z = &b->p.engine->slab;
  field_set f;
  TRY(batch_each(b, batch_check_files, b, e));
  TRY(batch_load(b, e)); /* first, since the initial field may be in a file that is moved aside */
  TRY(batch_each(b, batch_clear_files, b, e));
  propagator_fields(&b->p, &f);
  if (batch_keeps(b) && (c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0))
    save_queue_prepare(b, fields_saved(&f, z));
  else if (c->output_every > 0)
    save_queue_prepare(b, snapshot_field_floats(z));
  const bool also_last = b->p.engine->physics.steps == 0 && c->output_final; /* batch_finish saves it */
  if (c->output_every > 0 && !b->shots[0]->of.from && !also_last) TRY(save_field(b, e));
  return batch_watch(b, b->p.stepper.step, e);
}

/* --- after the loop ----------------------------------------------------------------------------------------------- */

int batch_make_files(batch *b, int i, error *e) {
  const run_meta about = batch_run(b, i, b->p.engine->physics.steps);
  return receivers_make_file(&b->shots[i]->at.receivers, b->shots[i]->config->output_path, &about, e);
}

/* Called by batch_each. */
static int batch_write_maps(void *context, int i, error *e) {
  const batch *b = context;
  shot *s = b->shots[i];
  const config *c = s->config;
  maps_found m;
  maps_find(&b->p, i, b->p.stepper.step, &m);
  const field_meta meta = {.run = batch_run(b, i, b->p.stepper.step),
                           .origin = {c->origin[0], c->origin[1], c->origin[2]},
                           .spacing = {c->dx, c->dy, c->dz},
                           .ending = MAPS_ENDING,
                           .fields = m.count,
                           .names = m.names,
                           .frequencies = c->maps_dft,
                           .counted = m.window};
  const request_own own = {.io = &s->io, .planes = m.planes};
  TRY(engine_write_field(s->engine, &meta, c->output_path, own, e));
  s->written.maps = true;
  return 0;
}

/* Writes the checkpoint before the last field, so that a longer run, which continues from the checkpoint, does not list
 * that field. */
int batch_finish(batch *b, error *e) {
  const bool advanced = b->loop.steps > 0;
  TRY(save_queue_finish(b, e));
  b->saves.last = true;
  if (advanced) TRY(propagator_look(&b->p, e));
  if (advanced && batch_keeps(b) && batch_due(b->p.stepper.step, b->p.config->checkpoint_every_steps))
    TRY(save_checkpoint(b, e));
  TRY(save_field_last(b, e));
  if (!config_has_maps(b->p.config)) return 0;
  if (maps_settle(&b->p, e)) return error_abort(e, b->p.engine->comm); /* a device may fail alone */
  return batch_each(b, batch_write_maps, b, e);
}

int batch_finish_traces(batch *b, int i, error *e) {
  shot *s = b->shots[i];
  const run_meta about = batch_run(b, i, b->p.stepper.step);
  TRY(receivers_write(&s->at.receivers, s->config->output_path, &about, e));
  s->written.receivers = s->config->receivers != RECEIVERS_NONE;
  return 0;
}

/* A stopped run that cannot save returns that error, not STOPPED. */
int batch_end(batch *b, error *e) {
  error known = {0}, failed = {0};
  propagator_settle(&b->p);
  if (b->saves.open) save_queue_finish(b, &known); /* `e` already has the failure of a save */
  if (b->saves.open) save_field_finish(b, &failed);
  save_queue_stop(&b->saves);
  for (int i = 0; i < b->count && b->saves.last && !e->id; i++)
    if (!b->shots[i]->failed.id) save_field_replace(b->shots[i], &b->shots[i]->failed);
  if (e->id == ERROR_STOPPED && failed.id) *e = failed;
  return batch_failed(b, e);
}
