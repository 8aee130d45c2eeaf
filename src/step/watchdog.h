/* Ends a job whose step loop does not progress, naming the rank that holds it up ([parallel] watchdog_seconds).
 *
 * Every rank tells what it does in memory that the ranks of its node share. A thread of each rank looks at all of them:
 * so a rank is found out even where its process does not run any more, and the message names the rank that is late, not
 * those that wait for it. The main thread may be stuck in MPI or in the device and cannot help: the thread that notices
 * writes one line and ends its process with exit code 4, upon which the launcher ends the job.
 *
 * Saving is not watched: a slow disk is no failure. A process that does not run is noticed even while it saves. */
#ifndef STENCIL_WATCHDOG_H
#define STENCIL_WATCHDOG_H

#include <mpi.h>
#include <stdint.h>
#include "base/error.h"

/* What a rank does. Of several that do not progress, after as many steps, the one is blamed that comes first here: the
 * others probably wait for it. */
enum watch_doing { WATCH_COMPUTE, WATCH_CHECK, WATCH_EXCHANGE, WATCH_AGREE, WATCH_NOT };

typedef struct watchdog watchdog;

/* Begins to watch, at first WATCH_NOT. *w is NULL where `seconds` is 0, and all below then do nothing. Ranks count as
 * those of `comm`. Collective over `comm`, same error everywhere. */
int watchdog_open(watchdog **w, MPI_Comm comm, double seconds, int64_t step, error *e);

/* This rank begins to do something else, having done `step` steps. Costs next to nothing. */
void watchdog_tell(watchdog *w, enum watch_doing doing, int64_t step);

/* Stops watching. Collective; *w becomes NULL. */
void watchdog_close(watchdog **w);

#endif
