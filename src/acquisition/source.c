#include "source.h"
#include "dispersion.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "place.h"
#include "wavelet.h"

/* --- the points ------------------------------------------------------------------------------------------------- */

/* A [source.N]'s first source with the same signal, and the index of its file, or -1. */
typedef struct source_same {
  int signal, file;
} source_same;

static int sources_keep_place(source_places *w, const point_weights *place, int source, error *e) {
  if (w->count == w->capacity) {
    const int capacity = 2 * w->capacity + 16;
    TRY(GROW(e, w->places, capacity, "the sources"));
    TRY(GROW(e, w->source_of, capacity, "the sources"));
    w->capacity = capacity;
  }
  w->places[w->count] = *place;
  w->source_of[w->count++] = source;
  return 0;
}

static bool sources_imposed(const sources *s, const config *c, int source) {
  return s->set.count && source >= c->source_count && c->sources_mode == SOURCES_IMPOSE;
}

/* Adds a place for each time that planes of the slab lie in the source's reach. Planes beyond a periodic face are those
 * of the other end of the grid. */
static int sources_spread_one(sources *s, const config *c, int source, error *e) {
  const slab *b = s->slab;
  place p[3];
  point_weights at;
  place_in_grid(c, s->positions[source], p); /* always true here */
  if (sources_imposed(s, c, source)) place_round(p);
  const int first = p[2].index - b->z0, periods = config_axis_of(c, 2).periodic;
  for (int period = -periods; period <= periods; period++) {
    const int from = first + period * b->nz_global;
    if (from - POINTS_MOST >= b->nz || from + POINTS_MOST < 0) continue;
    place_weigh(c, p, s->interpolation, true, &at);
    at.z += period * b->nz_global - b->z0;
    if (at.z < b->nz && at.z + at.nz > 0) TRY(sources_keep_place(&s->here, &at, source, e));
  }
  return 0;
}

bool sources_mirrored(const config *c, const source_config *s) {
  place p[3];
  bool mirrored = false;
  place_in_grid(c, s->position, p);
  for (int axis = 0; axis < 3; axis++) {
    const enum boundary_kind *faces = &c->boundary[2 * axis];
    const int last = config_axis_of(c, axis).points - 1,
              next = p[axis].fraction > 0 ? p[axis].next : p[axis].index;
    mirrored |= (faces[0] == BOUNDARY_NEUMANN && p[axis].index == 0) ||
                (faces[1] == BOUNDARY_NEUMANN && next == last);
  }
  return mirrored;
}

/* --- the signals ------------------------------------------------------------------------------------------------ */

/* Orders sources by their time functions; 0: the same function. Sources of one file are next to each other. */
static int sources_by_wavelet(const void *a, const void *b) {
  const source_config *p = *(const source_config *const *)a, *q = *(const source_config *const *)b;
  if (p->wavelet != q->wavelet) return p->wavelet < q->wavelet ? -1 : 1;
  const int file = p->wavelet == WAVELET_FILE ? strcmp(p->wavelet_file, q->wavelet_file) : 0;
  if (file) return file;
  const double of[3] = {p->f0, p->t0, p->amplitude}, as[3] = {q->f0, q->t0, q->amplitude};
  for (int i = p->wavelet == WAVELET_FILE ? 2 : 0; i < 3; i++)
    if (of[i] != as[i]) return of[i] < as[i] ? -1 : 1;
  return 0;
}

static bool sources_same_file(const source_config *p, const source_config *q) {
  return p->wavelet == WAVELET_FILE && q->wavelet == WAVELET_FILE &&
         strcmp(p->wavelet_file, q->wavelet_file) == 0;
}

/* Finds what sources share, reads each file once and studies all signals. Collective. */
static int sources_read_named(sources *s, const problem *on, wavelet_steps steps, error *e) {
  const config *c = on->config;
  const size_t count = (size_t)c->source_count;
  const source_config **sorted;
  ALLOC(e, sorted, count, "the sources");
  ALLOC(e, s->same, count, "the sources");
  ALLOC(e, s->files, count, "the sources");
  ALLOC(e, s->uses, count + 1, "the sources");
  for (size_t i = 0; i < count && sorted; i++) sorted[i] = &c->sources[i];
  if (sorted) qsort(sorted, count, sizeof *sorted, sources_by_wavelet);
  error_agree(e, on->files->compute);
  source_same now = {.file = -1};
  for (size_t i = 0; sorted && i < count && !e->id; i++) {
    const int source = (int)(sorted[i] - c->sources);
    const wavelet formula = wavelet_of(sorted[i]);
    const bool file = formula.kind == WAVELET_FILE;
    if (i == 0 || sources_by_wavelet(&sorted[i], &sorted[i - 1])) now.signal = source;
    if (file && (i == 0 || !sources_same_file(sorted[i], sorted[i - 1])))
      source_set_read(&s->files[now.file = s->file_count++], on, steps, sorted[i], e);
    s->uses[source] = file ? s->files[now.file].use : wavelet_study(&formula, steps);
    s->same[source] = (source_same){now.signal, file ? now.file : -1};
  }
  free(sorted);
  return e->id;
}

