/* What the step loop needs for kernels/wavefront.h: several steps a pass on the host device. */
#ifndef STENCIL_WAVEFRONT_H
#define STENCIL_WAVEFRONT_H

#include <stdbool.h>
#include "kernels/wavefront.h"
#include "halo/slab.h"

struct sources;

/* How a pass is cut (kernels/wavefront.h). */
typedef struct wavefront_shape {
  int depth;    /* steps, 1 .. WAVEFRONT_DEPTH_MAX; 1: no wavefront */
  bool upright; /* tiles */
  int rows;     /* of a leaning tile; 0: as many as the L2 cache holds */
} wavefront_shape;

/* Shapes worth measuring; the first is one step a pass. */
enum { WAVEFRONT_SHAPES = 9 };
extern const wavefront_shape wavefront_shapes[WAVEFRONT_SHAPES];

/* Seconds of a step of each shape, timed in turns. */
enum { WAVEFRONT_TURNS = 2 };
typedef double shape_seconds[WAVEFRONT_TURNS][WAVEFRONT_SHAPES];

/* Number of the shape to take. Threads do parts and leaning tiles of slower ones, so the faster turn tells what a run
 * will see. Upright tiles are one for each thread: the slowest core decides, and how slow it is changes from minute to
 * minute. So their slower turn counts, and must win clearly. */
int wavefront_fastest(shape_seconds seconds);

typedef struct wavefront {
  wavefront_shape shape; /* of the deepest passes; rows > 0 where tiles lean */
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
