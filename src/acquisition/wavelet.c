#include "wavelet.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/fourier.h"
#include "base/numbers.h"
#include "place.h"

static const table_form FORM = {.flat = true, .columns = 2, .quantity = QUANTITY_TIME, .measured = 1};
static const double PI = 3.14159265358979323846;
static const double SIZE_MOST = 3e38;    /* slack of times and values that were float32 */
static const double APART_LEAST = 1e-30; /* s: slopes stay finite */
static const double UNEVEN_MOST = 1e-3;  /* of the interval: what rounding to a few digits leaves */

/* --- tables ----------------------------------------------------------------------------------------------------- */

static int wavelet_check_size(const char *dataset, const table *t, error *e) {
  const double *v = t->values;
  for (int64_t i = 0; i < t->rows * t->columns; i++)
    if (!(fabs(v[i]) <= SIZE_MOST)) return FAIL(e, WAVELET_SIZE, dataset, i / t->columns, SIZE_MOST, v[i]);
  return 0;
}

/* Times lie `stride` numbers apart. Files may hold them in float32. */
static int wavelet_check_times(const char *dataset, wavelet_table *t, const double *times, int stride,
                               error *e) {
  const int64_t last = t->rows.rows - 1;
  const double end = times[stride * last], apart = last ? (end - times[0]) / (double)last : 1;
  const double slack = UNEVEN_MOST * apart + FLT_EPSILON * fmax(fabs(times[0]), fabs(end));
  t->timed = true, t->first = times[0], t->apart = apart;
  for (int64_t i = 1; i <= last; i++)
    if (times[stride * i] - times[stride * (i - 1)] < APART_LEAST)
      return FAIL(e, WAVELET_TIMES, dataset, i, times[stride * i], times[stride * (i - 1)]);
  for (int64_t i = 1; i < last; i++)
    if (!(fabs(times[stride * i] - times[0] - (double)i * apart) <= slack))
      return FAIL(e, WAVELET_UNEVEN, dataset, i, times[0] + (double)i * apart, times[stride * i]);
  return 0;
}

int wavelet_read(const files *files, const char *dataset, wavelet_table *t, error *e) {
  const request all = {FILES_READ_TABLE, .path = dataset, .form = FORM, .own.table = &t->rows};
  *t = (wavelet_table){.timed = false};
  TRY(files_do(files, &all, e));
  double *v = t->rows.values; /* the same on every rank */
  TRY(wavelet_check_size(dataset, &t->rows, e));
  if (t->rows.columns == 1) return 0;
  TRY(wavelet_check_times(dataset, t, v, 2, e));
  for (int64_t i = 0; i < t->rows.rows; i++) v[i] = v[2 * i + 1];
  t->rows.columns = 1;
  return 0;
}

/* Names the dataset `time` beside another one. */
static void wavelet_name_times(const char *dataset, char name[CONFIG_TEXT + 8]) {
  snprintf(name, CONFIG_TEXT + 8, "%.*s/time", (int)(strrchr(dataset, '/') - dataset), dataset);
}

int wavelet_read_signals(const files *files, const char *dataset, signals_shape shape, wavelet_table *t,
                         error *e) {
  char name[CONFIG_TEXT + 8];
  table times;
  wavelet_name_times(dataset, name);
  const request time = {
      FILES_READ_TABLE, .path = name, .own.table = &times,
      .form = {.flat = true, .columns = 1, .quantity = QUANTITY_TIME, .measured = 1, .optional = true}};
  *t = (wavelet_table){.timed = false};
  TRY(files_do(files, &time, e));
  const request all = {
      FILES_READ_TABLE, .path = dataset, .own.table = &t->rows,
      .form = {.flat = true, .columns = shape.columns, .narrow = true, .most = times.rows ? 0 : shape.most}};
  files_do(files, &all, e);
  const int64_t rows = t->rows.rows, wanted = times.rows ? times.rows : shape.least;
  if (!e->id && times.rows && rows != wanted) FAIL(e, SIGNALS_TIMES, dataset, wanted, name, rows);
  if (!e->id && rows < wanted) FAIL(e, SIGNALS_FEW, dataset, wanted, rows, name);
  if (!e->id && !wavelet_check_size(dataset, &t->rows, e) && !wavelet_check_size(name, &times, e) &&
      times.rows)
    wavelet_check_times(name, t, times.values, 1, e);
  table_free(&times);
  return e->id; /* from the same numbers on every rank */
}

/* --- values ----------------------------------------------------------------------------------------------------- */

static double wavelet_last(const wavelet_table *t) {
  return t->first + (double)(t->rows.rows - 1) * t->apart;
}

