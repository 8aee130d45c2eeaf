/* Whether a run advances several steps a pass: how many, and in which tiles. */
#ifndef STENCIL_PLAN_WAVEFRONT_H
#define STENCIL_PLAN_WAVEFRONT_H

#include "run/simulation.h"

/* Sets s->shape and, where its depth is more than 1, the stepper's kernels; s->kernel becomes the name of what will
 * run. `auto` takes a wavefront only where it is measured to be faster, on the host device and for fields that no cache
 * holds; `wavefront` as deep as is fastest. Where one cannot be, one step a pass it is, and the log says why. `measure`:
 * where nothing is remembered; else it is the most there may be, which takes the most memory. Needs the open device and
 * the kernels of one step a pass. Collective. */
int plan_wavefront(simulation *s, bool measure, error *e);

/* Do slabs of this run have neighbours in z? One rank is its own where the grid is periodic and it advances several
 * steps a pass: its ghosts are deeper than kernels wrap. */
bool plan_neighbours(const simulation *s);

#endif
