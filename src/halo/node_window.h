/* Memory of every rank of a node that all of them map: MPI's shared windows. */
#ifndef STENCIL_NODE_WINDOW_H
#define STENCIL_NODE_WINDOW_H

#include <mpi.h>
#include <stddef.h>
#include "base/error.h"

/* Allocates `bytes` for this rank, the same on all ranks of `node`; MPI_Win_shared_query finds the others' memory.
 * NODE_MEMORY if there is too little room for all: Open MPI 4 takes windows from /dev/shm, which is small in containers
 * and may be full, and then hangs. The caller frees the window. Collective, agreed. */
int node_window(MPI_Comm node, size_t bytes, void **mine, MPI_Win *window, error *e);

#endif