/* s: steps at most this far outside the times count as their end */
static double wavelet_slack(const wavelet_table *t, double dt) {
  return fmin(FLT_EPSILON * fmax(fabs(t->first), fabs(wavelet_last(t))), dt / 2);
}

wavelet_place wavelet_find(const wavelet_table *t, double dt, int64_t step) {
  const int64_t rows = t->rows.rows;
  if (!t->timed) return (wavelet_place){step, step < rows, {1}};
  const double time = (double)step * dt, slack = wavelet_slack(t, dt);
  if (!(time >= t->first - slack && time <= wavelet_last(t) + slack)) return (wavelet_place){.count = 0};
  const double at = fmin(fmax((time - t->first) / t->apart, 0), (double)(rows - 1));
  wavelet_place p = {(int64_t)at - (WAVELET_POINTS / 2 - 1), WAVELET_POINTS, {0}};
  const double fraction = at - floor(at);
  if (fraction == 0) return (wavelet_place){(int64_t)at, 1, {1}};
  place_sinc(fraction, WAVELET_POINTS, p.weight);
  return p;
}

/* Beyond its ends a signal goes on as its own image about the last value, so that it does not jump. */
static double wavelet_row(const wavelet_table *t, int64_t row, int column) {
  const double *v = t->rows.values + column;
  const int64_t last = t->rows.rows - 1, columns = t->rows.columns;
  if (row < 0) return 2 * v[0] - v[columns * smaller64(-row, last)];
  if (row > last) return 2 * v[columns * last] - v[columns * larger64(2 * last - row, 0)];
  return v[columns * row];
}

double wavelet_sum(const wavelet_table *t, const wavelet_place *at, int column, double outside) {
  double sum = 0;
  if (at->count <= 1) return at->count ? wavelet_row(t, at->first, column) : outside;
  for (int i = 0; i < at->count; i++) sum += at->weight[i] * wavelet_row(t, at->first + i, column);
  return sum;
}

wavelet wavelet_of(const source_config *s) {
  return (wavelet){.kind = s->wavelet, .f0 = s->f0, .t0 = s->t0, .amplitude = s->amplitude};
}

/* s(step dt) / amplitude. */
static double wavelet_shape(const wavelet *w, double dt, int64_t step) {
  const double time = (double)step * dt, phase = PI * w->f0 * (time - w->t0), a = phase * phase;
  if (w->kind == WAVELET_RICKER) return isfinite(a) ? (1 - 2 * a) * exp(-a) : 0;
  if (w->kind == WAVELET_GAUSSIAN) return exp(-a);
  return step < w->rows ? w->values[step] : 0;
}

double wavelet_exact(const wavelet *w, double dt, int64_t step) {
  return w->amplitude * wavelet_shape(w, dt, step);
}

float wavelet_value(const wavelet *w, double dt, int64_t step) {
  if (w->imposed) return step + 1 < w->rows ? (float)w->values[step + 1] : NAN;
  if (step < 0) return 0;
  return (float)wavelet_exact(w, dt, step);
}

/* --- study ------------------------------------------------------------------------------------------------------ */

static double wavelet_power_at(const fourier *f, int64_t k, int lane) {
  const double re = f->series[k].re[lane], im = f->series[k].im[lane];
  return re * re + im * im;
}

/* Sets the frequencies of use from the spectrum of a series of samples, `apart` seconds apart. */
static void wavelet_find_frequencies(const fourier *f, int lane, double apart, wavelet_use *use) {
  const double bin = 1 / ((double)f->n * apart);
  double most = 0, energy = 0, below = 0;
  for (int64_t k = 0; k <= f->n / 2; k++) {
    const double power = wavelet_power_at(f, k, lane);
    most = power > most ? power : most;
    energy += power;
  }
  for (int64_t k = 0; k <= f->n / 2; k++) {
    const double power = wavelet_power_at(f, k, lane);
    below += power;
    if (below <= energy / 2) use->dominant = (double)(k + 1) * bin;
    if (most > 0 && power >= WAVELET_LITTLE * WAVELET_LITTLE * most) use->highest = (double)k * bin;
  }
}

/* The rows that a study reads: those of the run, limited in number so that it is quick. */
typedef struct wavelet_span {
  int64_t first, count;
  double apart; /* s */
} wavelet_span;

static wavelet_span wavelet_span_of(const wavelet_table *t, double dt, const wavelet_use *use) {
  const int64_t MOST = 1 << 17;
  if (!t->timed) return (wavelet_span){0, smaller64(use->end, MOST), dt};
  const double last = (double)(t->rows.rows - 1), end = (dt * (double)use->end - t->first) / t->apart;
  const int64_t first = (int64_t)fmin(fmax(floor(-t->first / t->apart), 0), last);
  return (wavelet_span){first, smaller64((int64_t)fmin(ceil(end), last) - first + 1, MOST), t->apart};
}

