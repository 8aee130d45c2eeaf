/* Memory that processes of a node share.
 *
 * Pages: one process makes a file without a name and lends it; all map its pages in place of their own. So a killed
 * run leaves nothing behind. Ranges begin and end at page boundaries. A failure is SHARED_PAGES. Any open file can be
 * lent.
 *
 * Windows: MPI's memory of every rank of a node, which all ranks of the node map. */
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
  uint64_t file, node; /* inode and device; process numbers differ between containers */
} lent_file;

/* Lets other processes of the node open a file that this one keeps open, even if they do not see its folder. */
int shared_file_lend(int file, lent_file *lent, error *e);
/* Opens a lent file to read and write; -1 after a failure. */
int shared_file_borrow(const lent_file *lent, error *e);
/* Makes a file without a name. Returns it, open; -1 after a failure. The caller closes it; mapped pages stay. */
int shared_file_new(size_t bytes, error *e);
/* Replaces the pages at `at` by those of a file from `offset` on, which other processes may map, too. */
int shared_pages_map(void *at, size_t bytes, int file, size_t offset, error *e);
/* Replaces shared pages by pages of zeros that only this process sees. Other processes keep the shared pages. */
int shared_pages_leave(void *at, size_t bytes, error *e);

/* Allocates `bytes` for this rank, the same on all ranks of `node`; shared_window_of finds the others' memory.
 * NODE_MEMORY if there is too little memory for all ranks. Open MPI 4 takes windows from /dev/shm, which is small in
 * containers, and hangs where /dev/shm is full. The caller frees the window. Collective, agreed. */
int shared_window(MPI_Comm node, size_t bytes, void **mine, MPI_Win *window, error *e);
/* Sets *memory to the window of a rank of the node. */
int shared_window_of(MPI_Win window, int rank, void **memory, error *e);

#endif
