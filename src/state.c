#include "state.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error_mpi.h"
#include "mix.h"

enum { ARRAYS_MAX = ABSORB_STATES + 4, KEYS_TEXT = 1 << 16 };

/* --- the fingerprint: what a run must share with the checkpoint it goes on from ---------------------------------- */

typedef struct fingerprint {
  checkpoint_key *keys;
  int count, room;
} fingerprint;

static void fingerprint_free(fingerprint *f) {
  for (int i = 0; i < f->count; i++) {
    free((char *)(uintptr_t)f->keys[i].key);
    free((char *)(uintptr_t)f->keys[i].value);
  }
  free(f->keys);
}

static void add_key(fingerprint *f, error *e, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void add_key(fingerprint *f, error *e, const char *key, const char *format, ...) {
  va_list args;
  if (e->id) return;
  if (f->count == f->room) {
    int room = 2 * f->room + 32;
    checkpoint_key *keys = realloc(f->keys, (size_t)room * sizeof *keys);
    if (!keys) {
      FAIL(e, OUT_OF_MEMORY, (size_t)room * sizeof *keys, "the fingerprint of the run");
      return;
    }
    f->keys = keys, f->room = room;
  }
  char *name = strdup(key), *text = NULL;
  va_start(args, format);
  int length = name ? vasprintf(&text, format, args) : -1;
  va_end(args);
  if (length < 0) {
    free(name);
    FAIL(e, OUT_OF_MEMORY, strlen(key), "the fingerprint of the run");
    return;
  }
  f->keys[f->count++] = (checkpoint_key){name, text};
}

static const char *const FACE_KEYS[FACE_COUNT] = {"[boundary] x_lo", "[boundary] x_hi", "[boundary] y_lo",
                                                  "[boundary] y_hi", "[boundary] z_lo", "[boundary] z_hi"};

static void add_boundaries(fingerprint *f, const config *c, error *e) {
  for (int i = 0; i < FACE_COUNT; i++) {
    const char *name = boundary_name(c->boundary[i]);
    if (c->boundary[i] == BOUNDARY_FIXED)
      add_key(f, e, FACE_KEYS[i], "%s %.17g", name, c->boundary_value);
    else if (c->boundary[i] == BOUNDARY_ABSORBING)
      add_key(f, e, FACE_KEYS[i], "%s %d", name, c->boundary_width);
    else
      add_key(f, e, FACE_KEYS[i], "%s", name);
  }
}

static void add_physics(fingerprint *f, const simulation *s, error *e) {
  const config *c = s->config;
  add_key(f, e, "[time] dt", "%.17g", s->physics.dt);
  if (c->equation == EQUATION_JACOBI) {
    add_key(f, e, "[jacobi] center", "%.17g", c->jacobi_center);
    const double *axes[3] = {c->jacobi_x, c->jacobi_y, c->jacobi_z};
    const char *const keys[3] = {"[jacobi] x", "[jacobi] y", "[jacobi] z"};
    for (int i = 0; i < 3; i++)
      add_key(f, e, keys[i], "%.17g %.17g %.17g %.17g", axes[i][0], axes[i][1], axes[i][2], axes[i][3]);
    return;
  }
  double number;
  const char *key = c->equation == EQUATION_HEAT ? "[medium] diffusivity" : "[medium] velocity";
  if (physics_medium(c, &number))
    add_key(f, e, key, "field from %.9g to %.9g, digest %016" PRIx64, s->physics.medium_min,
            s->physics.medium_max, s->physics.medium_digest);
  else
    add_key(f, e, key, "%.17g", number);
  add_key(f, e, "[equation] space_order", "%d", c->space_order);
}

static void add_sources(fingerprint *f, const config *c, error *e) {
  for (int i = 0; i < c->source_count; i++) {
    const source_config *s = &c->sources[i];
    char key[32];
    snprintf(key, sizeof key, "[source.%d]", s->number);
    add_key(f, e, key, "%.17g %.17g %.17g, wavelet %d %s, f0 %.17g, t0 %.17g, amplitude %.17g",
            s->position[0], s->position[1], s->position[2], (int)s->wavelet, s->wavelet_file, s->f0, s->t0,
            s->amplitude);
  }
}

/* A digest of `count` numbers and their order. */
static uint64_t digest(const double *values, int count) {
  uint64_t sum = 0;
  for (int i = 0; i < count; i++) {
    uint64_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    sum = mix64(sum ^ bits);
  }
  return sum;
}

static void make_fingerprint(fingerprint *f, const simulation *s, error *e) {
  const config *c = s->config;
  const receivers *r = &s->receivers;
  *f = (fingerprint){0};
  add_key(f, e, "[grid] nx", "%d", c->nx);
  add_key(f, e, "[grid] ny", "%d", c->ny);
  add_key(f, e, "[grid] nz", "%d", c->nz);
  add_key(f, e, "[grid] dx dy dz", "%.17g %.17g %.17g", c->dx, c->dy, c->dz);
  add_key(f, e, "[grid] origin", "%.17g %.17g %.17g", c->origin[0], c->origin[1], c->origin[2]);
  add_key(f, e, "[equation] type", "%s", equation_name(c->equation));
  add_physics(f, s, e);
  add_boundaries(f, c, e);
  add_sources(f, c, e);
  if (s->stepper.receivers)
    add_key(f, e, "[receivers]", "%d, every %" PRId64 ", positions %016" PRIx64, r->count, r->every,
            digest(&r->positions[0][0], 3 * r->count));
}

/* --- arrays ----------------------------------------------------------------------------------------------------- */

/* A field of the slab. */
typedef struct field_part {
  transfer *transfer;
  float *memory;
  int z0;
} field_part;

static int field_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  field_part *p = context;
  p->transfer->field = p->memory;
  return transfer_to_host(p->transfer, (int)(row - p->z0), (int)rows, values, e);
}

