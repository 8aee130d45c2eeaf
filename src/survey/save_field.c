#include "save_field.h"
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/thread.h"
#include "shot/storage.h"

/* ERROR_NONFINITE with the first bad point where there is one. */
static int field_refuse_nonfinite(const shot *s, const field_statistics *f, error *e) {
  uint64_t nx = (uint64_t)s->config->nx, ny = (uint64_t)s->config->ny, first = nonfinite_index(f->all.first);
  if (!f->all.nonfinite || e->id) return e->id;
  return FAIL(e, NONFINITE, f->step, f->all.nonfinite, f->points, first % nx, first / nx % ny,
              first / nx / ny, nonfinite_name(f->all.first));
}

typedef void log_function(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void field_log_quantiles(const shot *s, const field_statistics *f, log_function *log) {
  char text[32 * QUANTILES] = "";
  for (int i = 0; i < QUANTILES; i++) {
    const size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, "%s%d %% %.7g", i ? ", " : "", quantile_percent(i),
             f->quantiles[i]);
  }
  log(s->log, "step %" PRId64 ": quantiles %s", f->step, text);
}

/* Tells the statistics. */
static void field_log_statistics(const shot *s, const field_statistics *f, log_function *log) {
  if (f->all.nonfinite) return;
  log(s->log, "step %" PRId64 ": min %.7g, max %.7g, mean %.7g, L2 norm %.7g", f->step, f->all.min,
      f->all.max, statistics_mean(f), statistics_l2(f));
  if (f->bins > 0) field_log_quantiles(s, f, log);
}

/* What is saved of the newest field: where it is sigma p, p (field_find_pressure). */
static float *field_saved(const shot *s) {
  return s->memory[MEMORY_PRESSURE] ? s->memory[MEMORY_PRESSURE] : s->stepper.memory[s->stepper.current];
}

/* Computes p, where the field is sigma p: enqueued on STREAM_OUTPUT behind the steps. */
static int field_find_pressure(shot *s, error *e) {
  const stepper *p = &s->stepper;
  const kernel_args *a = &p->args;
  if (!s->memory[MEMORY_PRESSURE]) return 0;
  const scale_args over = {SCALE_OVER,     stepper_field(p, p->current),
                           a->terms.sigma, field_saved(s) + slab_offset(p->slab, 0, 0, 0),
                           a->pitch,       a->plane,
                           a->nx,          a->ny,
                           a->nz,          NULL};
  TRY(stepper_await(p, STREAM_OUTPUT, e));
  return s->dev->table->apply(s->dev, STREAM_OUTPUT, &operation_scale, &over, e);
}

/* Measures the newest field where it is. */
static int field_measure(shot *s, bool histogram, error *e) {
  stepper *p = &s->stepper;
  field_statistics *f = &s->saves.statistics;
  f->step = p->step;
  watchdog_tell(p->watch, WATCH_CHECK, p->step);
  /* A device that fails here may fail alone, while the others stand in the step loop. */
  if (stepper_sync(p, e) || field_find_pressure(s, e) || s->dev->table->sync(s->dev, STREAM_OUTPUT, e) ||
      measure_field(&s->saves.measure, field_saved(s) + slab_offset(p->slab, 0, 0, 0), histogram, f, e))
    error_abort(e, s->engine->comm);
  s->saves.checked_step = p->step;
  return 0;
}

/* Measures the rows of a stack, and fails those whose values are not finite, and the stack where all have failed. */
static int field_check_rows(shot *s, error *e) {
  const error *last = NULL;
  int failed = 0;
  for (int i = 0; i < s->row_count; i++) {
    shot *row = s->rows[i];
    field_statistics *f = &row->saves.statistics;
    f->step = s->stepper.step;
    if (!row->failed.id) TRY(measure_row(&s->saves.measure, i, f, e));
    field_refuse_nonfinite(row, f, &row->failed);
    if (row->failed.id) failed++, last = &row->failed;
  }
  if (failed == s->row_count) *e = *last;
  return e->id;
}

/* Where values of the field that was just measured are not finite. */
static int field_refuse(shot *s, error *e) {
  if (!s->row_count) return field_refuse_nonfinite(s, &s->saves.statistics, e);
  return s->saves.statistics.all.nonfinite ? field_check_rows(s, e) : 0;
}

int save_field_check(shot *s, error *e) {
  if (s->saves.checked_step == s->stepper.step) return 0; /* saved a moment ago */
  TRY(field_measure(s, false, e));
  if (!s->row_count) field_log_statistics(s, &s->saves.statistics, log_detail);
  return field_refuse(s, e);
}

