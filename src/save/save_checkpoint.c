#include "save_checkpoint.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "fingerprint.h"
#include "save_field.h"
#include "checkpoint_arrays.h"

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* A checkpoint to be written, with all that the run will have changed by then. */
typedef struct state_job {
  output_job job; /* first */
  saving *s;
  const snapshot *copy; /* NULL: from the device */
  state arrays;
  fingerprint fingerprint;
  checkpoint_meta meta;
  int64_t *steps; /* of the series; owned */
} state_job;

static int write_state(output_job *job, error *e) {
  state_job *j = (state_job *)job;
  const config *c = j->s->config;
  const checkpoint_place place = {.path = c->checkpoint_path, .keep = c->checkpoint_keep, .self = j->s->self};
  TRY(saving_wait(j->s, j->copy, e));
  return files_checkpoint_write(j->s->files, &place, &j->meta, j->arrays.arrays, j->arrays.count, e);
}

static void state_free_job(state_job *j) {
  fingerprint_free(&j->fingerprint);
  free(j->steps);
  free(j);
}

static void state_done(output_job *job, bool written) {
  state_job *j = (state_job *)job;
  if (written) {
    j->s->checkpoint_seconds = job->seconds;
    j->s->written.checkpoint = j->meta.run.step;
    log_line(j->s->log, "checkpoint %s.%08lld.h5 (%.1f s)", j->s->config->checkpoint_path,
             (long long)j->meta.run.step, job->seconds);
  }
  state_free_job(j);
}

/* `saved`: fields in the series; rank 0 knows their steps. Agreed. */
static state_job *state_make_job(saving *s, int64_t saved, error *e) {
  state_job *j = calloc(1, sizeof *j);
  const size_t mine = s->rank == 0 ? (size_t)saved : 0;
  if (j) j->steps = calloc(mine + 1, sizeof *j->steps);
  if (j && j->steps) {
    j->job.write = write_state;
    j->job.done = state_done;
    j->s = s;
    for (size_t i = 0; i < mine; i++) j->steps[i] = s->series.entries[i].step;
    fingerprint_make(&j->fingerprint, s, e);
    j->meta = (checkpoint_meta){saving_run(s), j->fingerprint.keys, j->fingerprint.count};
  } else
    FAIL(e, OUT_OF_MEMORY, sizeof *j + (mine + 1) * sizeof *j->steps, "a checkpoint");
  if (!error_agree(e, s->comm)) return j;
  if (j) state_free_job(j);
  return NULL;
}

int state_begin(saving *s, error *e) {
  checkpoint_leg leg;
  const char *path = s->config->checkpoint_path;
  TRY(files_checkpoint_begin(s->files, path, s->from, &leg, e));
  s->self = leg.self;
  if (leg.newest >= 0)
    log_line(s->log,
             "a run from the start: moved aside %d checkpoint%s of an earlier one to %s.old%d.*.h5, the "
             "newest of step "
             "%lld, from which --restart auto would have continued",
             leg.moved, leg.moved == 1 ? "" : "s", path, leg.number, (long long)leg.newest);
  else if (leg.moved)
    log_line(s->log,
             "a run from the start: moved aside %d file%s to %s.old%d.*.h5: none can be continued from",
             leg.moved, leg.moved == 1 ? "" : "s", path, leg.number);
  return 0;
}

double state_seconds(const saving *s) {
  const double SLOW_DISK = 2e8; /* bytes/s */
  const slab *z = s->slab;
  return 0.5 + 2.0 * z->nx * z->ny * z->nz_global * sizeof(float) / SLOW_DISK;
}

