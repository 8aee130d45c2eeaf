#include "maps.h"
#include <math.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "kernels/operations/operation.h"

static const double PI = 3.14159265358979323846;
/* Of sums over frequencies until they are written: so sums over many steps of great fields stay in the range of float32. */
static const double SCALE = 0x1p-16;

/* --- which steps ------------------------------------------------------------------------------------------------- */

/* The steps that count: multiples of `every` in [first, last]. */
typedef struct maps_window {
  int64_t first, last, every;
} maps_window;

/* The steps have frequency f at another one, 2 asin(pi f dt) / dt over 2 pi, and a time of its waves earlier: at this
 * part of it. Where traces are corrected for that (exact_time.h), sums of frequencies are too. */
static double maps_part_of_time(const shot *s, double f) {
  return s->receivers.time.removed ? exact_time_part(f, s->engine->physics.dt) : 1;
}

bool maps_end_with_run(const shot *s) {
  const config *c = s->config;
  return config_frequencies(c) && s->receivers.time.removed && c->maps_from > 0 && !(c->maps_until > 0);
}

/* The window, in steps, of waves that come at this part of their time. */
static maps_window maps_window_of(const shot *s, double part) {
  const double SLACK = 1e-9; /* of a step: a time is often a product that was rounded */
  const double MOST = 1e18;
  const config *c = s->config;
  const double dt = s->engine->physics.dt / part;
  const int64_t every = c->maps_every, from = (int64_t)fmin(MOST, ceil(c->maps_from / dt - SLACK));
  double until = c->maps_until > 0 ? fmin(MOST, ceil(c->maps_until / dt - SLACK) - 1) : MOST;
  if (part < 1 && maps_end_with_run(s)) until = floor((double)s->engine->physics.steps * part + SLACK);
  const bool beyond = from && every > (int64_t)MOST;
  return (maps_window){beyond ? (int64_t)MOST : (from + every - 1) / every * every, (int64_t)until, every};
}

/* How many of them there are up to `step`. */
static int64_t maps_count(const maps_window *w, int64_t step) {
  const int64_t last = step < w->last ? step : w->last;
  return last < w->first ? 0 : (last - w->first) / w->every + 1;
}

