/* Many steps in one cooperative launch, for slabs so small that a launch takes longer than a step. The blocks stay on
 * the GPU, meet after each step, and write boundary planes to the neighbours' devices themselves. */
#ifndef STENCIL_PERSISTENT_H
#define STENCIL_PERSISTENT_H

#include <stdint.h>
#include "operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a launch reports. In device memory; the launcher sets it to 0. */
typedef struct persistent_state {
  unsigned done;      /* pieces of boundary planes finished, of all steps */
  unsigned failed;    /* a neighbour's planes did not come in time */
  uint64_t waited_ns; /* in which one block, done with its step, waited for neighbours' planes */
} persistent_state;

/* Step i reads fields[i % 2] and writes fields[(i + 1) % 2], own points with their images, as a kernel of one step does
 * (kernel.h). Where there is a neighbour on a side it also writes the 4 planes next to it into the neighbour's ghosts
 * and sets the neighbour's counter to counter_before + i + 1. The next step begins when this device's counter of that
 * side has come as far. The counters wrap around. */
typedef struct persistent_args {
  kernel_args constants; /* in, out and the z range are ignored */
  float *fields[2];      /* own point (0, 0, 0) */
  enum equation equation;
  int steps;
  /* [side][which field]: the neighbour's ghost point (first ghost plane, 0, 0); NULL: none. */
  float *remote[2][2];
  uint32_t *remote_counter[2]; /* in the neighbour's memory */
  const uint32_t *counter[2];  /* in this device's */
  uint32_t counter_before;
  persistent_state *state;
} persistent_args;

/* CUDA only. cudaErrorNotSupported: the device cannot do cooperative launches. */
extern const operation operation_persistent;

#ifdef __cplusplus
}
#endif
#endif
