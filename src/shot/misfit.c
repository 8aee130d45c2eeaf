#include "misfit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "io/bytes/message.h"

/* Tolerance for equal times, in sampling intervals, and equal places, in spacings: users may give float32. */
static const double NEAR = 1e-3;

static int misfit_read(const shot *s, const char *dataset, table_form form, table *t, error *e) {
  return files_do(s->engine->files,
                  &(request){FILES_READ_TABLE, .path = dataset, .form = form, .own.table = t}, e);
}

void misfit_beside(const char *dataset, const char *name, char beside[CONFIG_TEXT + 16]) {
  snprintf(beside, CONFIG_TEXT + 16, "%.*s/%s", (int)(strrchr(dataset, '/') - dataset), dataset, name);
}

static int misfit_check_times(const misfit *m, const shot *s, error *e) {
  const table_form form = {
      .flat = true, .columns = 1, .quantity = QUANTITY_TIME, .measured = 1, .optional = m->given};
  const double each = s->engine->physics.dt * (double)m->of->every;
  char name[CONFIG_TEXT + 16];
  table t;
  misfit_beside(m->dataset, "time", name);
  TRY(misfit_read(s, name, form, &t, e));
  if (t.rows && t.rows != m->of->rows) FAIL(e, OBSERVED_ROWS, name, m->of->rows, t.rows);
  for (int64_t i = 0; i < t.rows && !e->id; i++)
    if (!(fabs(t.values[i] - (double)i * each) <= NEAR * each))
      FAIL(e, OBSERVED_TIME, name, i, (double)i * each, t.values[i]);
  table_free(&t);
  return e->id;
}

/* Receivers or sources of the run, and the dataset with their positions. */
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

/* The unit in which a residual of greatest magnitude `most` is less than 1. */
static double misfit_unit(double most) {
  int exponent;
  frexp(most, &exponent);
  return ldexp(1, exponent);
}

/* The array of `held`, laid out as the traces. */
static traces misfit_traces(const misfit *m) {
  traces t = receivers_traces(m->of);
  t.x = m->held.memory;
  return t;
}

/* Checks a part of the dataset, as every rank does. Once memory is taken, keeps the samples of this rank's
 * receivers. */
static int misfit_take(void *context, const table *t, const table_part *p, error *e) {
  misfit *m = context;
  const receivers *r = m->of;
  const traces all = misfit_traces(m);
  if (t->rows != r->rows) return FAIL(e, OBSERVED_ROWS, m->dataset, r->rows, t->rows);
  for (int64_t i = 0; i < p->rows * p->columns; i++) {
    if (!isfinite((float)p->values[i]) && !isnan(p->values[i]))
      return FAIL(e, TABLE_NO_VALUE, m->dataset, "a value beyond float32", p->row + i / p->columns);
    m->most = fmax(m->most, fabs(p->values[i]));
  }
  for (int64_t row = 0; all.x && row < p->rows; row++)
    for (int64_t i = 0, end; i < r->local; i = end) {
      float *to;
      for (end = i + traces_piece(&all, p->row + row, i, &to); i < end; i++, to++) {
        const int64_t column = r->index[i] - p->column;
        if (column >= 0 && column < p->columns) *to = (float)(p->values[row * p->columns + column] / m->unit);
      }
    }
  return 0;
}

/* Does the same for weights: one a sample, or one a trace. */
static int misfit_take_weights(void *context, const table *t, const table_part *p, error *e) {
  const misfit *m = context;
  const receivers *r = m->of;
  const bool each = t->columns < r->count || (r->count == 1 && t->rows == 1); /* one a trace */
  traces all = receivers_traces(r);
  all.x = m->weights.memory;
  if (each && t->rows != r->count)
    return FAIL(e, OBSERVED_COUNT, m->weighed, r->count, "receiver", r->count == 1 ? "" : "s", t->rows);
  if (!each && t->rows != r->rows) return FAIL(e, OBSERVED_ROWS, m->weighed, r->rows, t->rows);
  for (int64_t i = 0; i < p->rows * p->columns; i++)
    if (!isfinite((float)p->values[i]) || p->values[i] < 0)
      return FAIL(e, TABLE_NO_VALUE, m->weighed, "a weight below 0 or beyond float32",
                  p->row + i / p->columns);
  for (int64_t i = 0; all.x && i < r->local; i++) {
    const int64_t k = r->index[i] - (each ? p->row : p->column), count = each ? r->rows : p->rows;
    if (k < 0 || k >= (each ? p->rows : p->columns)) continue;
    for (int64_t n = 0; n < count; n++)
      *traces_at(&all, each ? n : p->row + n, i) = (float)p->values[each ? k : n * p->columns + k];
  }
  return 0;
}

