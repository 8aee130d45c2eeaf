#include "wavelet.h"
#include <math.h>

static const table_form FORM = {.flat = true, .columns = 2};
static const double PI = 3.14159265358979323846;

static int wavelet_check_times(const char *dataset, const table *t, error *e) {
  const double *v = t->values;
  for (int64_t i = 1; t->columns == 2 && i < t->rows; i++)
    if (v[2 * i] <= v[2 * i - 2]) return FAIL(e, WAVELET_TIMES, dataset, i, v[2 * i], v[2 * i - 2]);
  return 0;
}

int wavelet_load(const source_config *s, table *t, error *e) {
  TRY(table_load(s->wavelet_file, FORM, t, e));
  if (wavelet_check_times(s->wavelet_file, t, e)) table_free(t);
  return e->id;
}

int wavelet_read(const files *files, const source_config *s, table *t, error *e) {
  TRY(files_do(files, &(request){FILES_READ_TABLE, .path = s->wavelet_file, .form = FORM, .own.table = t},
               e));
  if (wavelet_check_times(s->wavelet_file, t, e))
    table_free(t); /* all ranks have the same table, so all fail */
  return e->id;
}

/* Linear between the two rows around `time`. */
static double wavelet_interpolate(const table *t, double time) {
  const double *v = t->values;
  int64_t lo = 0, hi = t->rows - 1; /* time of row lo <= time <= time of row hi */
  if (!(time >= v[0] && time <= v[2 * hi])) return 0;
  while (hi - lo > 1) {
    int64_t middle = lo + (hi - lo) / 2;
    if (v[2 * middle] <= time)
      lo = middle;
    else
      hi = middle;
  }
  if (time == v[2 * hi]) return v[2 * hi + 1];
  const double unit = isfinite(v[2 * hi] - v[2 * lo]) ? 1 : 0.5; /* differences of halves never overflow */
  const double f = (time * unit - v[2 * lo] * unit) / (v[2 * hi] * unit - v[2 * lo] * unit);
  return (1 - f) * v[2 * lo + 1] + f * v[2 * hi + 1];
}

wavelet wavelet_of(const source_config *s, const table *t) {
  return (wavelet){.kind = s->wavelet, .f0 = s->f0, .t0 = s->t0, .amplitude = s->amplitude, .table = t};
}

float wavelet_value(const wavelet *w, double dt, int64_t step) {
  const double time = (double)step * dt, phase = PI * w->f0 * (time - w->t0), a = phase * phase;
  double value = 0;
  if (w->kind == WAVELET_RICKER && isfinite(a))
    value = (1 - 2 * a) * exp(-a);
  else if (w->kind == WAVELET_GAUSSIAN)
    value = exp(-a);
  else if (w->kind == WAVELET_FILE && w->table->columns == 2)
    value = wavelet_interpolate(w->table, time);
  else if (w->kind == WAVELET_FILE && step < w->table->rows)
    value = w->table->values[step];
  return (float)(w->amplitude * value);
}
