/* What the step loop needs for kernels/wavefront.h: several steps a pass on the host device. */
#ifndef STENCIL_WAVEFRONT_H
#define STENCIL_WAVEFRONT_H

#include <stdbool.h>
#include "kernels/wavefront.h"
#include "halo/slab.h"

struct sources;

/* How a pass is cut (kernels/wavefront.h). */
typedef struct wavefront_shape {
  int depth; /* steps, 1 .. WAVEFRONT_DEPTH_MAX; 1: no wavefront */
  int rows;  /* of a tile; 0: as many as the L2 cache holds. All of the slab where y wraps. */
  /* Asks memory for more (host_ahead): 1.25 times as fast on Zen 5 from memory, 0.9 times where a cache holds the
   * fields. */
  bool eager;
} wavefront_shape;

/* Ways worth measuring, by depth; the first is one step a pass. */
enum { WAVEFRONT_WAYS = 9 };
extern const wavefront_shape wavefront_ways[WAVEFRONT_WAYS];

typedef struct wavefront {
  wavefront_shape shape; /* of the deepest passes; rows > 0 */
  int tiles, chunks;
  atomic_llong *done; /* wavefront_args.done, owned */
  long long before;   /* what `done` counts from */
} wavefront;

/* Prepares passes of up to shape->depth (2 or more) steps on a slab by `threads` threads. The slab has RADIUS ghost
 * planes towards neighbours for each step. medium: the equation reads one at each point. Not collective.
 * wavefront_close it, also after a failure; zero-initialised it can be closed, too. */
int wavefront_open(wavefront *w, const slab *s, const wavefront_shape *shape, bool medium, int threads,
                   error *e);
void wavefront_close(wavefront *w);

#endif