/* What the file says of itself that is saved after a step. */
static field_meta field_meta_of(const shot *s, int64_t step) {
  const config *c = s->config;
  return (field_meta){.run = save_queue_run(s, step),
                      .origin = {c->origin[0], c->origin[1], c->origin[2]},
                      .spacing = {c->dx, c->dy, c->dz},
                      .cut = {config_cut_of(c, 0), config_cut_of(c, 1), config_cut_of(c, 2)},
                      .compress = c->compress};
}

static int field_list_step(shot *s, int64_t step, error *e) {
  TRY(GROW(e, s->saves.series.steps, s->saves.series.count + 1, "the list of saved fields"));
  s->saves.series.steps[s->saves.series.count++] = step;
  return 0;
}

int save_field_list(shot *s, const int64_t *steps, int64_t count, error *e) {
  enum series_found *found;
  ALLOC(e, found, count, "the list of saved fields");
  const field_meta meta = field_meta_of(s, shot_step(s));
  const request there = {FILES_FIND_FIELDS,
                         .path = s->config->output_path,
                         .field = &meta,
                         .count = count,
                         .steps = steps,
                         .answer_bytes = (size_t)count * sizeof *found,
                         .own = {.io = &s->io, .answer = found}};
  const bool known = !error_agree(e, s->engine->comm) && !files_do(s->engine->files, &there, e);
  int others = 0;
  for (int64_t i = 0; known && i < count && !e->id; i++) {
    others += found[i] == SERIES_OTHER;
    if (found[i] != SERIES_SAME) continue;
    if (s->engine->rank == 0) field_list_step(s, steps[i], e);
    s->saves.series.newest = steps[i];
    s->saves.series.behind = true; /* the run before may not have come to list them */
  }
  if (others)
    log_line(s->log,
             "warning: %d fields of before the restart are of another [output] box or stride: the lists "
             "leave them out",
             others);
  free(found);
  s->saves.series.whole = s->saves.series.count;
  return error_agree(e, s->engine->comm);
}

/* A field to be saved, with all that the run will have changed by then. */
typedef struct field_job {
  writer_job job; /* first */
  shot *s;
  const snapshot *copy; /* NULL: from the device */
  const float *planes;  /* of the copy */
  field_meta meta;
  field_statistics statistics; /* of a copy: made by the writer */
  bool lists;                  /* it also writes the list of saved fields: */
  int64_t *series;             /* this one and those before it; owned; rank 0 only */
  int series_count;
  error *rows;     /* of a stack: why a row has failed; owned; else NULL */
  atomic_int next; /* of its rows to be written */
} field_job;

/* A row of a stack on its way to its file, in host memory. */
typedef struct field_row {
  const shot *s;
  slab slab; /* of a shot, but with planes as far apart as they lie in */
  const float *points;
  measure measure;
  field_statistics statistics;
} field_row;

/* A field_source: the copy is measured on the way. */
static int field_copied_planes(void *context, int z, int planes, float *values, error *e) {
  field_job *j = context;
  const slab *s = &j->s->engine->slab;
  const size_t points = (size_t)s->nx * (size_t)s->ny;
  (void)e;
  snapshot_planes(s, j->planes, z, planes, values);
  for (int i = 0; i < planes && !config_cuts(j->s->config); i++)
    measure_plane(&j->s->saves.copy_measure, z + i, values + (size_t)i * points);
  return 0;
}

/* A field_measured. On the device it would keep the steps waiting: on 3 ranks of a GPU for 0.2 to 0.4 ms a field. */
static int field_copy_measured(void *context, error *e) {
  field_job *j = context;
  shot *s = j->s;
  j->statistics.step = j->meta.run.step;
  /* Of a field that is cut not all planes have been there. */
  if ((config_cuts(s->config) ? measure_field : measure_finish)(
          &s->saves.copy_measure, snapshot_points(&s->engine->slab, j->planes), true, &j->statistics, e))
    error_abort(e, s->engine->comm);
  return field_refuse_nonfinite(s, &j->statistics, e);
}

/* A field_source. */
static int field_row_planes(void *context, int z, int planes, float *values, error *e) {
  const field_row *r = context;
  const size_t nx = (size_t)r->slab.nx;
  (void)e;
  for (int i = 0; i < planes; i++)
    memcpy(values + (size_t)i * nx, r->points + (size_t)(z + i) * r->slab.plane, nx * sizeof *values);
  return 0;
}

