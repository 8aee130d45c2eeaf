#include "save_queue.h"
#include <math.h>
#include <stdlib.h>
#include "base/error_mpi.h"

int save_queue_open(save_queue *s, error *e) {
  int threads;
  for (int i = 0; i < WRITER_ROOM && !e->id; i++) snapshot_open(&s->copies[i], s->dev, s->slab, i, e);
  TRY(error_agree(e, s->comm));
  MPI_TRY(e, MPI_Query_thread(&threads));
  MPI_TRY(e, MPI_Comm_dup(s->comm, &s->jobs));
  s->open = true;
  s->series.told = -INFINITY;
  if (threads == MPI_THREAD_MULTIPLE) {
    if (s->config->output_every > 0)
      survey_open(&s->copy_survey, NULL, s->slab, s->jobs, s->config->histogram, e);
    if (!e->id) writer_open(&s->writer, e);
  } else
    log_detail(s->log, "this MPI is for one thread at a time: the steps wait while files are written");
  return error_agree(e, s->comm);
}

/* Where the copy holds so much already, nobody need look how much memory is left. */
static bool save_queue_reserve(const save_queue *w, snapshot *p, size_t floats) {
  return snapshot_reserve(p, floats, floats <= p->room ? 0 : snapshot_limit(w->local_ranks));
}

/* One that has to grow grows to what the largest job will need: pinned memory takes long to get. */
static bool save_queue_reserve_for(const save_queue *s, snapshot *p, size_t floats) {
  const bool grows = p->room < floats && floats < s->most;
  return (grows && save_queue_reserve(s, p, s->most)) || save_queue_reserve(s, p, floats);
}

void save_queue_prepare(save_queue *s, size_t floats) {
  s->most = floats;
  for (int i = 0; s->writer && i < WRITER_ROOM; i++) save_queue_reserve(s, &s->copies[i], floats);
}

void save_queue_close(save_queue *s) {
  writer_close(s->writer);
  s->writer = NULL;
  survey_close(&s->copy_survey);
  if (s->open) MPI_Comm_free(&s->jobs);
  s->open = false;
  for (int i = 0; i < WRITER_ROOM; i++) snapshot_close(&s->copies[i]);
}

int save_queue_begin(save_queue *s, size_t floats, snapshot **copy, error *e) {
  *copy = NULL;
  if (!s->writer || s->last) return save_queue_finish(s, e);
  double begin = MPI_Wtime();
  const int unfinished = writer_make_room(s->writer);
  s->waited_seconds += MPI_Wtime() - begin;
  _Static_assert(WRITER_ROOM == 2, "one other job can be unfinished, the latest");
  const int free_one = unfinished ? !s->latest : 0; /* the second copy only while the first is written */
  snapshot *p = &s->copies[free_one];
  /* Some rank may know of a failure, or lack memory, while the others do not yet. */
  int mine[2] = {writer_failed(s->writer), !save_queue_reserve_for(s, p, floats)}, all[2];
  MPI_TRY(e, MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MAX, s->comm));
  if (all[0] || all[1]) TRY(save_queue_finish(s, e));
  if (!all[1]) *copy = p;
  /* A device that fails here may fail alone. */
  if (*copy && stepper_await(s->stepper, STREAM_OUTPUT, e)) error_abort(e, s->comm);
  if (all[1] && !s->told)
    log_line(s->log, "too little memory for a copy of what is saved: the steps wait while it is written");
  s->told = s->told || all[1];
  return 0;
}

int save_queue_submit(save_queue *s, const snapshot *copy, writer_job *job, error *e) {
  if (copy) {
    s->latest = copy->number;
    writer_push(s->writer, job);
    return 0;
  }
  double begin = MPI_Wtime();
  job->write(job, e);
  job->seconds = MPI_Wtime() - begin;
  s->at_once.seconds += job->seconds;
  if (!e->id) s->at_once.bytes += job->bytes;
  job->done(job, !e->id);
  return e->id;
}

int save_queue_finish(save_queue *s, error *e) {
  if (!s->writer) return e->id;
  writer_drain(s->writer, e);
  return error_agree(e, s->comm);
}

/* The jobs agree by themselves: the steps may be agreeing on something else, and the data server knows nothing of
 * it. */
int save_queue_wait(save_queue *s, const snapshot *copy, error *e) {
  if (!copy) return 0;
  if (!s->files->served)
    field_io_start(); /* where HDF5 is for many threads, each has its own error printing */
  snapshot_wait(copy, e);
  return error_agree(e, s->jobs);
}

run_meta save_queue_run(const save_queue *s) {
  return (run_meta){.step = s->stepper->step,
                    .time = (double)s->stepper->step * s->physics->dt,
                    .dt = s->physics->dt,
                    .mpi_ranks = s->files->started,
                    .config_text = s->config_text,
                    .command = s->command,
                    .backend = backend_name(s->dev->table->backend),
                    .kernel = s->stepper->kernel->name,
                    .transport = s->stepper->halo->name,
                    .equation = equation_name(s->config->equation)};
}

double save_queue_backlog(const save_queue *s) {
  return s->writer ? WRITER_ROOM * writer_sum(s->writer).longest : 0;
}

writer_totals save_queue_totals(const save_queue *s) {
  writer_totals t = s->at_once;
  if (!s->writer) return t;
  writer_totals w = writer_sum(s->writer);
  t.seconds += w.seconds;
  t.bytes += w.bytes;
  return t;
}
