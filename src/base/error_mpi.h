/* How ranks agree on a failure, so that the user sees one line and mpirun one exit code. */
#ifndef STENCIL_ERROR_MPI_H
#define STENCIL_ERROR_MPI_H

#include <mpi.h>
#include <stdbool.h>
#include "error.h"

/* Turns an MPI return code into an error (0 for MPI_SUCCESS) that names the call. */
#define error_from_mpi(e, rc, call) error_from_mpi_at((e), ERROR_HERE, (rc), (call))
int error_from_mpi_at(error *e, error_place at, int rc, const char *call);

/* Runs an MPI call inside a function that has `error *e`; on failure returns the error id. */
#define MPI_TRY(e, call)                                                                                     \
  do {                                                                                                       \
    int mpi_rc_ = (call);                                                                                    \
    if (mpi_rc_ != MPI_SUCCESS) return error_failed((e), error_from_mpi((e), mpi_rc_, #call));               \
  } while (0)

/* Waits for a request like MPI_Wait, but yields the core to other threads, where MPI would spin. Use it for waits that
 * may be long, or during which another thread computes. Returns MPI's code. */
int mpi_wait(MPI_Request *request, MPI_Status *status);
/* Runs by MPI_TRY a call that begins the request `request`, one of its arguments; then waits for it by mpi_wait. */
#define MPI_AWAIT(e, call)                                                                                   \
  do {                                                                                                       \
    MPI_Request request;                                                                                     \
    MPI_TRY(e, call);                                                                                        \
    MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));                                                       \
  } while (0)

/* MPI_Allreduce in place. A rank alone does not communicate, so several of its threads may call it. Returns MPI's
 * code. */
int mpi_reduce_all(void *values, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
/* MPI_Barrier. A rank alone does not communicate. Returns MPI's code. */
int mpi_meet(MPI_Comm comm);

/* MPI_Finalize, also safe with Open MPI 4. Open MPI 4 closes its link to PMIx (mca_pmix_ext3x.so) while its progress
 * thread may still handle an event of the link, and crashes. So the thread ends first. Returns MPI's code. */
int mpi_end(void);

int error_agree_on(error *e, MPI_Comm comm);

/* Collective. If any rank of `comm` holds an error, every rank gets and returns the error of the lowest such rank, with
 * its number. Otherwise it returns 0. Call it where ranks may have failed differently but all arrive: after parsing,
 * opening files, allocating. */
static inline int error_agree(error *e, MPI_Comm comm) {
  const bool failed = e->id != 0;
  const int id = error_agree_on(e, comm);
  if (failed && !id) __builtin_unreachable(); /* analysers see one file at a time */
  return id;
}

/* Prints the error with its place and rank, and ends the whole job with its exit code. Use it inside the step loop,
 * where other ranks of `comm` may never reach an agreement. A rank alone only returns the error's id. */
int error_abort(const error *e, MPI_Comm comm);

/* Prints "stencil: error: TEXT" on stderr, with `place` also where it was found: " [rank 2, halo/slab.c:85 slab_init]".
 * Only one rank may call it. */
void error_print(const error *e, bool place);

/* Can several threads of this process be in MPI at once? */
bool mpi_threads(void);

#endif
