#include "save_traces.h"
#include <stdlib.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "physics/spill.h"

typedef struct traces_job {
  writer_job job; /* first */
  shot *s;
} traces_job;

static int traces_write(writer_job *job, error *e) {
  shot *s = ((traces_job *)job)->s;
  for (int i = 0; i < shot_rows(s); i++)
    if (shot_row(s, i)->receivers.spill.leaving)
      TRY(spill_write(&shot_row(s, i)->receivers, s->saves.jobs, e));
  return 0;
}

static void traces_done(writer_job *job, bool written) {
  (void)written;
  free(job);
}

/* A benchmark keeps the traces of its last steps alone. */
static int64_t traces_limit(const void *self, int64_t step) {
  shot *s = (shot *)(uintptr_t)self;
  int64_t limit = INT64_MAX;
  for (int i = 0; s->under_way.saves && i < shot_rows(s); i++)
    limit = smaller64(limit, spill_limit(&shot_row(s, i)->receivers, step));
  return limit;
}

/* Ends the blocks that are due. A device that fails here may fail alone. Agreed. */
static traces_job *traces_make_job(shot *s, error *e) {
  traces_job *j;
  if (!ALLOC(e, j, 1, "the receivers"))
    *j = (traces_job){.job = {.write = traces_write, .done = traces_done}, .s = s};
  if (j && receivers_flush(&s->receivers, e)) error_abort(e, s->engine->comm);
  for (int i = 0; j && i < shot_rows(s); i++) {
    receivers *r = &shot_row(s, i)->receivers;
    if (!spill_due(r) || spill_begin(r, e)) continue;
    j->job.bytes += (uint64_t)r->spill.block * (uint64_t)r->local * sizeof(float);
  }
  if (!error_agree(e, s->engine->comm)) return j;
  free(j);
  return NULL;
}

/* The blocks before these must be written: their place is needed. */
static int traces_look(void *self, const float *field, int64_t step, int stream, error *e) {
  shot *s = self;
  const double begin = MPI_Wtime();
  (void)field, (void)stream;
  watchdog_tell(s->stepper.watch, WATCH_NOT, step);
  TRY(save_queue_finish(s, e));
  s->saves.waited_seconds += MPI_Wtime() - begin;
  traces_job *j = traces_make_job(s, e);
  if (!j) return e->id;
  save_queue_push(s, &j->job, e);
  watchdog_tell(s->stepper.watch, WATCH_COMPUTE, step);
  s->saves.io_seconds += MPI_Wtime() - begin;
  return e->id;
}

void save_traces_observe(shot *s) {
  observers *all = &s->observers;
  all->list[all->count++] =
      (observer){.self = s, .agreed = true, .extra = true, .limit = traces_limit, .look = traces_look};
}

int save_traces_end(shot *s, error *e) {
  error mine = {0};
  receivers *r = &s->receivers;
  if (!r->spill.file.name[0]) return e->id;
  if (!spill_end(r, &mine) && r->spill.stays[0])
    log_line(s->log, "%s stays: checkpoints go on from the traces in it", r->spill.stays);
  if (mine.id && !e->id) *e = mine;
  return e->id;
}
