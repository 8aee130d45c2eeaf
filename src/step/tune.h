/* `kernel = auto`: finds the fastest kernel for this device and slab by measurement, once, and remembers it. */
#ifndef STENCIL_TUNE_H
#define STENCIL_TUNE_H

#include <mpi.h>
#include <stdbool.h>
#include "base/log.h"
#include "step.h"

/* Does "auto" measure this kernel of kernels.def for this equation and backend? It does not measure the oracle, nor
 * passes of several steps (wavefront.h). */
bool tune_candidate(const kernel *k, enum equation equation, enum backend backend);

/* Sets s->kernel and s->boundary_kernel. A named kernel serves for both. "auto" measures every candidate on the run's
 * own problem, layers and medium included, for the interior and for the thin launches at the boundary, in less than a
 * second. Rank 0's result counts for all ranks; a cache file keeps it for each device model, equation, slab, kind of
 * medium and faces (tune_cache_path). Clears the layers. All kernels give the same bits, so the choice affects the time
 * only. Both fields of `s` must be allocated; memory[1] is overwritten. The log names the choice. Collective over
 * `comm`, same choice and error everywhere. */
int tune_kernels(stepper *s, const char *name, enum equation equation, MPI_Comm comm, run_log *log, error *e);

/* All that a launch's time depends on: runs with the same key share a measurement. */
void tune_key(char key[512], const stepper *s, enum equation equation);

/* The cache file: $XDG_CACHE_HOME/stencil/kernels.json or ~/.cache/stencil/kernels.json; false if neither is
 * known. */
bool tune_cache_path(char path[1024]);

/* Reads the choice that file `path` holds under `key`: the names of two kernels. False if there is none, or the file is
 * missing or damaged. */
bool tune_recall(const char *path, const char *key, char interior[64], char boundary[64]);

/* Adds or replaces the choice for `key` in file `path`, and makes its folder where there is none. The new file appears
 * whole or not at all. False where it cannot be written: the next run then measures again. */
bool tune_remember(const char *path, const char *key, const char *interior, const char *boundary);

#endif