static int save(saving *s, error *e) {
  int64_t saved = s->series.count;
  snapshot *copy;
  const size_t floats = state_floats(s);
  TRY(saving_begin(s, floats, &copy, e));
  MPI_TRY(e, MPI_Bcast(&saved, 1, MPI_INT64_T, 0, s->comm));
  state_job *j = state_make_job(s, saved, e);
  TRY(e->id);
  j->copy = copy;
  j->job.bytes = floats * sizeof(float);
  /* A device that fails here may fail alone. Where the field is being saved too, nobody has waited for the steps. */
  if (!copy && stepper_sync(s->stepper, e)) error_abort(e, s->comm);
  if (s->stepper->receivers && receivers_flush(s->receivers, e)) error_abort(e, s->comm);
  if (state_describe(&j->arrays, s, true, copy, e)) error_abort(e, s->comm);
  state_add_series(&j->arrays, saved, s->rank == 0, j->steps);
  return saving_submit(s, copy, &j->job, e);
}

int state_save(saving *s, error *e) {
  TRY(save_field_check(s, e));
  double begin = MPI_Wtime();
  watchdog_tell(s->stepper->watch, WATCH_NOT, s->stepper->step);
  save(s, e);
  watchdog_tell(s->stepper->watch, WATCH_COMPUTE, s->stepper->step);
  s->io_seconds += MPI_Wtime() - begin;
  return e->id;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static void tell_skipped(void *context, const char *reason) {
  log_line(context, "warning: passed over: %s", reason);
}

/* The newest checkpoint under the path that was written before generation `before`; of all, where that is negative. */
static int open_newest(checkpoint *c, int64_t before, const config *cfg, run_log *log, const files *files,
                       error *e) {
  const checkpoint_search search = {cfg->checkpoint_path, before, tell_skipped, log};
  TRY(files_checkpoint_open_newest(files, c, &search, e));
  if (!c->name[0])
    log_line(log, "restart auto: no intact checkpoint %s.*.h5: from the start", cfg->checkpoint_path);
  return 0;
}

int state_open(checkpoint *c, const char *restart, const config *cfg, run_log *log, const files *files,
               error *e) {
  if (strcmp(restart, "auto") != 0) return files_checkpoint_open(files, c, restart, e);
  return open_newest(c, -1, cfg, log, files, e);
}

bool state_pass_over(checkpoint *c, const char *restart, const config *cfg, run_log *log, const files *files,
                     error *e) {
  if (e->id != ERROR_CHECKPOINT_DAMAGED || !c->name[0] || strcmp(restart, "auto") != 0) return false;
  const int64_t before = c->mark.generation;
  tell_skipped(log, e->text);
  checkpoint_close(c);
  *e = (error){0};
  return !open_newest(c, before, cfg, log, files, e);
}

static int match(saving *s, const checkpoint *c, error *e) {
  fingerprint f;
  fingerprint_make(&f, s, e);
  if (!e->id) checkpoint_match(c, f.keys, f.count, e);
  fingerprint_free(&f);
  return error_agree(e, s->comm);
}

/* Every rank reads the steps of the series; of their fields, those that are still there are listed: the run may save
 * under another path than the one before it. */
static int restore_series(saving *s, const checkpoint *c, error *e) {
  const stored_array *a = checkpoint_find_array(c, "saved_steps");
  state t = {0};
  if (!a || a->axes != 2) return 0;
  const int64_t count = a->shape[1];
  int64_t *steps = calloc((size_t)count + 1, sizeof *steps);
  if (!steps) FAIL(e, OUT_OF_MEMORY, (size_t)count * sizeof *steps, "the list of saved fields");
  state_add_series(&t, count, true, steps);
  if (!error_agree(e, s->comm) && !files_checkpoint_read(s->files, c, t.arrays, 1, e))
    save_field_list(s, steps, count, e);
  free(steps);
  return e->id;
}

int state_restore(saving *s, const checkpoint *c, error *e) {
  state t;
  TRY(match(s, c, e));
  s->stepper->step = s->stepper->measured_from = c->step;
  TRY(state_describe(&t, s, false, NULL, e));
  TRY(files_checkpoint_read(s->files, c, t.arrays, t.count, e));
  TRY(restore_series(s, c, e));
  log_line(s->log, "restart from %s, step %lld", c->name, (long long)c->step);
  return 0;
}
