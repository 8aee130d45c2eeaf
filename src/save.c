/* Looking after the newest field: checking and saving it. */
#include "simulation.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
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
                      .mpi_ranks = s->ranks,
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

int simulation_list(simulation *s, int64_t step, error *e) {
  return field_exists(s->config->output_path, step) ? list_step(s, step, e) : 0;
}

static int list_in_series(simulation *s, const field_meta *meta, error *e) {
  TRY(list_step(s, meta->step, e));
  return series_write(s->config->output_path, s->series, s->series_count, &s->slab, meta, e);
}

int simulation_save(simulation *s, error *e) {
  TRY(measure(s, true, e));
  log_statistics(s, log_line);
  double begin = MPI_Wtime(); /* the check has waited for the steps under way: they are not I/O */
  watchdog_tell(s->stepper.watch, WATCH_NOT, s->stepper.step);
  field_meta meta = simulation_meta(s);
  meta.statistics = &s->statistics;
  s->transfer.field = s->stepper.memory[s->stepper.current];
  TRY(field_write(&s->io, s->config->output_path, &meta, transfer_to_host, &s->transfer, e));
  if (s->rank == 0) list_in_series(s, &meta, e);
  TRY(error_agree(e, s->comm));
  watchdog_tell(s->stepper.watch, WATCH_COMPUTE, s->stepper.step);
  s->io_seconds += MPI_Wtime() - begin;
  log_detail(s->log, "saved %s.%08lld.hdf", s->config->output_path, (long long)meta.step);
  return 0;
}
