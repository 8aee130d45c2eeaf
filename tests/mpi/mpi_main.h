/* What main does in an MPI test that runs one test on the host device or, with the argument "cuda", on CUDA. */
#ifndef STENCIL_MPI_MAIN_H
#define STENCIL_MPI_MAIN_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include "test.h"
#include "io/files.h"
#include "device/device.h"

/* All ranks, without a data server. */
static const files WORLD __attribute__((unused)) = {.compute = MPI_COMM_WORLD, .comm = MPI_COMM_WORLD};

/* Starts MPI, fills *rank and *ranks, and runs the test called `name`; its state is the device's name, "host" or
 * "cuda". Skipped where there is no CUDA device. */
static inline int mpi_main(int argc, char **argv, int *rank, int *ranks, const char *name,
                           CMUnitTestFunction test) {
  static char host[] = "host", cuda[] = "cuda";
  char *const backend = argc > 1 && strcmp(argv[1], cuda) == 0 ? cuda : host, title[128], why[256];
  const struct CMUnitTest tests[] = {{title, test, NULL, NULL, backend}};
  snprintf(title, sizeof title, "%s_on_%s", name, backend);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, ranks);
  const bool skipped = backend == cuda && device_cuda_count(why) == 0;
  if (skipped) printf("no CUDA device, skipped: %s\n", why);
  if (!skipped && cmocka_run_group_tests_name(backend, tests, NULL, NULL))
    MPI_Abort(MPI_COMM_WORLD, 1); /* the other ranks may wait for this one */
  MPI_Finalize();
  return 0;
}

#endif
