/* Warns of probable mistakes in a configuration, above all of runs in which nothing can happen. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "shot.h"
#include "base/numbers.h"
#include "base/stop.h"
#include "acquisition/place.h"

static const double REMARKS_JUMP = 0.01; /* part of a wavelet's peak: a smaller jump does no harm */

static void remarks_gaussian(const shot *s) {
  const config *c = s->config;
  const double *center = c->gaussian_center;
  double ends[2];
  const int axis = c->initial == INITIAL_GAUSSIAN ? config_outside(c, center, ends) : -1;
  if (axis < 0) return;
  log_line(
      s->log,
      "warning: [initial] center = %.15g %.15g %.15g is outside the grid, where %c is from %.15g to %.15g",
      center[0], center[1], center[2], "xyz"[axis], ends[0], ends[1]);
}

/* Does a dirichlet face hold the field at this position at 0? */
static bool remarks_held(const config *c, const double position[3]) {
  for (int face = 0; face < FACE_COUNT; face++) {
    const config_axis a = config_axis_of(c, face / 2);
    const double at = a.first + (face % 2 ? (a.points - 1) * a.spacing : 0);
    if (c->boundary[face] == BOUNDARY_DIRICHLET && fabs(position[face / 2] - at) <= 1e-9 * a.spacing)
      return true;
  }
  return false;
}

/* Does source i emit anything? A wavelet is over one period after its peak. */
static bool remarks_sounds(const shot *s, int i) {
  const config *c = s->config;
  if (remarks_held(c, s->at.sources.positions[i])) return false;
  if (i >= c->source_count) return c->sources_mode == SOURCES_IMPOSE || !s->at.sources.set.use.silent;
  const source_config *from = &c->sources[i];
  if (from->wavelet == WAVELET_FILE) return from->amplitude != 0 && !s->at.sources.uses[i].silent;
  return from->amplitude != 0 && from->t0 > -1 / from->f0;
}

/* Logs the number of sources that emit nothing, and the first of them. Returns the number of the others. */
static int remarks_silent(const shot *s) {
  const config *c = s->config;
  int silent = 0, first = 0;
  char which[96] = "every source";
  for (int i = 0; i < s->at.sources.count; i++)
    if (!remarks_sounds(s, i) && silent++ == 0) first = i;
  if (silent < s->at.sources.count && first < c->source_count)
    snprintf(which, sizeof which, "%d of %d sources, first [source.%d],", silent, s->at.sources.count,
             c->sources[first].number);
  else if (silent < s->at.sources.count)
    snprintf(which, sizeof which, "%d of %d sources, first row %d of [sources] positions,", silent,
             s->at.sources.count, first - c->source_count);
  if (silent)
    log_line(
        s->log,
        "warning: %s emit%s nothing: amplitude or values are 0, the wavelet is over before the run (t0), "
        "or the place lies on a dirichlet face, where the field is 0",
        which, silent < s->at.sources.count ? "" : "s");
  return s->at.sources.count - silent;
}

/* The number of wavelets: one for each [source.N], then one for all of [sources], whose greatest signal counts. */
static int remarks_wavelets(const shot *s) {
  return s->config->source_count + (s->at.sources.set.count > 0);
}

/* Names the key that gives a wavelet, for messages. */
enum { REMARKS_NAME = CONFIG_TEXT + 64 };
static const char *remarks_name(const shot *s, int wavelet, char name[REMARKS_NAME]) {
  const config *c = s->config;
  if (wavelet < c->source_count)
    snprintf(name, REMARKS_NAME, "[source.%d] wavelet = %s", c->sources[wavelet].number,
             c->sources[wavelet].wavelet_file);
  else
    snprintf(name, REMARKS_NAME, "[sources] signals = %s", c->sources_signals_file);
  return name;
}

/* About when a source begins, s: one period before its peak. A file's wavelet may begin at once. */
static double remarks_begin(const shot *s, int source) {
  const config *c = s->config;
  const source_config *from = &c->sources[source];
  if (source >= c->source_count) return s->engine->physics.dt * (double)s->at.sources.set.use.begin;
  return from->wavelet == WAVELET_FILE ? s->engine->physics.dt * (double)s->at.sources.uses[source].begin
                                       : fmax(0, from->t0 - 1 / from->f0);
}

/* Would the field stay 0 without sources? */
static bool remarks_at_rest(const config *c) {
  const bool zero = c->initial == INITIAL_ZERO || (c->initial == INITIAL_NUMBER && c->initial_number == 0) ||
                    (c->initial == INITIAL_GAUSSIAN && c->gaussian_amplitude == 0);
  if (!zero || c->previous == PREVIOUS_FILE) return false;
  for (int face = 0; face < FACE_COUNT; face++)
    if (c->boundary[face] == BOUNDARY_FIXED && c->boundary_value != 0) return false;
  return true;
}

