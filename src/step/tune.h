/* `kernel = auto`: which kernel is fastest on this device for this slab, measured once and remembered. */
#ifndef STENCIL_TUNE_H
#define STENCIL_TUNE_H

#include <mpi.h>
#include <stdbool.h>
#include "base/log.h"
#include "step.h"

/* Does "auto" measure this kernel of kernels.def for a run with this equation and backend? All but
 * the oracle and wavefronts, whose depth decides the ghosts and is measured before there are fields (plan_wavefront.h). */
bool tune_candidate(const kernel *k, enum equation equation, enum backend backend);

/* Sets s->kernel, s->boundary_kernel and s->virtual_x. A named kernel serves for both; "auto" measures every candidate
 * on this slab, for a whole launch and for the thin ones at the boundary, in less than a second; rank 0's result counts
 * for all, and is kept in a cache file per device model, equation and slab (tune_cache_path). All kernels give the same
 * bits, so the choice shows in the time only. Needs both fields of `s` allocated, and writes to memory[1]. Collective
 * over `comm`; says in `log` what it chose and why. */
int tune_kernels(stepper *s, const char *name, enum equation equation, MPI_Comm comm, run_log *log, error *e);

/* The cache file: $XDG_CACHE_HOME/stencil/kernels.json or ~/.cache/stencil/kernels.json; false if neither is
 * known. */
bool tune_cache_path(char path[1024]);

/* The choice remembered in file `path` under `key`: names of kernels, at most 64 bytes each. False if there
 * is none, or the file is missing or damaged. */
bool tune_recall(const char *path, const char *key, char interior[64], char boundary[64]);

/* Adds or replaces the choice for `key` in `path`, which appears whole or not at all; the folder is made if
 * need be. Losing it costs a measurement: returns false where it cannot be written, and is no error. */
bool tune_remember(const char *path, const char *key, const char *interior, const char *boundary);

#endif
