/* Memory that processes of a node share.
 *
 * Pages of a file without a name, which one process makes and lends, and all map in place of their own: a killed run
 * leaves nothing behind. Ranges begin and end at page boundaries. A failure is SHARED_PAGES. Any open file can be lent.
 *
 * MPI's windows: memory of every rank of a node that all of them map. */
#ifndef STENCIL_SHARED_MEMORY_H
#define STENCIL_SHARED_MEMORY_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/* The lender sends this to the borrower; plain bytes. */
typedef struct lent_file {
  int64_t process;     /* 0: nothing is lent */
  int64_t descriptor;  /* of that process */
  uint64_t file, node; /* inode and device: a process may have another number in another container */
} lent_file;

/* Lets other processes of the node open a file that this one keeps open, even if they do not see its folder. */
int shared_file_lend(int file, lent_file *lent, error *e);
/* Opens it, to read and write; -1 after a failure. */
int shared_file_borrow(const lent_file *lent, error *e);
/* Makes a file without a name. Returns it, open; -1 after a failure. The caller closes it, which pages that are mapped
 * outlive. */
int shared_file_new(size_t bytes, error *e);
/* Replaces the pages at `at` by those of a file from `offset` on, which other processes may map, too. */
int shared_pages_map(void *at, size_t bytes, int file, size_t offset, error *e);
/* Replaces shared pages by pages of zeros that only this process sees. The other process keeps the shared ones. */
int shared_pages_leave(void *at, size_t bytes, error *e);

/* Allocates `bytes` for this rank, the same on all ranks of `node`; shared_window_of finds the others' memory.
 * NODE_MEMORY if there is too little for all: Open MPI 4 takes windows from /dev/shm, which is small in containers and
 * may be full, and then hangs. The caller frees the window. Collective, agreed. */
int shared_window(MPI_Comm node, size_t bytes, void **mine, MPI_Win *window, error *e);
/* The memory of a rank of the node. */
int shared_window_of(MPI_Win window, int rank, void **memory, error *e);

#endif
