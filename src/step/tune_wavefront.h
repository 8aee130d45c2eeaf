/* How many steps a pass kernel `wavefront` should advance, and in which tiles. */
#ifndef STENCIL_TUNE_WAVEFRONT_H
#define STENCIL_TUNE_WAVEFRONT_H

#include <mpi.h>
#include "base/log.h"
#include "step.h"

/* What is asked for: a wavefront in any case, or only where it is faster than one step a pass. */
typedef struct wavefront_question {
  const kernel *wavefront; /* of `dev` */
  device *dev;
  int threads;        /* of the device */
  int nx, ny, planes; /* of a slab with the fewest planes: the same on every rank */
  bool medium;        /* at each point */
  bool neighbours;    /* slabs have them: planes are computed twice */
  bool always;        /* never answer 1 */
  bool wraps;         /* y does: tiles must stand upright */
  int most;           /* steps: never answer more */
  bool measure;       /* where nothing is remembered; else the answer is then the deepest there may be */
} wavefront_question;

/* May planes of this size be asked about? Of larger ones even the fewest take more memory and time than a trial
 * should. */
bool tune_wavefront_can(int nx, int ny);

/* Times passes of several depths, in both kinds of tiles, on all ranks at once, with fields of its own that it frees
 * again, for a second or two, and answers the fastest: the same on every rank. The answer of rank 0's cache file counts
 * where there is one (tune.h). Says in `log` what it chose. Collective. */
int tune_wavefront(const wavefront_question *q, MPI_Comm comm, run_log *log, wavefront_shape *shape,
                   error *e);

#endif
