/* Compares the result of a benchmark with the oracle. */
#ifndef STENCIL_PROVE_H
#define STENCIL_PROVE_H

#include <mpi.h>
#include "step.h"

/* Call it after stepper_sync. Does one more step, without sources, with layers at rest. Compares two of its planes with
 * the oracle's, bit by bit: KERNEL_WRONG where one differs. The stepper keeps its state, but the step overwrites the
 * older field and the state of layers and terms. So no sensible step can follow. Collective, agreed. */
int stepper_prove(const stepper *s, MPI_Comm comm, error *e);

#endif
