/* Ends a job whose step loop does not progress, and names the rank that is late ([parallel] watchdog_seconds).
 *
 * Every rank writes its activity to memory that the ranks of its node share. A thread of each rank reads all of it. So
 * it finds a rank whose process has stopped, and the message names the rank that is late, not those that wait for it.
 * The main thread may be stuck in MPI or in the device. So the thread that notices writes one line and ends its process
 * with exit code 4; the launcher then ends the job.
 *
 * Saving is not watched: a slow disk is no failure. A stopped process is noticed even while it saves. */
#ifndef STENCIL_WATCHDOG_H
#define STENCIL_WATCHDOG_H

#include <mpi.h>
#include <stdint.h>
#include "base/error.h"

/* The activity of a rank. Of several ranks that are late at the same step, the message names the first in this list:
 * the others probably wait for it. */
enum watch_doing { WATCH_COMPUTE, WATCH_CHECK, WATCH_EXCHANGE, WATCH_AGREE, WATCH_NOT };

typedef struct watchdog watchdog;

/* Begins to watch; this rank is at first WATCH_NOT, after `step` steps. Where `seconds` is 0 *w is NULL, and the
 * functions below do nothing. Messages number ranks as in the run. Collective over `comm`, same error everywhere. Call
 * watchdog_close, also after a failure. */
int watchdog_open(watchdog **w, MPI_Comm comm, double seconds, int64_t step, error *e);

/* Says what this rank does now, after `step` steps. Three atomic stores. */
void watchdog_mark(watchdog *w, enum watch_doing doing, int64_t step);

/* Stops watching and frees *w, which becomes NULL. Collective. */
void watchdog_close(watchdog **w);

#endif