/* The steps that any of a shot's maps takes, or may take for other shots of its stack. */
static maps_window maps_window_of_all(const shot *s) {
  maps_window w = maps_window_of(s, 1);
  double least = 1;
  for (int f = 0; f < config_frequencies(s->config); f++)
    least = fmin(least, exact_time_part(s->config->maps_dft[f], s->engine->physics.dt));
  w.first = maps_window_of(s, least).first;
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

/* Factors of a step in the sums of frequencies, without the time that it stands for. */
static void maps_turn(const shot *s, int64_t step, maps_args *a) {
  const double dt = s->engine->physics.dt;
  for (int f = 0; f < a->frequencies; f++) {
    const double turn = PI * s->config->maps_dft[f] * dt, part = maps_part_of_time(s, s->config->maps_dft[f]);
    const maps_window w = maps_window_of(s, part);
    const double angle = 2 * (part < 1 ? asin(turn) : turn) * (double)step, counts = maps_counts(&w, step);
    a->cosine[f] = (float)(counts * SCALE * cos(angle)), a->sine[f] = (float)(counts * SCALE * -sin(angle));
  }
}

/* Rows of a stack may differ in what frequencies add. */
static int maps_apply(const shot *s, int64_t step, const maps_args *all, error *e) {
  const int rows = all->frequencies ? s->row_count : 0;
  for (int i = 0; i < larger(rows, 1) && !e->id; i++) {
    const size_t at = (size_t)i * all->pitch;
    maps_args a = *all;
    float **const own[] = {&a.max, &a.min, &a.square, &a.square_low};
    maps_turn(rows ? s->rows[i] : s, step, &a);
    if (rows) a.ny = 1, a.field += at, a.sigma += a.sigma ? at : 0;
    for (int k = 0; k < 4; k++) *own[k] += *own[k] ? at : 0;
    for (int f = 0; f < a.frequencies; f++) a.real[f] += at, a.imaginary[f] += at;
    s->dev->table->apply(s->dev, s->maps_stream, &operation_maps, &a, e);
  }
  return e->id;
}

static int maps_look(void *self, const float *field, int64_t step, int stream, error *e) {
  shot *s = self;
  const maps_window all = maps_window_of_all(s), w = maps_window_of(s, 1);
  const kernel_args *k = &s->stepper.args;
  float *own[MAP_FIELDS];
  if (!maps_counts(&all, step)) return 0;
  for (int i = 0; i < MAP_FIELDS; i++)
    own[i] = s->map[i] && (i >= MAP_DFT || maps_counts(&w, step))
                 ? s->map[i] + slab_offset(&s->engine->slab, 0, 0, 0)
                 : NULL;
  maps_args a = {.field = field,
                 .sigma = k->terms.sigma,
                 .max = own[MAP_MAX],
                 .min = own[MAP_MIN],
                 .square = own[MAP_SQUARE],
                 .square_low = own[MAP_SQUARE_LOW],
                 .frequencies = config_frequencies(s->config),
                 .pitch = k->pitch,
                 .plane = k->plane,
                 .nx = k->nx,
                 .ny = k->ny,
                 .nz = k->nz};
  for (int f = 0; f < a.frequencies; f++)
    a.real[f] = own[MAP_DFT + 2 * f], a.imaginary[f] = own[MAP_DFT + 2 * f + 1];
  s->maps_stream = stream;
  return maps_apply(s, step, &a, e);
}

int maps_settle(const shot *s, error *e) {
  return config_has_maps(s->config) ? s->dev->table->sync(s->dev, s->maps_stream, e) : 0;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

/* One of its datasets, or one frequency of /dft. */
typedef struct maps_part {
  const shot *s;
  enum map_field field;
  double count, weight; /* of steps; time that each stands for in a sum of frequencies, s */
} maps_part;

static int maps_bring(const shot *s, int field, int z, int planes, float *values, error *e) {
  return shot_bring(s, (s->lead ? s->lead : s)->map[field], z, planes, values, e);
}

/* A field_source. */
static int maps_planes(void *context, int z, int planes, float *values, error *e) {
  const maps_part *p = context;
  const slab *b = &p->s->engine->files_slab;
  const size_t points = (size_t)b->nx * (size_t)b->ny * (size_t)planes;
  TRY(maps_bring(p->s, p->field, z, planes, values, e));
  if (p->field < MAP_SQUARE) return 0;
  float *other;
  TRY(ALLOC(e, other, points, "planes of a map"));
  maps_bring(p->s, p->field + 1, z, planes, other, e);
  if (p->field == MAP_SQUARE)
    for (size_t i = 0; i < points; i++) values[i] = (float)sqrt(maps_join(values[i], other[i]) / p->count);
  else
    for (size_t i = points; i-- > 0;)
      values[2 * i + 1] = (float)(other[i] * p->weight), values[2 * i] = (float)(values[i] * p->weight);
  free(other);
  return e->id;
}

/* The steps that have counted up to `step`, each of which stands for the time to the next. */
static field_window maps_counted(const shot *s, int64_t step) {
  const maps_window w = maps_window_of(s, 1);
  const double dt = s->engine->physics.dt;
  const int64_t steps = maps_count(&w, step);
  return (field_window){steps, dt * (double)w.first, dt * (double)(w.first + steps * w.every)};
}

/* The datasets that are asked for, and their parts. Returns how many datasets. */
static int maps_list(const shot *s, field_name names[], maps_part parts[], int64_t steps) {
  const config *c = s->config;
  const maps_part all = {s, MAP_MAX, (double)steps, s->engine->physics.dt * (double)c->maps_every / SCALE};
  static const char *const LONG[MAP_QUANTITIES] = {"greatest value", "least value", "root mean square"};
  const int frequencies = config_frequencies(c);
  int count = 0;
  for (int i = 0; i < MAP_QUANTITIES; i++) {
    if (!config_maps(c, i)) continue;
    parts[count] = all;
    parts[count].field = (enum map_field)i;
    names[count++] = (field_name){MAP_NAMES[i], "1", LONG[i], 0};
  }
  for (int f = 0; f < frequencies; f++) {
    parts[count + f] = all, parts[count + f].field = MAP_DFT + 2 * f;
    parts[count + f].weight /= maps_part_of_time(s, c->maps_dft[f]);
  }
  if (!frequencies) return count;
  names[count] = (field_name){"dft", "s", "sum of u exp(-i 2 pi f t) dt", frequencies};
  return count + 1;
}

static int maps_write(void *self, const char *path, const run_meta *run, error *e) {
  enum { PARTS = MAP_QUANTITIES + MAP_FREQUENCIES };
  shot *s = self;
  const config *c = s->config;
  field_name names[MAP_QUANTITIES + 1];
  maps_part parts[PARTS];
  field_planes planes[PARTS];
  const field_window counted = maps_counted(s, run->step);
  const int count = maps_list(s, names, parts, counted.steps);
  for (int i = 0; i < PARTS; i++) planes[i] = (field_planes){maps_planes, &parts[i]};
  const field_meta meta = {.run = *run,
                           .origin = {c->origin[0], c->origin[1], c->origin[2]},
                           .spacing = {c->dx, c->dy, c->dz},
                           .ending = MAPS_ENDING,
                           .fields = count,
                           .names = names,
                           .frequencies = c->maps_dft,
                           .counted = counted};
  const request_own own = {.io = &s->io, .planes = planes};
  const request all = {FILES_WRITE_FIELD, .path = path, .field = &meta, .own = own};
  /* A device may fail alone. */
  if (!s->lead && maps_settle(s, e)) error_abort(e, s->engine->comm);
  return s->row_count ? e->id : files_do(s->engine->files, &all, e);
}

/* --- planning ---------------------------------------------------------------------------------------------------- */

double maps_bytes(const shot *s) {
  const double one = (double)slab_floats(&s->engine->slab) * sizeof(float);
  field_set f;
  double bytes = 0;
  shot_fields(s, &f);
  for (int i = 0; i < f.count; i++) bytes += f.list[i].role == FIELD_MAP ? one : 0;
  return bytes;
}

double maps_file_bytes(const config *c) {
  int floats = 2 * config_frequencies(c);
  for (int i = 0; i < MAP_QUANTITIES; i++) floats += config_maps(c, i);
  return floats * config_points(c) * sizeof(float);
}

int maps_observe(shot *s, error *e) {
  const maps_window w = maps_window_of(s, 1);
  const physics *p = &s->engine->physics;
  const double apart = p->dt * (double)w.every;
  if (!config_has_maps(s->config)) return 0;
  if (maps_count(&w, p->steps) == 0) return FAIL(e, MAPS_WINDOW, p->dt * (double)p->steps);
  for (int f = 0; f < config_frequencies(s->config); f++)
    if (s->config->maps_dft[f] * apart > 0.5)
      return FAIL(e, MAPS_RARE, s->config->maps_dft[f], apart, 0.5 / apart);
  s->observers.list[s->observers.count++] =
      (observer){.self = s, .limit = maps_limit, .look = maps_look, .finish = maps_write};
  return 0;
}
