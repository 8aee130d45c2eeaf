/* Memory of every rank of a node that all of them map: MPI's shared windows. */
#ifndef STENCIL_NODE_WINDOW_H
#define STENCIL_NODE_WINDOW_H

#include <mpi.h>
#include <stddef.h>
#include "base/error.h"

/* `bytes` of this rank, the same for all ranks of `node`; MPI_Win_shared_query finds the others'. NODE_MEMORY where
 * there is too little room for all: Open MPI 4 takes windows from /dev/shm, which is small in containers and may be
 * filled by others, and then waits for ever. Free the window. Collective, agreed. */
int node_window(MPI_Comm node, size_t bytes, void **mine, MPI_Win *window, error *e);

#endif
