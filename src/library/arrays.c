/* Performs the requests of a run (io/files.h) with arrays of the caller. */
#include "arrays.h"
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "device_array.h"

enum { BLOCK = 1 << 15 /* numbers that a thread moves at a time, few enough for its cache */ };

void arrays_open(arrays *a) {
  pthread_mutex_init(&a->lock, NULL);
  pthread_mutex_init(&a->asking, NULL);
  for (int i = 0; i < ARRAYS_ADDING; i++) pthread_mutex_init(&a->adding[i], NULL);
}

void arrays_close(arrays *a) {
  for (int i = 0; i < GRADIENT_FIELDS; i++) free(a->sums[i].sums);
  pthread_mutex_destroy(&a->lock);
  pthread_mutex_destroy(&a->asking);
  for (int i = 0; i < ARRAYS_ADDING; i++) pthread_mutex_destroy(&a->adding[i]);
}

void arrays_take(arrays *a, const arrays *call) {
  for (int i = 0; i < GRADIENT_FIELDS; i++) free(a->sums[i].sums);
  memset(a->sums, 0, sizeof a->sums);
  a->inputs = call->inputs, a->input_count = call->input_count;
  a->shots = call->shots, a->shot_count = call->shot_count;
  a->calls = call->calls, a->gradient = call->gradient;
  a->stopped = false, a->done = 0, a->part = 0;
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

void arrays_name(char name[ARRAYS_NAME], int shot, const char *key) {
  if (shot < 0)
    snprintf(name, ARRAYS_NAME, ARRAYS_FILE "%s", key);
  else
    snprintf(name, ARRAYS_NAME, ARRAYS_FILE "%04d/%s", shot + 1, key);
}

int arrays_shot(const char *path) {
  const char *slash = strrchr(path, '/');
  return atoi(slash ? slash + 1 : path) - 1;
}

static const stencil_array *arrays_among(const stencil_input *list, int count, const char *key) {
  for (int i = 0; i < count; i++)
    if (strcmp(list[i].key, key) == 0) return &list[i].array;
  return NULL;
}

static const stencil_array *arrays_find(const arrays *a, const char *name) {
  const char *key = name + strlen(ARRAYS_FILE), *slash = strchr(key, '/');
  if (strncmp(name, ARRAYS_FILE, strlen(ARRAYS_FILE)) != 0) return NULL;
  if (!slash) return arrays_among(a->inputs, a->input_count, key);
  const int shot = atoi(key) - 1;
  if (shot < 0 || shot >= a->shot_count) return NULL;
  return arrays_among(a->shots[shot].inputs, a->shots[shot].input_count, slash + 1);
}

static int64_t array_count(const stencil_array *a) {
  int64_t count = 1;
  for (int i = 0; i < a->axes; i++) count *= a->shape[i];
  return count;
}

static size_t array_size(const stencil_array *a) {
  return a->type == STENCIL_FLOAT64 ? sizeof(double) : sizeof(float);
}

int arrays_check(const char *name, const stencil_array *a, error *e) {
  int64_t count = 1;
  if (a->type != STENCIL_FLOAT32 && a->type != STENCIL_FLOAT64)
    return FAIL(e, LIBRARY_INPUT, name, "its type is neither float32 nor float64");
  if (a->axes < 0 || a->axes > STENCIL_AXES) return FAIL(e, LIBRARY_INPUT, name, "expected 0 to 5 axes");
  for (int i = 0; i < a->axes; i++) {
    if (a->shape[i] < 0 || (a->shape[i] && count > INT64_MAX / 16 / a->shape[i]))
      return FAIL(e, LIBRARY_INPUT, name, "its shape is no array's");
    count *= a->shape[i];
  }
  if (count && !a->data) return FAIL(e, LIBRARY_INPUT, name, "its pointer is NULL");
  if ((uintptr_t)a->data % array_size(a))
    return FAIL(e, LIBRARY_INPUT, name, "its pointer is not aligned to its type");
  return a->device == STENCIL_HOST || !count ? 0 : device_array_check(name, a->data, a->device, e);
}

enum { SHAPE_ROOM = 128 };
static const char *array_shape(int axes, const int64_t *shape, char text[SHAPE_ROOM]) {
  int used = snprintf(text, SHAPE_ROOM, "(");
  for (int i = 0; i < axes; i++)
    used += snprintf(text + used, (size_t)(SHAPE_ROOM - used), "%s%" PRId64, i ? ", " : "", shape[i]);
  snprintf(text + used, (size_t)(SHAPE_ROOM - used), axes == 1 ? ",)" : ")");
  return text;
}

static int array_refuse(const char *name, const char *expected, const stencil_array *a, error *e) {
  char found[SHAPE_ROOM];
  return FAIL(e, LIBRARY_SHAPE, name, expected, array_shape(a->axes, a->shape, found));
}

/* --- a field ------------------------------------------------------------------------------------------------------ */

/* Is the array's shape (nz, ny, nx), apart from axes of one point? */
static bool array_fits(const stencil_array *a, const int64_t shape[3]) {
  int k = 0;
  for (int i = 0; i < a->axes; i++) {
    if (a->shape[i] == 1) continue;
    while (k < 3 && shape[k] == 1) k++;
    if (k == 3 || shape[k++] != a->shape[i]) return false;
  }
  while (k < 3 && shape[k] == 1) k++;
  return k == 3;
}

/* Planes that several threads give to a sink. */
typedef struct arrays_planes {
  const request *r;
  const stencil_array *a;
  int each, nz; /* planes at a time; all own planes */
  size_t plane; /* points */
  pthread_mutex_t lock;
  error failed; /* guarded by it */
} arrays_planes;

/* Converts numbers of an array to float32, subnormal ones to 0, as for files. Returns the index of the first that is
 * NaN or Inf; -1: none. */
static int64_t array_floats(const stencil_array *a, const void *from, size_t count, float *to) {
  const double *wide = from;
  const float *narrow = from;
  int64_t wrong = -1;
  for (size_t i = 0; i < count; i++) {
    const float v = a->type == STENCIL_FLOAT64 ? (float)wide[i] : narrow[i];
    if (!isfinite(v) && wrong < 0) wrong = (int64_t)i;
    to[i] = fabsf(v) < FLT_MIN ? copysignf(0, v) : v;
  }
  return wrong;
}

/* Returns numbers of the array from `first` on. *held: a copy for the caller to free, if the array is on a device. */
static const void *array_block(const stencil_array *a, size_t first, size_t count, void **held, error *e) {
  const char *from = (const char *)a->data + first * array_size(a);
  char *copy;
  *held = NULL;
  if (a->device == STENCIL_HOST) return from;
  if (!ALLOC(e, copy, count * array_size(a), "a copy of an array"))
    device_array_get(copy, from, count * array_size(a), a->device, e);
  return *held = copy;
}

static int arrays_give_block(const arrays_planes *p, int z, int planes, error *e) {
  const request_own *own = &p->r->own;
  const slab *s = own->io->slab;
  const size_t count = (size_t)planes * p->plane;
  const int64_t plane = (int64_t)p->plane;
  float *values;
  void *held;
  const void *from = array_block(p->a, (size_t)(s->z0 + z) * p->plane, count, &held, e);
  if (!e->id && !ALLOC(e, values, count, "planes of an array")) {
    const int64_t wrong = array_floats(p->a, from, count, values);
    if (wrong < 0)
      own->sink(own->context, z, planes, values, e);
    else
      FAIL(e, FIELD_NO_VALUE, p->r->path, isnan(values[wrong]) ? "NaN" : "Inf, or a value beyond float32,",
           s->z0 + z + (int)(wrong / plane), (int)(wrong % plane / s->nx), (int)(wrong % s->nx));
    free(values);
  }
  free(held);
  return e->id;
}

static void arrays_give_planes(void *context, int i) {
  arrays_planes *p = context;
  const int z = i * p->each;
  error e = {0};
  arrays_give_block(p, z, smaller(p->each, p->nz - z), &e);
  pthread_mutex_lock(&p->lock);
  if (!p->failed.id) p->failed = e;
  pthread_mutex_unlock(&p->lock);
}

/* Gives all planes at once, if the array is on the run's device. Wrong values go through the host instead, which
 * reports their place. */
static int arrays_give_device(const stencil_array *a, const request *r, bool *taken, error *e) {
  const request_own *own = &r->own;
  float range[2];
  bool sound;
  if (!own->take_device || a->device == STENCIL_HOST || a->type != STENCIL_FLOAT32) return 0;
  if (!device_array_is_here(a->device)) return 0;
  TRY(device_array_range(a->data, (size_t)array_count(a), a->device, range, &sound, e));
  return sound ? own->take_device(own->context, a->data, range, taken, e) : 0;
}

static int arrays_read_field(const arrays *all, const files *f, const request *r, error *e) {
  const slab *s = r->own.io->slab;
  const int64_t shape[3] = {s->nz_global, s->ny, s->nx};
  const stencil_array *a = arrays_find(all, r->path);
  char expected[SHAPE_ROOM];
  if (!a) return FAIL(e, LIBRARY_NO_ARRAY, r->path);
  if (!array_fits(a, shape)) return array_refuse(r->path, array_shape(3, shape, expected), a, e);
  const size_t plane = (size_t)s->ny * (size_t)s->nx;
  bool taken = false;
  TRY(arrays_give_device(a, r, &taken, e));
  if (taken) return 0;
  arrays_planes p = {.r = r, .a = a, .nz = s->nz, .plane = plane, .lock = PTHREAD_MUTEX_INITIALIZER};
  p.each = larger(1, (int)(BLOCK / plane));
  thread_each(f->access->compressors, (s->nz + p.each - 1) / p.each, arrays_give_planes, &p);
  *e = p.failed;
  return e->id;
}

/* --- a table ------------------------------------------------------------------------------------------------------ */

static int arrays_shape_table(const request *r, const stencil_array *a, table *t, error *e) {
  const table_form form = r->form;
  const bool narrow = form.narrow && a->axes == 2 && a->shape[1] == 1,
             flat = (form.flat && a->axes == 1) || narrow, wide = a->axes == 2 && a->shape[1] == form.columns;
  char expected[SHAPE_ROOM];
  snprintf(expected, sizeof expected, "%s(n, %d) with n >= 1", form.flat ? "(n,) or " : "", form.columns);
  if ((!flat && !wide) || (a->shape[0] == 0 && !form.empty)) return array_refuse(r->path, expected, a, e);
  t->columns = flat ? 1 : form.columns;
  t->rows = form.most ? smaller64(a->shape[0], form.most) : a->shape[0];
  return 0;
}

static int arrays_rows(const request *r, const stencil_array *a, const void *from, table_part *p,
                       double *values, error *e) {
  const float *narrow = from;
  const double *wide = from;
  const int64_t first = p->row * p->columns;
  for (int64_t i = 0; i < p->rows * p->columns; i++) {
    values[i] = a->type == STENCIL_FLOAT64 ? wide[first + i] : (double)narrow[first + i];
    if (!isfinite(values[i]) && !(r->form.gaps && isnan(values[i])))
      return FAIL(e, TABLE_NO_VALUE, r->path, isnan(values[i]) ? "NaN" : "Inf", p->row + i / p->columns);
  }
  return 0;
}

static int arrays_fill_table(const request *r, const stencil_array *a, const void *from, table *t, error *e) {
  const table_sink *sink = r->own.parts;
  const int64_t each = r->form.parts ? larger64(1, BLOCK / t->columns) : t->rows;
  double *values;
  TRY(ALLOC(e, values, smaller64(each, t->rows) * t->columns, "a table"));
  for (table_part p = {.columns = t->columns, .values = values}; p.row < t->rows && !e->id; p.row += each) {
    p.rows = smaller64(each, t->rows - p.row);
    if (!arrays_rows(r, a, from, &p, values, e) && r->form.parts && sink) sink->take(sink->context, t, &p, e);
  }
  if (r->form.parts || e->id)
    free(values);
  else
    t->values = values;
  return e->id;
}

/* Tables of times and positions, which a file has beside a dataset, are missing here: the caller is responsible for its
 * arrays. */
static int arrays_read_table(const arrays *all, const request *r, error *e) {
  const stencil_array *a = arrays_find(all, r->path);
  table *t = r->own.table;
  void *held;
  *t = (table){0};
  const char *key = strrchr(r->path, '/') + 1;
  const bool beside = !strchr(key, '.');
  if (!a) return r->form.optional || beside ? 0 : FAIL(e, LIBRARY_NO_ARRAY, r->path);
  TRY(arrays_shape_table(r, a, t, e));
  const void *from = array_block(a, 0, (size_t)array_count(a), &held, e);
  if (!e->id && t->rows) arrays_fill_table(r, a, from, t, e);
  free(held);
  if (e->id) table_free(t);
  return e->id;
}

/* --- results ------------------------------------------------------------------------------------------------------ */

/* Memory that the caller gives for a result. */
typedef struct arrays_target {
  void *to; /* NULL: the result is not wanted */
  int device;
  size_t bytes;
  void *host; /* `to`, or memory that is later copied to it */
} arrays_target;

static int64_t array_points(const stencil_result *r) {
  int64_t count = 1;
  for (int i = 0; i < r->axes; i++) count *= r->shape[i];
  return count;
}

static int arrays_stop(arrays *a, error *e) {
  a->stopped = true;
  return FAIL(e, LIBRARY_STOPPED);
}

static int arrays_call_result(arrays *a, const stencil_result *r, arrays_target *target, error *e) {
  const stencil_calls *c = a->calls;
  if (!c || !c->result) return 0;
  pthread_mutex_lock(&a->lock);
  const int rc = c->result(c->context, r, &target->to, &target->device);
  if (rc) arrays_stop(a, e);
  pthread_mutex_unlock(&a->lock);
  if (!target->to || target->device == STENCIL_HOST || e->id) return e->id;
  return device_array_check(r->name, target->to, target->device, e);
}

/* Asks the caller for memory. If one rank wants the result, all ranks have `host`. Collective, agreed. */
static int arrays_find_target(arrays *a, const files *f, const stencil_result *r, arrays_target *target,
                              error *e) {
  *target = (arrays_target){.device = STENCIL_HOST};
  target->bytes = (size_t)array_points(r) * (r->type == STENCIL_FLOAT64 ? sizeof(double) : sizeof(float));
  arrays_call_result(a, r, target, e);
  int wanted = target->to && target->bytes;
  TRY(error_agree(e, f->compute));
  MPI_TRY(e, mpi_reduce_all(&wanted, 1, MPI_INT, MPI_MAX, f->compute));
  char *host = NULL;
  if (wanted && (!target->to || target->device != STENCIL_HOST)) ALLOC(e, host, target->bytes, "a result");
  if (wanted) target->host = host ? host : target->to;
  if (wanted && !host && f->access->ranks > 1) memset(target->host, 0, target->bytes);
  return error_agree(e, f->compute);
}

/* Combines the bits of all ranks in `host`; values that a rank lacks are 0 there. */
static int arrays_unite(const files *f, arrays_target *target, error *e) {
  const size_t MOST = 1 << 28; /* MPI counts in an int */
  uint32_t *bits = target->host;
  for (size_t at = 0, count = target->bytes / sizeof *bits; f->access->ranks > 1 && at < count; at += MOST) {
    const size_t more = count - at < MOST ? count - at : MOST;
    MPI_TRY(e, mpi_reduce_all(bits + at, (int)more, MPI_UINT32_T, MPI_BOR, f->compute));
  }
  return 0;
}

/* Brings the values that ranks have put into `host` to the caller. */
static int arrays_give(const files *f, arrays_target *target, error *e) {
  const bool held = target->host != target->to;
  error_agree(e, f->compute);
  if (!e->id && target->host) arrays_unite(f, target, e);
  if (!e->id && target->to && held)
    device_array_put(target->to, target->host, target->bytes, target->device, e);
  if (held) free(target->host);
  return e->id;
}

/* Gives the caller a result that rank 0 has. */
static int arrays_result(arrays *a, const files *f, const stencil_result *r, const void *values, error *e) {
  arrays_target target;
  TRY(arrays_find_target(a, f, r, &target, e));
  if (target.host && f->access->rank == 0) memcpy(target.host, values, target.bytes);
  return arrays_give(f, &target, e);
}

static void arrays_count_shot(arrays *a) {
  pthread_mutex_lock(&a->lock);
  a->done++;
  a->part = 0;
  pthread_mutex_unlock(&a->lock);
}

static int arrays_write_traces(arrays *a, const files *f, const request *r, error *e) {
  const receivers_meta *m = r->receivers;
  const receivers_part *own = r->own.part;
  const stencil_result traces = {arrays_shot(r->path), "traces", "u", .axes = 2,
                                 .shape = {m->samples, m->receivers}};
  arrays_target target;
  TRY(arrays_find_target(a, f, &traces, &target, e));
  float *to = target.host;
  for (int64_t sample = 0; to && sample < m->samples; sample++)
    for (int64_t i = 0, end; i < own->traces.count; i = end) {
      float *from;
      end = i + traces_piece(&own->traces, sample, i, &from);
      for (; i < end; i++) to[sample * m->receivers + own->index[i]] = *from++;
    }
  if (!a->gradient) arrays_count_shot(a);
  return arrays_give(f, &target, e);
}

/* --- fields ------------------------------------------------------------------------------------------------------- */

/* A field that several threads bring to a result. */
typedef struct arrays_field {
  arrays *a;
  const slab *slab;
  const field_planes *from;
  config_cut cut[3];
  float *to;
  int64_t apart; /* floats from a point to the next: 2 for pairs */
  arrays_sum *sum;
  int each;
  pthread_mutex_t lock;
  error failed; /* guarded by it */
} arrays_field;

static bool array_cut_has(config_cut c, int point) {
  return point >= c.first && (point - c.first) % c.every == 0 && (point - c.first) / c.every < c.count;
}

/* Copies the saved points of a plane. */
static void arrays_put_plane(const arrays_field *f, int z, const float *values) {
  const config_cut *x = &f->cut[0], *y = &f->cut[1];
  const int64_t pairs = f->apart;
  if (!f->to || !array_cut_has(f->cut[2], z)) return;
  float *to = f->to + (int64_t)((z - f->cut[2].first) / f->cut[2].every) * x->count * y->count * pairs;
  for (int j = 0; j < y->count; j++) {
    const float *row = values + (int64_t)(y->first + j * y->every) * f->slab->nx * pairs;
    for (int i = 0; i < x->count; i++, to += pairs)
      memcpy(to, row + (int64_t)(x->first + i * x->every) * pairs, (size_t)pairs * sizeof *to);
  }
}

/* Adds planes, block `number` of the field, to the sum. */
static void arrays_add_planes(const arrays_field *f, int number, int64_t first, const float *values,
                              int64_t count) {
  pthread_mutex_t *lock = &f->a->adding[number % ARRAYS_ADDING];
  if (!f->sum || !f->sum->sums) return;
  pthread_mutex_lock(lock);
  for (int64_t i = 0; i < count; i++) exact_add(&f->sum->sums[first + i], values[i]);
  pthread_mutex_unlock(lock);
}

static void arrays_take_planes(void *context, int i) {
  arrays_field *f = context;
  const slab *s = f->slab;
  const int z = i * f->each, planes = smaller(f->each, s->nz - z);
  const int64_t plane = (int64_t)s->ny * s->nx * f->apart;
  error e = {0};
  float *values;
  if (!ALLOC(&e, values, planes * plane, "planes of a result") &&
      !f->from->source(f->from->context, z, planes, values, &e)) {
    for (int k = 0; k < planes; k++) arrays_put_plane(f, s->z0 + z + k, values + k * plane);
    arrays_add_planes(f, i, (s->z0 + z) * plane, values, planes * plane);
  }
  free(values);
  pthread_mutex_lock(&f->lock);
  if (!f->failed.id) f->failed = e;
  pthread_mutex_unlock(&f->lock);
}

static int arrays_write_part(arrays_field *f, const files *on, error *e) {
  const int64_t plane = (int64_t)f->slab->ny * f->slab->nx * f->apart;
  f->each = larger(1, (int)(BLOCK / plane));
  if (f->to || (f->sum && f->sum->sums))
    thread_each(on->access->compressors, (f->slab->nz + f->each - 1) / f->each, arrays_take_planes, f);
  if (!e->id) *e = f->failed;
  return e->id;
}

/* Asks for the memory of the sum over shots when the first shot has such a field. */
static int arrays_find_sum(arrays *a, const files *on, const stencil_result *of_shot, arrays_sum *sum,
                           error *e) {
  stencil_result r = *of_shot;
  arrays_target target = {.device = STENCIL_HOST};
  r.shot = -1;
  pthread_mutex_lock(&a->asking);
  const bool asks = !sum->asked;
  sum->asked = true;
  if (asks && !arrays_call_result(a, &r, &target, e) && target.to)
    sum->to = target.to, sum->device = target.device;
  sum->points = array_points(&r);
  int wanted = sum->to != NULL;
  error_agree(e, on->compute);
  if (asks && !e->id)
    error_from_mpi(e, mpi_reduce_all(&wanted, 1, MPI_INT, MPI_MAX, on->compute), "MPI_Allreduce");
  if (asks) sum->wanted = wanted;
  if (asks && wanted && a->shot_count > 1 && !e->id) ALLOC(e, sum->sums, sum->points, "the sum of gradients");
  pthread_mutex_unlock(&a->asking);
  return e->id;
}

/* Gives the caller a field. The field of an only shot is also the sum. */
static int arrays_give_field(const arrays *a, const files *f, const arrays_sum *sum, arrays_target *target,
                             error *e) {
  const bool copied = sum && sum->to && a->shot_count == 1;
  error_agree(e, f->compute);
  if (copied && !e->id) arrays_unite(f, target, e);
  if (copied && sum->device == STENCIL_HOST && !e->id) memcpy(sum->to, target->host, target->bytes);
  if (copied && sum->device != STENCIL_HOST && !e->id)
    device_array_put(sum->to, target->host, target->bytes, sum->device, e);
  return arrays_give(f, target, e);
}

/* Writes field k of a request, with all its frequencies. *part: the next part of the request. */
static int arrays_write_named(arrays *a, const files *on, const request *r, int k, int *part, error *e) {
  static const field_name plain = {.name = "u"};
  const field_meta *m = r->field;
  const field_name *n = m->ending ? &m->names[k] : &plain;
  arrays_field f = {
      .a = a, .slab = r->own.io->slab, .apart = n->frequencies ? 2 : 1, .lock = PTHREAD_MUTEX_INITIALIZER};
  const int points[3] = {f.slab->nx, f.slab->ny, f.slab->nz_global};
  for (int i = 0; i < 3; i++) f.cut[i] = m->cut[i].count ? m->cut[i] : (config_cut){0, points[i], 1};
  const int64_t nz = f.cut[2].count, ny = f.cut[1].count, nx = f.cut[0].count;
  stencil_result result = {arrays_shot(r->own.io->path),
                           m->gradient ? "gradient"
                           : m->ending ? "maps"
                                       : "field",
                           n->name,
                           m->run.step,
                           .axes = 3,
                           .shape = {nz, ny, nx}};
  if (n->frequencies)
    result.axes = 5, memcpy(result.shape, (int64_t[]){n->frequencies, nz, ny, nx, 2}, 5 * sizeof nz);
  arrays_target target;
  if (m->gradient)
    for (int i = 0; i < GRADIENT_FIELDS; i++)
      if (strcmp(GRADIENT_NAMES[i].name, n->name) == 0) f.sum = &a->sums[i];
  if (f.sum) TRY(arrays_find_sum(a, on, &result, f.sum, e));
  TRY(arrays_find_target(a, on, &result, &target, e));
  char *host = NULL;
  if (f.sum && f.sum->wanted && a->shot_count == 1 && !target.host)
    ALLOC(e, host, target.bytes, "the gradient");
  if (host) target.host = host;
  const int parts = n->frequencies ? n->frequencies : 1;
  for (int i = 0; i < parts && !e->id; i++) {
    f.from = &r->own.planes[(*part)++];
    f.to = target.host ? (float *)target.host + (int64_t)i * nz * ny * nx * f.apart : NULL;
    arrays_write_part(&f, on, e);
  }
  return arrays_give_field(a, on, f.sum, &target, e);
}

static int arrays_write_gradient(arrays *a, const files *f, int shot, const gradient_meta *m, error *e) {
  const stencil_result misfit = {shot, "gradient", "misfit", .type = STENCIL_FLOAT64},
                       signals = {shot, "gradient", "signals", .axes = 2, .shape = {m->steps, m->signals}};
  if (m->misfit) TRY(arrays_result(a, f, &misfit, m->misfit, e));
  return m->signal_gradient ? arrays_result(a, f, &signals, m->signal_gradient, e) : 0;
}

static int arrays_write_field(arrays *a, const files *on, const request *r, error *e) {
  const field_meta *m = r->field;
  int part = 0;
  for (int k = 0; k < (m->ending ? m->fields : 1); k++) TRY(arrays_write_named(a, on, r, k, &part, e));
  if (m->measured) TRY(m->measured(r->own.planes[0].context, e));
  if (m->gradient) arrays_count_shot(a);
  return m->gradient ? arrays_write_gradient(a, on, arrays_shot(r->own.io->path), m->gradient, e) : 0;
}

typedef struct arrays_rounding {
  const arrays_sum *sum;
  float *to;
  _Atomic bool wrong;
} arrays_rounding;

static void arrays_round(void *context, int i) {
  arrays_rounding *r = context;
  const int64_t first = (int64_t)i * BLOCK, end = smaller64(first + BLOCK, r->sum->points);
  for (int64_t k = first; k < end; k++)
    if (!isfinite(r->to[k] = exact_value(&r->sum->sums[k]))) r->wrong = true;
}

int arrays_finish(arrays *a, const files *f, error *e) {
  for (int i = 0; i < GRADIENT_FIELDS && !e->id; i++) {
    const arrays_sum *s = &a->sums[i];
    arrays_target target = {s->to, s->device, (size_t)s->points * sizeof(float), s->to};
    char *host = NULL;
    if (!s->sums) continue;
    if (!s->to || s->device != STENCIL_HOST) ALLOC(e, host, target.bytes, "the sum of gradients");
    if (host) target.host = host;
    arrays_rounding r = {.sum = s, .to = target.host};
    if (!e->id) thread_each(f->access->compressors, (int)((s->points + BLOCK - 1) / BLOCK), arrays_round, &r);
    if (r.wrong) FAIL(e, GRADIENT_NONFINITE, GRADIENT_NAMES[i].name, "NaN or Inf", 0, 0, 0);
    arrays_give(f, &target, e);
  }
  return e->id;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static int arrays_perform(const files *f, const request *r, error *e) {
  arrays *a = f->context;
  if (r->answer_bytes) memset(r->own.answer, 0, r->answer_bytes);
  switch (r->kind) {
  case FILES_READ_FIELD:
    return arrays_read_field(a, f, r, e);
  case FILES_READ_TABLE:
    return arrays_read_table(a, r, e);
  case FILES_WRITE_RECEIVERS:
    return arrays_write_traces(a, f, r, e);
  case FILES_WRITE_FIELD:
    return arrays_write_field(a, f, r, e);
  case FILES_SPLIT:
    return files_open_parts(f, r->parts, r->own.answer, e);
  case FILES_FIND_SPACE:
    ((space_use *)r->own.answer)->space.available = UINT64_MAX;
    return 0;
  default: /* there are no files, so answers stay zero */
    return 0;
  }
}

/* Progress over all shots, 0 to 1. Shots under way count as one, even if they are several. */
static double arrays_done(const arrays *a) {
  return a->shot_count ? fmin(1, (a->done + a->part) / a->shot_count) : 0;
}

void arrays_advance(arrays *a, double part) {
  pthread_mutex_lock(&a->lock);
  a->part = part;
  pthread_mutex_unlock(&a->lock);
}

/* Calls the caller's progress, which may end the run. */
static int arrays_heard(const files *f) {
  arrays *a = f->context;
  const stencil_calls *c = a->calls;
  if (!c || !c->progress) return 0;
  pthread_mutex_lock(&a->lock);
  if (!a->stopped && c->progress(c->context, arrays_done(a))) a->stopped = true;
  const bool stopped = a->stopped;
  pthread_mutex_unlock(&a->lock);
  return stopped ? SIGINT : 0;
}

const files_kind files_of_arrays = {arrays_perform, arrays_heard, NULL};
