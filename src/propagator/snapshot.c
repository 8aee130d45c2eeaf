#include "snapshot.h"
#include <string.h>
#include "device/host_memory.h"

enum {
  PIECE_BYTES = 4 << 20, /* small pieces, so that a neighbour's ghosts need not wait for a whole slab */
  PIECES = 64            /* few pieces, so that they do not fill a queue of the device */
};

int snapshot_open(snapshot *p, device *dev, const slab *slab, int number, error *e) {
  *p = (snapshot){.dev = dev, .slab = slab, .number = number};
  return dev->table->make_events(dev, p->mark, SNAPSHOT_MARKS, false, e);
}

void snapshot_close(snapshot *p) {
  error ignored = {0};
  if (p->dev) {
    p->dev->table->free(p->dev, p->memory, MEMORY_PINNED, &ignored);
    p->dev->table->unmake_events(p->dev, p->mark, SNAPSHOT_MARKS);
  }
  *p = (snapshot){0};
}

bool snapshot_reserve(snapshot *p, size_t floats, size_t limit) {
  const device_table *t = p->dev->table;
  error refused = {0};
  p->used = 0;
  p->marks = 0;
  if (floats <= p->capacity) return true;
  t->free(p->dev, p->memory, MEMORY_PINNED, &refused);
  p->memory = NULL;
  p->capacity = 0;
  if (floats * sizeof(float) > limit || refused.id) return false;
  if (t->alloc(p->dev, (void **)&p->memory, floats * sizeof(float), MEMORY_PINNED, &refused)) return false;
  p->capacity = floats;
  return true;
}

size_t snapshot_field_floats(const slab *s) {
  return (size_t)s->nz * s->plane;
}

const float *snapshot_floats(snapshot *p, const float *from, size_t floats, error *e) {
  float *to = p->memory + p->used;
  size_t piece = PIECE_BYTES / sizeof(float);
  p->used += floats;
  if (piece < floats / PIECES) piece = floats / PIECES;
  for (size_t at = 0, n; at < floats && !e->id; at += n) {
    n = floats - at < piece ? floats - at : piece;
    const copy_args next = {to + at, from + at, n * sizeof(float), COPY_TO_HOST};
    p->dev->table->copy(p->dev, STREAM_OUTPUT, &next, e);
  }
  return to;
}

/* Copies whole planes, with ghosts of rows and padding, from the first ghost of plane 0 on. */
const float *snapshot_field(snapshot *p, const float *field, error *e) {
  const slab *s = p->slab;
  return snapshot_floats(p, field + slab_offset(s, 0, -RADIUS, -RADIUS), snapshot_field_floats(s), e);
}

const float *snapshot_points(const slab *s, const float *copy) {
  return copy + RADIUS * s->pitch + RADIUS;
}

void snapshot_planes(const slab *s, const float *copy, int z, int planes, float *values) {
  const float *points = snapshot_points(s, copy);
  for (int i = z; i < z + planes; i++)
    for (int y = 0; y < s->ny; y++, values += s->nx)
      memcpy(values, points + (size_t)i * s->plane + (size_t)y * s->pitch, (size_t)s->nx * sizeof *values);
}

device_event *snapshot_mark(snapshot *p, error *e) {
  device_event *event = p->mark[p->marks++];
  p->dev->table->record(p->dev, STREAM_OUTPUT, event, e);
  return event;
}

int snapshot_wait(const snapshot *p, error *e) {
  for (int i = 0; i < p->marks; i++) TRY(p->dev->table->sync_event(p->dev, p->mark[i], e));
  return 0;
}

size_t snapshot_limit(int local_ranks) {
  const uint64_t left = host_memory_limits_read().left;
  if (left == UINT64_MAX) return SIZE_MAX; /* unknown: the allocation may fail */
  const int ranks = local_ranks > 0 ? local_ranks : 1;
  const uint64_t beside = host_memory_beside(ranks);
  return left > beside ? (size_t)((left - beside) / 2 / (uint64_t)ranks) : 0;
}
