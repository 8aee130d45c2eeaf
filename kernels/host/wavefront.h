/* Several steps a pass over memory, on the host: what one step stores the next one finds in a cache.
 *
 * In z a wavefront: at every position of the front one step after the other does a group of planes, each step a group
 * behind the one before it. In y tiles of a few rows, so that what the front holds fits a core's L2 cache. The rows of a
 * tile are those of the step before moved down by as many as a step reads: a tile needs of those below it what they have
 * computed, and never anything of those above it.
 *
 * So what step k + 1 reads, up to 4 planes and rows beyond its own, step k has stored before, here or in a lower tile;
 * and what it overwrites, in the field that step k reads, step k has read: two fields suffice for any number of steps.
 * The same goes for images at reflecting faces, and for layers, which read the old psi no farther off than u, and write
 * the other psi where they write u. It does not for faces that wrap: where y wraps one tile has all rows.
 *
 * Threads have chunks of z of their own, if there are planes enough. The seams between chunks lean upwards, 4 planes a
 * step: a chunk needs nothing of the one below it; and when its front comes to the seam above, the first planes there
 * have long been done, and nothing has overwritten what is needed of them. In a chunk, tile j + 1 does a position once
 * tile j has done it. A counter for each tile tells.
 *
 * A receiver reads up to 8 planes and rows, which a step has completed with the highest of them, but at a seam: there
 * the chunk below, which has waited for the one above, comes last. Who completes them samples, before anything overwrites
 * them: the step after the next one is 2 GROUP planes and rows behind. Those of the last step are left to the caller. */
#ifndef STENCIL_KERNEL_WAVEFRONT_H
#define STENCIL_KERNEL_WAVEFRONT_H

#include <stdatomic.h>
#include "kernels/layers/absorb.h"
#include "kernels/host_range.h"
#include "kernels/operations/operation.h"

enum {
  WAVEFRONT_DEPTH_MAX = 8 /* steps a pass: two passes may be unfinished, as sources allow (source.c) */
};

/* The sources of a pass; as inject_args, with a signal for each step. */
typedef struct wavefront_sources {
  const source_tile *tiles;
  const int *plane_begin; /* of plane z: the first of `tiles` that is not below it */
  const source_part *parts;
  const point_weights *places;
  const float *signal[WAVEFRONT_DEPTH_MAX];
} wavefront_sources;

/* The receivers of a pass, in ascending order of layer, then row. Layer 2 z is plane z, layer 2 z + 1 what lies between
 * it and plane z + 1. Those of a layer read the same planes. */
typedef struct wavefront_receivers {
  const point_weights *places;
  const int *row;         /* of each: the highest that it reads */
  const int *layer_begin; /* 2 nz + 1: the first of each layer */
  /* Of each receiver, after each step but the last; NULL: not sampled then. */
  float *samples[WAVEFRONT_DEPTH_MAX];
} wavefront_receivers;

/* A pass over a slab without neighbours whose faces in z do not wrap. */
typedef struct wavefront_args {
  kernel_args field;  /* all but in and out */
  absorb_args layers; /* all but the field, of the first step; width 0: none */
  /* Those of the equation in turn: in and out of the first step, then of the next ... */
  float *u[EQUATION_STATES];
  int steps, rows, tiles, chunks; /* rows of a tile, tiles of a chunk: wavefront_cut */
  /* One for each tile of each chunk, chunk by chunk, and one for all, and what they hold before the pass, or less: a
   * position done adds 1 to a tile's, a tile that is taken 1 to the last one. The next pass starts from before +
   * wavefront_counts. */
  atomic_llong *done;
  long long before;
  wavefront_sources sources; /* tiles NULL: none */
  wavefront_receivers receivers;
} wavefront_args;

extern const operation operation_wavefront;

/* Sets a->tiles and a->chunks, at most `threads`; a->rows is raised to what images need, and is all rows where y wraps.
 * Returns the number of counters. */
int wavefront_cut(wavefront_args *a, int threads);
/* What a pass adds to any counter at most. */
long long wavefront_counts(const wavefront_args *a);

#endif
