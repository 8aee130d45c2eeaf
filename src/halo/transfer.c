#include "transfer.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"

enum { STAGING_BYTES = 32 << 20, PARTS = 4 };

struct transfer_lock {
  pthread_mutex_t lock; /* also held while the device copies */
  pthread_cond_t given; /* a part is free again */
  bool used[PARTS];     /* guarded by lock */
};

static int transfer_staging_planes(const slab *s) {
  size_t planes = STAGING_BYTES / (s->plane * sizeof(float));
  if (planes > (size_t)s->nz) planes = (size_t)s->nz;
  return planes ? (int)planes : 1;
}

size_t transfer_staging_bytes(const slab *s) {
  return (size_t)transfer_staging_planes(s) * s->plane * sizeof(float);
}

int transfer_open(transfer *t, device *dev, const slab *slab, const float ghosts[FACE_COUNT], error *e) {
  const int planes = transfer_staging_planes(slab), parts = planes < PARTS ? planes : PARTS;
  *t = (transfer){.dev = dev, .slab = slab, .parts = parts, .planes = planes / parts};
  memcpy(t->ghosts, ghosts, sizeof t->ghosts);
  TRY(ALLOC(e, t->lock, 1, "a lock of the staging buffer"));
  pthread_mutex_init(&t->lock->lock, NULL);
  pthread_cond_init(&t->lock->given, NULL);
  return dev->table->alloc(dev, (void **)&t->staging, transfer_staging_bytes(slab), MEMORY_PINNED, e);
}

void transfer_close(transfer *t) {
  error ignored = {0};
  if (t->dev) t->dev->table->free(t->dev, t->staging, MEMORY_PINNED, &ignored);
  if (t->lock) {
    pthread_cond_destroy(&t->lock->given);
    pthread_mutex_destroy(&t->lock->lock);
  }
  free(t->lock);
  t->lock = NULL;
}

/* Takes a part of the staging buffer and returns its first plane. */
static float *transfer_staging_take(const transfer *t, int *part) {
  pthread_mutex_lock(&t->lock->lock);
  for (*part = 0; t->lock->used[*part]; *part = (*part + 1) % t->parts)
    if (*part == t->parts - 1) pthread_cond_wait(&t->lock->given, &t->lock->lock);
  t->lock->used[*part] = true;
  pthread_mutex_unlock(&t->lock->lock);
  return t->staging + (size_t)*part * (size_t)t->planes * t->slab->plane;
}

static void transfer_staging_give(const transfer *t, int part) {
  pthread_mutex_lock(&t->lock->lock);
  t->lock->used[part] = false;
  pthread_cond_signal(&t->lock->given);
  pthread_mutex_unlock(&t->lock->lock);
}

/* Staging holds whole padded planes, from the first ghost of the first row on. */
static float *transfer_staged_row(const transfer *t, float *staging, int plane, int y) {
  return staging + (size_t)plane * t->slab->plane + (size_t)(y + RADIUS) * t->slab->pitch + RADIUS;
}

/* Does `count` copies of a thread, and waits for all of them once. */
static int transfer_copies(const transfer *t, const copy_args *copies, int count, error *e) {
  const device_table *d = t->dev->table;
  pthread_mutex_lock(&t->lock->lock);
  /* The calling thread may not have chosen a device yet. */
  if (d->peer && d->peer->adopt) d->peer->adopt(t->dev, e);
  for (int i = 0; i < count && !e->id; i++) d->copy(t->dev, STREAM_BOUNDARY, &copies[i], e);
  if (!e->id) d->sync(t->dev, STREAM_BOUNDARY, e);
  pthread_mutex_unlock(&t->lock->lock);
  return e->id;
}

int transfer_bytes(const transfer *t, void *to, const void *from, size_t bytes, copy_direction direction,
                   error *e) {
  return transfer_copies(t, &(copy_args){to, from, bytes, direction}, 1, e);
}

static int transfer_copy_planes(const transfer *t, int z, int planes, float *staging,
                                copy_direction direction, error *e) {
  float *on_device = t->field + slab_offset(t->slab, z, -RADIUS, -RADIUS);
  const size_t bytes = (size_t)planes * t->slab->plane * sizeof(float);
  const bool in = direction == COPY_TO_DEVICE;
  return transfer_bytes(t, in ? on_device : staging, in ? staging : on_device, bytes, direction, e);
}

