#include "wavelet.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/fourier.h"
#include "base/numbers.h"

static const table_form FORM = {.flat = true, .columns = 2, .quantity = QUANTITY_TIME, .measured = 1};
static const double PI = 3.14159265358979323846;
static const double SIZE_MOST = 3e38;    /* of times and values: those of a field, which is float32 */
static const double APART_LEAST = 1e-30; /* s: slopes stay finite */

/* REACH: rows to each side that count between two. Near an end of a piece its knots reach so far inwards. */
enum { DEGREE = 5 /* of splines */, REACH = 2 * DEGREE - 1 };

/* --- tables ----------------------------------------------------------------------------------------------------- */

static int wavelet_check_size(const char *dataset, const table *t, error *e) {
  const double *v = t->values;
  for (int64_t i = 0; i < t->rows * t->columns; i++)
    if (!(fabs(v[i]) <= SIZE_MOST)) return FAIL(e, WAVELET_SIZE, dataset, i / t->columns, SIZE_MOST, v[i]);
  return 0;
}

static int wavelet_check(const char *dataset, const char *of_times, const table *signals, const table *times,
                         error *e) {
  const double *v = times->values;
  if (!e->id && !wavelet_check_size(dataset, signals, e)) wavelet_check_size(of_times, times, e);
  for (int64_t i = 1; i < times->rows && !e->id; i++)
    if (v[i] - v[i - 1] < APART_LEAST) FAIL(e, WAVELET_TIMES, of_times, i, v[i], v[i - 1]);
  return e->id;
}

/* A table consists of rows of time, value and, when its splines are known, a coefficient. Rows [0, count) of a smooth
 * piece of it; degree: DEGREE, or count - 1 where that is less. */
typedef struct spline {
  const double *rows;
  int64_t count;
  int degree;
} spline;

/* Sets the greatest and the least value of rows [begin, end). */
static void wavelet_extremes(const table *t, int64_t begin, int64_t end, double *least, double *most) {
  *least = INFINITY, *most = -INFINITY;
  for (int64_t i = begin < 0 ? 0 : begin; i < end && i < t->rows; i++) {
    const double value = t->values[3 * i + 1]; /* finite: no call of fmin */
    *least = value < *least ? value : *least;
    *most = value > *most ? value : *most;
  }
}

/* Does one smooth piece end at this row, and another one begin? So at the ends of the table; and where the steeper one of
 * its two sides would, over the longer one, lead far out of the values about: beside a short ramp a spline would. */
static bool wavelet_corner(const table *t, int64_t i) {
  const double *b = t->values + 3 * i, FAR = 1.75;
  if (i == 0 || i == t->rows - 1) return true;
  double least, most;
  const int64_t begin = i + 3 < t->rows ? i - 2 : t->rows - 5;
  wavelet_extremes(t, begin, begin < 0 ? 5 : begin + 5, &least, &most);
  const double before = b[0] - b[-3], after = b[3] - b[0];
  const double steep = fmax(fabs(b[1] - b[-2]) / before, fabs(b[4] - b[1]) / after);
  return steep * fmax(before, after) > FAR * (most - least);
}

static spline wavelet_piece(const table *t, int64_t first, int64_t last) {
  const int64_t count = last - first + 1;
  return (spline){t->values + 3 * first, count, count > DEGREE ? DEGREE : (int)count - 1};
}

/* Rows are knots but for those next to the ends ("not-a-knot"): nothing is assumed of the derivatives there. */
static double wavelet_knot(const spline *s, int64_t i) {
  const int64_t row = i <= s->degree ? 0 : i >= s->count ? s->count - 1 : i - (s->degree + 1) / 2;
  return s->rows[3 * row];
}

/* Sets b to the values, at a time between rows i and i + 1, of the degree + 1 B-splines that are not 0 there; returns the
 * index of the first one. C. de Boor, A Practical Guide to Splines (1978), chapter X. */
static int64_t wavelet_basis(const spline *s, int64_t i, double time, double b[DEGREE + 1]) {
  const int64_t middle = i + (s->degree + 1) / 2;
  const int64_t span = middle < s->degree ? s->degree : middle < s->count ? middle : s->count - 1;
  b[0] = 1;
  for (int j = 1; j <= s->degree; j++) {
    double carried = 0;
    for (int r = 0; r < j; r++) {
      const double left = time - wavelet_knot(s, span + 1 - j + r),
                   right = wavelet_knot(s, span + 1 + r) - time;
      const double part = b[r] / (left + right);
      b[r] = carried + right * part;
      carried = left * part;
    }
    b[j] = carried;
  }
  return span - s->degree;
}

