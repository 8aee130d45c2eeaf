#include "shot/shot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"

int save_queue_plan(shot *s, error *e) {
  save_queue *q = &s->saves;
  free(q->config_text);
  free(q->series.steps);
  q->series = (saved_series){.told = -INFINITY, .newest = -1};
  q->written = (written_files){.checkpoint = -1};
  q->statistics = (field_statistics){0};
  q->at_once = (writer_totals){0};
  q->checked_step = -1;
  q->io_seconds = q->waited_seconds = 0;
  q->last = q->told = false;
  q->config_text = config_print(s->config);
  return q->config_text ? 0 : FAIL(e, OUT_OF_MEMORY, sizeof *s->config, "the text of the config");
}

int save_queue_describe(shot *s, error *e) {
  char text[1024] = "; ";
  const source_set *set = &s->sources.set;
  int n = model_describe(&s->engine->physics.model, s->config, text + 2, sizeof text / 2);
  n = n ? n + 2 + snprintf(text + n + 2, sizeof text / 4, "\n") : 0;
  if (set->count) n += source_set_describe(set, text + n, sizeof text / 4);
  if (n == 0) return 0;
  const size_t used = strlen(s->saves.config_text), more = (size_t)n;
  if (!GROW(e, s->saves.config_text, used + more + 1, "the text of the config"))
    strcpy(s->saves.config_text + used, text);
  return error_agree(e, s->engine->comm);
}

int save_queue_open(shot *s, error *e) {
  const engine *g = s->engine;
  save_queue *q = &s->saves;
  for (int i = 0; i < WRITER_ROOM && !e->id; i++) snapshot_open(&q->copies[i], s->dev, &g->slab, i, e);
  TRY(error_agree(e, g->comm));
  MPI_TRY(e, MPI_Comm_dup(g->comm, &q->jobs));
  q->open = true;
  if (g->config->output_every > 0)
    measure_open(&q->copy_measure, NULL, &g->slab, q->jobs, g->config->histogram, e);
  return error_agree(e, g->comm);
}

int save_queue_start(shot *s, error *e) {
  int threads;
  MPI_TRY(e, MPI_Query_thread(&threads));
  if (threads == MPI_THREAD_MULTIPLE)
    writer_open(&s->saves.writer, e);
  else
    log_detail(s->log, "this MPI is for one thread at a time: the steps wait while files are written");
  return error_agree(e, s->engine->comm);
}

/* Where the copy holds so much already, nobody need look how much memory is left. */
static bool save_queue_reserve(const shot *w, snapshot *p, size_t floats) {
  return snapshot_reserve(p, floats, floats <= p->room ? 0 : snapshot_limit(w->engine->options.local_ranks));
}

/* One that has to grow grows to what the largest job will need: pinned memory takes long to get. */
static bool save_queue_reserve_for(const shot *s, snapshot *p, size_t floats) {
  const bool grows = p->room < floats && floats < s->saves.most;
  return (grows && save_queue_reserve(s, p, s->saves.most)) || save_queue_reserve(s, p, floats);
}

void save_queue_prepare(shot *s, size_t floats) {
  s->saves.most = floats;
  for (int i = 0; s->saves.writer && i < WRITER_ROOM; i++) save_queue_reserve(s, &s->saves.copies[i], floats);
}

void save_queue_stop(shot *s) {
  writer_close(s->saves.writer);
  s->saves.writer = NULL;
}

void save_queue_close(shot *s) {
  save_queue *q = &s->saves;
  save_queue_stop(s);
  measure_close(&q->copy_measure);
  if (q->open) MPI_Comm_free(&q->jobs);
  for (int i = 0; i < WRITER_ROOM; i++) snapshot_close(&q->copies[i]);
  free(q->series.steps);
  free(q->config_text);
}

int save_queue_begin(shot *s, size_t floats, snapshot **copy, error *e) {
  *copy = NULL;
  if (!s->saves.writer || s->saves.last) return save_queue_finish(s, e);
  double begin = MPI_Wtime();
  const int unfinished = writer_make_room(s->saves.writer);
  s->saves.waited_seconds += MPI_Wtime() - begin;
  _Static_assert(WRITER_ROOM == 2, "one other job can be unfinished, the latest");
  const int free_one =
      unfinished ? !s->saves.latest : 0; /* the second copy only while the first is written */
  snapshot *p = &s->saves.copies[free_one];
  /* Some rank may know of a failure, or lack memory, while the others do not yet. */
  int all[2] = {writer_failed(s->saves.writer), !save_queue_reserve_for(s, p, floats)};
  MPI_TRY(e, mpi_reduce_all(all, 2, MPI_INT, MPI_MAX, s->engine->comm));
  if (all[0] || all[1]) TRY(save_queue_finish(s, e));
  if (!all[1]) *copy = p;
  /* A device that fails here may fail alone. */
  if (*copy && stepper_await(&s->stepper, STREAM_OUTPUT, e)) error_abort(e, s->engine->comm);
  if (all[1] && !s->saves.told)
    log_line(s->log, "too little memory for a copy of what is saved: the steps wait while it is written");
  s->saves.told = s->saves.told || all[1];
  return 0;
}

static int save_queue_do(shot *s, bool beside, writer_job *job, error *e) {
  if (beside) {
    writer_push(s->saves.writer, job);
    return 0;
  }
  double begin = MPI_Wtime();
  job->write(job, e);
  job->seconds = MPI_Wtime() - begin;
  s->saves.at_once.seconds += job->seconds;
  if (!e->id) s->saves.at_once.bytes += job->bytes;
  job->done(job, !e->id);
  return e->id;
}

int save_queue_submit(shot *s, const snapshot *copy, writer_job *job, error *e) {
  if (copy) s->saves.latest = copy->number;
  return save_queue_do(s, copy, job, e);
}

int save_queue_push(shot *s, writer_job *job, error *e) {
  if (!save_queue_finish(s, e)) return save_queue_do(s, s->saves.writer && !s->saves.last, job, e);
  job->done(job, false);
  return e->id;
}

int save_queue_finish(shot *s, error *e) {
  if (!s->saves.writer) return e->id;
  writer_drain(s->saves.writer, e);
  return error_agree(e, s->engine->comm);
}

/* The jobs agree by themselves: the steps may be agreeing on something else, and the data server knows nothing of
 * it. */
int save_queue_wait(shot *s, const snapshot *copy, error *e) {
  if (!copy) return 0;
  snapshot_wait(copy, e);
  return error_agree(e, s->saves.jobs);
}

run_meta save_queue_run(const shot *s, int64_t step) {
  const shot *lead = s->lead ? s->lead : s;
  return (run_meta){.fingerprint = s->survey ? s->survey->fingerprint : NULL,
                    .step = step,
                    .time = (double)step * s->engine->physics.dt,
                    .dt = s->engine->physics.dt,
                    .mpi_ranks = s->engine->files->started,
                    .config_text = s->saves.config_text,
                    .command = s->command,
                    .backend = backend_name(s->dev->table->backend),
                    .kernel = lead->stepper.kernel->name,
                    .transport = lead->halo.name,
                    .equation = equation_name(s->config->equation)};
}

double save_queue_backlog(const shot *s) {
  return s->saves.writer ? WRITER_ROOM * writer_sum(s->saves.writer).longest : 0;
}

writer_totals save_queue_totals(const shot *s) {
  writer_totals t = s->saves.at_once;
  if (!s->saves.writer) return t;
  writer_totals w = writer_sum(s->saves.writer);
  t.seconds += w.seconds;
  t.bytes += w.bytes;
  return t;
}