/* A field_measured. */
static int field_row_measured(void *context, error *e) {
  field_row *r = context;
  TRY(measure_field(&r->measure, r->points, true, &r->statistics, e));
  return field_refuse_nonfinite(r->s, &r->statistics, e);
}

static int field_write_host_row(shot *s, const float *points, size_t plane, int64_t step, error *e) {
  const engine *g = s->engine;
  field_row r = {.s = s, .slab = g->files_slab, .points = points, .statistics.step = step};
  const request_own own = {.io = &s->io, .planes = &(field_planes){field_row_planes, &r}};
  field_meta meta = field_meta_of(s, step);
  r.slab.plane = plane;
  meta.statistics = &r.statistics, meta.measured = field_row_measured;
  if (!measure_open(&r.measure, NULL, &r.slab, g->comm, s->config->histogram, e))
    files_do(g->files, &(request){FILES_WRITE_FIELD, .path = s->io.path, .field = &meta, .own = own}, e);
  measure_close(&r.measure);
  return e->id;
}

/* The field of a row after `step`: from the copy, or, where that is NULL, from the device. */
static int field_write_row(shot *s, const float *copy, int64_t step, error *e) {
  const slab *b = &s->engine->slab;
  const size_t nx = (size_t)b->nx, own = (size_t)s->row * b->pitch;
  float *brought = NULL;
  if (copy)
    field_write_host_row(s, snapshot_points(b, copy) + own, b->plane, step, e);
  else if (!ALLOC(e, brought, (size_t)b->nz * nx, "a field to be saved") &&
           !shot_bring(s, field_saved(s->lead), 0, b->nz, brought, e))
    field_write_host_row(s, brought, nx, step, e);
  free(brought);
  TRY(e->id);
  s->saves.series.whole++;
  s->saves.series.behind = true;
  return 0;
}

static void *field_write_rows(void *argument) {
  field_job *j = argument;
  for (int i; (i = atomic_fetch_add(&j->next, 1)) < j->s->row_count;)
    if (!j->rows[i].id) field_write_row(j->s->rows[i], j->planes, j->meta.run.step, &j->rows[i]);
  return NULL;
}

/* The steps are rank 0's. */
static int field_write_series(const shot *s, const field_meta *meta, const int64_t *steps, int count,
                              error *e) {
  const request r = {FILES_WRITE_SERIES, .path = s->io.path, .field = meta,
                     .steps = steps,     .count = count,     .own.io = &s->io};
  return files_do(s->engine->files, &r, e);
}

static int field_write_job(writer_job *job, error *e) {
  field_job *j = (field_job *)job;
  shot *s = j->s;
  TRY(save_queue_wait(s, j->copy, e));
  if (j->rows) { /* without a writer MPI is for one thread at a time */
    thread_share(s->saves.writer ? s->engine->files->way->compressors : 1, field_write_rows, j);
    return 0;
  }
  if (j->copy) j->meta.measured = field_copy_measured;
  const field_planes planes = {j->copy ? field_copied_planes : transfer_to_host,
                               j->copy ? (void *)j : &s->transfer};
  const request_own own = {.io = &s->io, .planes = &planes};
  const request field = {FILES_WRITE_FIELD, .path = s->io.path, .field = &j->meta, .own = own};
  TRY(files_do(s->engine->files, &field, e));
  return j->lists ? field_write_series(s, &j->meta, j->series, j->series_count, e) : 0;
}

static void field_free_job(field_job *j) {
  free(j->series);
  free(j->rows);
  free(j);
}

static void field_done(writer_job *job, bool written) {
  field_job *j = (field_job *)job;
  shot *s = j->s;
  if (j->copy && j->statistics.points) field_log_statistics(s, &j->statistics, log_line);
  for (int i = 0; j->rows && i < s->row_count; i++)
    if (!s->rows[i]->failed.id) s->rows[i]->failed = j->rows[i];
  if (written && !j->rows) {
    log_detail(s->log, "saved %s.%08lld.hdf", s->config->output_path, (long long)j->meta.run.step);
    if (s->saves.written.fields++ == 0) s->saves.written.first = j->meta.run.step;
    s->saves.written.last = j->meta.run.step;
    s->saves.series.whole++;
    s->saves.series.behind = !j->lists;
  }
  field_free_job(j);
}

/* The list can be made anew from the files, and is long where fields are many: while the run goes on, once a second is
 * enough. By a clock that is the same on every rank. */
