/* The complete state of a run as arrays of a checkpoint: all that its next step depends on, and a record of its outputs
 * so far. */
#ifndef STENCIL_CHECKPOINT_ARRAYS_H
#define STENCIL_CHECKPOINT_ARRAYS_H

#include "io/checkpoint/checkpoint.h"
#include "propagator/propagator.h"
#include "propagator/snapshot.h"

enum { RUN_ARRAYS = FIELDS_MAX + 2 }; /* with traces, and numbers */

/* A saved field; a rank's slices of it follow each other. */
typedef struct field_part {
  transfer *transfer;
  field field;
  int64_t first;     /* the array's first row on this rank */
  const float *copy; /* a copy of this slab's own planes (snapshot.h), which is saved instead; or NULL */
} field_part;

/* An array of one row of numbers. */
typedef struct numbers_part {
  int64_t *numbers; /* not owned */
  int64_t count;
} numbers_part;

typedef struct checkpoint_arrays {
  /* Contexts point to the parts below, so the struct must not move. */
  checkpoint_array arrays[RUN_ARRAYS];
  int count;
  field_part fields[FIELDS_MAX]; /* the newest state first */
  int field_count;
  receivers_sampled traces;
  numbers_part numbers;
} checkpoint_arrays;

/* Makes the arrays. A slab writes its own planes, and reads all planes that it holds. `copy`: fields and layers are
 * copied into it now, and saved from it; NULL: they are saved from the device. An error is the device's. */
int checkpoint_arrays_make(checkpoint_arrays *t, propagator *p, bool write, snapshot *copy, error *e);
/* Adds an array of one row of `count` numbers; this rank writes or reads it if `mine`. There may be one such array. */
void checkpoint_arrays_set_numbers(checkpoint_arrays *t, const char *name, numbers_part row, bool mine);

#endif
