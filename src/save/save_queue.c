#include "save_queue.h"
#include <math.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "run/simulation.h"

int saving_open(simulation *s, error *e) {
  int threads;
  saving *w = &s->saving;
  for (int i = 0; i < OUTPUT_ROOM; i++) snapshot_open(&w->copies[i], s->dev, &s->slab, i);
  MPI_TRY(e, MPI_Query_thread(&threads));
  MPI_TRY(e, MPI_Comm_dup(s->comm, &w->comm));
  w->open = true;
  s->series_told = -INFINITY;
  if (threads == MPI_THREAD_MULTIPLE) {
    if (s->config->output_every > 0)
      survey_open(&w->survey, NULL, &s->slab, w->comm, s->config->histogram, e);
    if (!e->id) output_open(&w->writer, e);
  } else
    log_detail(s->log, "this MPI is for one thread at a time: the steps wait while files are written");
  return error_agree(e, s->comm);
}

/* Where the copy holds so much already, nobody need look how much memory is left. */
static bool reserve(const saving *w, snapshot *p, size_t floats) {
  return snapshot_reserve(p, floats, floats <= p->room ? 0 : snapshot_limit(w->local_ranks));
}

/* One that has to grow grows to what the largest job will need: pinned memory takes long to get. */
static bool reserve_for(const saving *w, snapshot *p, size_t floats) {
  const bool grows = p->room < floats && floats < w->most;
  return (grows && reserve(w, p, w->most)) || reserve(w, p, floats);
}

void saving_prepare(simulation *s, size_t floats) {
  s->saving.most = floats;
  if (s->saving.writer) reserve(&s->saving, &s->saving.copies[0], floats);
}

void saving_close(simulation *s) {
  output_close(s->saving.writer);
  s->saving.writer = NULL;
  survey_close(&s->saving.survey);
  if (s->saving.open) MPI_Comm_free(&s->saving.comm);
  s->saving.open = false;
  for (int i = 0; i < OUTPUT_ROOM; i++) snapshot_close(&s->saving.copies[i]);
}

int saving_begin(simulation *s, size_t floats, snapshot **copy, error *e) {
  saving *w = &s->saving;
  *copy = NULL;
  if (!w->writer || w->last) return saving_finish(s, e);
  double begin = MPI_Wtime();
  const int unfinished = output_make_room(w->writer);
  w->waited_seconds += MPI_Wtime() - begin;
  _Static_assert(OUTPUT_ROOM == 2, "one other job can be unfinished, the latest");
  const int free_one = unfinished ? !w->latest : 0; /* a second copy only where it is needed */
  snapshot *p = &w->copies[free_one];
  /* Some rank may know of a failure, or lack memory, while the others do not yet. */
  int mine[2] = {output_failed(w->writer), !reserve_for(w, p, floats)}, all[2];
  MPI_TRY(e, MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MAX, s->comm));
  if (all[0] || all[1]) TRY(saving_finish(s, e));
  if (!all[1]) *copy = p;
  /* A device that fails here may fail alone. */
  if (*copy && stepper_await(&s->stepper, STREAM_OUTPUT, e)) error_abort(e, s->comm);
  if (all[1] && !w->told)
    log_line(s->log, "too little memory for a copy of what is saved: the steps wait while it is written");
  w->told = w->told || all[1];
  return 0;
}

int saving_submit(simulation *s, const snapshot *copy, output_job *job, error *e) {
  saving *w = &s->saving;
  if (copy) {
    w->latest = copy->number;
    output_push(w->writer, job);
    return 0;
  }
  double begin = MPI_Wtime();
  job->write(job, e);
  job->seconds = MPI_Wtime() - begin;
  w->at_once.seconds += job->seconds;
  if (!e->id) w->at_once.bytes += job->bytes;
  job->done(job, !e->id);
  return e->id;
}

int saving_finish(simulation *s, error *e) {
  if (!s->saving.writer) return e->id;
  output_drain(s->saving.writer, e);
  return error_agree(e, s->comm);
}

/* The jobs agree by themselves: the steps may be agreeing on something else, and the data server knows nothing of
 * it. */
int saving_wait(simulation *s, const snapshot *copy, error *e) {
  if (!copy) return 0;
  if (!s->files->served)
    field_io_start(); /* where HDF5 is for many threads, each has its own error printing */
  snapshot_wait(copy, e);
  return error_agree(e, s->saving.comm);
}

double saving_backlog(const simulation *s) {
  return s->saving.writer ? OUTPUT_ROOM * output_sum(s->saving.writer).longest : 0;
}

output_totals saving_totals(const simulation *s) {
  output_totals t = s->saving.at_once;
  if (!s->saving.writer) return t;
  output_totals w = output_sum(s->saving.writer);
  t.seconds += w.seconds;
  t.bytes += w.bytes;
  return t;
}
