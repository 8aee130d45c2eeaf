#include "exact_time.h"
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"
#include "base/thread.h"

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

typedef struct trace_work {
  const exact_time *t;
  float *x;
  int64_t n, series;
  bool *cut, transposed;
  atomic_llong next; /* trace */
  atomic_bool failed;
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

typedef struct trace_batch {
  dispersion *d;
  int64_t extra; /* samples */
  int count;
  int64_t trace[FOURIER_SERIES];
  double (*x)[FOURIER_SERIES]; /* n + extra */
} trace_batch;

static bool exact_time_open(const trace_work *w, trace_batch *b) {
  error ignored = {0};
  const int64_t n = w->n + b->extra;
  b->x = malloc((size_t)n * sizeof *b->x);
  return b->x && !dispersion_open(&b->d, w->t->transforms, w->t->kind, n, w->t->every, &ignored);
}

/* The transpose of going on: what samples after the end count for those that they were made from. */
static void exact_time_fold(const trace_work *w, const trace_batch *b) {
  for (int64_t j = 0; j < b->extra; j++) {
    const double fade = exact_time_fade(b->extra, j);
    for (int s = 0; s < b->count; s++) {
      b->x[w->n - 1][s] += 2 * fade * b->x[w->n + j][s];
      b->x[w->n - 2 - j][s] -= fade * b->x[w->n + j][s];
    }
  }
}

/* False where memory is short. */
static bool exact_time_flush(const trace_work *w, trace_batch *b) {
  if (!b->count) return true;
  if (!b->d && !exact_time_open(w, b)) return false;
  for (int s = 0; s < FOURIER_SERIES; s++) {
    const float *from = w->x + (s < b->count ? b->trace[s] : 0);
    for (int64_t i = 0; i < w->n; i++) b->x[i][s] = s < b->count ? from[i * w->series] : 0;
    for (int64_t j = 0; j < b->extra; j++)
      b->x[w->n + j][s] =
          s < b->count && !w->transposed ? exact_time_continue(from, w->n, w->series, b->extra, j) : 0;
  }
  dispersion_apply(b->d, w->transposed, b->x);
  if (w->transposed) exact_time_fold(w, b);
  for (int s = 0; s < b->count; s++)
    for (int64_t i = 0; i < w->n; i++) w->x[i * w->series + b->trace[s]] = (float)b->x[i][s];
  b->count = 0;
  return true;
}

/* Traces that end in silence, and traces that are cut, each kind in batches. */
static void *exact_time_main(void *context) {
  trace_work *w = context;
  trace_batch kinds[2] = {{.extra = 0}, {.extra = w->n - 1 < CONTINUED ? w->n - 1 : CONTINUED}};
  bool ready = true;
  for (int64_t i; ready && (i = atomic_fetch_add(&w->next, 1)) < w->series;) {
    if (!w->transposed) w->cut[i] = exact_time_cut(w->x + i, w->n, w->series);
    trace_batch *b = &kinds[w->cut[i]];
    b->trace[b->count++] = i;
    if (b->count == FOURIER_SERIES) ready = exact_time_flush(w, b);
  }
  for (int k = 0; k < 2; k++) {
    ready = ready && exact_time_flush(w, &kinds[k]);
    dispersion_close(&kinds[k].d);
    free(kinds[k].x);
  }
  if (!ready) atomic_store(&w->failed, true);
  return NULL;
}

int exact_time_traces(const exact_time *t, const exact_traces *traces, bool transposed, error *e) {
  const int64_t ENOUGH = 16; /* traces a thread */
  const int64_t n = traces->samples, series = traces->count;
  trace_work w = {
      .t = t, .x = traces->x, .n = n, .series = series, .cut = traces->cut, .transposed = transposed};
  if (!t->removed || n < 2 || series == 0) return 0;
  thread_share((int)smaller64(t->threads, (series + ENOUGH - 1) / ENOUGH), exact_time_main, &w);
  return atomic_load(&w.failed) ? FAIL(e, OUT_OF_MEMORY, (size_t)n * 600, "a transform in time") : 0;
}