static int field_to(void *context, int64_t row, int64_t rows, const void *values, error *e) {
  field_part *p = context;
  p->transfer->field = p->memory;
  return transfer_to_device(p->transfer, (int)(row - p->z0), (int)rows, values, e);
}

/* A layer's memory, which lies in slices; a rank's slices follow each other. */
typedef struct layer_part {
  device *dev;
  absorb_state state;
} layer_part;

static int layer_copy(layer_part *p, int64_t row, void *values, bool in, error *e) {
  const absorb_state *s = &p->state;
  const size_t plane = (size_t)s->shape[1] * (size_t)s->shape[2];
  const device_table *t = p->dev->table;
  for (int i = 0; i < s->count; i++) {
    const absorb_slice *l = &s->slices[i];
    if (row < l->global || row >= l->global + l->held) continue;
    float *on_device = s->values + (size_t)(l->local + (row - l->global)) * plane;
    TRY(t->copy(p->dev, STREAM_BOUNDARY, in ? (void *)on_device : values, in ? values : (void *)on_device,
                plane * sizeof(float), in ? COPY_TO_DEVICE : COPY_TO_HOST, e));
    return t->sync(p->dev, STREAM_BOUNDARY, e);
  }
  return 0;
}

static int layer_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  layer_part *p = context;
  const size_t plane = (size_t)p->state.shape[1] * (size_t)p->state.shape[2];
  for (int64_t i = 0; i < rows; i++)
    TRY(layer_copy(p, row + i, (float *)values + (size_t)i * plane, false, e));
  return 0;
}

static int layer_to(void *context, int64_t row, int64_t rows, const void *values, error *e) {
  layer_part *p = context;
  const size_t plane = (size_t)p->state.shape[1] * (size_t)p->state.shape[2];
  for (int64_t i = 0; i < rows; i++)
    TRY(layer_copy(p, row + i, (float *)(uintptr_t)values + (size_t)i * plane, true, e));
  return 0;
}

