/* The step loop's side of kernels/wavefront.h: several steps a pass on the host device. */
#ifndef STENCIL_WAVEFRONT_H
#define STENCIL_WAVEFRONT_H

#include "../kernels/wavefront.h"
#include "slab.h"

struct sources;

typedef struct wavefront {
  int depth; /* most steps a pass */
  int rows;  /* of a tile */
  int threads;
  atomic_llong *done; /* one for each tile of each chunk */
  long long before;   /* what `done` counts from: positions of all passes so far */
} wavefront;

/* Readies passes of up to `depth` (2 .. WAVEFRONT_DEPTH_MAX) steps on a slab by `threads` threads; ghosts towards
 * neighbours are to be RADIUS * depth planes. rows: of a tile, 0: as many as the L2 cache holds. Close it also after a
 * failure; zero-initialised it can be closed. */
int wavefront_open(wavefront *w, const slab *s, int depth, int rows, bool medium, int threads, error *e);
void wavefront_close(wavefront *w);

#endif