static size_t misfit_bytes(const misfit *m) {
  return (size_t)m->of->capacity * (size_t)m->of->local * sizeof(float);
}

static int misfit_read_weights(misfit *m, const shot *s, bool dry, error *e) {
  const receivers *r = m->of;
  const table_form form = {.columns = r->count, .flat = true, .parts = true};
  const table_sink parts = {misfit_take_weights, m};
  table t;
  const request read = {FILES_READ_TABLE, .path = m->weighed, .form = form, .own.table = &t,
                        .own.parts = &parts};
  if (!m->weighed[0]) return 0;
  if (!dry) receivers_take(r, &m->weights, misfit_bytes(m), e);
  TRY(error_agree(e, s->engine->comm));
  return files_do(s->engine->files, &read, e);
}

static int misfit_read_values(misfit *m, const shot *s, error *e) {
  const receivers *r = m->of;
  const table_form form = {.columns = r->count,
                           .flat = r->count == 1,
                           .words = true,
                           .parts = true,
                           .gaps = !m->given && s->config->gradient_missing == MISSING_NAN};
  const table_sink parts = {misfit_take, m};
  table t;
  const request read = {FILES_READ_TABLE, .path = m->dataset, .form = form, .own.table = &t,
                        .own.parts = &parts};
  TRY(files_do(s->engine->files, &read, e));
  memcpy(m->dispersion, t.dispersion, sizeof m->dispersion);
  memcpy(m->equation, t.equation, sizeof m->equation);
  return 0;
}

/* A residual that is given is read twice: to find its unit, then to store it in that unit. */
static int misfit_read_all(misfit *m, const shot *s, bool dry, error *e) {
  const receivers *r = m->of;
  if (m->given || dry) TRY(misfit_read_values(m, s, e));
  if (m->given) m->unit = misfit_unit(m->most);
  if (dry) return 0;
  receivers_take(r, &m->held, misfit_bytes(m), e);
  TRY(error_agree(e, s->engine->comm));
  TRY(misfit_read_values(m, s, e));
  m->observed = m->held.memory;
  if (m->given) misfit_begin_residual(m);
  return 0;
}

int misfit_open(misfit *m, const shot *s, const char *dataset, misfit_use use, error *e) {
  const receivers *r = &s->at.receivers;
  const misfit_places places = {"position", "receiver", r->count, (const double(*)[3])r->positions,
                                use.given};
  *m = (misfit){.of = r, .dataset = dataset, .given = use.given, .value = NAN, .unit = 1};
  m->weighed = s->config->gradient_weights;
  if (r->count == 0) return FAIL(e, OBSERVED_NO_RECEIVERS, dataset);
  if ((m->caller = use.caller)) return receivers_take(r, &m->held, misfit_bytes(m), e);
  TRY(misfit_check_times(m, s, e));
  TRY(misfit_check_places(places, s, dataset, e));
  TRY(misfit_read_all(m, s, use.dry, e));
  return misfit_read_weights(m, s, use.dry, e);
}

