/* The step loop's side of kernels/host/wavefront.h: several steps a pass on the host device. */
#ifndef STENCIL_WAVEFRONT_H
#define STENCIL_WAVEFRONT_H

#include "base/log.h"
#include "config/config.h"
#include "kernels/host/wavefront.h"

struct stepper;

/* How passes are cut; zero-initialised it can be closed. */
typedef struct wavefront {
  int threads;        /* of the device */
  int depth;          /* steps of the deepest passes; 1: no wavefront */
  wavefront_args cut; /* rows, tiles, chunks */
  atomic_llong *done; /* wavefront_args.done, owned */
  long long before;   /* what `done` counts from */
} wavefront;

/* The most steps of a pass of this run; 1: one at a time. Where the user asked for kernel `wavefront` the log says why.
 * A rank alone on the host, whose z does not wrap, can have several. `kernel = auto` is to try them only where no cache
 * holds the fields. */
int wavefront_most(const config *c, const kernel *k, int ranks, bool medium, run_log *log);

/* Prepares passes of up to `depth` (2 or more) steps. The launches of `args` have these sizes and rules, and w->threads
 * compute. Call wavefront_close, also after a failure. */
int wavefront_open(wavefront *w, const kernel_args *args, int depth, error *e);
void wavefront_close(wavefront *w);

/* Opens `w` with the fastest depth and sets s->front, and s->kernel to `wavefront`. Leaves them where one step a pass
 * is fastest, unless the user chose a wavefront. It times passes of the stepper, which overwrite both fields and the
 * layers, and caches the result (tune.h). */
int wavefront_choose(wavefront *w, struct stepper *s, int most, run_log *log, error *e);

#endif
