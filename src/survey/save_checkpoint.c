#include "save_checkpoint.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "shot/fingerprint.h"
#include "save_field.h"
#include "checkpoint_arrays.h"

/* A checkpoint to be written, with copies of what the run may change before. */
typedef struct checkpoint_job {
  writer_job job; /* first */
  batch *b;
  shot *s;
  const snapshot *copy; /* NULL: from the device */
  checkpoint_arrays arrays;
  char *keys; /* the run's fingerprint; owned */
  checkpoint_meta meta;
  int64_t *steps; /* of the series; owned */
} checkpoint_job;

static int save_checkpoint_write(writer_job *job, error *e) {
  checkpoint_job *j = (checkpoint_job *)job;
  const config *c = j->s->config;
  const checkpoint_place place = {.path = c->checkpoint_path, .keep = c->checkpoint_keep, .self = j->s->self};
  TRY(save_queue_wait(j->b, j->copy, e));
  const request r = {FILES_WRITE_CHECKPOINT, .place = &place, .checkpoint = &j->meta,
                     .arrays = j->arrays.arrays, .count = j->arrays.count};
  return files_do(j->s->engine->files, &r, e);
}

static void save_checkpoint_free(checkpoint_job *j) {
  free(j->keys);
  free(j->steps);
  free(j);
}

static void save_checkpoint_done(writer_job *job, bool written) {
  checkpoint_job *j = (checkpoint_job *)job;
  if (written) {
    j->b->saves.checkpoint_seconds = job->seconds;
    j->s->written.checkpoint = j->meta.run.step;
    log_line(j->s->log, "checkpoint %s.%08lld.h5 (%.1f s)", j->s->config->checkpoint_path,
             (long long)j->meta.run.step, job->seconds);
  }
  save_checkpoint_free(j);
}

/* `saved`: the number of fields in the series; rank 0 knows their steps. Agreed. */
static checkpoint_job *save_checkpoint_job(batch *b, int64_t saved, error *e) {
  shot *s = b->shots[0];
  const int64_t step = b->p.stepper.step;
  checkpoint_job *j;
  const size_t mine = s->engine->rank == 0 ? (size_t)saved : 0;
  static const char WHAT[] = "a checkpoint";
  if (!ALLOC(e, j, 1, WHAT) && !ALLOC(e, j->steps, mine, WHAT)) {
    j->job.write = save_checkpoint_write;
    j->job.done = save_checkpoint_done;
    j->b = b, j->s = s;
    if (mine) memcpy(j->steps, s->series.steps, mine * sizeof *j->steps);
    j->keys = fingerprint_make(s, step, e);
    j->meta = (checkpoint_meta){batch_run(b, 0, step), j->keys};
  }
  if (!error_agree(e, s->engine->comm)) return j;
  if (j) save_checkpoint_free(j);
  return NULL;
}

int save_checkpoint_begin(shot *s, error *e) {
  checkpoint_start start = {0};
  const char *path = s->config->checkpoint_path;
  const request_own own = {.from = s->of.from, .start = &start};
  const request begins = {FILES_BEGIN_CHECKPOINTS, .path = path, .restarts = s->of.from, .own = own};
  TRY(files_do(s->engine->files, &begins, e));
  s->self = start.self;
  if (start.newest >= 0)
    log_line(s->log,
             "a run from the start: moved aside %d checkpoint%s of an earlier one to %s.old%d.*.h5, the "
             "newest of step "
             "%lld, from which --restart auto would have continued",
             start.moved, start.moved == 1 ? "" : "s", path, start.number, (long long)start.newest);
  else if (start.moved)
    log_line(s->log,
             "a run from the start: moved aside %d file%s to %s.old%d.*.h5: none can be continued from",
             start.moved, start.moved == 1 ? "" : "s", path, start.number);
  if (start.others)
    log_line(
        s->log,
        "%d other file%s %s.*.h5: kept, and moved aside to %s.old%d.*.h5 where a checkpoint needs the name",
        start.others, start.others == 1 ? "" : "s", path, path, start.number);
  return 0;
}

double save_checkpoint_seconds(const batch *b) {
  const double SLOW_DISK = 2e8; /* bytes/s */
  const slab *z = &b->p.engine->slab;
  return 0.5 + 2.0 * z->nx * z->ny * z->nz_global * sizeof(float) / SLOW_DISK;
}

static int save_checkpoint_submit(batch *b, error *e) {
  const engine *g = b->p.engine;
  int64_t saved = b->shots[0]->series.count;
  snapshot *copy;
  field_set f;
  propagator_fields(&b->p, &f);
  const size_t floats = fields_saved(&f, &g->slab);
  TRY(save_queue_begin(b, floats, &copy, e));
  TRY(message_broadcast(&saved, sizeof saved, g->comm, e));
  checkpoint_job *j = save_checkpoint_job(b, saved, e);
  if (!j) return e->id;
  j->copy = copy;
  j->job.bytes = fields_saved_values(&f) * sizeof(float);
  /* A device that fails here may fail alone. The steps may be unfinished here, if the field of this step is being saved
   * too. */
  if (!copy && stepper_sync(&b->p.stepper, e)) return error_abort(e, g->comm);
  if (checkpoint_arrays_make(&j->arrays, &b->p, true, copy, e)) return error_abort(e, g->comm);
  checkpoint_arrays_set_numbers(&j->arrays, "saved_steps", (numbers_part){j->steps, saved}, g->rank == 0);
  return save_queue_submit(b, copy, &j->job, e);
}

int save_checkpoint(batch *b, error *e) {
  watchdog *watch = b->p.stepper.watch;
  TRY(save_field_check(b, e));
  double begin = MPI_Wtime();
  watchdog_mark(watch, WATCH_NOT, b->p.stepper.step);
  save_checkpoint_submit(b, e);
  watchdog_mark(watch, WATCH_COMPUTE, b->p.stepper.step);
  b->saves.io_seconds += MPI_Wtime() - begin;
  return e->id;
}