/* Finds the coefficients of a piece by elimination, which is stable without pivoting here (de Boor and Pinkus, Numer.
 * Math. 27 (1977)). above: scratch of as many rows. */
static void wavelet_solve(const spline *s, double *rows, double (*above)[DEGREE]) {
  for (int64_t i = 0; i < s->count; i++) {
    double band[2 * DEGREE + 1] = {0} /* columns i - DEGREE to i + DEGREE */, b[DEGREE + 1],
                             right = rows[3 * i + 1];
    const int64_t first = wavelet_basis(s, i < s->count - 1 ? i : i - 1, rows[3 * i], b);
    for (int j = 0; j <= s->degree; j++) band[first + j - i + DEGREE] = b[j];
    for (int64_t p = i > DEGREE ? i - DEGREE : 0; p < i; p++) {
      double *from = band + (p - i + DEGREE);
      for (int q = 0; q < DEGREE; q++) from[q + 1] -= *from * above[p][q];
      right -= *from * rows[3 * p + 2];
    }
    for (int q = 0; q < DEGREE; q++) above[i][q] = band[DEGREE + 1 + q] / band[DEGREE];
    rows[3 * i + 2] = right / band[DEGREE];
  }
  for (int64_t i = s->count - 1; i >= 0; i--)
    for (int64_t q = 1; q <= DEGREE && i + q < s->count; q++)
      rows[3 * i + 2] -= above[i][q - 1] * rows[3 * (i + q) + 2];
}

/* Adds the coefficients to a table of times and values. Pieces share their corners: the first and the last coefficient of a
 * spline are its values there. */
static int wavelet_fit(table *t, error *e) {
  double(*above)[DEGREE];
  TRY(ALLOC(e, above, t->rows, "a wavelet"));
  for (int64_t first = 0, last = 1; last < t->rows; last++) {
    if (!wavelet_corner(t, last)) continue;
    const spline piece = wavelet_piece(t, first, last);
    wavelet_solve(&piece, t->values + 3 * first, above);
    first = last;
  }
  free(above);
  return 0;
}

/* Takes the times out of the first column. */
static int wavelet_split(table *signals, table *times, error *e) {
  double *v = signals->values;
  if (signals->columns == 1) return 0;
  TRY(ALLOC(e, times->values, signals->rows, "a wavelet"));
  times->rows = signals->rows, times->columns = signals->columns = 1;
  for (int64_t i = 0; i < signals->rows; i++) times->values[i] = v[2 * i], v[i] = v[2 * i + 1];
  return 0;
}

int wavelet_read(const files *files, const char *dataset, table *signals, table *times, error *e) {
  const request all = {FILES_READ_TABLE, .path = dataset, .form = FORM, .own.table = signals};
  *times = *signals = (table){0};
  TRY(files_do(files, &all, e));
  wavelet_split(signals, times, e);
  wavelet_check(dataset, dataset, signals, times, e);
  return error_agree(e, files->compute);
}

/* --- signals ---------------------------------------------------------------------------------------------------- */

/* Names the dataset `time` beside another one. */
static void wavelet_name_times(const char *dataset, char name[CONFIG_TEXT + 8]) {
  snprintf(name, CONFIG_TEXT + 8, "%.*s/time", (int)(strrchr(dataset, '/') - dataset), dataset);
}

int wavelet_read_signals(const files *files, const char *dataset, signals_shape shape, table *signals,
                         table *times, error *e) {
  char name[CONFIG_TEXT + 8];
  wavelet_name_times(dataset, name);
  const request time = {
      FILES_READ_TABLE, .path = name, .own.table = times,
      .form = {.flat = true, .columns = 1, .quantity = QUANTITY_TIME, .measured = 1, .optional = true}};
  *times = *signals = (table){0};
  TRY(files_do(files, &time, e));
  const request all = {
      FILES_READ_TABLE, .path = dataset, .own.table = signals,
      .form = {.flat = true, .columns = shape.columns, .narrow = true, .most = times->rows ? 0 : shape.most}};
  files_do(files, &all, e);
  const int64_t rows = signals->rows, wanted = times->rows ? times->rows : shape.least;
  if (!e->id && times->rows && rows != wanted) FAIL(e, SIGNALS_TIMES, dataset, wanted, name, rows);
  if (!e->id && rows < wanted) FAIL(e, SIGNALS_FEW, dataset, wanted, rows, name);
  return wavelet_check(dataset, name, signals, times, e); /* from the same numbers on every rank */
}