/* Words that this program does not write are ignored. */
int misfit_check_origin(const misfit *m, const shot *s, error *e) {
  const receivers *r = m->of;
  const char *dataset = m->dataset;
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

/* The weight of a float of this rank's traces, `all`; 0 where there is no datum. */
static double misfit_difference(const misfit *m, const traces *all, int64_t i) {
  return isnan(m->observed[i]) ? 0 : (double)all->x[i] - (double)m->observed[i];
}

double misfit_weight(const misfit *m, int64_t i) {
  const float *weights = m->weights.memory;
  return weights ? (double)weights[i] : 1;
}

/* One rank finds a trace's sum of squares, in order of time, and its greatest difference. The sums are added in the
 * user's order. */
static int misfit_sum(misfit *m, const shot *s, double each, error *e) {
  const receivers *r = m->of;
  double *squares, *most, greatest = 0;
  ALLOC(e, squares, 2 * (size_t)r->count, "the misfit");
  TRY(error_agree(e, s->engine->comm));
  most = squares + r->count;
  const traces all = receivers_traces(r);
  for (int64_t row = 0; row < r->rows; row++)
    for (int64_t i = 0, end; i < r->local; i = end) {
      float *at;
      for (end = i + traces_piece(&all, row, i, &at); i < end; i++) {
        const double d = misfit_difference(m, &all, at - all.x), weighed = misfit_weight(m, at++ - all.x) * d;
        squares[r->index[i]] += weighed * d;
        most[r->index[i]] = fmax(most[r->index[i]], fabs(weighed));
      }
    }
  const int rc = mpi_reduce_all(squares, 2 * r->count, MPI_DOUBLE, MPI_SUM, s->engine->comm);
  m->value = 0;
  for (int i = 0; i < r->count; i++) m->value += each / 2 * squares[i], greatest = fmax(greatest, most[i]);
  m->unit = misfit_unit(each * greatest);
  free(squares);
  return error_from_mpi(e, rc, "mpi_reduce_all");
}

float *misfit_begin_residual(misfit *m) {
  m->observed = NULL;
  return m->residual = m->held.memory;
}

/* Moves this rank's traces to an array of all that is dense, in the user's order, or back, times a factor. */
static void misfit_arrange(const receivers *r, traces own, float *dense, bool back, double times) {
  for (int64_t row = 0; row < r->rows; row++)
    for (int64_t i = 0, end; i < r->local; i = end) {
      float *at;
      for (end = i + traces_piece(&own, row, i, &at); i < end; i++, at++) {
        float *to = &dense[row * r->count + r->index[i]];
        if (back)
          *at = (float)(times * *to);
        else
          *to = *at;
      }
    }
}

/* Calls the first rank's misfit_caller with the traces of all ranks. */
static int misfit_ask(misfit *m, const shot *s, error *e) {
  const receivers *r = m->of;
  const int64_t shape[2] = {r->rows, r->count}, values = r->rows * r->count;
  const MPI_Comm comm = s->engine->comm;
  double most = 0;
  float *dense;
  TRY(ALLOC(e, dense, 2 * values, "the traces of a misfit"));
  misfit_arrange(r, receivers_traces(r), dense, false, 1); /* traces of other ranks are 0 */
  error_from_mpi(e, mpi_reduce_all(dense, (int)values, MPI_UINT32_T, MPI_BOR, comm), "MPI_Allreduce");
  if (!e->id && s->engine->rank == 0)
    m->caller->find(m->caller->context, s->config->output_path, dense, shape, &m->value, dense + values, e);
  if (!error_agree(e, comm) && !message_broadcast(&m->value, sizeof m->value, comm, e))
    message_broadcast(dense + values, (size_t)values * sizeof *dense, comm, e);
  for (int64_t i = values; i < 2 * values && !e->id; i++) {
    if (!isfinite(dense[i]))
      FAIL(e, TABLE_NO_VALUE, "the derivative of the misfit", "NaN or Inf", (i - values) / r->count);
    most = fmax(most, fabs((double)dense[i]));
  }
  m->unit = misfit_unit(most);
  memset(m->held.memory, 0, misfit_bytes(m));
  if (!e->id) misfit_arrange(r, misfit_traces(m), dense + values, true, 1 / m->unit);
  free(dense);
  misfit_begin_residual(m);
  return e->id;
}

int misfit_residual(misfit *m, const shot *s, error *e) {
  const double each = s->engine->physics.dt * (double)m->of->every;
  const traces all = receivers_traces(m->of);
  float *to = m->held.memory;
  if (m->caller) return misfit_ask(m, s, e);
  if (m->given) return 0;
  TRY(misfit_sum(m, s, each, e));
  for (int64_t i = 0; i < m->of->capacity * m->of->local; i++)
    to[i] = (float)(each * misfit_weight(m, i) * misfit_difference(m, &all, i) / m->unit);
  misfit_begin_residual(m);
  return 0;
}

void misfit_close(misfit *m) {
  scratch_close(&m->held);
  scratch_close(&m->weights);
  *m = (misfit){.of = NULL};
}
