#include "save_field.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "shot/storage.h"

/* Fails with ERROR_NONFINITE and the first bad point, if there is one. */
static int field_refuse(const shot *s, const field_statistics *f, error *e) {
  const config *c = s->config;
  const uint64_t nx = (uint64_t)s->engine->files_slab.nx, ny = (uint64_t)s->engine->files_slab.ny,
                 first = nonfinite_index(f->all.first);
  if (!f->all.nonfinite || e->id) return e->id;
  return FAIL(e, NONFINITE, f->step, f->all.nonfinite, f->points, config_point_given(c, 0, (int)(first % nx)),
              config_point_given(c, 1, (int)(first / nx % ny)),
              config_point_given(c, 2, (int)(first / nx / ny)), nonfinite_name(f->all.first));
}

typedef void log_function(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void field_log_quantiles(run_log *to, const field_statistics *f, log_function *log) {
  char text[32 * QUANTILES] = "";
  for (int i = 0; i < QUANTILES; i++) {
    const size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, "%s%d %% %.7g", i ? ", " : "", quantile_percent(i),
             f->quantiles[i]);
  }
  log(to, "step %" PRId64 ": quantiles %s", f->step, text);
}

/* Logs the statistics. */
static void field_log_statistics(run_log *to, const field_statistics *f, log_function *log) {
  if (f->all.nonfinite) return;
  log(to, "step %" PRId64 ": min %.7g, max %.7g, mean %.7g, L2 norm %.7g", f->step, f->all.min, f->all.max,
      statistics_mean(f), statistics_l2(f));
  if (f->bins > 0) field_log_quantiles(to, f, log);
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

/* Fails the shots whose values are not finite. */
static int field_refuse_shots(batch *b, error *e) {
  for (int i = 0; i < b->count; i++) {
    field_statistics f;
    shot *s = b->shots[i];
    if (s->failed.id) continue;
    TRY(propagator_measure_shot(&b->p, i, false, &f, e));
    field_refuse(s, &f, &s->failed);
  }
  return batch_failed(b, e);
}

int save_field_check(batch *b, error *e) {
  if (b->checked_step == b->p.stepper.step) return 0; /* saved a moment ago */
  TRY(propagator_complete(&b->p, e));
  TRY(propagator_measure(&b->p, &b->statistics, e));
  b->checked_step = b->p.stepper.step;
  field_log_statistics(b->of.log, &b->statistics, log_detail);
  return b->statistics.all.nonfinite ? field_refuse_shots(b, e) : 0;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

/* The metadata of the field of shot i saved after `step`. */
static field_meta field_meta_of(const batch *b, int i, int64_t step) {
  const config *c = b->shots[i]->config;
  return (field_meta){.run = batch_run(b, i, step),
                      .origin = {c->origin[0], c->origin[1], c->origin[2]},
                      .spacing = {c->dx, c->dy, c->dz},
                      .cut = {config_cut_of(c, 0), config_cut_of(c, 1), config_cut_of(c, 2)},
                      .compress = c->compress};
}

static int field_list_step(shot *s, int64_t step, error *e) {
  TRY(GROW(e, s->series.steps, s->series.count + 1, "the list of saved fields"));
  s->series.steps[s->series.count++] = step;
  return 0;
}

/* `steps` may be NULL except on rank 0. */
static int field_write_series(const shot *s, const field_meta *meta, const int64_t *steps, int count,
                              error *e) {
  const request r = {FILES_WRITE_SERIES, .path = s->io.path, .field = meta,
                     .steps = steps,     .count = count,     .own.io = &s->io};
  return files_do(s->engine->files, &r, e);
}

int save_field_list(batch *b, const int64_t *steps, int64_t count, error *e) {
  shot *s = b->shots[0]; /* a shot with checkpoints is alone in its batch */
  enum series_found *found;
  ALLOC(e, found, count, "the list of saved fields");
  const field_meta meta = field_meta_of(b, 0, b->p.stepper.step);
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
    s->series.newest = steps[i];
    s->series.behind = true; /* the earlier run may have ended before it listed them */
  }
  if (others)
    log_line(s->log,
             "warning: %d fields of before the restart are of another [output] box or stride: the lists "
             "leave them out",
             others);
  free(found);
  s->series.whole = s->series.count;
  return error_agree(e, s->engine->comm);
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

typedef struct field_job field_job;

/* A shot's field to be saved, with copies of everything that the run may change before. */
typedef struct field_part {
  const field_job *job;
  int i;             /* of the shot */
  slab slab;         /* the shot's, but with the distance of planes in the copy */
  const float *copy; /* the shot's points (snapshot_points); NULL: saved from the device */
  measure measure;   /* of the copy */
  field_meta meta;
  field_statistics statistics;
  uint64_t *histogram; /* memory for the histogram of statistics measured on the device; owned */
  int64_t *series; /* the list of saved fields to be written with the field; owned; NULL except on rank 0 */
  int series_count;
  error failed;
} field_part;

struct field_job {
  writer_job job; /* first */
  batch *b;
  const snapshot *copy; /* NULL: from the device */
  float *field;         /* in device memory */
  int64_t step;
  bool lists;        /* the job also writes the lists of saved fields */
  field_part *parts; /* of each shot; owned */
};

/* A field_source, which measures the planes of a copy. */
static int field_planes_of(void *context, int z, int planes, float *values, error *e) {
  field_part *o = context;
  const batch *b = o->job->b;
  const slab *s = &o->slab;
  if (!o->copy) return propagator_bring(&b->p, o->i, o->job->field, z, planes, values, e);
  snapshot_planes(s, o->copy, z, planes, values);
  for (int k = 0; k < planes && !config_cuts(b->shots[o->i]->config); k++)
    measure_plane(&o->measure, z + k, values + (size_t)k * (size_t)s->nx * (size_t)s->ny);
  return 0;
}

/* A field_measured, for a copy on the host. Measuring on the device would delay the steps: on 3 ranks of a GPU by 0.2
 * to 0.4 ms a field. */
static int field_copy_measured(void *context, error *e) {
  field_part *o = context;
  const shot *s = o->job->b->shots[o->i];
  o->statistics.step = o->job->step;
  /* measure_plane has not seen all planes of a cut field. */
  if ((config_cuts(s->config) ? measure_field : measure_finish)(
          &o->measure, snapshot_points(&o->slab, o->copy), true, &o->statistics, e))
    return error_abort(e, s->engine->comm);
  return field_refuse(s, &o->statistics, e);
}

static int field_write_part(field_part *o, error *e) {
  const batch *b = o->job->b;
  const shot *s = b->shots[o->i];
  const field_planes planes = {field_planes_of, o};
  const request_own own = {.io = &s->io, .planes = &planes};
  if (o->copy) {
    o->meta.measured = field_copy_measured;
    measure_open(&o->measure, NULL, &o->slab, b->saves.jobs, s->config->histogram, e);
    TRY(error_agree(e, b->saves.jobs));
  }
  TRY(engine_write_field(s->engine, &o->meta, s->io.path, own, e));
  return o->job->lists ? field_write_series(s, &o->meta, o->series, o->series_count, e) : 0;
}

/* Called by batch_for_each. */
static void field_write_shot(void *context, int i) {
  field_part *o = &((field_job *)context)->parts[i];
  if (!o->failed.id) field_write_part(o, &o->failed);
}

/* Writes all shots. It fails, with the last shot's error, only where all shots have failed. */
static int field_write_job(writer_job *job, error *e) {
  field_job *j = (field_job *)job;
  batch *b = j->b;
  TRY(save_queue_wait(b, j->copy, e));
  batch_for_each(b, field_write_shot, j);
  for (int i = 0; i < b->count; i++)
    if (!j->parts[i].failed.id) return 0;
  if (b->count) *e = j->parts[b->count - 1].failed;
  return e->id;
}

static void field_free_job(field_job *j) {
  for (int i = 0; j->parts && i < j->b->count; i++) {
    measure_close(&j->parts[i].measure);
    free(j->parts[i].series);
    free(j->parts[i].histogram);
  }
  free(j->parts);
  free(j);
}

static void field_part_done(field_part *o) {
  const field_job *j = o->job;
  shot *s = j->b->shots[o->i];
  if (o->copy && o->statistics.points) field_log_statistics(s->log, &o->statistics, log_line);
  if (!s->failed.id) s->failed = o->failed;
  if (o->failed.id) return;
  log_detail(s->log, "saved %s.%08lld.hdf", s->config->output_path, (long long)j->step);
  if (s->written.fields++ == 0) s->written.first = j->step;
  s->written.last = j->step;
  s->series.whole++;
  s->series.behind = !j->lists;
}

static void field_done(writer_job *job, bool written) {
  field_job *j = (field_job *)job;
  for (int i = 0; i < j->b->count; i++)
    if (written || j->parts[i].failed.id) field_part_done(&j->parts[i]);
  field_free_job(j);
}

/* During the run a list is written at most once a second, by a clock that all ranks share. A list of many fields is
 * long, and can be remade from the files. */
static bool field_list_is_due(batch *b) {
  const double SECONDS = 1;
  saved_series *first = &b->shots[0]->series;
  if (!b->saves.last && b->stop.known - first->listed_at < SECONDS) return false;
  first->listed_at = b->stop.known;
  return true;
}

static int field_keep_series(field_part *o, shot *s, error *e) {
  TRY(field_list_step(s, o->job->step, e));
  if (!o->job->lists) return 0;
  TRY(ALLOC(e, o->series, s->series.count, "the list of saved fields"));
  memcpy(o->series, s->series.steps, (size_t)s->series.count * sizeof *o->series);
  o->series_count = s->series.count;
  return 0;
}

/* Prepares the save of shot i, unless the shot has failed. */
static int field_make_part(field_job *j, int i, error *e) {
  batch *b = j->b;
  shot *s = b->shots[i];
  field_part *o = &j->parts[i];
  *o = (field_part){.job = j, .i = i, .slab = s->engine->files_slab, .failed = s->failed};
  o->slab.plane = s->engine->slab.plane;
  o->meta = field_meta_of(b, i, j->step);
  o->meta.statistics = &o->statistics;
  if (o->failed.id) return 0;
  if (s->config->histogram) TRY(ALLOC(e, o->histogram, s->config->histogram, "a histogram"));
  return s->engine->rank == 0 ? field_keep_series(o, s, e) : 0;
}

/* Agreed. */
static field_job *field_make_job(batch *b, error *e) {
  static const char WHAT[] = "a field to be saved";
  const bool lists = field_list_is_due(b);
  field_job *j;
  if (!ALLOC(e, j, 1, WHAT)) {
    *j = (field_job){.job = {.write = field_write_job, .done = field_done}, .b = b, .lists = lists};
    j->step = b->p.stepper.step, j->field = propagator_saved(&b->p);
    ALLOC(e, j->parts, b->count, WHAT);
    for (int i = 0; i < b->count && !e->id; i++) field_make_part(j, i, e);
  }
  if (!error_agree(e, b->p.engine->comm)) {
    for (int i = 0; i < b->count; i++) b->shots[i]->series.newest = j->step;
    return j;
  }
  if (j) field_free_job(j);
  return NULL;
}

/* Bytes of the values that this rank's planes have in the files. */
static uint64_t field_bytes(const batch *b) {
  config_cut cut[3];
  for (int axis = 0; axis < 3; axis++) cut[axis] = config_cut_of(b->p.config, axis);
  const slab *z = &b->p.engine->written;
  const int planes = config_cut_below(cut[2], z->z0 + z->nz) - config_cut_below(cut[2], z->z0);
  return (uint64_t)cut[0].count * (uint64_t)cut[1].count * (uint64_t)planes * (uint64_t)b->count *
         sizeof(float);
}

/* Measures the fields on the device, which is idle, so that fields with NaN or Inf are not written. */
static int field_measure_parts(field_job *j, error *e) {
  batch *b = j->b;
  for (int i = 0; i < b->count; i++) {
    field_part *o = &j->parts[i];
    shot *s = b->shots[i];
    if (s->failed.id) continue;
    TRY(propagator_measure_shot(&b->p, i, true, &o->statistics, e));
    field_log_statistics(s->log, &o->statistics, log_line);
    field_refuse(s, &o->statistics, &s->failed);
    b->statistics = o->statistics; /* right for a batch of one shot */
    o->failed = s->failed;
    if (!o->statistics.bins) continue;
    const size_t bytes = (size_t)o->statistics.bins * sizeof *o->histogram;
    memcpy(o->histogram, o->statistics.histogram, bytes);
    o->statistics.histogram = o->histogram;
  }
  return batch_failed(b, e);
}

/* Enqueues copies of the fields after the steps enqueued so far. */
static int field_copy_parts(field_job *j, snapshot *copy, error *e) {
  batch *b = j->b;
  stepper *p = &b->p.stepper;
  const slab *s = p->slab;
  const float *planes = NULL;
  j->copy = copy;
  if (!propagator_find_pressure(&b->p, e)) planes = snapshot_field(copy, j->field, e);
  p->copying[p->current] = snapshot_mark(copy, e);
  if (e->id) return error_abort(e, b->p.engine->comm); /* a device may fail alone */
  for (int i = 0; i < b->count; i++) j->parts[i].copy = planes + (size_t)(i * j->parts[i].slab.ny) * s->pitch;
  return 0;
}

int save_field(batch *b, error *e) {
  watchdog *watch = b->p.stepper.watch;
  const int64_t step = b->p.stepper.step;
  snapshot *copy;
  double begin = MPI_Wtime();
  watchdog_mark(watch, WATCH_NOT, step);
  TRY(save_queue_begin(b, snapshot_field_floats(&b->p.engine->slab), &copy, e));
  field_job *j = field_make_job(b, e);
  TRY(e->id);
  j->job.bytes = field_bytes(b);
  b->saves.io_seconds += MPI_Wtime() - begin;
  if (!copy) propagator_complete(&b->p, e); /* waits for the steps under way, whose time is not I/O */
  if (e->id || (copy ? field_copy_parts(j, copy, e) : field_measure_parts(j, e))) {
    field_free_job(j);
    return error_agree(e, b->p.engine->comm);
  }
  b->checked_step = step;
  watchdog_mark(watch, WATCH_NOT, step);
  begin = MPI_Wtime();
  save_queue_submit(b, copy, &j->job, e);
  watchdog_mark(watch, WATCH_COMPUTE, step);
  b->saves.io_seconds += MPI_Wtime() - begin;
  return e->id;
}

/* --- before and after the steps ----------------------------------------------------------------------------------- */

/* Moves aside or deletes files of an earlier run. `over`: this run has written its own files; else it begins. */
static int field_move_aside(const shot *s, bool dry, bool over, space_aside *a, error *e) {
  request r = {FILES_MOVE_ASIDE, .config = s->config,       .which = storage_steps(s),
               .dry = dry,       .answer_bytes = sizeof *a, .own = {.io = &s->io, .answer = a}};
  r.which.over = over;
  return files_do(s->engine->files, &r, e);
}

static const char *field_plural(int count) {
  return count == 1 ? "" : "s";
}

int save_field_clear(shot *s, bool dry, error *e) {
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
  s->at.receivers.replaces = a.traces;
  const field_meta meta = {.cut = {config_cut_of(c, 0), config_cut_of(c, 1), config_cut_of(c, 2)}};
  return dry || s->of.from || !a.listed || c->output_replace ? 0 : field_write_series(s, &meta, NULL, 0, e);
}

int save_field_replace(const shot *s, error *e) {
  space_aside a;
  if (!s->config->output_replace) return 0;
  TRY(field_move_aside(s, false, true, &a, e));
  if (a.files)
    log_line(s->log, "deleted %d file%s of an earlier run: this one does not write %s", a.files,
             field_plural(a.files), a.files == 1 ? "it" : "them");
  return 0;
}

/* Called by batch_for_each. Completes lists also of shots that have failed or were stopped. */
static void field_finish_list(void *context, int i) {
  const batch *b = context;
  shot *s = b->shots[i];
  error mine = {0};
  if (!s->series.behind) return;
  const field_meta meta = field_meta_of(b, i, b->p.stepper.step);
  s->series.behind = false;
  field_write_series(s, &meta, s->series.steps, s->series.whole, &mine);
  if (!s->failed.id) s->failed = mine;
}

int save_field_finish(batch *b, error *e) {
  batch_for_each(b, field_finish_list, b);
  return batch_failed(b, e);
}

static int64_t field_limit(const void *self, int64_t step) {
  const batch *b = self;
  return observer_every(b->p.config->output_every, step);
}

/* The run before a restart may have saved the last field already, or may have had another path or `every`. */
int save_field_last(batch *b, error *e) {
  const int64_t step = b->p.stepper.step;
  const bool wanted = b->p.config->output_final || field_limit(b, step - 1) == 1;
  if (b->shots[0]->series.newest != step) wanted ? save_field(b, e) : save_field_check(b, e);
  return e->id ? e->id : save_field_finish(b, e);
}

/* --- as observers ------------------------------------------------------------------------------------------------- */

static int field_look(void *self, const float *field, int64_t step, int stream, error *e) {
  (void)field, (void)step, (void)stream;
  return save_field(self, e);
}

static int64_t field_check_limit(const void *self, int64_t step) {
  const batch *b = self;
  return observer_every(b->p.config->check_every, step);
}

/* Checks the field; the last one is checked when it is saved. */
static int field_check_look(void *self, const float *field, int64_t step, int stream, error *e) {
  batch *b = self;
  (void)field, (void)step, (void)stream;
  return b->saves.last ? 0 : save_field_check(b, e);
}

void save_field_observe(batch *b) {
  observers *all = &b->p.observers;
  all->list[all->count++] = (observer){.self = b, .agreed = true, .limit = field_limit, .look = field_look};
  all->list[all->count++] =
      (observer){.self = b, .agreed = true, .limit = field_check_limit, .look = field_check_look};
}
