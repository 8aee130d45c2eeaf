#include "transfer.h"
#include <string.h>

enum { STAGING_BYTES = 32 << 20 };

static int staging_planes(const slab *s) {
  size_t planes = STAGING_BYTES / (s->plane * sizeof(float));
  if (planes > (size_t)s->nz) planes = (size_t)s->nz;
  return planes ? (int)planes : 1;
}

size_t transfer_staging_bytes(const slab *s) {
  return (size_t)staging_planes(s) * s->plane * sizeof(float);
}

int transfer_open(transfer *t, device *dev, const slab *slab, const float ghosts[FACE_COUNT], error *e) {
  *t = (transfer){.dev = dev, .slab = slab, .planes = staging_planes(slab)};
  memcpy(t->ghosts, ghosts, sizeof t->ghosts);
  return dev->table->alloc(dev, (void **)&t->staging, transfer_staging_bytes(slab), MEMORY_PINNED, e);
}

void transfer_close(transfer *t) {
  error ignored = {0};
  if (t->dev) t->dev->table->free(t->dev, t->staging, MEMORY_PINNED, &ignored);
}

/* Staging holds whole padded planes, from the first ghost of the first row on. */
static float *staged_row(const transfer *t, int plane, int y) {
  return t->staging + (size_t)plane * t->slab->plane + (size_t)(y + RADIUS) * t->slab->pitch + RADIUS;
}

static int copy_planes(transfer *t, int z, int planes, copy_direction direction, error *e) {
  float *on_device = t->field + slab_offset(t->slab, z, -RADIUS, -RADIUS);
  size_t bytes = (size_t)planes * t->slab->plane * sizeof(float);
  bool in = direction == COPY_TO_DEVICE;
  TRY(t->dev->table->copy(t->dev, STREAM_BOUNDARY, in ? on_device : t->staging, in ? t->staging : on_device,
                          bytes, direction, e));
  return t->dev->table->sync(t->dev, STREAM_BOUNDARY, e);
}

static void fill(float *to, size_t count, float value) {
  for (size_t i = 0; i < count; i++) to[i] = value;
}

/* Ghosts in x and y, and padding. A row, from its first ghost on, ends with its right
 * ghosts and padding. */
static void fill_ghosts(transfer *t, int planes) {
  const slab *s = t->slab;
  const size_t right = RADIUS + (size_t)s->nx;
  for (int p = 0; p < planes; p++)
    for (int y = -RADIUS; y < (int)slab_rows(s) - RADIUS; y++) {
      float *row = staged_row(t, p, y) - RADIUS;
      if (y < 0 || y >= s->ny) {
        fill(row, s->pitch, t->ghosts[y < 0 ? FACE_Y_LO : FACE_Y_HI]);
        continue;
      }
      fill(row, RADIUS, t->ghosts[FACE_X_LO]);
      fill(row + right, s->pitch - right, t->ghosts[FACE_X_HI]);
    }
}

static int at_most(int n, int limit) {
  return n < limit ? n : limit;
}

int transfer_fill(transfer *t, int z, int planes, float value, error *e) {
  fill(t->staging, (size_t)at_most(planes, t->planes) * t->slab->plane, value);
  for (int done = 0, n; done < planes; done += n) {
    n = at_most(planes - done, t->planes);
    TRY(copy_planes(t, z + done, n, COPY_TO_DEVICE, e));
  }
  return 0;
}

int transfer_to_device(void *context, int z, int planes, const float *values, error *e) {
  transfer *t = context;
  const slab *s = t->slab;
  fill_ghosts(t, at_most(planes, t->planes));
  for (int done = 0, n; done < planes; done += n) {
    n = at_most(planes - done, t->planes);
    for (int p = 0; p < n; p++)
      for (int y = 0; y < s->ny; y++, values += s->nx)
        memcpy(staged_row(t, p, y), values, (size_t)s->nx * sizeof *values);
    TRY(copy_planes(t, z + done, n, COPY_TO_DEVICE, e));
  }
  return 0;
}

int transfer_to_host(void *context, int z, int planes, float *values, error *e) {
  transfer *t = context;
  const slab *s = t->slab;
  for (int done = 0, n; done < planes; done += n) {
    n = at_most(planes - done, t->planes);
    TRY(copy_planes(t, z + done, n, COPY_TO_HOST, e));
    for (int p = 0; p < n; p++)
      for (int y = 0; y < s->ny; y++, values += s->nx)
        memcpy(values, staged_row(t, p, y), (size_t)s->nx * sizeof *values);
  }
  return 0;
}