static int traces_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const receivers *r = context;
  (void)e;
  memcpy(values, r->traces + (size_t)row * (size_t)r->local, (size_t)rows * (size_t)r->local * sizeof(float));
  return 0;
}

static int traces_to(void *context, int64_t row, int64_t rows, const void *values, error *e) {
  receivers *r = context;
  (void)e;
  memcpy(r->traces + (size_t)row * (size_t)r->local, values, (size_t)rows * (size_t)r->local * sizeof(float));
  return 0;
}

static int series_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const simulation *s = context;
  (void)e;
  for (int64_t i = 0; i < rows; i++) ((int64_t *)values)[i] = s->series[row + i].step;
  return 0;
}

/* Only those that are still there: the run may save under another path than the one before it. */
static int series_to(void *context, int64_t row, int64_t rows, const void *values, error *e) {
  simulation *s = context;
  (void)row;
  for (int64_t i = 0; i < rows; i++) TRY(simulation_list(s, ((const int64_t *)values)[i], e));
  return 0;
}

/* Everything that a run's next step depends on, and what its outputs have been so far. */
typedef struct state {
  checkpoint_array arrays[ARRAYS_MAX];
  int count;
  field_part fields[2];
  layer_part layers[ABSORB_STATES];
} state;

static void add_field(state *t, simulation *s, const char *name, float *memory) {
  const slab *z = &s->slab;
  field_part *part = &t->fields[t->count];
  *part = (field_part){&s->transfer, memory, z->z0};
  t->arrays[t->count++] = (checkpoint_array){.name = name,
                                             .type = CHECKPOINT_FLOAT,
                                             .axes = 3,
                                             .shape = {z->nz_global, z->ny, z->nx},
                                             .first = z->z0,
                                             .count = z->nz,
                                             .source = field_from,
                                             .sink = field_to,
                                             .context = part};
}

/* Written are the planes that are this slab's own, read all it holds. */
static void add_layers(state *t, simulation *s, bool write) {
  absorb_state states[ABSORB_STATES];
  int count = absorb_states(&s->absorb, states);
  for (int i = 0; i < count; i++) {
    layer_part *part = &t->layers[i];
    *part = (layer_part){s->dev, states[i]};
    const absorb_state *a = &part->state;
    checkpoint_array *array = &t->arrays[t->count++];
    *array = (checkpoint_array){.name = a->name,
                                .type = CHECKPOINT_FLOAT,
                                .axes = 3,
                                .shape = {a->shape[0], a->shape[1], a->shape[2]},
                                .source = layer_from,
                                .sink = layer_to,
                                .context = part};
    for (int k = 0; k < a->count; k++) {
      const absorb_slice *l = &a->slices[k];
      int first = write ? l->global + l->own : l->global, planes = write ? l->owned : l->held;
      if (planes && !array->count) array->first = first;
      array->count += planes;
    }
  }
}

