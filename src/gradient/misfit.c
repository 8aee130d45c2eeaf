#include "misfit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"

/* What it takes to be the same time, in intervals of samples, and place, in spacings: float32 is good enough for users. */
static const double NEAR = 1e-3;

static int misfit_read(const shot *s, const char *dataset, table_form form, table *t, error *e) {
  return files_do(s->engine->files,
                  &(request){FILES_READ_TABLE, .path = dataset, .form = form, .own.table = t}, e);
}

void misfit_beside(const char *dataset, const char *name, char beside[CONFIG_TEXT + 16]) {
  snprintf(beside, CONFIG_TEXT + 16, "%.*s/%s", (int)(strrchr(dataset, '/') - dataset), dataset, name);
}

static int misfit_check_times(const misfit *m, const shot *s, const char *dataset, error *e) {
  const table_form form = {
      .flat = true, .columns = 1, .quantity = QUANTITY_TIME, .measured = 1, .optional = m->given};
  const double each = s->engine->physics.dt * (double)m->of->every;
  char name[CONFIG_TEXT + 16];
  table t;
  misfit_beside(dataset, "time", name);
  TRY(misfit_read(s, name, form, &t, e));
  if (t.rows && t.rows != m->of->rows) FAIL(e, OBSERVED_ROWS, name, m->of->rows, t.rows);
  for (int64_t i = 0; i < t.rows && !e->id; i++)
    if (!(fabs(t.values[i] - (double)i * each) <= NEAR * each))
      FAIL(e, OBSERVED_TIME, name, i, (double)i * each, t.values[i]);
  table_free(&t);
  return e->id;
}

/* Receivers or sources of the run, and where their places are in the file. */
typedef struct misfit_places {
  const char *name, *what;
  int count;
  const double (*positions)[3];
  bool optional;
} misfit_places;

static int misfit_check_places(misfit_places p, const shot *s, const char *dataset, error *e) {
  const table_form form = {
      .columns = 3, .quantity = QUANTITY_LENGTH, .measured = 3, .optional = p.optional, .empty = true};
  char name[CONFIG_TEXT + 16];
  table t;
  misfit_beside(dataset, p.name, name);
  TRY(misfit_read(s, name, form, &t, e));
  if (t.columns && t.rows != p.count)
    FAIL(e, OBSERVED_COUNT, name, p.count, p.what, p.count == 1 ? "" : "s", t.rows);
  for (int64_t i = 0; i < t.rows * 3 && !e->id; i++) {
    const int axis = (int)(i % 3);
    const double *found = &t.values[i - axis], *here = p.positions[i / 3],
                 near = NEAR * config_axis_of(s->config, axis).spacing;
    if (near > 0 && !(fabs(found[axis] - here[axis]) <= near))
      FAIL(e, OBSERVED_POSITION, name, i / 3, p.what, here[0], here[1], here[2], found[0], found[1],
           found[2]);
  }
  table_free(&t);
  return e->id;
}

/* The unit in which a residual of this greatest magnitude is less than 1. */
static double misfit_unit(double most) {
  int exponent;
  frexp(most, &exponent);
  return ldexp(1, exponent);
}

/* Keeps this rank's columns. All are checked, by every rank alike. */
static int misfit_keep(misfit *m, const char *dataset, const table *t, error *e) {
  const receivers *r = m->of;
  const size_t values = (size_t)receivers_all_rows(r) * (size_t)r->local;
  double most = 0;
  for (int64_t i = 0; i < t->rows * t->columns; i++) {
    if (!isfinite((float)t->values[i]))
      return FAIL(e, TABLE_NO_VALUE, dataset, "a value beyond float32", i / t->columns);
    most = fmax(most, fabs(t->values[i]));
  }
  m->unit = m->given ? misfit_unit(most) : 1;
  m->residual = malloc(values * sizeof *m->residual + 1);
  if (!m->residual) return FAIL(e, OUT_OF_MEMORY, values * sizeof *m->residual, "observed traces");
  for (int64_t row = 0; row < r->rows; row++)
    for (int i = 0; i < r->local; i++)
      m->residual[row * r->local + i] = (float)(t->values[row * r->count + r->index[i]] / m->unit);
  return 0;
}

