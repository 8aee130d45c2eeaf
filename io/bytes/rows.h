/* Moves rows of arrays between the ranks and a file. A row is one index of an array's first axis: a plane of a field.
 * Every rank moves its own rows, in blocks, on several threads. A block is collected, summed and written while it is
 * in a core's cache. Ranks that cannot open the file, even by a descriptor that rank 0 lends, exchange blocks with
 * rank 0 as messages. */
#ifndef STENCIL_ROWS_H
#define STENCIL_ROWS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "atomic_file.h"
#include "base/log.h"
#include "halo/shared_memory.h"

enum { IO_LOGGED = 4096 };
/* How the ranks of a communicator reach files. */
typedef struct io_access {
  MPI_Comm comm;          /* rank 0 creates and renames files; not owned */
  int rank, ranks;        /* of comm */
  bool together;          /* every rank opens files itself; else rank 0 alone */
  bool near;              /* this rank is on rank 0's node, where files are shared */
  int threads;            /* threads of a rank that write blocks, at least 1 */
  int compressors;        /* threads of a rank that compress or read blocks */
  size_t block_bytes;     /* bytes of a block at most, but at least one row */
  run_log *log;           /* the run's, NULL: none; not owned */
  char logged[IO_LOGGED]; /* what io_access_log has logged */
} io_access;

/* `together`: every rank sees the files. Collective over `comm`. */
int io_access_open(io_access *w, MPI_Comm comm, bool together, error *e);
/* Logs, once, what is done to the values of an input; "": nothing. */
void io_access_log(io_access *w, const char *dataset, const char *what);

/* Puts rows [row, row + rows) into `values`, dense, or takes them from there; returns 0 or an error id with `e`
 * filled. Any thread may call it, several at a time, in any order. It may overwrite `values`. */
typedef int row_mover(void *context, int64_t row, int64_t rows, void *values, error *e);

/* This rank's rows of an array. */
typedef struct row_part {
  const char *array;      /* its name, for messages */
  uint64_t at, row_bytes; /* where its row 0 is in the file; bytes of a row */
  int64_t first, count;   /* this rank's rows */
  row_mover *move;        /* NULL, when reading: only the sums are compared */
  void *context;
  /* XXH3 of each of these rows: set in writing, compared in reading. NULL: unused. Not owned. */
  uint64_t *sums;
} row_part;

/* The file that rows are written to or read from. */
typedef struct row_file {
  const char *name; /* for messages; not owned */
  int fd;           /* the file; -1: this rank has none */
  bool write;       /* rows are written, else read */
  bool checkpoint;  /* a read error means a damaged checkpoint */
  /* Replaces `fd` for rows that are no plain bytes of a file. Writes or reads such rows, in one thread at a time.
   * `at` is as in row_part. */
  int (*move)(void *context, uint64_t at, void *bytes, size_t count, error *e);
  void *context;
  int deflate; /* gzip level; each row is compressed and written separately; 0: none */
} row_file;

/* Read and write bytes at a place of the open file. */
int row_file_get(const row_file *f, uint64_t at, void *values, size_t bytes, error *e);
int row_file_put(const row_file *f, uint64_t at, const void *values, size_t bytes, error *e);

enum { NEW_FILE_ARRAYS = 48 };
/* A file that rank 0 creates and all ranks write. */
typedef struct new_file {
  char name[FILE_NAME]; /* the final name, on every rank */
  int fd;               /* -1 where it is not open */
  bool direct;          /* every rank has it open */
  uint64_t user_block;  /* bytes before HDF5's own; 0: none */
  struct {
    char temporary[FILE_NAME + TEMPORARY_ENDING]; /* the name until it is whole; "" before it is created */
    uint64_t at[NEW_FILE_ARRAYS];                 /* the first byte of each array */
    lent_file lent;                               /* the file, lent by rank 0 to its node */
  } plan;                                         /* rank 0's, which rows_open_new broadcasts */
} new_file;

/* Opens on all ranks a file that rank 0 has created, and broadcasts the places of its arrays. Ranks that use files
 * together open it by name. Otherwise ranks on rank 0's node use a descriptor that rank 0 lends. Collective, not
 * agreed. */
int rows_open_new(const io_access *w, new_file *f, error *e);
/* Is `mine` true on all ranks? Collective. */
int rows_all(const io_access *w, bool mine, bool *all, error *e);
/* Removes a file that is not whole, if there is one. Returns e->id. */
int new_file_drop(new_file *f, const error *e);
/* Closes the file. `sync`: first syncs it, on each rank that has written, since on a network file system no other
 * rank can. */
int rows_close_new(new_file *f, bool sync, error *e);

/* Moves the rows of all ranks. With `direct` every rank has the file open; else rank 0 alone, and `f` of the others
 * holds only name, write, checkpoint and deflate. Errors are not agreed: each rank returns the first, by place, of
 * its own rows. Rank 0 also returns failures of its work for others. Collective over w->comm: ranks that have failed
 * before (e->id) call it too, but move nothing. */
int rows_move(io_access *w, const row_file *f, bool direct, row_part *parts, int count, error *e);

#endif
