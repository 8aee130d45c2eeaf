/* What the files of the checkpoint share. All but the exchange is for one rank alone, and without MPI. */
#ifndef STENCIL_CHECKPOINT_INTERNAL_H
#define STENCIL_CHECKPOINT_INTERNAL_H

#include "atomic_file.h"
#include "checkpoint.h"
#include "io_internal.h"

enum { CHECKPOINT_FORMAT = 2, CHECKPOINT_TEMPORARY = CHECKPOINT_NAME + TEMPORARY_ENDING };
#define CHECKPOINT_KEYS "fingerprint" /* the group with the fingerprint as attributes */

/* --- checkpoint_seal.c: whether a file is as it was written --- */

enum { CHECKPOINT_SEAL = 512 /* bytes before the HDF5 part: its smallest user block */ };

/* Exit 2 unless every byte of `file` is as it was written. Reads all of it. */
int checkpoint_check_seal(const char *file, error *e);
/* The mark in the seal of `file`, which is not compared with the rest; generation -1 where there is none to be read. */
checkpoint_mark checkpoint_read_mark(const char *file);
/* Seals `temporary`, which is going to be `name`: closed, and with this digest (digest.h) apart from the seal. */
int checkpoint_write_seal(const char *name, const char *temporary, const checkpoint_mark *mark,
                          uint64_t digest, error *e);

/* --- checkpoint_array.c: an array in a file --- */

typedef struct stored_array {
  const char *file; /* its final name, for messages; not owned */
  const char *name; /* not owned */
  hid_t dataset;    /* H5I_INVALID_HID where not open */
  enum checkpoint_type type;
  int axes;
  hsize_t shape[3]; /* 1 for axes it does not have */
  uint64_t row_bytes;
} stored_array;

size_t checkpoint_value_bytes(enum checkpoint_type type);
/* Product of the extents of a row and the size of a value; UINT64_MAX for more than that. */
uint64_t checkpoint_row_bytes(enum checkpoint_type type, int axes, const int64_t shape[3]);

/* Creates the dataset; stored_close in any case. */
int stored_create(stored_array *s, const char *name, hid_t file, const checkpoint_array *a, int compress,
                  error *e);
/* Opens one for reading; likewise. */
int stored_open(stored_array *s, const char *name, hid_t file, const char *array, error *e);
/* Exit 2 unless it has the shape and the type of `a`. */
int stored_matches(const stored_array *s, const checkpoint_array *a, error *e);
/* Reads or writes rows [row, row + rows), dense. */
int stored_transfer(const stored_array *s, enum field_direction direction, int64_t row, int64_t rows,
                    void *values, error *e);
/* Are all its values there, as far as their places tell? */
bool stored_complete(const stored_array *s);
/* Returns 0, or -1 if HDF5 could not, which after writing means that values may be missing. */
int stored_close(stored_array *s);

/* --- checkpoint_file.c: the HDF5 part --- */

/* Creates `temporary`, which is going to be `name`, with all but the arrays and the seal. `*file` is H5I_INVALID_HID
 * before. `disk`, which is opened here, is to be closed after the file. */
int checkpoint_create(const char *name, const char *temporary, const checkpoint_meta *m, hid_t *file,
                      disk_driver *disk, error *e);
/* Opens `file` for reading, calling it `name` in messages. */
int checkpoint_open_file(const char *name, const char *file, hid_t *opened, error *e);
int checkpoint_get_meta(const char *name, hid_t file, int64_t *step, double *time, double *dt, error *e);
/* `*text` is to be given back by H5free_memory. */
int checkpoint_get_text(const char *name, hid_t object, const char *attribute, char **text, error *e);
/* Are these arrays, as far as their shapes and places tell, in this file? */
int checkpoint_look(const char *name, const char *file, const checkpoint_array *arrays, int count, error *e);

/* --- checkpoint_list.c: files of a path --- */

typedef struct checkpoint_entry {
  int64_t step;
  checkpoint_mark mark;
} checkpoint_entry;

typedef struct checkpoint_list {
  checkpoint_entry *entries; /* newest first; owned */
  int count;
  int aside; /* the greatest number of those that have been moved aside, or 0 */
} checkpoint_list;

int checkpoint_file_name(char name[CHECKPOINT_NAME], const char *path, int64_t step, error *e);

/* Those there are, whatever their state. A folder that is not there holds none. Free with checkpoint_list_free. */
int checkpoint_list_files(checkpoint_list *list, const char *path, error *e);
void checkpoint_list_free(checkpoint_list *list);

/* The generation of the newest one; 0 where none is known. */
int64_t checkpoint_list_newest(const checkpoint_list *list);

/* May the run whose leg is `self` delete or replace the file with this mark? */
bool checkpoint_owns(const checkpoint_mark *self, const checkpoint_mark *mark);

/* Renames the file of that step to PATH.old<number>.SSSSSSSS.h5, with the next free number from *number on. One that
 * has gone meanwhile is no error. */
int checkpoint_move_aside(const char *path, int64_t step, int *number, error *e);

/* Of those in `list` that the run of `place` owns, deletes all but the `keep - 1` newest, not counting, and sparing, that
 * of `step`, which has been written since. What cannot be deleted is left to the next time. */
void checkpoint_rotate(const checkpoint_list *list, const checkpoint_place *place, int64_t step);

/* --- checkpoint_exchange.c: rows on their way between rank 0 and the others --- */

/* What a rank has or wants of an array. */
typedef struct checkpoint_share {
  int64_t first, count; /* rows; for an array by columns: all, or none */
  int64_t columns;
  int64_t left; /* rows that are still to come */
} checkpoint_share;

typedef struct exchange {
  MPI_Comm comm;
  int rank, ranks;
  const checkpoint_array *a;
  checkpoint_share own;
  uint64_t row_bytes, own_bytes; /* of a whole row; of this rank's part of it */
  int64_t block;                 /* rows a block holds at most */
  char *part;                    /* a block of some rank's part; owned, as are: */
  char *rows;                    /* rank 0: a block of whole rows; the same as `part` but for columns */
  checkpoint_share *shares;      /* rank 0: of every rank */
  int *columns;                  /* rank 0: of every rank, one after another */
} exchange;

/* Tells rank 0 of everybody's share and allocates. Agreed. exchange_close in any case. */
int exchange_open(exchange *x, MPI_Comm comm, const checkpoint_array *a, size_t block_bytes, error *e);
void exchange_close(exchange *x);

/* Is every value that is to be written held by one rank? Rank 0 only. */
bool exchange_covers(const exchange *x);

/* Lets all values pass, in blocks, from the ranks' sources to `s` on rank 0, or from there to their sinks; `s` is not
 * looked at elsewhere. Collective, and agreed. `disk_error`: that of its disk_driver. */
int exchange_write(exchange *x, stored_array *s, const int *disk_error, error *e);
int exchange_read(exchange *x, stored_array *s, error *e);

#endif