int wavelet_take_column(const table *signals, const table *times, int column, table *curve, error *e) {
  const int columns = times->rows ? WAVELET_SPLINE : WAVELET_STEPS, value = times->rows ? 1 : 0;
  *curve = (table){.rows = signals->rows, .columns = columns};
  TRY(ALLOC(e, curve->values, curve->rows * columns, "a wavelet"));
  for (int64_t i = 0; i < curve->rows; i++) {
    if (value) curve->values[columns * i] = times->values[i];
    curve->values[columns * i + value] = signals->values[i * signals->columns + column];
  }
  if (value && wavelet_fit(curve, e)) table_free(curve);
  return e->id;
}

/* --- values ----------------------------------------------------------------------------------------------------- */

/* s: times, the first column, so little outside the table are at its end. Files may hold them in float32. */
static double wavelet_slack(const table *t, double dt) {
  const double ends = fmax(fabs(t->values[0]), fabs(t->values[t->columns * (t->rows - 1)]));
  return fmin(FLT_EPSILON * ends, dt / 2);
}

/* Of the spline through the rows about `time`. Where these are wildly uneven, it keeps near their values. */
static double wavelet_interpolate(const table *t, double time, double slack) {
  const double *v = t->values;
  int64_t lo = 0, hi = t->rows - 1; /* time of row lo <= time < time of row hi */
  if (!(time >= v[0] - slack && time <= v[3 * hi] + slack)) return 0;
  if (time >= v[3 * hi]) return v[3 * hi + 1];
  while (hi - lo > 1) {
    const int64_t middle = lo + (hi - lo) / 2;
    if (v[3 * middle] <= time)
      lo = middle;
    else
      hi = middle;
  }
  if (time <= v[3 * lo]) return v[3 * lo + 1];
  int64_t first = lo, last = hi; /* of the piece, as far as it counts */
  while (lo - first < REACH && !wavelet_corner(t, first)) first--;
  while (last - hi < REACH && !wavelet_corner(t, last)) last++;
  const spline piece = wavelet_piece(t, first, last);
  double b[DEGREE + 1], sum = 0, least, most;
  const double *c = piece.rows + 3 * wavelet_basis(&piece, lo - first, time, b) + 2;
  for (int j = 0; j <= piece.degree; j++) sum += b[j] * c[3 * (ptrdiff_t)j];
  wavelet_extremes(t, lo - 2, lo + 4, &least, &most);
  return fmin(fmax(sum, least - (most - least) / 2), most + (most - least) / 2);
}

