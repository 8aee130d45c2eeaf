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
  int number;                         /* the number of this snapshot: 0, 1 ... */
  device_event *mark[SNAPSHOT_MARKS]; /* owned */
  int marks;                          /* marks recorded after copies */
  float *memory;                      /* pinned */
  size_t capacity, used;              /* floats */
} snapshot;

/* Call snapshot_close also after a failure. */
int snapshot_open(snapshot *p, device *dev, const slab *slab, int number, error *e);
void snapshot_close(snapshot *p);

/* Empties the snapshot and reserves `floats` floats. False where memory is lacking or more than `limit` bytes would be
 * needed. The old content must not be in use. */
bool snapshot_reserve(snapshot *p, size_t floats, size_t limit);

/* Floats that the own planes of a field take in a snapshot. */
size_t snapshot_field_floats(const slab *s);

/* Both enqueue a copy on STREAM_OUTPUT: of the own planes of a field (device memory, slab_floats), or of any floats.
 * STREAM_OUTPUT must already wait for those who write the original (stepper_await). Nothing else may write the original
 * before snapshot_mark. They return the place of the copy. */
const float *snapshot_field(snapshot *p, const float *field, error *e);
const float *snapshot_floats(snapshot *p, const float *from, size_t floats, error *e);

/* Records and returns an event, at most twice. After the event all that was copied so far may be overwritten. */
device_event *snapshot_mark(snapshot *p, error *e);

/* Waits for all marks. Any thread may call it, as sync_event (device.h). */
int snapshot_wait(const snapshot *p, error *e);

/* Own point (0, 0, 0) of a copied field. Other points lie relative to it as in the slab. */
const float *snapshot_points(const slab *s, const float *copy);
/* Puts `planes` own planes, from z on, of a copied field into dense planes of ny x nx values. */
void snapshot_planes(const slab *s, const float *copy, int z, int planes, float *values);

/* The memory that a rank may use for snapshots, bytes. Half the memory left to this machine, batch job or container,
 * without what files take, is divided among the ranks. */
size_t snapshot_limit(int local_ranks);

#endif
