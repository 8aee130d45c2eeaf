/* Compares the result of a benchmark with the oracle. */
#ifndef STENCIL_PROVE_H
#define STENCIL_PROVE_H

#include <mpi.h>
#include "step.h"

/* After stepper_sync: does one more step, without sources, of layers that are at rest, and compares two of its planes with the oracle's, bit by
 * bit: KERNEL_WRONG where one differs. The stepper keeps its state, but not the older field, the layers' state and that of
 * the terms: nothing sensible can follow. Collective, agreed. */
int stepper_prove(const stepper *s, MPI_Comm comm, error *e);

#endif
