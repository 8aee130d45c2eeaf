/* Shared by the files of checkpoints. All functions are for one rank, without MPI. */
#ifndef STENCIL_CHECKPOINT_INTERNAL_H
#define STENCIL_CHECKPOINT_INTERNAL_H

#include "io/bytes/atomic_file.h"
#include "checkpoint.h"
#include "io/hdf5/io_internal.h"

enum { CHECKPOINT_FORMAT = 6 };

/* --- checkpoint_header.c: whether a file is as it was written --- */

enum { CHECKPOINT_HEADER = 4096 /* bytes before the HDF5 part: its user block */ };

typedef struct checkpoint_header {
  checkpoint_mark mark;
  int64_t step;
  double time, dt;
  uint64_t bytes;               /* of the file, header included */
  uint64_t sums_at;             /* XXH3 of each row of each array, in their order, 8 bytes each */
  uint64_t keys_at, keys_bytes; /* the fingerprint */
  int count;
  checkpoint_array arrays[CHECKPOINT_ARRAYS];
} checkpoint_header;

/* Names of the types in the header. */
extern const char *const CHECKPOINT_TYPE_NAMES[CHECKPOINT_TYPES];

/* Bytes of that many rows of an array; UINT64_MAX where they are more. */
uint64_t checkpoint_bytes(const checkpoint_array *s, int64_t rows);
/* Rows that have values, and so checksums. */
int64_t checkpoint_rows(const checkpoint_array *s);

/* Opens `file` and reads its header; exit 2 where the file is foreign or of another format. The caller closes *fd
 * unless it is negative. */
int checkpoint_read_header(const char *file, checkpoint_header *s, int *fd, error *e);
/* Exit 2 unless the file is as long as it was written, and all bytes but those of the arrays are the same. */
int checkpoint_check_header(const char *file, int fd, const checkpoint_header *s, error *e);
/* Reads the mark in the header of `file`, without checking the header. Generation -1: it cannot be read. */
checkpoint_mark checkpoint_read_mark(const char *file);
/* Writes the header of an open file that is otherwise complete and will be called `name`. Fills s->bytes. */
int checkpoint_write_header(const char *name, int fd, checkpoint_header *s, error *e);

/* --- checkpoint_list.c: files of a path --- */

typedef struct checkpoint_entry {
  int64_t step;
  checkpoint_mark mark;
} checkpoint_entry;

typedef struct checkpoint_list {
  checkpoint_entry *entries; /* newest first; owned */
  int count;
  int64_t newest; /* generation of the newest; 0 where none is known */
  int aside;      /* the greatest N of files PATH.oldN, or 0 */
} checkpoint_list;

/* All checkpoints, whatever their state. A folder that is not there holds none. Free with checkpoint_list_free. */
int checkpoint_list_files(checkpoint_list *list, const char *path, error *e);
void checkpoint_list_free(checkpoint_list *list);

/* May the process `self` delete or replace the file with this mark? */
bool checkpoint_owns(const checkpoint_mark *self, const checkpoint_mark *mark);

/* path_move_aside for the file of that step. */
int checkpoint_move_aside(const char *path, int64_t step, int *number, error *e);

/* Deletes the checkpoints in `list` that the run of `place` owns, except the `keep - 1` newest and that of `step`,
 * which has just been written. Files that cannot be deleted are tried again next time. */
void checkpoint_rotate(const checkpoint_list *list, const checkpoint_place *place, int64_t step);

#endif
