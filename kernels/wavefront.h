/* Several steps a pass over memory, on the host: what one step stores the next one finds in a cache.
 *
 * In z a wavefront: at every position of the front one step after the other does a group of WAVEFRONT_PLANES planes,
 * each step WAVEFRONT_LAG planes behind the one before it. In y tiles of a few rows, so that what the front holds fits
 * the L2 cache of a core or, where that measures faster, as high as a block of the sweep; the front goes through each from the lowest plane to the highest. The rows of a tile are those
 * of the step before moved down by wavefront_lean (parallelograms): a tile needs of the tiles below it what these have
 * computed, and never anything of those above it.
 *
 * So what step k + 1 reads, up to 4 planes and rows beyond its own, step k has stored before, here or in a lower tile;
 * and what it overwrites, in the field that step k reads, step k has read, since it goes on 4 planes higher up: two
 * fields suffice for any number of steps, those of the wave too. The same goes for images of points at reflecting faces,
 * which lie no farther beyond the face than the point is within; not for those at faces that wrap, which are the far end
 * of the axis: where y wraps one tile has all rows, and z is left to ghosts that are exchanged.
 *
 * Threads have chunks of z of their own, if there are planes enough, so that one core's tiles follow from its own. The
 * seams between chunks lean upwards, 4 planes a step: a chunk needs nothing of the one below it; and when its front comes
 * to the seam above, the first planes there have long been done, and nothing has overwritten what is needed of them. In
 * a chunk, tile j + 1 does a position once tile j has done it. A counter for each chunk and tile tells. Cores are not
 * equally fast: a thread that would wait for long takes the next tile of the chunk that is farthest behind. A tile is
 * taken only after those it waits for, the one below and that of the chunk above, so that no order of threads, nor a
 * single one, waits for ever.
 *
 * A receiver lies between planes and rows that a step has completed with the highest of them, but at a seam: there the
 * chunk below, which has waited for the one above, comes last. Who completes them samples, before anything overwrites
 * them: step k + 2 is 8 planes behind step k, and 8 rows or more in the tiles below. So nobody waits for receivers.
 * Those of the last step may read ghosts that are exchanged after the pass, and are left to the caller.
 *
 * Absorbing layers are part of a step's sweep. They read the old psi no farther off than u, and write the other psi
 * where they write u: what is in order for u is so for them. Towards a neighbour they are not known: a step would need
 * the layers' state in the planes beyond its own.
 *
 * Towards a neighbour the ghosts are 4 planes deep for each step: step k also computes those planes of the neighbour
 * that later steps need, with the neighbour's own bits. */
#ifndef STENCIL_KERNEL_WAVEFRONT_H
#define STENCIL_KERNEL_WAVEFRONT_H

#include <stdatomic.h>
#include <stdbool.h>
#include "absorb.h"
#include "host_share.h"
#include "operation.h"

enum {
  WAVEFRONT_PLANES = 4, /* what a sweep of kernel `simd` computes together */
  WAVEFRONT_LAG = 4,
  WAVEFRONT_LEAN_MOST = GHOST_REACH + 1,
  WAVEFRONT_DEPTH_MAX =
      8 /* steps a pass: two passes may be unfinished, which is what sources allow (source.c) */
};

/* The sources of a pass; as inject_args, with a signal for each step. */
typedef struct wavefront_sources {
  const source_point *points;
  const int *plane_begin; /* of plane z, which may be a ghost: the first of `points` that is not below it */
  const source_share *shares;
  const float *signal[WAVEFRONT_DEPTH_MAX];
} wavefront_sources;

/* The receivers of a pass, in ascending order of layer, then row. Layer 2 z is plane z, layer 2 z + 1 what lies between
 * it and plane z + 1; z is an own plane. */
typedef struct wavefront_receivers {
  const receiver *places;
  const int *row;         /* of each: the highest that it reads */
  const int *layer_begin; /* 2 nz + 1: the first of each layer */
  /* Of each receiver, after each step but the last; NULL: not sampled then. */
  float *samples[WAVEFRONT_DEPTH_MAX];
} wavefront_receivers;

typedef struct wavefront_args {
  kernel_args field; /* all but in and out */
  absorb_args
      layers; /* all but the field, of the first step; width 0: none, as it must be where there are neighbours */
  float *u[2]; /* in and out of the first step, out and in of the next ... */
  enum equation equation;
  int steps;
  int rows;         /* of a tile, at least wavefront_rows_least, or all */
  int tiles;        /* of a chunk: wavefront_tiles; 1 where y wraps */
  int chunks;       /* at most wavefront_chunks_most, and no more than threads */
  int lower, upper; /* is there a neighbour? */
  bool eager;       /* asks memory for more (host_ahead) */
  /* One for each tile of each chunk, chunk by chunk, and one for each chunk, and what they hold before the pass, or
   * less: a position done adds 1 to a tile's, a tile that is taken 1 to a chunk's. No two passes may share a range: the
   * next pass starts from before + wavefront_counts. */
  atomic_llong *done;
  long long before;
  wavefront_sources sources; /* points NULL: none */
  wavefront_receivers receivers;
} wavefront_args;

extern const operation operation_wavefront;

/* Rows that the tiles of a step lie below those of the step before: as far as it reads, and one more
 * where vectors at the ends of rows load, and drop, points of the rows beside them. */
int wavefront_lean(const wavefront_args *a);
/* Planes that step k computes: its own, and towards a neighbour those that later steps need. */
void wavefront_range(const wavefront_args *a, int k, int *begin, int *end);
/* Positions of the front in a chunk. */
int wavefront_positions(const wavefront_args *a, int chunk);
/* How many positions of the same tile in the chunk above must be done before a position of `chunk`. */
int wavefront_awaited(const wavefront_args *a, int chunk, int at);
/* What a pass adds to any counter at most. */
long long wavefront_counts(const wavefront_args *a);
/* Most chunks for a slab of nz planes: each has a few planes in every step, the highest one those of all images. */
static inline int wavefront_chunks_most(int nz, int steps) {
  const int most = nz / (4 * steps + 8);
  return most > 1 ? most : 1;
}
/* Fewest rows of a tile: the last step is left with one in the lowest tile, the others there with the points of all
 * images. */
static inline int wavefront_rows_least(int steps) {
  return WAVEFRONT_LEAN_MOST * (steps - 1) + 1;
}
/* Tiles of `rows` rows. */
int wavefront_tiles(int ny, int rows);
/* What step k does in `tile` of `chunk` when the front is at position `at`; may be empty. */
host_share wavefront_share(const wavefront_args *a, int chunk, int tile, int k, int at);
/* Layers of receivers that step k completes with such a share that is not empty; may be none. */
void wavefront_layers(const wavefront_args *a, int chunk, int k, host_share share, int *begin, int *end);

#endif
