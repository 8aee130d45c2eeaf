/* Adds the sources of one shot, or of a batch, to the field: the tiles and signals of the sources on the device. */
#ifndef STENCIL_INJECTOR_H
#define STENCIL_INJECTOR_H

#include "physics/absorb.h"
#include "kernels/host/wavefront.h"
#include "source.h"

/* An injector's device memory, which serves one set of shots after another. */
typedef struct injector_memory {
  device_buffer tiles, parts, places, signal, ring, chi;
  device_event *brought; /* the signals computed last are on the device */
} injector_memory;

typedef struct injector {
  device *dev;        /* not owned */
  const slab *slab;   /* of the field, whose planes have the rows of each shot in order; not owned */
  const sources **of; /* of each shot; the list is owned, the sources are not */
  int count, rows;    /* shots; rows of a plane that belong to one shot */
  int tile_count, part_count, place_count, signal_count;
  injector_memory kept; /* owned; holds the next three, `ring` and `signal` */
  source_tile *tiles;   /* sorted by z, y, x; NULL without places, as are the next two */
  source_part *parts;   /* in each tile in the order of the sources */
  point_weights *places;
  int *plane_begin;               /* nz + 1: index of the first tile of each plane; owned */
  const absorb *layers;           /* not owned; layers that stretch the residuals (stretch.h); NULL: none */
  int stretched;                  /* tiles that layers reach */
  struct injector_lists *planned; /* what injector_open puts on the device; owned */
  float *ring, *signal; /* signals of the latest steps, pinned and device memory (injector_compute) */
  int64_t computed;     /* the first of the steps computed last; INT64_MIN: none */
  unsigned informed;    /* bit i: stream i has waited for the signals of `computed` */
} injector;

/* Plans the sources of `count` shots, each planned on a slab of its own. Shot i has rows i * rows to (i + 1) * rows - 1
 * of on->slab. Takes over the sources' places; the sources must outlive `j`. `j` is zero-initialised, or was planned
 * before: then it keeps its memory. Not collective. Call injector_close, also after a failure. */
int injector_plan(injector *j, sources *const *of, int count, const problem *on, int rows, error *e);
/* Copies the lists to the device, and takes the memory that is missing; none without points. The caller sets j->layers
 * before. Not collective. */
int injector_open(injector *j, error *e);
/* Frees all memory; what is enqueued must be done. */
void injector_close(injector *j);

/* Bytes that injector_open takes on this rank. */
void injector_bytes(const injector *j, size_t *on_device, size_t *pinned);

/* Enqueues on `stream` what the sources add to planes [args->z_begin, args->z_end) of args->out at the time step * dt,
 * and what they impose on it at the next step. At step -1 sources add nothing. Steps must ascend, and at most 16 of
 * them may be unfinished. */
int injector_apply(injector *j, int stream, const kernel_args *args, int64_t step, error *e);

/* Fills *pass with what the sources add at `steps` steps from `step` on; the rules of injector_apply hold. Host device
 * only. */
void injector_of_pass(injector *j, int64_t step, int steps, wavefront_sources *pass);

#endif
