#include "batch.h"
#include "base/error_mpi.h"

void save_queue_stop(save_queue *q) {
  const writer_totals w = q->writer ? writer_sum(q->writer) : (writer_totals){0};
  q->totals.seconds += w.seconds, q->totals.bytes += w.bytes;
  writer_close(q->writer);
  q->writer = NULL;
}

void save_queue_plan(save_queue *q) {
  save_queue_stop(q);
  q->totals = (writer_totals){0};
  q->io_seconds = q->waited_seconds = 0;
  q->last = q->logged = false;
}

static int save_queue_open_once(batch *b, error *e) {
  const engine *g = b->p.engine;
  save_queue *q = &b->saves;
  for (int i = 0; i < WRITER_ROOM && !e->id; i++) snapshot_open(&q->copies[i], b->p.dev, &g->slab, i, e);
  TRY(error_agree(e, g->comm));
  MPI_TRY(e, MPI_Comm_dup(g->comm, &q->jobs));
  q->open = true;
  return 0;
}

int save_queue_open(batch *b, error *e) {
  if (!b->saves.open) TRY(save_queue_open_once(b, e));
  if (b->count == 0) return 0;
  if (mpi_threads())
    writer_open(&b->saves.writer, e);
  else
    log_detail(b->of.log, "this MPI is for one thread at a time: the steps wait while files are written");
  return error_agree(e, b->p.engine->comm);
}

/* Reserves `floats` floats. The memory left is looked up only if the copy must grow. */
static bool save_queue_reserve(const batch *b, snapshot *p, size_t floats) {
  return snapshot_reserve(p, floats,
                          floats <= p->capacity ? 0 : snapshot_limit(b->p.engine->options.local_ranks));
}

/* A copy that must grow grows to the size of the largest job, since pinned memory takes long to allocate. */
static bool save_queue_reserve_for(const batch *b, snapshot *p, size_t floats) {
  const bool grows = p->capacity < floats && floats < b->saves.most;
  return (grows && save_queue_reserve(b, p, b->saves.most)) || save_queue_reserve(b, p, floats);
}

void save_queue_prepare(batch *b, size_t floats) {
  b->saves.most = floats;
  for (int i = 0; b->saves.writer && i < WRITER_ROOM; i++) save_queue_reserve(b, &b->saves.copies[i], floats);
}

void save_queue_close(save_queue *q) {
  save_queue_stop(q);
  if (q->open) MPI_Comm_free(&q->jobs);
  for (int i = 0; i < WRITER_ROOM; i++) snapshot_close(&q->copies[i]);
  q->open = false;
}

int save_queue_begin(batch *b, size_t floats, snapshot **copy, error *e) {
  *copy = NULL;
  if (!b->saves.writer || b->saves.last) return save_queue_finish(b, e);
  double begin = MPI_Wtime();
  const int unfinished = writer_await_place(b->saves.writer);
  b->saves.waited_seconds += MPI_Wtime() - begin;
  _Static_assert(WRITER_ROOM == 2, "one other job can be unfinished, the latest");
  const int free_one =
      unfinished ? !b->saves.latest : 0; /* take the second copy only while the first is written */
  snapshot *p = &b->saves.copies[free_one];
  /* One rank may already know of a failure, or lack memory, while the others do not. */
  int all[2] = {writer_failed(b->saves.writer), !save_queue_reserve_for(b, p, floats)};
  MPI_TRY(e, mpi_reduce_all(all, 2, MPI_INT, MPI_MAX, b->p.engine->comm));
  if (all[0] || all[1]) TRY(save_queue_finish(b, e));
  if (!all[1]) *copy = p;
  /* A device that fails here may fail alone. */
  if (*copy && stepper_await(&b->p.stepper, STREAM_OUTPUT, e)) return error_abort(e, b->p.engine->comm);
  if (all[1] && !b->saves.logged)
    log_line(b->of.log, "too little memory for a copy of what is saved: the steps wait while it is written");
  b->saves.logged = b->saves.logged || all[1];
  return 0;
}

static int save_queue_do(batch *b, bool beside, writer_job *job, error *e) {
  if (beside) {
    writer_push(b->saves.writer, job);
    return 0;
  }
  double begin = MPI_Wtime();
  job->write(job, e);
  job->seconds = MPI_Wtime() - begin;
  b->saves.totals.seconds += job->seconds;
  if (!e->id) b->saves.totals.bytes += job->bytes;
  job->done(job, !e->id);
  return e->id;
}

int save_queue_submit(batch *b, const snapshot *copy, writer_job *job, error *e) {
  if (copy) b->saves.latest = copy->number;
  return save_queue_do(b, copy, job, e);
}

int save_queue_finish(batch *b, error *e) {
  if (!b->saves.writer) return e->id;
  writer_drain(b->saves.writer, e);
  return error_agree(e, b->p.engine->comm);
}

/* Jobs agree on a communicator of their own, since the steps may be agreeing on something else at the same time. */
int save_queue_wait(batch *b, const snapshot *copy, error *e) {
  if (!copy) return 0;
  snapshot_wait(copy, e);
  return error_agree(e, b->saves.jobs);
}

double save_queue_backlog(const batch *b) {
  return b->saves.writer ? WRITER_ROOM * writer_sum(b->saves.writer).longest : 0;
}
