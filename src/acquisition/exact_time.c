#include "exact_time.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

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

/* Says that dt is too large, and which dt would do. */
static void exact_time_refuse(exact_time *t, const exact_time_of *of, bool sources) {
  const double part = 0.999 * sin(DISPERSION_FADES * PI / 2);
  if (sources)
    snprintf(t->why, sizeof t->why, "dt is too large for frequencies up to %.4g Hz%s: %.4g s would do",
             of->highest, of->column, part / (PI * of->highest));
  else
    snprintf(t->why, sizeof t->why, "dt is too large for all that an initial field may hold: %.4g s would do",
             part * of->bound);
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
    exact_time_refuse(t, of, sources);
  else if (t->every > rarest)
    snprintf(t->why, sizeof t->why, "[receivers] every = %" PRId64 " is too rare%s: %" PRId64 " would do",
             t->every, fast, rarest);
  else
    t->removed = true, t->extra = exact_time_extra(c, of->steps);
}

double exact_time_part(double f, double dt) {
  const double half_angle = PI * f * dt;
  return half_angle < 1 ? sqrt(1 - half_angle * half_angle) : 1;
}

/* --- traces ----------------------------------------------------------------------------------------------------- */

/* Exact sample i is made of the scheme's samples up to i and a few after it. Beyond i the matrix falls off as an Airy
 * function (i / 8)^(1/3) steps wide, or as fast as its fade in frequency allows. With so many extra steps the end of a
 * tone is off by 1e-3 of its amplitude, by 5e-3 where samples are rare (docs/ACCURACY.md). */
int64_t exact_time_extra(const config *c, int64_t steps) {
  const double WIDTHS = 3.3, MORE = 2, LEAST = 6 /* samples */, every = (double)c->receivers_every;
  const bool can = c->dispersion == DISPERSION_REMOVED && c->receivers != RECEIVERS_NONE &&
                   equation_has(c->equation, HAS_TERMS);
  if (!can || steps < c->receivers_every) return 0; /* the first sample is the initial field's */
  return c->receivers_every * (int64_t)ceil(fmax(LEAST, WIDTHS * cbrt((double)steps / 8) / every + MORE));
}

static void exact_time_get(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]) {
  const traces *t = context;
  const float *from = traces_at(t, 0, i);
  const int64_t apart = traces_apart(t, i);
  for (int64_t k = 0; k < n; k++) x[k][lane] = from[k * apart];
}

static void exact_time_put(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]) {
  const traces *t = context;
  float *to = traces_at(t, 0, i);
  const int64_t apart = traces_apart(t, i);
  for (int64_t k = 0; k < n; k++) to[k * apart] = (float)x[k][lane];
}

int exact_time_traces(const exact_time *t, const traces *all, bool transposed, error *e) {
  const dispersion_series series = {.kind = t->kind,
                                    .transposed = transposed,
                                    .every = t->every,
                                    .count = all->count,
                                    .n = all->samples,
                                    .kept = t->transforms,
                                    .context = (void *)(uintptr_t)all,
                                    .get = exact_time_get,
                                    .put = exact_time_put};
  return t->removed && all->samples > 1 ? dispersion_transform(&series, t->threads, e) : 0;
}