double sources_strength(const config *c) {
  double factor = 1;
  for (int axis = 0; axis < 3 && c->sources_strength == STRENGTH_VOLUME; axis++)
    if (config_axis_of(c, axis).spacing > 0) factor /= config_axis_of(c, axis).spacing;
  return factor;
}

/* The index of a source's signal: the first [source.N] with that signal, or behind them the column of the set. Given
 * sources have their own index. */
static int sources_key(const sources *s, const config *c, int source) {
  if (!s->same) return source;
  if (source < c->source_count) return s->same[source].signal;
  return s->set.columns > 1 ? source : c->source_count;
}

static void sources_make_signal(const sources *s, const config *c, int key, wavelet *w) {
  const bool imposed = sources_imposed(s, c, key);
  const double strength = sources_strength(c);
  if (key >= c->source_count) {
    *w = (wavelet){.kind = WAVELET_FILE, .amplitude = imposed ? 1 : strength, .imposed = imposed};
    source_set_take(&s->set, key - c->source_count, w);
    return;
  }
  const int file = s->same[key].file;
  *w = wavelet_of(&c->sources[key]);
  w->amplitude *= strength;
  if (file >= 0) source_set_take(&s->files[file], 0, w);
}

/* Finds the values of all signals that come from datasets. */
static int sources_find_values(sources *s, const problem *on, error *e) {
  const config *c = on->config;
  const bool imposed = c->sources_mode == SOURCES_IMPOSE;
  int *list, count = 0, first = 0;
  TRY(ALLOC(e, list, s->signal_count, "the sources"));
  for (int i = 0; i < s->signal_count && !e->id; i++) {
    const int key = s->key_of[i], file = key < c->source_count ? s->same[key].file : -1;
    if (key >= c->source_count) list[count++] = key - c->source_count;
    if (file >= 0 && !s->files[file].values[0])
      source_set_find(&s->files[file], &(source_columns){&first, 1, 1, s->dt, 0}, e);
  }
  const int threads = s->set.columns > 1 ? on->files->access->compressors : 1;
  if (count && !e->id)
    source_set_find(&s->set, &(source_columns){list, count, threads, s->dt, imposed ? NAN : 0}, e);
  free(list);
  return e->id;
}

/* Numbers the signals in the order in which this rank's places first use them, so that neighbouring threads read
 * neighbouring values. Unused signals get no number. */