static void describe_state(state *t, simulation *s, bool write) {
  receivers *r = &s->receivers;
  const stepper *p = &s->stepper;
  *t = (state){0};
  add_field(t, s, "u", p->memory[p->current]);
  if (s->config->equation == EQUATION_WAVE) add_field(t, s, "previous", p->memory[!p->current]);
  add_layers(t, s, write);
  if (p->receivers)
    t->arrays[t->count++] = (checkpoint_array){.name = "traces",
                                               .type = CHECKPOINT_FLOAT,
                                               .axes = 2,
                                               .shape = {r->taken, r->count},
                                               .by_columns = true,
                                               .columns = r->index,
                                               .column_count = r->local,
                                               .source = traces_from,
                                               .sink = traces_to,
                                               .context = r};
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void add_series(state *t, simulation *s, int64_t count) {
  t->arrays[t->count++] = (checkpoint_array){.name = "saved_steps",
                                             .type = CHECKPOINT_INT64,
                                             .axes = 1,
                                             .shape = {count},
                                             .count = s->rank == 0 ? count : 0,
                                             .source = series_from,
                                             .sink = series_to,
                                             .context = s};
}

static int write_state(simulation *s, state *t, const fingerprint *f, error *e) {
  const config *c = s->config;
  const checkpoint_place place = {
      .path = c->checkpoint_path, .keep = c->checkpoint_keep, .compress = c->compress};
  const checkpoint_meta meta = {.step = s->stepper.step,
                                .time = (double)s->stepper.step * s->physics.dt,
                                .dt = s->physics.dt,
                                .mpi_ranks = s->ranks,
                                .equation = equation_name(c->equation),
                                .backend = backend_name(s->dev->table->backend),
                                .kernel = s->stepper.kernel->name,
                                .transport = s->halo.transport->name,
                                .config_text = s->config_text,
                                .command = s->command,
                                .keys = f->keys,
                                .key_count = f->count};
  return checkpoint_write(s->comm, &place, &meta, t->arrays, t->count, e);
}

double state_seconds(const simulation *s) {
  const double SLOW_DISK = 2e8; /* bytes/s */
  const slab *z = &s->slab;
  return 0.5 + 2.0 * z->nx * z->ny * z->nz_global * sizeof(float) / SLOW_DISK;
}

int state_save(simulation *s, error *e) {
  fingerprint f;
  state t;
  int64_t saved = s->series_count;
  TRY(simulation_check(s, e));
  double begin = MPI_Wtime();
  watchdog_tell(s->stepper.watch, WATCH_NOT, s->stepper.step);
  if (s->stepper.receivers && receivers_flush(&s->receivers, e)) error_abort(e, s->comm);
  MPI_TRY(e, MPI_Bcast(&saved, 1, MPI_INT64_T, 0, s->comm));
  describe_state(&t, s, true);
  add_series(&t, s, saved);
  make_fingerprint(&f, s, e);
  error_agree(e, s->comm);
  if (!e->id) write_state(s, &t, &f, e);
  fingerprint_free(&f);
  watchdog_tell(s->stepper.watch, WATCH_COMPUTE, s->stepper.step);
  s->checkpoint_seconds = MPI_Wtime() - begin;
  s->io_seconds += s->checkpoint_seconds;
  if (!e->id)
    log_line(s->log, "checkpoint %s.%08lld.h5 (%.1f s)", s->config->checkpoint_path,
             (long long)s->stepper.step, s->checkpoint_seconds);
  return e->id;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static void tell_skipped(void *context, const char *file, const char *reason) {
  (void)file; /* the reason names it */
  log_line(context, "warning: passed over: %s", reason);
}

int state_open(checkpoint *c, const char *restart, const config *cfg, run_log *log, MPI_Comm comm, error *e) {
  if (strcmp(restart, "auto") != 0) return checkpoint_open(c, comm, restart, e);
  TRY(checkpoint_open_newest(c, comm, cfg->checkpoint_path, tell_skipped, log, e));
  if (!c->name[0]) log_line(log, "restart auto: no checkpoint %s.*.h5: from the start", cfg->checkpoint_path);
  return 0;
}

static int match(simulation *s, const checkpoint *c, error *e) {
  fingerprint f;
  make_fingerprint(&f, s, e);
  error_agree(e, s->comm);
  if (!e->id) checkpoint_match(c, f.keys, f.count, e);
  fingerprint_free(&f);
  return e->id;
}

int state_restore(simulation *s, const checkpoint *c, error *e) {
  state t;
  enum checkpoint_type type;
  int axes;
  int64_t shape[3] = {0};
  TRY(match(s, c, e));
  s->stepper.step = s->stepper.measured_from = c->step;
  describe_state(&t, s, false);
  TRY(checkpoint_find_array(c, "saved_steps", &type, &axes, shape, e));
  if (axes == 1) add_series(&t, s, shape[0]);
  for (int i = 0; i < t.count; i++) TRY(checkpoint_read(c, &t.arrays[i], e));
  log_line(s->log, "restart from %s, step %lld", c->name, (long long)c->step);
  return 0;
}