int misfit_open(misfit *m, const shot *s, const char *dataset, bool given, error *e) {
  const receivers *r = &s->receivers;
  const table_form form = {.columns = r->count, .flat = r->count == 1, .words = true};
  const misfit_places places = {"position", "receiver", r->count, (const double(*)[3])r->positions, given};
  table t;
  *m = (misfit){.of = r, .given = given, .value = NAN, .unit = 1};
  if (r->count == 0) return FAIL(e, OBSERVED_NO_RECEIVERS, dataset);
  TRY(misfit_check_times(m, s, dataset, e));
  TRY(misfit_check_places(places, s, dataset, e));
  TRY(misfit_read(s, dataset, form, &t, e));
  if (t.rows != r->rows)
    FAIL(e, OBSERVED_ROWS, dataset, r->rows, t.rows);
  else
    misfit_keep(m, dataset, &t, e);
  memcpy(m->dispersion, t.dispersion, sizeof m->dispersion);
  memcpy(m->equation, t.equation, sizeof m->equation);
  table_free(&t);
  return error_agree(e, s->engine->comm);
}

/* Words that this program does not write do not count. */
int misfit_check_origin(const misfit *m, const shot *s, const char *dataset, error *e) {
  const receivers *r = m->of;
  const misfit_places sources = {"source_position", "source", r->sources, r->source_positions, true};
  const char *equation = equation_name(s->config->equation), *kept[2] = {"kept", "removed"};
  TRY(misfit_check_places(sources, s, dataset, e));
  if (strcmp(m->dispersion, kept[!r->time.removed]) == 0)
    return FAIL(e, OBSERVED_OTHERWISE, dataset, "dispersion", m->dispersion, kept[r->time.removed]);
  for (int i = 0; i < EQUATION_COUNT; i++)
    if (strcmp(m->equation, equation) != 0 && strcmp(m->equation, EQUATIONS[i].name) == 0)
      return FAIL(e, OBSERVED_OTHERWISE, dataset, "equation", m->equation, equation);
  return 0;
}

/* Of a sample of this rank. */
static double misfit_difference(const misfit *m, int64_t i) {
  return (double)m->of->traces[i] - (double)m->residual[i];
}

/* One rank finds a trace's sum of squares, in order of time, and its greatest difference. The sums are added in the
 * user's order. */
static int misfit_sum(misfit *m, const shot *s, double each, error *e) {
  const receivers *r = m->of;
  double *squares, *most, greatest = 0;
  ALLOC(e, squares, 2 * (size_t)r->count, "the misfit");
  TRY(error_agree(e, s->engine->comm));
  most = squares + r->count;
  for (int64_t row = 0; row < r->rows; row++)
    for (int i = 0; i < r->local; i++) {
      const double d = misfit_difference(m, row * r->local + i);
      squares[r->index[i]] += d * d;
      most[r->index[i]] = fmax(most[r->index[i]], fabs(d));
    }
  const int rc = mpi_reduce_all(squares, 2 * r->count, MPI_DOUBLE, MPI_SUM, s->engine->comm);
  m->value = 0;
  for (int i = 0; i < r->count; i++) m->value += each / 2 * squares[i], greatest = fmax(greatest, most[i]);
  m->unit = misfit_unit(each * greatest);
  free(squares);
  return error_from_mpi(e, rc, "mpi_reduce_all");
}

int misfit_residual(misfit *m, const shot *s, error *e) {
  const double each = s->engine->physics.dt * (double)m->of->every;
  if (m->given) return 0;
  TRY(misfit_sum(m, s, each, e));
  for (int64_t i = 0; i < m->of->rows * m->of->local; i++)
    m->residual[i] = (float)(each * misfit_difference(m, i) / m->unit);
  return 0;
}

void misfit_close(misfit *m) {
  free(m->residual);
  *m = (misfit){.of = NULL};
}
