#include "maps.h"
#include <math.h>
#include <stdlib.h>
#include "kernels/operations/operation.h"

static const double PI = 3.14159265358979323846;
/* The factor of the frequencies' sums until they are written. It keeps sums of large values over many steps in the
 * range of float32. */
static const double SCALE = 0x1p-16;

/* --- which steps ------------------------------------------------------------------------------------------------- */

/* The steps that count: multiples of `every` in [first, last]. */
typedef struct maps_window {
  int64_t first, last, every;
} maps_window;

/* Time steps shift frequency f to 2 asin(pi f dt) / dt over 2 pi, and its waves arrive early: at this part of their
 * time. Where traces are corrected for that (exact_time.h), sums of frequencies are too. */
static double maps_part_of_time(const engine *g, const acquisition *a, double f) {
  return a->receivers.time.removed ? exact_time_part(f, g->physics.dt) : 1;
}

bool maps_end_with_run(const acquisition *a) {
  const config *c = a->config;
  return config_frequencies(c) && a->receivers.time.removed && c->maps_from > 0 && !(c->maps_until > 0);
}

/* The window, in steps, for waves that arrive at `part` of their time. */
static maps_window maps_window_of(const engine *g, const acquisition *a, double part) {
  const double SLACK = 1e-9; /* of a step: a time is often a product that was rounded */
  const double MOST = 1e18;
  const config *c = a->config;
  const double dt = g->physics.dt / part;
  const int64_t every = c->maps_every, from = (int64_t)fmin(MOST, ceil(c->maps_from / dt - SLACK));
  double until = c->maps_until > 0 ? fmin(MOST, ceil(c->maps_until / dt - SLACK) - 1) : MOST;
  if (part < 1 && maps_end_with_run(a)) until = floor((double)g->physics.steps * part + SLACK);
  const bool beyond = from && every > (int64_t)MOST;
  return (maps_window){beyond ? (int64_t)MOST : (from + every - 1) / every * every, (int64_t)until, every};
}

/* How many steps of the window there are up to `step`. */
static int64_t maps_count(const maps_window *w, int64_t step) {
  const int64_t last = step < w->last ? step : w->last;
  return last < w->first ? 0 : (last - w->first) / w->every + 1;
}

/* The steps that any map of any shot may need. */
static maps_window maps_window_of_all(const propagator *p) {
  const acquisition any = {.config = p->config};
  maps_window w = maps_window_of(p->engine, &any, 1);
  double least = 1;
  for (int f = 0; f < config_frequencies(p->config); f++)
    least = fmin(least, exact_time_part(p->config->maps_dft[f], p->engine->physics.dt));
  w.first = maps_window_of(p->engine, &any, least).first;
  return w;
}

static int64_t maps_limit(const void *self, int64_t step) {
  const maps_window w = maps_window_of_all(self);
  const int64_t next = step < w.first ? w.first : (step / w.every + 1) * w.every;
  return next > w.last ? INT64_MAX : next - step;
}

/* --- looking ----------------------------------------------------------------------------------------------------- */

static bool maps_counts(const maps_window *w, int64_t step) {
  return step >= w->first && step <= w->last && step % w->every == 0;
}

/* Factors of a step in a shot's sums of frequencies, without the time that it stands for. */
static void maps_turn(const engine *g, const acquisition *shot, int64_t step, maps_args *a) {
  const config *c = shot->config;
  for (int f = 0; f < a->frequencies; f++) {
    const double half_angle = PI * c->maps_dft[f] * g->physics.dt,
                 part = maps_part_of_time(g, shot, c->maps_dft[f]);
    const maps_window w = maps_window_of(g, shot, part);
    const double angle = 2 * (part < 1 ? asin(half_angle) : half_angle) * (double)step,
                 counts = maps_counts(&w, step);
    a->cosine[f] = (float)(counts * SCALE * cos(angle)), a->sine[f] = (float)(counts * SCALE * -sin(angle));
  }
}

/* Shots may differ in the factors of frequencies, so each then needs a launch; otherwise one launch does all shots. */
static int maps_apply(const propagator *p, int64_t step, const maps_args *all, error *e) {
  const int times = all->frequencies ? p->count : 1, rows = all->ny / times;
  for (int i = 0; i < times && !e->id; i++) {
    const size_t at = (size_t)(i * rows) * all->pitch;
    maps_args a = *all;
    float **const own[] = {&a.max, &a.min, &a.square, &a.square_low};
    maps_turn(p->engine, p->shots[i], step, &a);
    a.ny = rows, a.field += at, a.sigma += a.sigma ? at : 0;
    for (int k = 0; k < 4; k++) *own[k] += *own[k] ? at : 0;
    for (int f = 0; f < a.frequencies; f++) a.real[f] += at, a.imaginary[f] += at;
    p->dev->table->apply(p->dev, p->maps_stream, &operation_maps, &a, e);
  }
  return e->id;
}