static bool field_list_is_due(shot *s) {
  const double SECONDS = 1;
  if (!s->saves.last && s->stop.known - s->saves.series.told < SECONDS) return false;
  s->saves.series.told = s->stop.known;
  return true;
}

static int field_keep_series(field_job *j, error *e) {
  shot *s = j->s;
  TRY(field_list_step(s, j->meta.run.step, e));
  if (!j->lists) return 0;
  TRY(ALLOC(e, j->series, s->saves.series.count, "the list of saved fields"));
  memcpy(j->series, s->saves.series.steps, (size_t)s->saves.series.count * sizeof *j->series);
  j->series_count = s->saves.series.count;
  return 0;
}

/* A row that has failed is not saved any more. */
static int field_keep_rows(field_job *j, error *e) {
  shot *s = j->s;
  TRY(ALLOC(e, j->rows, s->row_count, "a field to be saved"));
  for (int i = 0; i < s->row_count; i++) {
    j->rows[i] = s->rows[i]->failed;
    TRY(field_list_step(s->rows[i], j->meta.run.step, e));
  }
  return 0;
}

/* Agreed. */
static field_job *field_make_job(shot *s, error *e) {
  const bool lists = field_list_is_due(s);
  field_job *j;
  if (!ALLOC(e, j, 1, "a field to be saved")) {
    j->job.write = field_write_job;
    j->job.done = field_done;
    j->s = s;
    j->meta = field_meta_of(s, shot_step(s));
    j->meta.statistics = &j->statistics;
    j->lists = lists && !s->row_count;
    if (s->row_count)
      field_keep_rows(j, e);
    else if (s->engine->rank == 0)
      field_keep_series(j, e);
  }
  if (!error_agree(e, s->engine->comm)) {
    s->saves.series.newest = shot_step(s);
    return j;
  }
  if (j) field_free_job(j);
  return NULL;
}

/* Of the values that this rank's planes have in the file, or in the files of a stack's rows. */
static uint64_t field_bytes(const shot *s) {
  config_cut cut[3];
  for (int axis = 0; axis < 3; axis++) cut[axis] = config_cut_of(s->config, axis);
  const slab *z = &s->engine->slab;
  const int planes = config_cut_below(cut[2], z->z0 + z->nz) - config_cut_below(cut[2], z->z0);
  return (uint64_t)cut[0].count * (uint64_t)cut[1].count * (uint64_t)planes *
         (uint64_t)larger(s->row_count, 1) * sizeof(float);
}

/* The field in the device, which is idle, or what it will hold when the steps enqueued so far are done. */
static int field_submit(shot *s, snapshot *copy, error *e) {
  stepper *p = &s->stepper;
  field_job *j = field_make_job(s, e);
  TRY(e->id);
  j->job.bytes = field_bytes(s);
  if (!copy) j->statistics = s->saves.statistics;
  s->transfer.field = field_saved(s);
  if (copy) {
    j->copy = copy;
    if (!field_find_pressure(s, e)) j->planes = snapshot_field(copy, field_saved(s), e);
    p->copying[p->current] = snapshot_mark(copy, e);
    if (e->id) error_abort(e, s->engine->comm); /* a device may fail alone */
    s->saves.checked_step = p->step;
  }
  return save_queue_submit(s, copy, &j->job, e);
}

int save_field(shot *s, error *e) {
  snapshot *copy;
  double begin = MPI_Wtime();
  watchdog_tell(s->stepper.watch, WATCH_NOT, s->stepper.step);
  TRY(save_queue_begin(s, snapshot_field_floats(&s->engine->slab), &copy, e));
  if (!copy) {
    s->saves.io_seconds += MPI_Wtime() - begin;
    TRY(field_measure(s, true, e));
    field_log_statistics(s, &s->saves.statistics, log_line);
    TRY(field_refuse(s, e));
    begin = MPI_Wtime(); /* measuring has waited for the steps under way: they are not I/O */
    watchdog_tell(s->stepper.watch, WATCH_NOT, s->stepper.step);
  }
  field_submit(s, copy, e);
  watchdog_tell(s->stepper.watch, WATCH_COMPUTE, s->stepper.step);
  s->saves.io_seconds += MPI_Wtime() - begin;
  return e->id;
}

/* Moves aside or deletes what an earlier run has left: as this one begins, or, `over`, when its own files are there. */
static int field_move_aside(const shot *s, bool dry, bool over, space_aside *a, error *e) {
  request r = {FILES_MOVE_ASIDE, .config = s->config,       .which = storage_steps(s),
               .dry = dry,       .answer_bytes = sizeof *a, .own = {.io = &s->io, .answer = a}};
  r.which.over = over;
  return files_do(s->engine->files, &r, e);
}

