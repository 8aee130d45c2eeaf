/* What main does in a test that runs on the host device or, with the argument "cuda", on CUDA: the tests get its name. */
#ifndef STENCIL_BACKEND_MAIN_H
#define STENCIL_BACKEND_MAIN_H

#include <stdio.h>
#include "test.h"
#include "device/device.h"

/* How many tests failed; none where there is no CUDA device, after saying so. */
static inline int backend_run(int argc, char **argv) {
  static char host[] = "host", cuda[] = "cuda", why[256];
  char *const backend = argc > 1 && strcmp(argv[1], cuda) == 0 ? cuda : host;
  if (backend == cuda && device_cuda_count(why) == 0) return printf("no CUDA device, skipped: %s\n", why), 0;
  for (struct CMUnitTest *t = tests; t->name; t++) t->initial_state = backend;
  return cmocka_run_group_tests_name(backend, tests, NULL, NULL);
}

#define BACKEND_MAIN                                                                                         \
  int main(int argc, char **argv) {                                                                          \
    return backend_run(argc, argv);                                                                          \
  }

#endif
