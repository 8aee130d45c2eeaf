/* Which cores the ranks may use, for the log. */
#ifndef STENCIL_CORES_H
#define STENCIL_CORES_H

#include <mpi.h>
#include "base/error.h"
#include "base/log.h"

/* With --verbose: a line for each rank, with its host, its threads (of the host device) and the cores that its threads
 * may run on. Collective over `comm`. */
int cores_log(MPI_Comm comm, int threads, run_log *log, error *e);

#endif
