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

int transfer_open(transfer *t, device *dev, const slab *slab, float ghost_value, error *e) {
  *t = (transfer){.dev = dev, .slab = slab, .ghost_value = ghost_value, .planes = staging_planes(slab)};
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

static void fill_staging(transfer *t, int planes) {
  for (size_t i = 0; i < (size_t)planes * t->slab->plane; i++) t->staging[i] = t->ghost_value;
}

static int at_most(int n, int limit) {
  return n < limit ? n : limit;
}

int transfer_fill(transfer *t, int z, int planes, error *e) {
  fill_staging(t, at_most(planes, t->planes));
  for (int done = 0, n; done < planes; done += n) {
    n = at_most(planes - done, t->planes);
    TRY(copy_planes(t, z + done, n, COPY_TO_DEVICE, e));
  }
  return 0;
}

int transfer_to_device(void *context, int z, int planes, const float *values, error *e) {
  transfer *t = context;
  const slab *s = t->slab;
  fill_staging(t, at_most(planes, t->planes));
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
