/* Several steps in one pass over memory, on the host: a step finds the values of the one before in a cache.
 *
 * In z there is a wavefront. At every position of it, each step does a group of planes, one group behind the step
 * before. In y there are tiles of a few rows, so that the planes of the front fit a core's L2 cache. The rows of a tile
 * move down from step to step by as many as a step reads. So a tile needs results of tiles below it and none of those
 * above.
 *
 * Step k + 1 reads up to 4 planes and rows beyond its own. Step k has stored these, here or in a lower tile. Step k + 1
 * overwrites only values that step k has read. So two fields suffice for any number of steps. The same holds for images
 * at reflecting faces. It holds for layers: they read the old psi no farther than u, and write the other psi where they
 * write u. It does not hold for periodic faces: where y is periodic one tile has all rows.
 *
 * Each thread has a chunk of z, if there are enough planes. The seams between chunks move up by 4 planes a step, so a
 * chunk needs nothing of the one below. When its front reaches the seam above, the planes there have been done long
 * ago, and the values that it needs are still there. In a chunk, tile j + 1 does a position after tile j. Each tile has
 * a counter of its positions done.
 *
 * A receiver reads up to 8 planes and rows. A step completes these planes with the highest one. At a seam the lower
 * chunk completes them, since it waits for the upper one. The thread that completes the planes samples at once: the
 * step after the next, which overwrites them, is 2 GROUP planes and rows behind. The caller samples the last step. */
#ifndef STENCIL_KERNEL_WAVEFRONT_H
#define STENCIL_KERNEL_WAVEFRONT_H

#include <stdatomic.h>
#include "kernels/layers/absorb.h"
#include "kernels/host_range.h"
#include "kernels/operations/operation.h"

enum {
  WAVEFRONT_DEPTH_MAX = 8 /* most steps of a pass: so the signals of two unfinished passes fit (injector.c) */
};

/* The sources of a pass; as inject_args, with a signal for each step. */
typedef struct wavefront_sources {
  const source_tile *tiles;
  const int *plane_begin; /* for plane z: the first of `tiles` in this plane or above */
  const source_part *parts;
  const point_weights *places;
  const float *signal[WAVEFRONT_DEPTH_MAX];
} wavefront_sources;

/* The receivers of a pass, in ascending order of layer, then row. Layer 2 z is plane z, layer 2 z + 1 the space between
 * it and plane z + 1. Receivers of a layer read the same planes. */
typedef struct wavefront_receivers {
  const point_weights *places;
  const int *row;         /* the highest row that each receiver reads */
  const int *layer_begin; /* 2 nz + 1: the first receiver of each layer */
  /* For each step but the last, a sample for each receiver; NULL: the step is not sampled. */
  float *samples[WAVEFRONT_DEPTH_MAX];
} wavefront_receivers;

/* A pass over a slab without neighbours whose faces in z do not wrap. */
typedef struct wavefront_args {
  kernel_args field;  /* all except in and out */
  absorb_args layers; /* all but the field, of the first step; width 0: none */
  /* The equation's fields in the order of use: in and out of the first step, then of the next ... */
  float *u[EQUATION_STATES];
  int steps, rows, tiles, chunks; /* rows of a tile, tiles of a chunk: wavefront_cut */
  /* Counters: one for each tile of each chunk, chunk by chunk, then one of the tiles taken. Each position done adds 1
   * to the counter of its tile. Counters are at most `before` when the pass begins; the next pass has before +
   * wavefront_counts. */
  atomic_llong *done;
  long long before;
  wavefront_sources sources; /* tiles NULL: none */
  wavefront_receivers receivers;
} wavefront_args;

extern const operation operation_wavefront;

/* Sets a->tiles and a->chunks, at most `threads`. Raises a->rows to what images need, and to all rows where y wraps.
 * Returns the number of counters. */
int wavefront_cut(wavefront_args *a, int threads);
/* The most that a pass adds to a counter. */
long long wavefront_counts(const wavefront_args *a);

#endif
