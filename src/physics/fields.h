/* The list of all fields that a step reads and writes. Allocation, exchange, saves and estimates loop over it. */
#ifndef STENCIL_FIELDS_H
#define STENCIL_FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include "config/config.h"
#include "halo/slab.h"

enum { FIELD_SLICES = 2, FIELDS_MAX = 48 };

/* Memories by number: those of relaxations, then the pressure, where steps do not work on the pressure itself. */
enum { MEMORY_PRESSURE = MEMORIES_MAX, SHOT_MEMORIES };

/* Fields of a medium by number: the equation's factors, then what its terms work on (kernel_terms). */
enum { MEDIUM_V = EQUATION_MEDIA, MEDIUM_SIGMA, MEDIUM_LOSSES, MEDIUM_FIELDS };

/* Fields that maps are kept in: the quantities in their order, the sum of squares in two halves (maps_join); then
 * real and imaginary parts of each frequency. */
enum map_field {
  MAP_MAX,
  MAP_MIN,
  MAP_SQUARE,
  MAP_SQUARE_LOW,
  MAP_DFT,
  MAP_FIELDS = MAP_DFT + 2 * MAP_FREQUENCIES
};

enum field_role {
  FIELD_STATE,  /* laid out as the slab, with ghosts; number: steps before the newest */
  FIELD_MEDIUM, /* a medium that is no number; laid out as the slab, with ghosts */
  FIELD_MEMORY, /* memory of a term; laid out as the slab */
  FIELD_MAP,    /* laid out as the slab; number: enum map_field */
  FIELD_LAYER   /* state of absorbing layers: dense planes, without ghosts */
};

/* A part of a field that a slab holds: its planes [local, local + held) are planes [global, global + held) of the
 * global array. A checkpoint loads all held planes. It saves planes [own, own + owned), counted from the first one
 * held: no other slab owns these. */
typedef struct field_slice {
  int local, global, held;
  int own, owned;
} field_slice;

/* The shape of the global array is the same for every number of slabs. */
typedef struct field {
  char name[16]; /* in checkpoints: "u", "previous", "previous_2" ..., "psi_x" ...; of a medium its key */
  enum field_role role;
  int number;
  bool saved; /* steps to come depend on it, so checkpoints hold it */
  int64_t shape[3];
  float *
      /* device memory of the planes that the slices hold; not owned. NULL: only planned */
      values;
  int count;
  field_slice slices[FIELD_SLICES];
} field;

typedef struct field_set {
  field list[FIELDS_MAX]; /* the states first, the newest before the others */
  int count;
} field_set;

struct absorb;

/* Lists the fields of a configuration on a slab, and the state of its layers, planned or open. Only fields of the
 * layers get `values`. */
void fields_plan(field_set *f, const config *c, const slab *s, const struct absorb *layers);

/* Floats of a plane of the field in memory. */
size_t field_plane(const field *f, const slab *s);
/* Floats of device memory of the states and media: layers have their own. */
size_t fields_floats(const field_set *f, const slab *s);
/* Floats of this slab's own planes in all fields that are saved; fields_saved_values: without what pads rows;
 * fields_saved_globally: of the global arrays. */
size_t fields_saved(const field_set *f, const slab *s);
uint64_t fields_saved_values(const field_set *f);
double fields_saved_globally(const field_set *f);

#endif