/* The shortest distance between two positions, m, also across the faces of periodic axes. */
static double remarks_distance(const config *c, const double from[3], const double to[3]) {
  double d[3];
  for (int axis = 0; axis < 3; axis++) {
    const config_axis a = config_axis_of(c, axis);
    d[axis] = a.spacing > 0 ? to[axis] - from[axis] : 0;
    if (a.periodic) d[axis] = remainder(d[axis], a.points * a.spacing);
  }
  return hypot(hypot(d[0], d[1]), d[2]);
}

/* About when the first wave arrives at a position, s; INFINITY without sources. */
static double remarks_arrival(const shot *s, const double place[3]) {
  const config *c = s->config;
  double first = INFINITY;
  for (int i = 0; i < s->at.sources.count; i++) {
    if (!remarks_sounds(s, i)) continue;
    const double distance = remarks_distance(c, s->at.sources.positions[i], place);
    first = fmin(first, remarks_begin(s, i) + distance / s->engine->physics.medium[0].max);
  }
  return first;
}

/* About which part of the step loop sampling takes, for receivers between points. A sample brings the field around them
 * from memory once. It reads each receiver's points from a cache, five times as fast as a step reads memory
 * (docs/PERFORMANCE.md). */
static double remarks_sampling(const shot *s) {
  const double CACHES = 5, ROW = 96; /* bytes of the lines that 8 points lie on, on average */
  const receivers *r = &s->at.receivers;
  const config *c = s->config;
  int low[3] = {INT_MAX, INT_MAX, INT_MAX}, high[3] = {0};
  double rows = 0, points = 0, around = 1, grid = 1;
  for (int i = 0; i < r->count; i++) {
    place p[3];
    place_in_grid(c, r->positions[i], p);
    const int between[3] = {p[0].fraction > 0, p[1].fraction > 0, p[2].fraction > 0};
    if (!between[0] && !between[1] && !between[2]) continue;
    const double of_rows = (between[1] ? POINTS_MOST : 1) * (between[2] ? POINTS_MOST : 1);
    rows += of_rows, points += of_rows * (between[0] ? POINTS_MOST : 1);
    for (int axis = 0; axis < 3; axis++) {
      low[axis] = smaller(low[axis], p[axis].index);
      high[axis] = larger(high[axis], p[axis].index + 1);
    }
  }
  for (int axis = 0; axis < 3; axis++) {
    const int n = config_axis_of(c, axis).points;
    around *= smaller(n, high[axis] - low[axis] + POINTS_MOST), grid *= n;
  }
  const double bytes = fmin(rows * ROW, around * sizeof(float)) + points * sizeof(float) / CACHES;
  return points > 0 ? bytes / (grid * physics_bytes(c) * (double)r->every) : 0;
}

static void remarks_receivers(const shot *s, bool rest) {
  const double MUCH = 0.02;
  const config *c = s->config;
  const receivers *r = &s->at.receivers;
  const double sampling = c->receivers_interpolation == INTERPOLATION_SINC ? remarks_sampling(s) : 0;
  const double end = s->engine->physics.dt * (double)s->engine->physics.steps;
  double arrival = INFINITY;
  int held = 0, first = 0;
  if (r->count && c->receivers_every > s->engine->physics.steps)
    log_line(s->log,
             "warning: [receivers] every = %" PRId64 ", but the run has %" PRId64
             " steps: traces are one sample, of the beginning",
             c->receivers_every, s->engine->physics.steps);
  rest = rest && (double)r->count * s->at.sources.count < 1e9; /* ways; more take seconds */
  for (int i = 0; i < r->count; i++) {
    if (remarks_held(c, r->positions[i]) && held++ == 0) first = i;
    if (rest && arrival > end) arrival = fmin(arrival, remarks_arrival(s, r->positions[i]));
  }
  if (r->count && held == r->count)
    log_line(s->log, "warning: every receiver lies on a dirichlet face, where the field is 0");
  else if (held)
    log_line(s->log,
             "warning: %d of %d receivers lie on a dirichlet face, where the field is 0, first row %d, (x, "
             "y, z) = (%g, %g, %g) m",
             held, r->count, first, r->positions[first][0], r->positions[first][1], r->positions[first][2]);
  if (held < r->count && rest && arrival > end)
    log_line(
        s->log,
        "warning: no wave comes to a receiver: the first one would at about %.4g s, the run ends at %.4g s",
        arrival, end);
  if (sampling > MUCH)
    log_line(
        s->log,
        "warning: receivers between points take about %.2g %% of the time of the steps: with [receivers] "
        "interpolation = linear, which is less exact, or a greater every they take less",
        100 * sampling);
}

