/* What the step loop needs for kernels/wavefront.h: several steps a pass on the host device. */
#ifndef STENCIL_WAVEFRONT_H
#define STENCIL_WAVEFRONT_H

#include <stdbool.h>
#include "kernels/wavefront.h"
#include "halo/slab.h"

struct sources;

/* What else differs between passes of a depth. None is always the fastest (docs/EXPERIMENTS.md). */
enum wavefront_manner {
  WAVEFRONT_PLAIN,
  WAVEFRONT_EAGER, /* asks memory for more (host_ahead): 1.25 times as fast on Zen 5 */
  /* Tiles as high as a block of the sweep, not as what L2 holds: 1.13 times as fast where a miss of the TLB is dear, as
   * in virtual machines whose host has small pages; no faster on Sapphire Rapids. */
  WAVEFRONT_TALL,
  WAVEFRONT_MANNERS
};
extern const char *const wavefront_manner_names[WAVEFRONT_MANNERS];

/* How a pass is cut (kernels/wavefront.h). */
typedef struct wavefront_shape {
  int depth; /* steps, 1 .. WAVEFRONT_DEPTH_MAX; 1: no wavefront */
  int rows;  /* of a tile; 0: by the manner. All of the slab where y wraps. */
  enum wavefront_manner manner;
} wavefront_shape;

/* Ways worth measuring, by depth; the first is one step a pass. */
enum { WAVEFRONT_WAYS = 12 };
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
