/* The complete state of a run as arrays of a checkpoint: everything that its next step depends on, and what its outputs
 * have been so far. */
#ifndef STENCIL_CHECKPOINT_ARRAYS_H
#define STENCIL_CHECKPOINT_ARRAYS_H

#include "io/checkpoint/checkpoint.h"
#include "propagator/propagator.h"
#include "propagator/snapshot.h"

enum { RUN_ARRAYS = FIELDS_MAX + 2 }; /* with traces, and numbers */

/* A field that is saved; a rank's slices of it follow each other. */
typedef struct field_part {
  transfer *transfer;
  field field;
  int64_t first;     /* of the rows that the array has here */
  const float *copy; /* to save instead (snapshot.h): of the planes that are this slab's own; or NULL */
} field_part;

/* An array of one row of numbers. */
typedef struct numbers_part {
  int64_t *numbers; /* not owned */
  int64_t count;
} numbers_part;

typedef struct checkpoint_arrays {
  /* Their contexts are the parts below: this must stay where it is. */
  checkpoint_array arrays[RUN_ARRAYS];
  int count;
  field_part fields[FIELDS_MAX]; /* the newest state first */
  int field_count;
  receivers_sampled traces;
  numbers_part numbers;
} checkpoint_arrays;

/* Written are the planes that are this slab's own, read all it holds. `copy`: where the fields and layers are copied
 * to, now, and saved from; NULL: they are saved from the device. An error is the device's. */
int checkpoint_arrays_make(checkpoint_arrays *t, propagator *p, bool write, snapshot *copy, error *e);
/* One more array, of one row: `count` numbers, which this rank writes or reads where it is `mine`. At most one. */
void checkpoint_arrays_set_numbers(checkpoint_arrays *t, const char *name, numbers_part row, bool mine);

#endif