/* Moves a column's ends to 0, so that jumps there do not count in its spectrum; `start` and `stop` report them. False:
 * the column is 0. */
static bool wavelet_fill(const wavelet_table *t, int column, const wavelet_span *of, double dt, int lane,
                         double (*x)[FOURIER_SERIES], wavelet_use *use) {
  const wavelet_place begin = wavelet_find(t, dt, use->begin), end = wavelet_find(t, dt, use->end - 1);
  double most = 0;
  for (int64_t i = 0; i < of->count; i++)
    most = fmax(most, fabs(x[i][lane] = wavelet_row(t, of->first + i, column)));
  use->silent = most == 0;
  if (use->silent) return false;
  const double first = x[0][lane], rise = (x[of->count - 1][lane] - first) / fmax(1, (double)of->count - 1);
  use->start = fmin(1, fabs(wavelet_sum(t, &begin, column, 0)) / most);
  use->stop = fmin(1, fabs(wavelet_sum(t, &end, column, 0)) / most);
  for (int64_t i = 0; i < of->count; i++) x[i][lane] = (x[i][lane] - first - (double)i * rise) / most;
  return true;
}

static int wavelet_find_spectra(const wavelet_table *t, const int *columns, int count, double dt,
                                wavelet_use *uses, error *e) {
  const wavelet_span of = wavelet_span_of(t, dt, uses);
  bool any[FOURIER_SERIES];
  double(*twiddles)[2];
  fourier f = {.n = fourier_length(of.count > 2048 ? 2 * of.count : 4096)};
  if (!(twiddles = fourier_twiddles(f.n)) || fourier_open(&f, f.n, (const double(*)[2])twiddles)) {
    fourier_close(&f);
    free(twiddles);
    return FAIL(e, OUT_OF_MEMORY, (size_t)f.n * sizeof *f.series, "the spectrum of a wavelet");
  }
  fourier_clear(&f);
  for (int k = 0; k < count; k++)
    any[k] = wavelet_fill(t, columns[k], &of, dt, k, fourier_samples(&f), &uses[k]);
  fourier_analyse(&f);
  for (int k = 0; k < count; k++)
    if (any[k]) wavelet_find_frequencies(&f, k, of.apart, &uses[k]);
  free(twiddles);
  fourier_close(&f);
  return 0;
}

static int64_t wavelet_step(double step, int64_t steps) {
  return !(step > 0) ? 0 : step < (double)steps ? (int64_t)step : steps;
}

wavelet_use wavelet_study(const wavelet *w, wavelet_steps steps) {
  /* exp(-(f / f0)^2) is that small at 1.85 f0, the Ricker wavelet's (f / f0)^2 exp(1 - (f / f0)^2) at 2.5 f0 */
  return (wavelet_use){.end = steps.count,
                       .start = fabs(wavelet_shape(w, steps.dt, 0)),
                       .dominant = w->f0,
                       .highest = (w->kind == WAVELET_RICKER ? 2.5 : 1.85) * w->f0};
}

int wavelet_study_columns(const wavelet_table *t, const int *columns, int count, wavelet_steps steps,
                          wavelet_use *use, error *e) {
  const int64_t rows = t->rows.rows;
  *use = (wavelet_use){
      .rows = t->timed ? WAVELET_TIMES : WAVELET_STEPS, .end = smaller64(rows, steps.count), .last = rows};
  if (t->timed) {
    const double slack = wavelet_slack(t, steps.dt);
    use->begin = wavelet_step(ceil((t->first - slack) / steps.dt), steps.count);
    use->last = wavelet_step(floor((wavelet_last(t) + slack) / steps.dt) + 1, INT64_MAX / 2);
    use->end = smaller64(use->last, steps.count);
  }
  for (int k = 1; k < count; k++) use[k] = *use;
  return use->begin < use->end ? wavelet_find_spectra(t, columns, count, steps.dt, use, e) : 0;
}

/* To the last step that is not after `end`, s. */
static int64_t wavelet_length_to(double end, double dt, int64_t most) {
  const int64_t length = wavelet_step(floor(end / dt) + 1, most);
  return length > 0 ? length : 1;
}

int64_t wavelet_length_of(const wavelet_table *t, double dt, int64_t most) {
  if (!t->timed) return smaller64(t->rows.rows, most);
  return wavelet_length_to(wavelet_last(t) + wavelet_slack(t, dt), dt, most);
}

int64_t wavelet_length(const wavelet *w, double dt, int64_t most) {
  const double WIDE = 2.3; /* exp(-(pi WIDE)^2) is 1e-23 */
  if (w->kind == WAVELET_FILE) return smaller64(w->rows, most);
  return wavelet_length_to(w->t0 + WIDE / w->f0, dt, most);
}
