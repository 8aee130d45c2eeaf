/* What main does in an MPI test that runs one group of tests on the host device or, with the argument "cuda", on CUDA. */
#ifndef STENCIL_MPI_MAIN_H
#define STENCIL_MPI_MAIN_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include "test.h"
#include "../io/files.h"
#include "../src/device.h"

/* All ranks, without a data server. */
static const files WORLD __attribute__((unused)) = {.compute = MPI_COMM_WORLD, .comm = MPI_COMM_WORLD};

/* Starts MPI, fills *rank and *ranks, and runs `on_host` or `on_cuda`; without a CUDA device the latter is skipped. */
static inline int mpi_main(int argc, char **argv, int *rank, int *ranks, const struct CMUnitTest on_host,
                           const struct CMUnitTest on_cuda) {
  const struct CMUnitTest host[] = {on_host}, cuda[] = {on_cuda};
  char why[256];
  bool wants_cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, ranks);
  int failed = 0;
  if (!wants_cuda)
    failed = cmocka_run_group_tests_name("host", host, NULL, NULL);
  else if (device_cuda_count(why) > 0)
    failed = cmocka_run_group_tests_name("cuda", cuda, NULL, NULL);
  else
    printf("no CUDA device, skipped: %s\n", why);
  if (failed) MPI_Abort(MPI_COMM_WORLD, 1); /* the other ranks may wait for this one */
  MPI_Finalize();
  return 0;
}

#endif