static void transfer_set_floats(float *to, size_t count, float value) {
  for (size_t i = 0; i < count; i++) to[i] = value;
}

/* Fills ghosts in x and y, and padding. A row, from its first ghost on, ends with its right ghosts and padding. */
static void transfer_fill_ghosts(const transfer *t, float *staging, int planes) {
  const slab *s = t->slab;
  const size_t right = RADIUS + (size_t)s->nx;
  for (int p = 0; p < planes; p++)
    for (int y = -RADIUS; y < (int)slab_rows(s) - RADIUS; y++) {
      float *row = transfer_staged_row(t, staging, p, y) - RADIUS;
      if (y < 0 || y >= s->ny) {
        transfer_set_floats(row, s->pitch, t->ghosts[y < 0 ? FACE_Y_LO : FACE_Y_HI]);
        continue;
      }
      transfer_set_floats(row, RADIUS, t->ghosts[FACE_X_LO]);
      transfer_set_floats(row + right, s->pitch - right, t->ghosts[FACE_X_HI]);
    }
}

/* Puts `values` into planes; NULL: puts `value` everywhere, in ghosts too. */
static int transfer_put(const transfer *t, int z, int planes, const float *values, float value, error *e) {
  const slab *s = t->slab;
  int part;
  float *staging = transfer_staging_take(t, &part);
  if (values)
    transfer_fill_ghosts(t, staging, smaller(planes, t->planes));
  else
    transfer_set_floats(staging, (size_t)smaller(planes, t->planes) * s->plane, value);
  for (int done = 0, n; done < planes && !e->id; done += n) {
    n = smaller(planes - done, t->planes);
    for (int p = 0; p < n && values; p++) {
      for (int y = 0; y < s->ny; y++, values += t->alike ? 0 : s->nx)
        memcpy(transfer_staged_row(t, staging, p, y), values, (size_t)s->nx * sizeof *values);
      if (t->alike) values += s->nx;
    }
    transfer_copy_planes(t, z + done, n, staging, COPY_TO_DEVICE, e);
  }
  transfer_staging_give(t, part);
  return e->id;
}

int transfer_fill(transfer *t, int z, int planes, float value, error *e) {
  return transfer_put(t, z, planes, NULL, value, e);
}

int transfer_to_device(void *context, int z, int planes, float *values, error *e) {
  return transfer_put(context, z, planes, values, 0, e);
}

int transfer_to_host(void *context, int z, int planes, float *values, error *e) {
  const transfer *t = context;
  const slab *s = t->slab;
  int part;
  float *staging = transfer_staging_take(t, &part);
  for (int done = 0, n; done < planes && !e->id; done += n) {
    n = smaller(planes - done, t->planes);
    if (transfer_copy_planes(t, z + done, n, staging, COPY_TO_HOST, e)) break;
    for (int p = 0; p < n; p++)
      for (int y = 0; y < s->ny; y++, values += s->nx)
        memcpy(values, transfer_staged_row(t, staging, p, y), (size_t)s->nx * sizeof *values);
  }
  transfer_staging_give(t, part);
  return e->id;
}

int transfer_row_to_host(const transfer *t, int row, int z, int planes, float *values, error *e) {
  enum { TOGETHER = 64 };
  const size_t nx = (size_t)t->slab->nx;
  copy_args copies[TOGETHER];
  int part;
  float *staging = transfer_staging_take(t, &part);
  for (int done = 0, n; done < planes && !e->id; done += n, values += (size_t)n * nx) {
    n = smaller(planes - done, smaller(TOGETHER, t->planes * (int)(t->slab->plane / nx)));
    for (int i = 0; i < n; i++) {
      const float *from = t->field + slab_offset(t->slab, z + done + i, row, 0);
      copies[i] = (copy_args){staging + (size_t)i * nx, from, nx * sizeof(float), COPY_TO_HOST};
    }
    if (!transfer_copies(t, copies, n, e)) memcpy(values, staging, (size_t)n * nx * sizeof *values);
  }
  transfer_staging_give(t, part);
  return e->id;
}
