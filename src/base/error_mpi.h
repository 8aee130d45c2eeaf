/* How ranks agree on a failure, so that the user sees one line and mpirun one exit code. Implemented in
 * error_mpi.c. */
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

/* Waits for a request like MPI_Wait, but yields the core to other threads, where MPI would spin. For waits that may be
 * long, and for those during which another thread computes. Returns MPI's code. */
int mpi_wait(MPI_Request *request, MPI_Status *status);
/* MPI_TRY of a call that begins what its argument `request` stands for, and mpi_wait for that. */
#define MPI_AWAIT(e, call)                                                                                   \
  do {                                                                                                       \
    MPI_Request request;                                                                                     \
    MPI_TRY(e, call);                                                                                        \
    MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));                                                       \
  } while (0)

/* MPI_Allreduce in place. A rank alone does not communicate, so several of its threads may call it. Returns MPI's
 * code. */
int mpi_reduce_all(void *values, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
/* MPI_Barrier, likewise. */
int mpi_meet(MPI_Comm comm);

/* MPI_Finalize, also safe with Open MPI 4. That closes its link to PMIx (mca_pmix_ext3x.so) while its progress thread
 * may still have an event of it to handle, and crashes. Here that thread ends first. Returns MPI's code. */
int mpi_end(void);

int error_agree_on(error *e, MPI_Comm comm);

/* Collective. If any rank of `comm` holds an error, every rank returns with the error of the lowest such rank (the same
 * everywhere, with that rank's number); otherwise returns 0. Call it where ranks may have failed differently but all of
 * them arrive: after parsing, opening files, allocating. */
static inline int error_agree(error *e, MPI_Comm comm) {
  const bool failed = e->id != 0;
  const int id = error_agree_on(e, comm);
  if (failed && !id) __builtin_unreachable(); /* analysers see one file at a time */
  return id;
}

/* For a failure inside the step loop, where the other ranks of `comm` may never arrive at an agreement: prints the error
 * with its place and rank and ends the whole job with its exit code. A rank alone gets the error's id back. */
int error_abort(const error *e, MPI_Comm comm);

/* Prints "stencil: error: TEXT" on stderr, with `place` also where it was found: " [rank 2, halo/slab.c:85 slab_init]".
 * Only one rank may call it. */
void error_print(const error *e, bool place);

/* Can several threads of this process be in MPI at once? */
bool mpi_threads(void);

#endif
