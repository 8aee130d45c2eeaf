/* A copy, in pinned host memory, of the data that an output job saves. A separate stream makes it while steps go on. */
#ifndef STENCIL_SNAPSHOT_H
#define STENCIL_SNAPSHOT_H

#include <stdbool.h>
#include "device/device.h"
#include "halo/slab.h"

enum { SNAPSHOT_MARKS = 2 };

typedef struct snapshot {
  device *dev;                        /* not owned */
  const slab *slab;                   /* not owned */
  int number;                         /* of this one: 0, 1 ... */
  device_event *mark[SNAPSHOT_MARKS]; /* owned */
  int marks;                          /* of these, recorded after its copies */
  float *memory;                      /* pinned */
  size_t capacity, used;              /* floats */
} snapshot;

/* snapshot_close it, also after a failure. */
int snapshot_open(snapshot *p, device *dev, const slab *slab, int number, error *e);
void snapshot_close(snapshot *p);

/* Empties it and reserves so many floats. False where there is no memory or it would need more than `limit` bytes. Its
 * old content must not be in use. */
bool snapshot_reserve(snapshot *p, size_t floats, size_t limit);

/* Floats that the own planes of a field take in a snapshot. */
size_t snapshot_field_floats(const slab *s);

/* Enqueue a copy on STREAM_OUTPUT: of the own planes of a field (device memory, slab_floats), or of any floats. That
 * stream already waits for the field's writers (stepper_await); nothing else may write it before snapshot_mark. Returns
 * the place of the copy. */
const float *snapshot_field(snapshot *p, const float *field, error *e);
const float *snapshot_floats(snapshot *p, const float *from, size_t floats, error *e);

/* Records, at most twice, the event after which all that was copied so far may be overwritten; returns it. */
device_event *snapshot_mark(snapshot *p, error *e);

/* Waits for all marks. For any thread, as sync_event is (device.h). */
int snapshot_wait(const snapshot *p, error *e);

/* Own point (0, 0, 0) of a field that was copied: others lie about it as in the slab. */
const float *snapshot_points(const slab *s, const float *copy);
/* Puts `planes` own planes z .. of a field that was copied into dense planes of ny x nx values. */
void snapshot_planes(const slab *s, const float *copy, int z, int planes, float *values);

/* A part of the memory that this machine, or the batch job or container, has left, bytes: half of it but for what files
 * take, divided among its ranks. */
size_t snapshot_limit(int local_ranks);

#endif