static bool remarks_damped(const config *c, const double position[3]) {
  for (int face = 0; face < FACE_COUNT; face++) {
    const config_axis a = config_axis_of(c, face / 2);
    const int width = config_layer_width(c, (enum face)face);
    const double at = (position[face / 2] - a.first) / a.spacing, depth = face % 2 ? a.points - 1 - at : at;
    if (width > 0 && depth < width - 1 + 1e-6) return true;
  }
  return false;
}

static void remarks_layers(const shot *s) {
  const config *c = s->config;
  const receivers *r = &s->at.receivers;
  int sources = 0, receivers = 0;
  for (int i = 0; i < s->at.sources.count; i++) sources += remarks_damped(c, s->at.sources.positions[i]);
  for (int i = 0; i < r->count; i++) receivers += remarks_damped(c, r->positions[i]);
  if (sources || receivers)
    log_line(s->log,
             "warning: %d of %d sources and %d of %d receivers lie in absorbing layers, which damp their "
             "waves: move them at least %d points away from these faces",
             sources, s->at.sources.count, receivers, r->count, c->boundary_width);
}

/* --- wavelets --------------------------------------------------------------------------------------------------- */

/* Returns text that tells how many more sources a remark is true of; empty for one source. */
static const char *remarks_more(int sources, char text[48]) {
  text[0] = 0;
  if (sources > 1) snprintf(text, 48, "; so for %d more source%s", sources - 1, sources > 2 ? "s" : "");
  return text;
}

/* Warns of the first source whose table does not cover the run: outside the table the source is 0. */
static void remarks_uncovered(const shot *s) {
  const config *c = s->config;
  const physics *p = &s->engine->physics;
  int first = -1, count = 0;
  for (int i = 0; i < remarks_wavelets(s); i++) {
    const wavelet_use *u = &s->at.sources.uses[i];
    const bool imposed = i == c->source_count && c->sources_mode == SOURCES_IMPOSE;
    if (!remarks_sounds(s, i) || !u->rows || u->begin >= u->end || imposed) continue;
    if (u->begin == 0 && u->end == p->steps) continue;
    if (count++ == 0) first = i;
  }
  if (first < 0) return;
  const wavelet_use *u = &s->at.sources.uses[first];
  char before[64] = "", after[96] = "", more[48], name[REMARKS_NAME];
  if (u->begin > 0)
    snprintf(before, sizeof before, " before step %" PRId64 " (%.4g s)", u->begin, p->dt * (double)u->begin);
  if (u->end < p->steps)
    snprintf(after, sizeof after, "%s from step %" PRId64 " (%.4g s) on%s", u->begin > 0 ? " and" : "",
             u->end, p->dt * (double)u->end, u->stop > REMARKS_JUMP ? ", after a jump" : "");
  log_line(s->log, "warning: %s has values for %" PRId64 " of %" PRId64 " steps: it is 0%s%s%s",
           remarks_name(s, first, name), u->end - u->begin, p->steps, before, after,
           remarks_more(count, more));
}

/* Warns of the first source whose pulse has a length that depends on dt = auto. */
static void remarks_stretched(const shot *s) {
  char more[48], name[REMARKS_NAME];
  int first = -1, count = 0;
  for (int i = 0; i < remarks_wavelets(s); i++)
    if (remarks_sounds(s, i) && s->at.sources.uses[i].rows == WAVELET_STEPS && count++ == 0) first = i;
  if (first < 0 || s->config->dt > 0) return;
  log_line(s->log,
           "warning: %s has a value for every step, and dt = auto depends on the model: "
           "it stretches the pulse (dt = %.4g s here)%s; set [time] dt, or give rows of time and value",
           remarks_name(s, first, name), s->engine->physics.dt, remarks_more(count, more));
}

/* Warns of the first source that begins with a jump. */
static void remarks_abrupt(const shot *s) {
  const config *c = s->config;
  char more[48], cure[64] = "let its table begin near 0", name[64] = "[sources] signals start";
  int first = -1, count = 0;
  for (int i = 0; i < remarks_wavelets(s); i++)
    if (remarks_sounds(s, i) && s->at.sources.uses[i].start > REMARKS_JUMP && count++ == 0) first = i;
  if (first < 0) return;
  if (first < c->source_count) snprintf(name, sizeof name, "[source.%d] starts", c->sources[first].number);
  if (!s->at.sources.uses[first].rows)
    snprintf(cure, sizeof cure, "take t0 = %.4g", 1.5 / c->sources[first].f0);
  log_line(s->log,
           "warning: %s at %.3g %% of its peak: the jump holds frequencies that no grid "
           "resolves%s; %s",
           name, 100 * s->at.sources.uses[first].start, remarks_more(count, more), cure);
}

