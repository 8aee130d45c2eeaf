/* Looking after the newest field: checking and saving it. */
#include "simulation.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "error_mpi.h"

static const char *text_of(float bad, char text[16]) {
  snprintf(text, 16, "%s", isnan(bad) ? "NaN" : bad > 0 ? "Inf" : "-Inf");
  return text;
}

/* ERROR_NONFINITE with the first bad point; with --verbose, the log tells the others that are known. */
static int not_finite(simulation *s, error *e) {
  const field_statistics *f = &s->statistics;
  uint64_t nx = (uint64_t)s->slab.nx, ny = (uint64_t)s->slab.ny, first = f->bad[0].index;
  char text[16];
  for (int i = 1; i < f->bad_count; i++) {
    uint64_t at = f->bad[i].index;
    log_detail(s->log, "also not finite: x = %" PRIu64 ", y = %" PRIu64 ", z = %" PRIu64 ": %s", at % nx,
               at / nx % ny, at / nx / ny, text_of(f->bad[i].value, text));
  }
  return FAIL(e, NONFINITE, f->step, f->all.nonfinite, f->points, first % nx, first / nx % ny,
              first / nx / ny, text_of(f->bad[0].value, text));
}

static int measure(simulation *s, bool histogram, error *e) {
  stepper *p = &s->stepper;
  field_statistics *f = &s->statistics;
  f->step = p->step;
  watchdog_tell(p->watch, WATCH_CHECK, p->step);
  /* A device that fails here may fail alone, while the others stand in the step loop. */
  if (stepper_sync(p, e) || survey_field(&s->survey, p->memory[p->current], histogram, f, e))
    error_abort(e, s->comm);
  return f->all.nonfinite ? not_finite(s, e) : 0;
}