static int maps_look(void *self, const float *field, int64_t step, int stream, error *e) {
  propagator *p = self;
  const maps_window all = maps_window_of_all(p),
                    w = maps_window_of(p->engine, &(acquisition){.config = p->config}, 1);
  const kernel_args *k = &p->stepper.args;
  float *own[MAP_FIELDS];
  if (!maps_counts(&all, step)) return 0;
  for (int i = 0; i < MAP_FIELDS; i++)
    own[i] = p->map[i] && (i >= MAP_DFT || maps_counts(&w, step))
                 ? p->map[i] + slab_offset(&p->engine->slab, 0, 0, 0)
                 : NULL;
  maps_args a = {.field = field,
                 .sigma = k->terms.sigma,
                 .max = own[MAP_MAX],
                 .min = own[MAP_MIN],
                 .square = own[MAP_SQUARE],
                 .square_low = own[MAP_SQUARE_LOW],
                 .frequencies = config_frequencies(p->config),
                 .pitch = k->pitch,
                 .plane = k->plane,
                 .nx = k->nx,
                 .ny = k->ny,
                 .nz = k->nz};
  for (int f = 0; f < a.frequencies; f++)
    a.real[f] = own[MAP_DFT + 2 * f], a.imaginary[f] = own[MAP_DFT + 2 * f + 1];
  p->maps_stream = stream;
  return maps_apply(p, step, &a, e);
}

int maps_settle(const propagator *p, error *e) {
  return config_has_maps(p->config) ? p->dev->table->sync(p->dev, p->maps_stream, e) : 0;
}

/* --- results ------------------------------------------------------------------------------------------------------ */

/* A field_source. */
static int maps_planes(void *context, int z, int planes, float *values, error *e) {
  const maps_part *m = context;
  const propagator *p = m->p;
  const slab *b = &p->engine->files_slab;
  const size_t points = (size_t)b->nx * (size_t)b->ny * (size_t)planes;
  TRY(propagator_bring(p, m->i, p->map[m->field], z, planes, values, e));
  if (m->field < MAP_SQUARE) return 0;
  float *other;
  TRY(ALLOC(e, other, points, "planes of a map"));
  propagator_bring(p, m->i, p->map[m->field + 1], z, planes, other, e);
  if (m->field == MAP_SQUARE)
    for (size_t i = 0; i < points; i++) values[i] = (float)sqrt(maps_join(values[i], other[i]) / m->count);
  else
    for (size_t i = points; i-- > 0;)
      values[2 * i + 1] = (float)(other[i] * m->weight), values[2 * i] = (float)(values[i] * m->weight);
  free(other);
  return e->id;
}

void maps_find(const propagator *p, int i, int64_t step, maps_found *m) {
  static const char *const LONG[MAP_QUANTITIES] = {"greatest value", "least value", "root mean square"};
  const acquisition *a = p->shots[i];
  const config *c = a->config;
  const double dt = p->engine->physics.dt;
  const maps_window w = maps_window_of(p->engine, a, 1);
  const int64_t steps = maps_count(&w, step);
  const maps_part all = {p, i, MAP_MAX, (double)steps, dt * (double)c->maps_every / SCALE};
  const int frequencies = config_frequencies(c);
  m->window = (field_window){steps, dt * (double)w.first, dt * (double)(w.first + steps * w.every)};
  m->count = 0;
  for (int k = 0; k < MAPS_PARTS; k++) m->planes[k] = (field_planes){maps_planes, &m->parts[k]};
  for (int k = 0; k < MAP_QUANTITIES; k++) {
    if (!config_maps(c, k)) continue;
    m->parts[m->count] = all;
    m->parts[m->count].field = (enum map_field)k;
    m->names[m->count++] = (field_name){MAP_NAMES[k], "1", LONG[k], 0};
  }
  for (int f = 0; f < frequencies; f++) {
    maps_part *part = &m->parts[m->count + f];
    *part = all, part->field = MAP_DFT + 2 * f;
    part->weight /= maps_part_of_time(p->engine, a, c->maps_dft[f]);
  }
  if (frequencies)
    m->names[m->count++] = (field_name){"dft", "s", "sum of u exp(-i 2 pi f t) dt", frequencies};
}

/* --- planning ---------------------------------------------------------------------------------------------------- */

double maps_bytes(const propagator *p) {
  const double one = (double)slab_floats(&p->engine->slab) * sizeof(float);
  field_set f;
  double bytes = 0;
  propagator_fields(p, &f);
  for (int i = 0; i < f.count; i++) bytes += f.list[i].role == FIELD_MAP ? one : 0;
  return bytes;
}

double maps_file_bytes(const config *c) {
  int floats = 2 * config_frequencies(c);
  for (int i = 0; i < MAP_QUANTITIES; i++) floats += config_maps(c, i);
  return (double)floats * c->nx * c->ny * c->nz * sizeof(float);
}

int maps_check(const engine *g, const acquisition *a, error *e) {
  const config *c = a->config;
  const maps_window w = maps_window_of(g, a, 1);
  const physics *p = &g->physics;
  const double apart = p->dt * (double)w.every;
  if (!config_has_maps(c)) return 0;
  if (maps_count(&w, p->steps) == 0) return FAIL(e, MAPS_WINDOW, p->dt * (double)p->steps);
  for (int f = 0; f < config_frequencies(c); f++)
    if (c->maps_dft[f] * apart > 0.5) return FAIL(e, MAPS_RARE, c->maps_dft[f], apart, 0.5 / apart);
  return 0;
}

void maps_observe(propagator *p) {
  if (!config_has_maps(p->config)) return;
  p->observers.list[p->observers.count++] = (observer){.self = p, .limit = maps_limit, .look = maps_look};
}