/* Warns of the first source whose table ends with the run, in the middle of a wave. Where dispersion is removed, waves
 * are early in fields (exact_time_part), so fields depend on the signal after the run. Sparse samples depend on it a
 * little. */
static void remarks_cut(const shot *s) {
  const config *c = s->config;
  const physics *p = &s->engine->physics;
  const bool seen = config_has_maps(c) || c->output_every || c->receivers_every > 1;
  for (int i = 0; s->at.receivers.time.removed && seen && i < remarks_wavelets(s); i++) {
    const wavelet_use *u = &s->at.sources.uses[i];
    const double part = exact_time_part(u->dominant, p->dt);
    const int64_t needed = (int64_t)ceil((double)p->steps / part) + s->at.receivers.time.extra;
    char name[REMARKS_NAME];
    if (!remarks_sounds(s, i) || u->end < p->steps || u->last >= needed || u->stop <= REMARKS_JUMP) continue;
    log_line(s->log,
             "warning: %s is cut at %.3g %% of its peak after %" PRId64
             " steps: where dispersion is removed, the "
             "field feels that from step %" PRId64 " on, and maps too; give it values for %" PRId64 " steps",
             remarks_name(s, i, name), 100 * u->stop, u->last, (int64_t)((double)u->last * part), needed);
    return;
  }
}

/* Warns of sources whose dominant frequency lies outside the band in which losses follow their law. */
static void remarks_band(const shot *s) {
  const double TURN = 2 * M_PI, ROUNDED = 1e-6;
  const loss_law *law = &s->engine->physics.model.law;
  double first = 0;
  char more[48];
  int count = 0;
  for (int i = 0; i < remarks_wavelets(s); i++) {
    const double omega = TURN * s->at.sources.uses[i].dominant;
    const bool within = omega >= law->lowest * (1 - ROUNDED) && omega <= law->highest * (1 + ROUNDED);
    if (!within && remarks_sounds(s, i) && omega > 0 && count++ == 0) first = omega / TURN;
  }
  if (count)
    log_line(
        s->log,
        "warning: a source is strongest at %.4g Hz, but losses follow their law from %.4g to %.4g Hz only%s: "
        "set [medium] absorption_band, and reference_frequency within it",
        first, law->lowest / TURN, law->highest / TURN, remarks_more(count, more));
}

/* Warns of an inaccurate fit of the losses. docs/CONFIG.md says how accurate a single mechanism is. */
static void remarks_fit(const shot *s) {
  const double MUCH = 0.05;
  const model *m = &s->engine->physics.model;
  if (m->fit.count > 1 && m->fit.worst > MUCH)
    log_line(s->log, "warning: losses are up to %.2g %% off their law from %.4g to %.4g Hz: %s",
             100 * m->fit.worst, m->law.lowest / (2 * M_PI), m->law.highest / (2 * M_PI), model_fit_cure(m));
}

/* --- resolution ------------------------------------------------------------------------------------------------- */

/* Waves with at least so many points per wavelength travel nearly at the right velocity. */
static const double REMARKS_POINTS = 4;

static bool remarks_resolved(double points) {
  return points >= REMARKS_POINTS * (1 - 1e-3); /* the slack is for rounding */
}

bool shot_find_waves(const shot *s, shot_waves *w) {
  const config *c = s->config;
  *w = (shot_waves){.spacing = config_coarsest(c)};
  for (int i = 0; i < remarks_wavelets(s); i++) {
    if (!remarks_sounds(s, i)) continue;
    w->dominant = fmax(w->dominant, s->at.sources.uses[i].dominant);
    w->highest = fmax(w->highest, s->at.sources.uses[i].highest);
  }
  w->points = s->engine->physics.medium[0].min / (w->highest * w->spacing);
  w->resolved = remarks_resolved(w->points);
  return w->highest > 0;
}

