#include "error_mpi.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "log.h"
#include "clock.h"

int error_from_mpi_at(error *e, error_place at, int rc, const char *call) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;
  if (rc == MPI_SUCCESS) return 0;
  MPI_Error_string(rc, text, &length);
  char function[64];
  snprintf(function, sizeof function, "%.*s", (int)strcspn(call, "("), call); /* without its arguments */
  return error_set(e, at, ERROR_MPI_FAILED, ERROR_FORMAT_MPI_FAILED, function, text);
}

int mpi_wait(MPI_Request *request, MPI_Status *status) {
  const double LONGEST = 500e-6; /* s */
  pace p = {.begin = clock_seconds()};
  for (;;) {
    int done, rc = MPI_Test(request, &done, status);
    if (rc != MPI_SUCCESS || done) return rc;
    pace_wait(&p, LONGEST);
  }
}

int mpi_reduce_all(void *values, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  int ranks, rc = MPI_Comm_size(comm, &ranks);
  return rc || ranks == 1 ? rc : MPI_Allreduce(MPI_IN_PLACE, values, count, type, op, comm);
}

int mpi_meet(MPI_Comm comm) {
  int ranks, rc = MPI_Comm_size(comm, &ranks);
  return rc || ranks == 1 ? rc : MPI_Barrier(comm);
}

int mpi_end(void) {
#if defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION == 4
  int (*halt)(const char *thread);
  *(void **)&halt = dlsym(RTLD_DEFAULT, "opal_progress_thread_pause");
  if (halt) halt(NULL); /* halt lets the running event end, then joins the thread */
#endif
  return MPI_Finalize();
}

int error_agree_on(error *e, MPI_Comm comm) {
  int rank, ranks;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  MPI_TRY(e, MPI_Comm_size(comm, &ranks));
  if (ranks == 1) {
    e->agreed = e->id != 0;
    return e->id;
  }
  int mine = e->id ? rank : ranks, first;
  MPI_AWAIT(e, MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm, &request));
  if (first == ranks) return 0;
  if (rank == first && !e->agreed) e->rank = rank, e->agreed = 1;
  MPI_AWAIT(e, MPI_Ibcast(e, (int)sizeof *e, MPI_BYTE, first, comm, &request));
  return e->id;
}

void error_print(const error *e, bool place) {
  fflush(stdout);
  log_end_line();
  bool stopped = error_exit_code(e->id) == EXIT_CODE_STOPPED; /* not an error: the user stopped it */
  fprintf(stderr, "stencil: %s%s", stopped ? "" : "error: ", e->text);
  if (place) fprintf(stderr, " [rank %d, %s]", e->rank, e->place);
  fprintf(stderr, "\n");
  fflush(stderr);
}

int error_abort(const error *e, MPI_Comm comm) {
  static atomic_flag begun = ATOMIC_FLAG_INIT;
  int rank = 0, ranks = 1;
  MPI_Comm_size(comm, &ranks);
  if (ranks == 1) return error_failed(e, e->id);
  /* A fault of the device hits all threads that use the device. One thread prints it, and its abort ends the others. */
  while (atomic_flag_test_and_set(&begun)) pause();
  MPI_Comm_rank(comm, &rank);
  /* The same fault often hits all ranks at once: the lowest rank prints first, and its abort ends the others before
   * they print. */
  usleep((useconds_t)(rank < 20 ? rank : 20) * 100000);
  error copy = *e;
  if (!copy.agreed) copy.rank = rank;
  error_print(&copy, true);
  MPI_Abort(comm, error_exit_code(e->id));
  abort(); /* MPI_Abort has ended this rank */
}

bool mpi_threads(void) {
  int level = MPI_THREAD_SINGLE;
  return !MPI_Query_thread(&level) && level == MPI_THREAD_MULTIPLE;
}
