/* Moves a field between dense blocks of planes on the host (files) and the padded slab on the device, through
 * a bounded pinned staging buffer. */
#ifndef STENCIL_TRANSFER_H
#define STENCIL_TRANSFER_H

#include "device/device.h"
#include "slab.h"

typedef struct transfer {
  device *dev;                /* not owned */
  const slab *slab;           /* not owned */
  float *field;               /* device memory of the field moved, slab_floats long; set it before each use */
  bool alike;                 /* an incoming plane is one row, which all rows of the slab get */
  float ghosts[FACE_COUNT];   /* the value of x and y ghosts of incoming planes */
  float *staging;             /* pinned, owned */
  int parts, planes;          /* parts of `staging`, and padded planes in each */
  struct transfer_lock *lock; /* which parts are in use; owned */
} transfer;

/* Several threads may call the functions below at the same time, each with a copy of the struct and for its own field.
 * Nothing else may use STREAM_BOUNDARY meanwhile. */

/* Bytes of the staging buffer for this slab: at most 32 MiB, but at least one plane. */
size_t transfer_staging_bytes(const slab *s);

/* Allocates the staging buffer. After a failure, too, transfer_close frees what there is. */
int transfer_open(transfer *t, device *dev, const slab *slab, const float ghosts[FACE_COUNT], error *e);
/* Frees the staging buffer and the lock. Call it for one copy of the struct, when all others are done. */
void transfer_close(transfer *t);

/* Sets planes [z, z + planes) of the field, ghosts, padding and all, to `value`. */
int transfer_fill(transfer *t, int z, int planes, float value, error *e);

/* Copies `planes` dense planes of ny x nx values into own planes z .. of the field, and sets their x and y
 * ghosts. A field_sink (io/hdf5/field_io.h): `context` is the transfer. */
int transfer_to_device(void *context, int z, int planes, float *values, error *e);
/* Copies `bytes` between the device and host memory, for data that is not a field, and waits until they are copied. */
int transfer_bytes(const transfer *t, void *to, const void *from, size_t bytes, copy_direction direction,
                   error *e);

/* Copies own planes z .. of the field into `planes` dense planes of ny x nx values. A field_source. */
int transfer_to_host(void *context, int z, int planes, float *values, error *e);
/* Copies one row of own planes z .. into `planes` rows of nx values. */
int transfer_row_to_host(const transfer *t, int row, int z, int planes, float *values, error *e);

#endif