double wavelet_curve(const table *curve, double dt, int64_t step, double outside) {
  if (curve->columns == WAVELET_STEPS) return step < curve->rows ? curve->values[step] : outside;
  const double *v = curve->values, time = (double)step * dt, slack = wavelet_slack(curve, dt);
  const bool inside = time >= v[0] - slack && time <= v[WAVELET_SPLINE * (curve->rows - 1)] + slack;
  return inside ? wavelet_interpolate(curve, time, slack) : outside;
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

/* --- what a run makes of it ------------------------------------------------------------------------------------- */

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

/* Where the samples of a table's study lie: no further apart than steps and, on average, rows. */
typedef struct wavelet_sampling {
  double first, apart; /* s */
  size_t count;        /* so few that a study takes a moment */
} wavelet_sampling;

static wavelet_sampling wavelet_sample(const table *t, double dt, const wavelet_use *use) {
  const double MOST = 1 << 17;
  double first = 0, count = (double)use->end, apart = dt;
  if (t->columns == WAVELET_SPLINE) {
    const double *last = t->values + 3 * (t->rows - 1), rows = (double)t->rows;
    const double all = last[0] - t->values[0], end = fmin(last[0], dt * (double)use->end);
    first = fmax(t->values[0], 0);
    if (all > 0) apart = fmax(fmin(dt, all / (rows - 1)), (end - first) / (MOST - 1));
    count = floor(fmax(0, end - first) / apart) + 1;
  }
  return (wavelet_sampling){first, apart, (size_t)fmin(count, MOST)};
}

/* Samples a curve. Its ends are moved to 0, so that jumps there, which start and stop tell of, do not count in its
 * spectrum. False: the curve is 0. */
static bool wavelet_fill(const table *t, const wavelet_sampling *at, double dt, int lane,
                         double (*x)[FOURIER_SERIES], wavelet_use *use) {
  double most = 0;
  for (size_t i = 0; i < at->count; i++) {
    x[i][lane] = t->columns == WAVELET_SPLINE ? wavelet_interpolate(t, at->first + (double)i * at->apart, 0)
                                              : t->values[i];
    most = fmax(most, fabs(x[i][lane]));
  }
  use->silent = most == 0;
  if (use->silent) return false;
  const double first = x[0][lane], rise = (x[at->count - 1][lane] - first) / fmax(1, (double)at->count - 1);
  use->start = fmin(1, fabs(wavelet_curve(t, dt, use->begin, 0)) / most);
  use->stop = fmin(1, fabs(wavelet_curve(t, dt, use->end - 1, 0)) / most);
  for (size_t i = 0; i < at->count; i++) x[i][lane] = (x[i][lane] - first - (double)i * rise) / most;
  return true;
}

static int wavelet_find_spectra(const table *t, int count, double dt, wavelet_use *uses, error *e) {
  const wavelet_sampling at = wavelet_sample(t, dt, uses);
  bool any[FOURIER_SERIES];
  double(*turns)[2];
  fourier f = {.n = fourier_length(at.count > 2048 ? 2 * (int64_t)at.count : 4096)};
  if (!(turns = fourier_turns(f.n)) || fourier_open(&f, f.n, (const double(*)[2])turns)) {
    fourier_close(&f);
    free(turns);
    return FAIL(e, OUT_OF_MEMORY, (size_t)f.n * sizeof *f.series, "the spectrum of a wavelet");
  }
  fourier_clear(&f);
  for (int k = 0; k < count; k++) any[k] = wavelet_fill(&t[k], &at, dt, k, fourier_samples(&f), &uses[k]);
  fourier_analyse(&f);
  for (int k = 0; k < count; k++)
    if (any[k]) wavelet_find_frequencies(&f, k, at.apart, &uses[k]);
  free(turns);
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

int wavelet_study_curves(const table *t, int count, wavelet_steps steps, wavelet_use *use, error *e) {
  *use = (wavelet_use){.columns = t->columns, .end = steps.count, .last = t->rows};
  if (t->columns == WAVELET_SPLINE) {
    const double slack = wavelet_slack(t, steps.dt), last = t->values[WAVELET_SPLINE * (t->rows - 1)];
    use->begin = wavelet_step(ceil((t->values[0] - slack) / steps.dt), steps.count);
    use->last = wavelet_step(floor((last + slack) / steps.dt) + 1, INT64_MAX / 2);
    use->end = smaller64(use->last, steps.count);
  } else if (t->rows < steps.count) {
    use->end = t->rows;
  }
  for (int k = 1; k < count; k++) use[k] = *use;
  return use->begin < use->end ? wavelet_find_spectra(t, count, steps.dt, use, e) : 0;
}

/* To the last step that is not after `end`, s. */
static int64_t wavelet_length_to(double end, double dt, int64_t most) {
  const int64_t length = wavelet_step(floor(end / dt) + 1, most);
  return length > 0 ? length : 1;
}

int64_t wavelet_length_of_times(const table *times, double dt, int64_t most) {
  const double *last = times->values + times->columns * (times->rows - 1);
  return wavelet_length_to(*last + wavelet_slack(times, dt), dt, most);
}

int64_t wavelet_length(const wavelet *w, double dt, int64_t most) {
  const double WIDE = 2.3; /* exp(-(pi WIDE)^2) is 1e-23 */
  if (w->kind == WAVELET_FILE) return smaller64(w->rows, most);
  return wavelet_length_to(w->t0 + WIDE / w->f0, dt, most);
}