static const char *field_plural(int count) {
  return count == 1 ? "" : "s";
}

int save_field_begin(shot *s, bool dry, error *e) {
  const config *c = s->config;
  const char *path = c->output_path;
  space_aside a;
  TRY(field_move_aside(s, dry, false, &a, e));
  if (a.files && c->output_replace)
    log_line(s->log, "a run would delete %d file%s of an earlier run at its end: it does not write %s",
             a.files, field_plural(a.files), a.files == 1 ? "it" : "them");
  else if (a.files)
    log_line(s->log, "%s %d file%s of an earlier run to %s.old%d.*: this one does not write %s",
             dry ? "a run would move aside" : "moved aside", a.files, field_plural(a.files), path, a.number,
             a.files == 1 ? "it" : "them");
  if (a.traces && !dry)
    log_line(s->log,
             "the traces of an earlier run are %s.old%d.receivers.h5 until those of this one replace them",
             path, a.traces);
  s->receivers.replaces = a.traces;
  const field_meta meta = field_meta_of(s, shot_step(s));
  return dry || s->from || !a.listed || c->output_replace ? 0 : field_write_series(s, &meta, NULL, 0, e);
}

int save_field_replace(shot *s, error *e) {
  space_aside a;
  if (!s->config->output_replace || !s->saves.last || s->row_count) return 0;
  TRY(field_move_aside(s, false, true, &a, e));
  if (a.files)
    log_line(s->log, "deleted %d file%s of an earlier run: this one does not write %s", a.files,
             field_plural(a.files), a.files == 1 ? "it" : "them");
  return 0;
}

int save_field_finish(shot *s, error *e) {
  error known = {0}, mine = {0};
  if (!s->saves.open && !s->lead) return e->id;
  save_queue_finish(s, &known); /* its failure is in `e` already */
  if (!s->saves.series.behind) return e->id;
  const field_meta meta = field_meta_of(s, shot_step(s));
  field_write_series(s, &meta, s->saves.series.steps, s->saves.series.whole, &mine);
  if (mine.id && (!e->id || e->id == ERROR_STOPPED)) *e = mine;
  s->saves.series.behind = false;
  return e->id;
}

/* --- as observers ----------------------------------------------------------------------------------------------- */

static int64_t field_limit(const void *self, int64_t step) {
  const shot *s = self;
  return observer_every(s->config->output_every, step);
}

static int field_look(void *self, const float *field, int64_t step, int stream, error *e) {
  (void)field, (void)step, (void)stream;
  return save_field(self, e);
}

/* Of a row: the last field, unless its lead has had it saved. */
static int field_finish_row(shot *s, int64_t step, error *e) {
  if (s->config->output_final && s->lead->saves.series.newest != step) {
    TRY(field_write_row(s, NULL, step, e));
    TRY(field_list_step(s, step, e));
  }
  return e->id;
}

/* The last field, unless it is saved: a run before a restart may have done so, or have had another path or `every`. Of a
 * survey the lists, too, come before the traces, with which a shot counts as done. */
static int field_finish(void *self, const char *path, const run_meta *run, error *e) {
  shot *s = self;
  (void)path;
  const bool wanted = s->config->output_final || field_limit(s, run->step - 1) == 1;
  if (s->lead)
    field_finish_row(s, run->step, e);
  else if (s->saves.series.newest != run->step)
    wanted && !s->row_count ? save_field(s, e) : save_field_check(s, e);
  TRY(e->id);
  return s->survey ? save_field_finish(s, e) : 0;
}

static int64_t field_check_limit(const void *self, int64_t step) {
  const shot *s = self;
  return observer_every(s->config->check_every, step);
}

/* The last field is checked as it is saved. */
static int field_check_look(void *self, const float *field, int64_t step, int stream, error *e) {
  shot *s = self;
  (void)field, (void)step, (void)stream;
  return s->saves.last ? 0 : save_field_check(s, e);
}

void save_field_observe(shot *s) {
  observers *all = &s->observers;
  all->list[all->count++] =
      (observer){.self = s, .agreed = true, .limit = field_limit, .look = field_look, .finish = field_finish};
  all->list[all->count++] =
      (observer){.self = s, .agreed = true, .limit = field_check_limit, .look = field_check_look};
}
