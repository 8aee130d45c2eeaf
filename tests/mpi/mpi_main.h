/* What main does in an MPI test, as tests/backend_main.h does. */
#ifndef STENCIL_MPI_MAIN_H
#define STENCIL_MPI_MAIN_H

#include <mpi.h>
#include <stdbool.h>
#include "tests/backend_main.h"
#include "base/error_mpi.h"
#include "io/disk.h"

/* All ranks, without a data server. */
static const files WORLD __attribute__((unused)) = {
    .kind = &files_on_disk, .compute = MPI_COMM_WORLD, .comm = MPI_COMM_WORLD};
static int rank, ranks;

/* A failure on one rank ends the job, since the others may wait for it. */
#define MPI_MAIN                                                                                             \
  int main(int argc, char **argv) {                                                                          \
    MPI_Init(&argc, &argv);                                                                                  \
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);                                                                    \
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);                                                                   \
    if (backend_run(argc, argv)) MPI_Abort(MPI_COMM_WORLD, 1);                                               \
    return mpi_end();                                                                                        \
  }

#endif
