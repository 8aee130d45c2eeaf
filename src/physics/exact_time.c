#include "exact_time.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include "base/numbers.h"

static const double PI = 3.14159265358979323846;

/* --- whether ---------------------------------------------------------------------------------------------------- */

static bool exact_time_moves(const config *c) {
  return c->initial != INITIAL_ZERO && !(c->initial == INITIAL_NUMBER && c->initial_number == 0);
}

/* The most steps from sample to sample that carry frequencies up to psi a step: from DISPERSION_FADES of the samples'
 * highest on the transform fades them out. */
static int64_t exact_time_rarest(double psi) {
  return psi > 0 ? (int64_t)(DISPERSION_FADES * PI / psi) : INT64_MAX;
}

void exact_time_choose(exact_time *t, const config *c, const exact_time_of *of) {
  const bool field = exact_time_moves(c), sources = config_has_sources(c);
  /* A field may have all frequencies that the steps can carry. */
  const double psi = 2 * asin(fmin(1, sources ? PI * of->highest * of->dt : of->dt / of->bound));
  const int64_t rarest = exact_time_rarest(psi);
  char fast[96] = "";
  *t = (exact_time){.kind = sources ? DISPERSION_TRACE : DISPERSION_REST,
                    .every = c->receivers_every,
                    .threads = of->threads};
  if (of->column[0]) snprintf(fast, sizeof fast, " for %.4g Hz%s", of->highest, of->column);
  if (c->receivers == RECEIVERS_NONE || !equation_has(c->equation, HAS_TERMS)) return;
  if (c->dispersion == DISPERSION_KEPT)
    snprintf(t->why, sizeof t->why, "[time] dispersion = kept");
  else if (of->continues)
    snprintf(t->why, sizeof t->why, "the run before has kept it");
  else if (c->previous == PREVIOUS_FILE)
    snprintf(t->why, sizeof t->why, "[initial] previous is a file");
  else if (c->sources_listed && c->sources_mode == SOURCES_IMPOSE)
    snprintf(t->why, sizeof t->why, "[sources] mode = impose");
  else if (sources && field)
    snprintf(t->why, sizeof t->why, "there are sources and an initial field");
  else if (rarest < 1)
    snprintf(t->why, sizeof t->why, "dt is too large for frequencies up to %.4g Hz%s", of->highest,
             of->column);
  else if (t->every > rarest)
    snprintf(t->why, sizeof t->why, "[receivers] every = %" PRId64 " is too rare%s: %" PRId64 " would do",
             t->every, fast, rarest);
  else
    t->removed = true;
}

/* --- traces ----------------------------------------------------------------------------------------------------- */

enum { CONTINUED = 60 /* samples */ };

/* Traces that end in silence, or those that are cut, which go on for `extra` samples. */
typedef struct trace_work {
  const exact_traces *traces;
  bool transposed, cut;
  int64_t extra;
} trace_work;

/* Does a trace end inside a pulse? Below this part of its peak an end that is cut does less harm than one that goes on:
 * 1e-3 and 1e-2 at a tenth of the peak (docs/ACCURACY.md). */
static bool exact_time_cut(const float *x, int64_t n, int64_t apart) {
  const double QUIET = 0.3;
  float most = 0, last = 0;
  for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i * apart]));
  for (int64_t i = n > 4 ? n - 4 : 0; i < n; i++) last = fmaxf(last, fabsf(x[i * apart]));
  return last > QUIET * most;
}

static double exact_time_fade(int64_t extra, int64_t j) {
  const double fade = cos(PI / 2 * (double)(j + 1) / (double)(extra + 1));
  return fade * fade;
}

/* Sample n + j of a trace that goes on as its point reflection and fades out: so its end does not ring. */
static double exact_time_continue(const float *x, int64_t n, int64_t apart, int64_t extra, int64_t j) {
  return exact_time_fade(extra, j) * (2.0 * x[(n - 1) * apart] - x[(n - 2 - j) * apart]);
}

static int64_t exact_time_length(void *context, int64_t i) {
  const trace_work *w = context;
  const exact_traces *t = w->traces;
  if (!w->transposed && !w->cut) t->cut[i] = exact_time_cut(t->x + i, t->samples, t->count);
  return t->cut[i] == w->cut ? t->samples + w->extra : 0;
}

static void exact_time_get(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]) {
  const trace_work *w = context;
  const exact_traces *t = w->traces;
  const float *from = t->x + i;
  for (int64_t k = 0; k < t->samples; k++) x[k][lane] = from[k * t->count];
  for (int64_t k = t->samples; k < n && !w->transposed; k++)
    x[k][lane] = exact_time_continue(from, t->samples, t->count, w->extra, k - t->samples);
}

/* Transposed, what samples after the end count for those that they would be made from. */
static void exact_time_put(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]) {
  const trace_work *w = context;
  const exact_traces *t = w->traces;
  for (int64_t j = 0; t->samples + j < n && w->transposed; j++) {
    const double faded = exact_time_fade(w->extra, j) * x[t->samples + j][lane];
    x[t->samples - 1][lane] += 2 * faded;
    x[t->samples - 2 - j][lane] -= faded;
  }
  for (int64_t k = 0; k < t->samples; k++) t->x[k * t->count + i] = (float)x[k][lane];
}

int exact_time_traces(const exact_time *t, const exact_traces *traces, bool transposed, error *e) {
  trace_work w = {.traces = traces, .transposed = transposed};
  const dispersion_series all = {.kind = t->kind,
                                 .transposed = transposed,
                                 .every = t->every,
                                 .count = traces->count,
                                 .kept = t->transforms,
                                 .context = &w,
                                 .length = exact_time_length,
                                 .get = exact_time_get,
                                 .put = exact_time_put};
  if (!t->removed || traces->samples < 2) return 0;
  TRY(dispersion_transform(&all, t->threads, e));
  w.cut = true, w.extra = smaller64(traces->samples - 1, CONTINUED);
  return dispersion_transform(&all, t->threads, e);
}
