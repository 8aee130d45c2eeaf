/* Planning, opening and closing a batch, and loops over its shots. */
#include "batch.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/thread.h"
#include "restart.h"
#include "save_field.h"
#include "shot/initial_file.h"

int batch_plan(batch *b, engine *g, shot *const *shots, int count, const batch_setup *setup, error *e) {
  acquisition **all = NULL;
  free(b->shots);
  b->count = 0, b->of = *setup;
  b->stop = (stop_watch){.comm = g->comm};
  b->statistics = (field_statistics){0};
  b->checked_step = -1;
  save_queue_plan(&b->saves);
  if (!ALLOC(e, b->shots, count, "the shots") && !ALLOC(e, all, count, "the shots")) {
    for (int i = 0; i < count; i++) b->shots[i] = shots[i], all[i] = &shots[i]->at;
    b->count = count;
    propagator_plan(&b->p, g, all, count, e);
  }
  free(all);
  save_field_observe(b);
  return error_agree(e, g->comm);
}

/* Warns where traces should lie in files, but no file can be mapped. */
static int batch_tell_traces(const batch *b, error *e) {
  int missed = 0;
  bool any = false;
  for (int i = 0; i < b->count; i++) {
    const receivers *r = &b->shots[i]->at.receivers;
    any = any || r->in_file;
    missed |= r->in_file && r->local && !r->held.mapped;
  }
  if (!any) return 0;
  MPI_TRY(e, mpi_reduce_all(&missed, 1, MPI_INT, MPI_SUM, b->p.engine->comm));
  if (missed)
    log_line(b->of.log, "warning: traces of %d rank%s stay in memory: no file can be mapped beside %s",
             missed, missed == 1 ? "" : "s", b->shots[0]->config->output_path);
  return 0;
}

int batch_open(batch *b, error *e) {
  TRY(propagator_open(&b->p, e));
  TRY(batch_tell_traces(b, e));
  return save_queue_open(b, e);
}

/* A propagator_input. It reads the first shot's field, since all shots begin with the same one. */
static int batch_read(void *context, int step, field_sink *sink, void *to, error *e) {
  const batch *b = context;
  const shot *first = b->shots[0];
  if (step == 0) return initial_file_read(first, sink, to, e);
  return engine_read_field(b->p.engine, first->config->previous_file, QUANTITY_NONE, sink, to, e);
}

static int batch_restore(void *context, error *e) {
  return restart_fill(context, e);
}

int batch_load(batch *b, error *e) {
  const checkpoint *from = b->shots[0]->of.from; /* a shot with checkpoints is alone in its batch */
  return from ? propagator_continue(&b->p, from->step, batch_restore, b, e)
              : propagator_start(&b->p, &(propagator_input){batch_read, b}, e);
}

void batch_close(batch *b) {
  save_queue_close(&b->saves);
  propagator_close(&b->p);
  free(b->shots);
  *b = (batch){.count = 0};
}

run_meta batch_run(const batch *b, int i, int64_t step) {
  const shot *s = b->shots[i];
  const engine *g = s->engine;
  return (run_meta){.fingerprint = s->of.fingerprint,
                    .step = step,
                    .time = (double)step * g->physics.dt,
                    .dt = g->physics.dt,
                    .mpi_ranks = g->files->started,
                    .config_text = s->config_text,
                    .command = s->of.command,
                    .backend = backend_name(b->p.dev->table->backend),
                    .kernel = b->p.stepper.kernel->name,
                    .transport = b->p.halo.name,
                    .equation = equation_name(s->config->equation)};
}

/* --- each of the shots -------------------------------------------------------------------------------------------- */

void batch_for_each(const batch *b, void (*each)(void *context, int i), void *context) {
  const engine *g = b->p.engine;
  const int threads = g->ranks == 1 && mpi_threads() ? g->files->access->compressors : 1;
  thread_each(threads, b->count, each, context);
}

int batch_failed(const batch *b, error *e) {
  const error *last = NULL;
  for (int i = 0; i < b->count; i++) {
    if (!b->shots[i]->failed.id) return e->id;
    last = &b->shots[i]->failed;
  }
  if (last && !e->id) *e = *last;
  return e->id;
}

/* The function that a thread calls for each shot. */
typedef struct batch_doing {
  batch *b;
  int (*each)(void *context, int i, error *e);
  void *context;
} batch_doing;

static void batch_do(void *context, int i) {
  const batch_doing *d = context;
  error *failed = &d->b->shots[i]->failed;
  if (!failed->id) d->each(d->context, i, failed);
}

int batch_each(batch *b, int (*each)(void *context, int i, error *e), void *context, error *e) {
  batch_for_each(b, batch_do, &(batch_doing){b, each, context});
  return batch_failed(b, e);
}