static int sources_number(sources *s, const problem *on, error *e) {
  const config *c = on->config;
  const source_places *w = &s->here;
  int *number;
  const int keys = s->same ? c->source_count + s->set.columns : s->count;
  ALLOC(e, number, keys, "the sources");
  ALLOC(e, s->key_of, keys, "the sources");
  ALLOC(e, s->signals, keys, "the sources");
  ALLOC(e, s->signal_of, s->count, "the sources");
  if (number) memset(number, -1, (size_t)keys * sizeof *number);
  for (int i = 0; number && i < w->count && !e->id; i++) {
    const int source = w->source_of[i], key = sources_key(s, c, source);
    if (number[key] < 0) {
      s->key_of[s->signal_count] = key;
      number[key] = s->signal_count++;
    }
    s->signal_of[source] = sources_imposed(s, c, source) ? ~number[key] : number[key];
  }
  free(number);
  if (!s->same || e->id || sources_find_values(s, on, e)) return e->id;
  for (int i = 0; i < s->signal_count; i++) sources_make_signal(s, c, s->key_of[i], &s->signals[i]);
  return 0;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

void sources_free_places(sources *s) {
  free(s->here.places);
  free(s->here.source_of);
  s->here = (source_places){NULL};
}

void sources_close(sources *s) {
  for (int i = 0; i < s->file_count; i++) source_set_free(&s->files[i]);
  free(s->files);
  sources_free_places(s);
  free(s->same);
  source_set_free(&s->set);
  free(s->positions);
  free(s->uses);
  for (int i = 0; s->injected && s->alike && i < s->signal_count; i++)
    if (s->alike[i] == i) free(s->injected[i]);
  free(s->injected);
  free(s->alike);
  free(s->signal_of);
  free(s->injected_end);
  free(s->signals);
  free(s->key_of);
  *s = (sources){.slab = NULL};
}

/* Finds the positions of all sources. Collective. */
static int sources_place_all(sources *s, const problem *on, error *e) {
  const config *c = on->config;
  ALLOC(e, s->positions, c->source_count, "the sources");
  for (int i = 0; s->positions && i < c->source_count; i++)
    memcpy(s->positions[i], c->sources[i].position, sizeof s->positions[i]);
  s->count = c->source_count;
  TRY(error_agree(e, on->files->compute));
  if (!c->sources_listed) return 0;
  TRY(place_read(on->files, c, c->sources_positions_file, &s->positions, &s->count, e));
  s->set.count = s->count - c->source_count;
  s->set.positions_digest = numbers_digest(s->positions[c->source_count], 3 * (size_t)s->set.count);
  return 0;
}

/* A point on which a source imposes its values. */
typedef struct source_point {
  int z, y, x, source;
} source_point;

static int sources_by_point(const void *a, const void *b) {
  const int *p = a, *q = b;
  for (int i = 0; i < 4; i++)
    if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
  return 0;
}

/* Fails where two sources impose values on one point. */
static int sources_check_imposed(const sources *s, const config *c, error *e) {
  const source_places *w = &s->here;
  source_point *points;
  int count = 0;
  TRY(ALLOC(e, points, w->count, "the sources"));
  for (int i = 0; i < w->count; i++)
    if (s->signal_of[w->source_of[i]] < 0)
      points[count++] = (source_point){w->places[i].z, w->places[i].y, w->places[i].x, w->source_of[i]};
  qsort(points, (size_t)count, sizeof *points, sources_by_point);
  for (int i = 1; i < count && !e->id; i++) {
    const source_point *p = &points[i - 1], *q = &points[i];
    if (p->z == q->z && p->y == q->y && p->x == q->x)
      FAIL(e, SOURCES_TWICE, c->sources_positions_file, p->source - c->source_count,
           q->source - c->source_count);
  }
  free(points);
  return e->id;
}

/* Makes places from positions and signals. Agreed. */
static int sources_lay_out(sources *s, const problem *on, error *e) {
  for (int i = 0; i < s->count && !e->id; i++) sources_spread_one(s, on->config, i, e);
  if (!e->id && !sources_number(s, on, e)) sources_check_imposed(s, on->config, e);
  return error_agree(e, on->files->compute);
}

int sources_plan(sources *s, const problem *on, wavelet_steps steps, error *e) {
  const config *c = on->config;
  sources_close(s);
  s->slab = on->slab, s->transforms = on->transforms, s->dt = steps.dt, s->steps = steps.count;
  s->interpolation = c->sources_interpolation;
  if (!config_has_sources(c)) return 0;
  TRY(sources_place_all(s, on, e));
  TRY(sources_read_named(s, on, steps, e));
  if (s->set.count) TRY(source_set_read(&s->set, on, steps, NULL, e));
  s->uses[c->source_count] = s->set.use;
  TRY(sources_lay_out(s, on, e));
  for (int i = 0; i < s->file_count; i++) source_set_close(&s->files[i]);
  source_set_close(&s->set);
  free(s->same);
  s->same = NULL;
  return 0;
}

int sources_plan_given(sources *s, const problem *on, int count, const double (*positions)[3],
                       enum interpolation_kind how, error *e) {
  sources_close(s);
  s->slab = on->slab, s->count = count, s->interpolation = how;
  ALLOC(e, s->positions, count, "the sources");
  if (!e->id) memcpy(s->positions, positions, (size_t)count * sizeof *positions);
  return sources_lay_out(s, on, e);
}

int sources_check(const sources *s, const config *c, error *e) {
  for (int i = 0; s->uses && i < c->source_count + (s->set.count > 0) && s->steps > 0; i++)
    if (s->uses[i].begin >= s->uses[i].end)
      return FAIL(e, WAVELET_UNUSED,
                  i < c->source_count ? c->sources[i].wavelet_file : c->sources_signals_file,
                  s->dt * (double)(s->steps - 1));
  return 0;
}

double sources_highest(const sources *s, const config *c, char column[SOURCES_COLUMN]) {
  double highest = 0;
  column[0] = 0;
  for (int i = 0; i < c->source_count; i++) highest = fmax(highest, s->uses[i].highest);
  if (s->set.columns > 1 && s->set.use.highest > highest)
    snprintf(column, SOURCES_COLUMN, " of [sources] signals, column %d", s->set.highest_column);
  return fmax(highest, s->set.use.highest);
}

/* The transform of signals for the steps from `begin` to `end` (wavelet_end). */
typedef struct source_transform {
  sources *s;
  int64_t begin, end;
} source_transform;

/* Signals that an earlier part has transformed completely stay. */
static int64_t sources_transform_length(void *context, int64_t i) {
  const source_transform *t = context;
  const wavelet *w = &t->s->signals[i];
  if (t->s->alike[i] != i) return 0;
  const int64_t n = wavelet_length(w, t->s->dt, wavelet_reach(t->end));
  return t->begin && n == wavelet_length(w, t->s->dt, wavelet_reach(t->begin)) ? 0 : n;
}

static void sources_transform_get(void *context, int64_t i, int64_t n, int lane,
                                  double (*x)[FOURIER_SERIES]) {
  const sources *s = ((const source_transform *)context)->s;
  for (int64_t k = 0; k < n; k++) x[k][lane] = wavelet_exact(&s->signals[i], s->dt, k);
}

static void sources_transform_put(void *context, int64_t i, int64_t n, int lane,
                                  double (*x)[FOURIER_SERIES]) {
  const source_transform *t = context;
  for (int64_t k = t->begin; k < t->s->injected_end[i] && k < n; k++)
    t->s->injected[i][k] = (float)x[k][lane];
}

/* Signals of equal columns have the same values. */
static int sources_find_alike(sources *s, error *e) {
  const int named = s->count - s->set.count;
  int *first; /* of each column, the signal + 1 */
  ALLOC(e, s->alike, s->signal_count, "the sources");
  TRY(ALLOC(e, first, s->set.columns, "the sources"));
  for (int i = 0; i < s->signal_count; i++) {
    int *known = s->key_of[i] < named ? NULL : &first[s->set.same[s->key_of[i] - named]];
    s->alike[i] = known && *known ? *known - 1 : i;
    if (known && !*known) *known = i + 1;
  }
  free(first);
  return 0;
}

/* Each signal is transformed over its own length, so that runs of different lengths agree on their common steps. */
int sources_transform(sources *s, int64_t steps, int threads, error *e) {
  const size_t count = (size_t)s->signal_count;
  if (count == 0) return 0;
  TRY(ALLOC(e, s->injected, count, "the sources"));
  TRY(ALLOC(e, s->injected_end, count, "the sources"));
  TRY(sources_find_alike(s, e));
  for (int i = 0; i < s->signal_count; i++) {
    const int64_t n = s->injected_end[i] = wavelet_length(&s->signals[i], s->dt, larger64(steps, 1));
    if (s->alike[i] < i)
      s->injected[i] = s->injected[s->alike[i]];
    else
      TRY(ALLOC(e, s->injected[i], n, "the sources"));
  }
  source_transform t = {.s = s, .end = WAVELET_FIRST_END};
  const dispersion_series all = {.kind = DISPERSION_SOURCE,
                                 .every = 1,
                                 .count = s->signal_count,
                                 .kept = s->transforms,
                                 .context = &t,
                                 .length = sources_transform_length,
                                 .get = sources_transform_get,
                                 .put = sources_transform_put};
  for (; t.begin < steps; t.begin = t.end, t.end *= 2) TRY(dispersion_transform(&all, threads, e));
  for (int i = 0; i < s->file_count; i++) source_set_free_values(&s->files[i]);
  source_set_free_values(&s->set);
  return 0;
}

/* --- a step ----------------------------------------------------------------------------------------------------- */

/* Are all given signals 0 at a step? */
static bool sources_given_none(const sources_given *g, int64_t step) {
  const int64_t of = g->last - step;
  return of < 0 || of > g->last || of % g->every;
}

static float sources_given_value(const sources *s, int i, int64_t step) {
  const sources_given *g = &s->given;
  return sources_given_none(g, step) ? 0 : g->values[(g->last - step) / g->every * s->signal_count + i];
}

float sources_value(const sources *s, int i, int64_t step) {
  if (s->given.values) return sources_given_value(s, i, step);
  if (!s->injected) return wavelet_value(&s->signals[i], s->dt, step);
  return step >= 0 && step < s->injected_end[i] ? s->injected[i][step] : 0;
}

float sources_injected(const sources *s, int source, int64_t step) {
  return sources_value(s, s->signal_of[source], step);
}

bool sources_silent(const sources *s, int64_t step) {
  return s->signal_count == 0 || (s->given.values && sources_given_none(&s->given, step));
}
