/* Checkpoints: the complete state of a run in one file, PATH.SSSSSSSS.h5 (step, eight digits or more), as global
 * arrays, so that a run goes on from it on any number of ranks and any backend.
 *
 * A file appears under its name only when it is whole and durable, and only then are the oldest ones deleted. It is an
 * HDF5 file with a user block of 512 bytes, which holds a digest of all the rest: a file of which any byte has changed
 * is refused. Each chunk has its own checksum (fletcher32) besides. Rank 0 alone uses files; the other
 * ranks exchange blocks of bounded size with it, and no rank ever holds a second copy of its share.
 *
 * Functions that take a communicator are collective over it, and return the same error on every rank. */
#ifndef STENCIL_CHECKPOINT_H
#define STENCIL_CHECKPOINT_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "config/config.h"
#include "base/error.h"

enum { CHECKPOINT_NAME = CONFIG_TEXT + 32 /* longest name of a file, with its final 0 */ };

enum checkpoint_type { CHECKPOINT_FLOAT, CHECKPOINT_DOUBLE, CHECKPOINT_INT64 };

/* Puts rows [row, row + rows) of what this rank holds of an array into `values`, dense, of the array's type; returns
 * 0 or an error id with `e` filled. Rows are global ones; those of one array come in ascending order. */
typedef int checkpoint_source(void *context, int64_t row, int64_t rows, void *values, error *e);
/* Takes rows that were read. */
typedef int checkpoint_sink(void *context, int64_t row, int64_t rows, const void *values, error *e);

/* An array and this rank's part of it; to write it the source is needed, to read it the sink. Name, type and shape are
 * the same on all ranks. A row is what one index of the first axis means: a plane, a sample of all receivers. */
typedef struct checkpoint_array {
  const char *name;
  enum checkpoint_type type;
  int axes;         /* 1 to 3 */
  int64_t shape[3]; /* slowest first; any may be 0 */

  /* This rank's rows. Written: those of the ranks, in order, are all of the array's, each once; a rank may have none.
   * Read: any rows, the same ones on several ranks too. */
  int64_t first, count;

  /* For an array of 2 axes, instead: this rank's columns of every row, in any order; its rows are then `column_count`
   * values wide. Written: each column belongs to one rank. Not owned. */
  bool by_columns;
  const int *columns;
  int column_count;

  checkpoint_source *source;
  checkpoint_sink *sink;
  void *context;
} checkpoint_array;

/* A property of the run that a checkpoint must share with the run that goes on from it. */
typedef struct checkpoint_key {
  const char *key, *value; /* "[grid] nx", "512" */
} checkpoint_key;

/* What a checkpoint says of itself: root attributes. Texts may be NULL: empty. */
typedef struct checkpoint_meta {
  int64_t step;
  double time, dt; /* s; jacobi: a step is one unit of time */
  int mpi_ranks;
  const char *equation, *backend, *kernel, *transport;
  const char *config_text, *command;
  const checkpoint_key *keys; /* the fingerprint; no two keys are the same, none is empty */
  int key_count;
} checkpoint_meta;

/* Whose a checkpoint is, and how new it is. The seal holds it. */
typedef struct checkpoint_mark {
  uint64_t run;       /* the same for all legs of a run: a restart takes over that of its checkpoint */
  uint64_t leg;       /* of the process that wrote it */
  int64_t generation; /* later ones under a path have greater ones; -1: the seal cannot be read */
} checkpoint_mark;

typedef struct checkpoint_place {
  const char *path;     /* files are PATH.SSSSSSSS.h5 */
  int keep;             /* this many of the run's newest stay, at least 1 */
  int compress;         /* gzip level, with shuffle; 0: none */
  size_t block_bytes;   /* at most this much per block, but at least one row; 0: a good size */
  checkpoint_mark self; /* checkpoint_begin's; zeros: of a run without a number */
} checkpoint_place;

/* Writes a checkpoint, then deletes the run's oldest beyond `keep`: the order is that of writing, not of steps, since a
 * run may have gone back. A run owns what it wrote itself, and what there was of it when this leg began; others' files are
 * never deleted, and moved aside where they have the name of the new one. Before, removes what killed runs left half
 * written under this path. Full disk, missing folder and the like are exit 2 and name the file; then, and also where a
 * source fails, earlier checkpoints are as they were and no other file is left. */
int checkpoint_write(MPI_Comm comm, const checkpoint_place *place, const checkpoint_meta *meta,
                     const checkpoint_array *arrays, int count, error *e);

/* The bytes that writing these arrays needs on disk, without compression. */
uint64_t checkpoint_bytes(const checkpoint_array *arrays, int count);

/* An open checkpoint. */
typedef struct checkpoint {
  MPI_Comm comm;              /* not owned */
  char name[CHECKPOINT_NAME]; /* of the file; empty: none is open */
  int64_t step;
  double time, dt;
  checkpoint_mark mark;
  size_t block_bytes; /* as in checkpoint_place */
  int64_t file;       /* rank 0: HDF5's handle, or negative */
} checkpoint;

/* Opens a checkpoint after reading all of it once: what is missing, foreign, of another format, truncated or damaged is
 * exit 2. After a failure nothing is open. */
int checkpoint_open(checkpoint *c, MPI_Comm comm, const char *file, error *e);

/* Told on rank 0 of a file that cannot be used, and why. */
typedef void checkpoint_skipped(void *context, const char *file, const char *reason);

/* Exit 2 unless checkpoints PATH.*.h5 can be written. Not collective; leaves nothing behind. */
int checkpoint_path_check(const char *path, error *e);

/* Opens the newest intact one of PATH.*.h5, the one that was written last, passing over others. None: that is no error,
 * c->name is empty. */
int checkpoint_open_newest(checkpoint *c, MPI_Comm comm, const char *path, checkpoint_skipped *skipped,
                           void *context, error *e);

/* What a leg is told when it begins. */
typedef struct checkpoint_leg {
  checkpoint_mark self; /* for checkpoint_place */
  int moved, number;    /* files moved aside, as PATH.old<number>.SSSSSSSS.h5 */
  int64_t newest;       /* step of the newest of them; -1: none of them is a checkpoint */
} checkpoint_leg;

/* Begins a leg that will write checkpoints under `path`: of the run that wrote `from`, or, with NULL, of a new one, which
 * moves aside all that is there already. A kill on the way loses nothing: each file has one name or the other. */
int checkpoint_begin(MPI_Comm comm, const char *path, const checkpoint *from, checkpoint_leg *leg, error *e);

/* Exit 2, naming file, key, expected and found, unless the fingerprint is this one. */
int checkpoint_match(const checkpoint *c, const checkpoint_key *keys, int count, error *e);

/* Shape and type of an array; `*axes` is 0 where there is none of this name. */
int checkpoint_find_array(const checkpoint *c, const char *name, enum checkpoint_type *type, int *axes,
                          int64_t shape[3], error *e);

/* Reads this rank's part of an array into its sink. Not there, or of another shape or type: exit 2. */
int checkpoint_read(const checkpoint *c, const checkpoint_array *array, error *e);

void checkpoint_close(checkpoint *c);

#endif