typedef void log_function(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void log_statistics(const simulation *s, log_function *log) {
  const field_statistics *f = &s->statistics;
  log(s->log, "step %" PRId64 ": min %.7g, max %.7g, mean %.7g, L2 norm %.7g", f->step, f->all.min,
      f->all.max, statistics_mean(f), statistics_l2(f));
}

int simulation_check(simulation *s, error *e) {
  if (s->statistics.points && s->statistics.step == s->stepper.step) return 0; /* saved a moment ago */
  TRY(measure(s, false, e));
  log_statistics(s, log_detail);
  return 0;
}

/* What the saved file says about this run at its present step. */
static field_meta simulation_meta(const simulation *s) {
  const config *c = s->config;
  return (field_meta){.step = s->stepper.step,
                      .time = (double)s->stepper.step * s->physics.dt,
                      .dt = s->physics.dt,
                      .origin = {c->origin[0], c->origin[1], c->origin[2]},
                      .spacing = {c->dx, c->dy, c->dz},
                      .config_text = s->config_text,
                      .command = s->command,
                      .mpi_ranks = s->files->started,
                      .backend = backend_name(s->dev->table->backend),
                      .kernel = s->stepper.kernel->name,
                      .transport = s->halo.transport->name,
                      .equation = equation_name(c->equation),
                      .compress = c->compress};
}

static int list_step(simulation *s, int64_t step, error *e) {
  size_t bytes = (size_t)(s->series_count + 1) * sizeof *s->series;
  series_entry *series = realloc(s->series, bytes);
  if (!series) return FAIL(e, OUT_OF_MEMORY, bytes, "the list of saved fields");
  s->series = series;
  s->series[s->series_count++] = (series_entry){step, (double)step * s->physics.dt};
  return 0;
}

int simulation_list(simulation *s, const int64_t *steps, int64_t count, error *e) {
  bool *exist = calloc((size_t)count + 1, sizeof *exist);
  if (!exist) FAIL(e, OUT_OF_MEMORY, (size_t)count, "the list of saved fields");
  if (!error_agree(e, s->comm)) files_fields_exist(s->files, s->config->output_path, steps, count, exist, e);
  for (int64_t i = 0; i < count && !e->id; i++)
    if (exist[i]) {
      if (s->rank == 0) list_step(s, steps[i], e);
      s->series_behind = true; /* the run before may not have come to list them */
    }
  free(exist);
  s->series_whole = s->series_count;
  return error_agree(e, s->comm);
}

/* A field to be saved, with all that the run will have changed by then. */
typedef struct field_job {
  output_job job; /* first */
  simulation *s;
  const snapshot *copy; /* NULL: from the device */
  const float *planes;  /* of the copy */
  field_meta meta;
  field_statistics statistics;
  uint64_t *counts;     /* of its histogram; owned */
  bool lists;           /* it also writes the list of saved fields: */
  series_entry *series; /* this one and those before it; owned; rank 0 only */
  int series_count;
} field_job;

/* A field_source: the copy is waited for here, where a failure is everybody's. */
static int copied_planes(void *context, int z, int planes, float *values, error *e) {
  const field_job *j = context;
  if (z == 0) TRY(snapshot_wait(j->copy, e));
  snapshot_planes(&j->s->slab, j->planes, z, planes, values);
  return 0;
}

static int write_field(output_job *job, error *e) {
  field_job *j = (field_job *)job;
  simulation *s = j->s;
  const char *path = s->config->output_path;
  error ignored = {0};
  if (j->copy) saving_start(s);
  files_field_write(s->files, &s->io, path, &j->meta, j->copy ? copied_planes : transfer_to_host,
                    j->copy ? (void *)j : &s->transfer, e);
  if (e->id && j->copy) snapshot_wait(j->copy, &ignored); /* its memory may go now */
  TRY(e->id);
  return j->lists ? files_series_write(s->files, path, j->series, j->series_count, &s->slab, &j->meta, e) : 0;
}

static void free_job(field_job *j) {
  free(j->series);
  free(j->counts);
  free(j);
}

static void field_done(output_job *job, bool written) {
  field_job *j = (field_job *)job;
  simulation *s = j->s;
  if (written) {
    log_detail(s->log, "saved %s.%08lld.hdf", s->config->output_path, (long long)j->meta.step);
    s->series_whole++;
    s->series_behind = !j->lists;
  }
  free_job(j);
}

/* The list can be made anew from the files, and is long where fields are many: while the run goes on, once a second is
 * enough. By a clock that is the same on every rank. */
static bool list_is_due(simulation *s) {
  const double SECONDS = 1;
  const bool last = s->saving.last || s->stepper.step >= s->physics.steps;
  if (s->series_begun && !last && s->stop.known - s->series_told < SECONDS) return false;
  s->series_begun = true;
  s->series_told = s->stop.known;
  return true;
}

static int keep_series(field_job *j, error *e) {
  simulation *s = j->s;
  TRY(list_step(s, j->meta.step, e));
  if (!j->lists) return 0;
  size_t bytes = (size_t)s->series_count * sizeof *s->series;
  if (!(j->series = malloc(bytes))) return FAIL(e, OUT_OF_MEMORY, bytes, "the list of saved fields");
  memcpy(j->series, s->series, bytes);
  j->series_count = s->series_count;
  return 0;
}

static int keep_statistics(field_job *j, error *e) {
  const field_statistics *f = &j->s->statistics;
  size_t bytes = (size_t)f->bins * sizeof *f->histogram;
  j->statistics = *f;
  j->meta.statistics = &j->statistics;
  if (!bytes) return 0;
  if (!(j->counts = malloc(bytes))) return FAIL(e, OUT_OF_MEMORY, bytes, "the histogram");
  j->statistics.histogram = memcpy(j->counts, f->histogram, bytes);
  return 0;
}

/* Agreed. */
static field_job *make_job(simulation *s, error *e) {
  const bool lists = list_is_due(s);
  field_job *j = calloc(1, sizeof *j);
  if (j) {
    j->job.write = write_field;
    j->job.done = field_done;
    j->s = s;
    j->meta = simulation_meta(s);
    j->lists = lists;
    if (!keep_statistics(j, e) && s->rank == 0) keep_series(j, e);
  } else
    FAIL(e, OUT_OF_MEMORY, sizeof *j, "a field to be saved");
  if (!error_agree(e, s->comm)) return j;
  if (j) free_job(j);
  return NULL;
}

static int save(simulation *s, error *e) {
  snapshot *copy;
  stepper *p = &s->stepper;
  const size_t floats = snapshot_field_floats(&s->slab);
  TRY(saving_begin(s, floats, &copy, e));
  field_job *j = make_job(s, e);
  TRY(e->id);
  j->job.bytes = floats * sizeof(float);
  s->transfer.field = p->memory[p->current];
  if (copy) {
    j->copy = copy;
    j->planes = snapshot_field(copy, p->memory[p->current], e);
    p->copying[p->current] = snapshot_mark(copy, e);
    if (e->id) error_abort(e, s->comm); /* a device may fail alone */
  }
  return saving_submit(s, copy, &j->job, e);
}

int simulation_save(simulation *s, error *e) {
  TRY(measure(s, true, e));
  log_statistics(s, log_line);
  double begin = MPI_Wtime(); /* the check has waited for the steps under way: they are not I/O */
  watchdog_tell(s->stepper.watch, WATCH_NOT, s->stepper.step);
  save(s, e);
  watchdog_tell(s->stepper.watch, WATCH_COMPUTE, s->stepper.step);
  s->io_seconds += MPI_Wtime() - begin;
  return e->id;
}

int simulation_finish_series(simulation *s, error *e) {
  error known = {0}, mine = {0};
  if (!s->saving.open) return e->id;
  saving_finish(s, &known); /* its failure is in `e` already */
  if (!s->series_behind) return e->id;
  const field_meta meta = simulation_meta(s);
  files_series_write(s->files, s->config->output_path, s->series, s->series_whole, &s->slab, &meta, &mine);
  if (mine.id && (!e->id || e->id == ERROR_STOPPED)) *e = mine;
  s->series_behind = false;
  return e->id;
}