static void remarks_resolution(const shot *s, const shot_waves *w) {
  const physics *p = &s->engine->physics;
  char column[SOURCES_COLUMN];
  if (sources_highest(&s->at.sources, s->config, column) > w->highest)
    column[0] = 0; /* the source is silent */
  if (!w->resolved)
    log_line(
        s->log,
        "warning: only %.3g points per wavelength at %.4g Hz%s, above which sources emit little, at %.6g "
        "m/s: "
        "with fewer than %g the grid distorts waves; take a spacing of at most %.3g m, or lower frequencies",
        w->points, w->highest, column, p->medium[0].min, REMARKS_POINTS,
        0.995 * w->points / REMARKS_POINTS * w->spacing);
  /* leapfrog's frequency is too high by (omega dt)^2 / 24 of itself */
  const double omega = 2 * M_PI * w->dominant, end = p->dt * (double)p->steps;
  const double phase = omega * end * pow(omega * p->dt, 2) / 24, TOLERATED = 0.1;
  const config *c = s->config;
  const bool traces = s->at.receivers.time.removed; /* traces are exact, fields and maps are not */
  if (traces && !c->output_final && !c->output_every && !config_has_maps(c)) return;
  if (phase > TOLERATED && omega * p->dt < 2)
    log_line(
        s->log,
        "warning: the time step makes waves of %.4g Hz arrive early%s: by %.3g radians, %.3g s, at the end "
        "of the run; [time] dt = %.3g keeps that below %g",
        w->dominant, traces ? " in fields, not in traces" : "", phase, phase / omega,
        0.99 * p->dt * sqrt(TOLERATED / phase), TOLERATED);
}

/* The spectrum of exp(-r^2 / (2 w^2)) is exp(-(k w)^2 / 2), which is WAVELET_LITTLE at a wavelength of 2.40 w. */
static void remarks_narrow(const shot *s) {
  const double WAVELENGTH = 2.40;
  const config *c = s->config;
  const double points = WAVELENGTH * c->gaussian_width / config_coarsest(c);
  if (c->initial == INITIAL_GAUSSIAN && c->gaussian_amplitude != 0 && !remarks_resolved(points))
    log_line(s->log,
             "warning: [initial] width = %.4g m makes waves of only %.3g points per wavelength: with fewer "
             "than %g "
             "the grid distorts them; take a width of at least %.3g m",
             c->gaussian_width, points, REMARKS_POINTS,
             1.005 * REMARKS_POINTS / WAVELENGTH * config_coarsest(c));
}

static void remarks_medium(const shot *s) {
  const double SLOW = 50, FAST = 20000; /* m/s: slower than sound in anything, faster than in anything */
  const physics *p = &s->engine->physics;
  if (p->medium[0].min < SLOW || p->medium[0].max > FAST)
    log_line(s->log,
             "warning: [medium] velocity is from %.6g to %.6g m/s, but hardly a medium is slower than %g or "
             "faster "
             "than %g: is it in km/s, or other units?",
             p->medium[0].min, p->medium[0].max, SLOW, FAST);
  remarks_fit(s);
}

static void remarks_waves(const shot *s) {
  shot_waves w;
  remarks_narrow(s);
  remarks_layers(s);
  if (s->at.sources.count == 0) return;
  remarks_uncovered(s);
  remarks_stretched(s);
  remarks_abrupt(s);
  remarks_cut(s);
  if (config_medium_absorbs(s->config)) remarks_band(s);
  if (shot_find_waves(s, &w)) remarks_resolution(s, &w);
}

/* --- all of them ------------------------------------------------------------------------------------------------ */

/* Warns of mistakes in where and when the field begins and is observed. */
void shot_remarks(const shot *s) {
  const bool rest = remarks_at_rest(s->config);
  if (s->of.from) return; /* the checkpoint says what the field is */
  remarks_gaussian(s);
  const int sounding = remarks_silent(s);
  if (rest && !sounding)
    log_line(s->log, "warning: nothing can happen: the initial field is 0, and nothing changes it");
  else
    remarks_receivers(s, rest);
  if (equation_has(s->config->equation, HAS_SOURCES)) remarks_waves(s);
}

void shot_warn_of_time(const shot *s) {
  const char *why = s->at.receivers.time.why;
  if (why[0]) log_line(s->log, "warning: dispersion kept in traces: %s", why);
}

void shot_remarks_common(const shot *s) {
  const config *c = s->config;
  if (c->idle[0]) log_line(s->log, "ignored settings: %s", c->idle);
  if (!c->output_final && !c->output_every && c->receivers == RECEIVERS_NONE && !config_has_maps(c) &&
      !c->checkpoint_every_steps && c->checkpoint_every_seconds <= 0)
    log_line(s->log,
             "warning: nothing is saved: [output] final = off, and no every, receivers, maps or checkpoints");
  if (stop_stale())
    log_line(s->log, "warning: SLURM_JOB_END_TIME = %s was before the program began: it does not count",
             getenv("SLURM_JOB_END_TIME"));
  if (!s->of.from && equation_has(c->equation, HAS_SOURCES)) remarks_medium(s);
}
