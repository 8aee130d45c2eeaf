/* What the files of io/ share. It includes hdf5.h, so nothing outside io/ includes it. */
#ifndef STENCIL_IO_INTERNAL_H
#define STENCIL_IO_INTERNAL_H

#include <hdf5.h>
#include "disk_driver.h"
#include "atomic_file.h"
#include "field_io.h"

enum { HDF5_TEXT = 512 };

/* Why the HDF5 call just made failed, in HDF5's words, for the end of a message. Use through HDF5_WHY, before
 * any other HDF5 call, which would forget it. */
const char *hdf5_why(char text[HDF5_TEXT]);
#define HDF5_WHY hdf5_why((char[HDF5_TEXT]){""})

/* The folder of `path`: "." where it names none. */
void path_folder(const char *path, char folder[FILE_NAME]);
/* That of files PATH.*; where it is not there, the one above it, at most so many times: returns how many were not there. */
int path_ground(const char *path, int most, char ground[FILE_NAME]);

/* PATH and `ending`; exit 2 where that is too long. */
int path_name(char name[FILE_NAME], const char *path, const char *ending, error *e);
/* PATH.SSSSSSSS and `extension`; likewise. */
int path_step_name(char name[FILE_NAME], const char *path, int64_t step, const char *extension, error *e);
/* What follows the last part of `path` at the beginning of the name of a file; NULL where it does not begin so. */
const char *path_rest(const char *path, const char *file);
/* What follows BASE.SSSSSSSS and `extension`, where BASE is the last part of `path`, at the beginning of the name of a
 * file; NULL where it is no such name. */
const char *path_step(const char *path, const char *extension, const char *file, int64_t *step);

/* The number N of a file named like PATH.oldN.*, or 0. */
int path_aside(const char *path, const char *file);
/* Renames PATH and `ending` to PATH.old<number> and `ending`, with the next free number from *number on. A file that has gone
 * meanwhile is no error. */
int path_move_aside(const char *path, const char *ending, int *number, error *e);

enum { SHAPE_TEXT = 32 + H5S_MAX_RANK * 24 };
/* (2, 3, 4) */
void shape_print(int rank, const hsize_t *shape, char text[SHAPE_TEXT]);
/* The shape of an open dataset, also in words. */
int dataset_shape(const char *name, hid_t dataset, hsize_t shape[H5S_MAX_RANK], int *rank,
                  char text[SHAPE_TEXT], error *e);

/* A block of a dataset, and what its numbers are in memory. */
typedef struct dataset_block {
  hid_t type;
  int rank;
  hsize_t start[H5S_MAX_RANK], count[H5S_MAX_RANK];
} dataset_block;
/* Reads it. NULL, or why that failed, in `why`. */
const char *dataset_read(hid_t dataset, const dataset_block *b, void *to, char why[HDF5_TEXT]);

/* Are its values float32 as they are in memory, all in one piece of its own file? *at: the first byte. */
bool dataset_plain(hid_t dataset, uint64_t *at);

/* What follows puts something into a new file, or, after a failure, which *f then holds, nothing. */

/* Attributes of an open object: `count` values, or a scalar for 0. */
void attribute_int64(new_hdf5 *f, hid_t object, const char *name, int count, const int64_t *values);
void attribute_double(new_hdf5 *f, hid_t object, const char *name, int count, const double *values);
/* Texts of `size` bytes, ASCII, or for H5T_VARIABLE of any length, UTF-8: those lie outside the object header with its
 * 64 KiB limit, and are what h5py gives back as str. To be closed, unless negative. */
hid_t text_type(new_hdf5 *f, size_t size);
/* A text of this type. NULL: empty. */
void attribute_string(new_hdf5 *f, hid_t object, const char *name, size_t size, const char *text);
void attribute_text(new_hdf5 *f, hid_t object, const char *name, const char *text);
/* The run that made the file, which program, and when: step, time, dt, mpi_ranks, config, command, backend, kernel,
 * transport, equation, created_by, creation_date, git_hash. */
void attribute_run(new_hdf5 *f, const run_meta *m);

/* Around calls of HDF5 in requests that do not wait for each other (files_do). */
void files_take_hdf5(void);
void files_give_hdf5(void);

/* A contiguous dataset (scalar for rank 0) whose space is taken now; nothing fills it. With `deflate`, a gzip level but 0, it
 * is shuffled and compressed instead, a row a chunk. Negative on failure. */
hid_t dataset_create(new_hdf5 *f, const char *name, hid_t type, int rank, const hsize_t *shape, int deflate);
/* All its values. */
void dataset_put(new_hdf5 *f, hid_t dataset, hid_t type, const void *values);
void dataset_close(new_hdf5 *f, hid_t dataset);

/* u has the unit of the initial field or of the sources, which nothing names. CF's word for that is 1. */
#define FIELD_UNITS "1"

/* The points that a file holds, and where the first of them is, and how far from each other they are: x y z. */
typedef struct field_grid {
  config_cut cut[3];
  double origin[3], spacing[3]; /* m */
} field_grid;
field_grid field_grid_of(const field_meta *m, const slab *s);

/* What a dataset says of itself. NULL: nothing. */
typedef struct dataset_words {
  const char *units, *long_name;
} dataset_words;
void dataset_describe(new_hdf5 *f, hid_t dataset, dataset_words words);
/* The same of values of u. */
void field_describe(new_hdf5 *f, hid_t dataset, const run_meta *m);

/* An axis that datasets of a file share: the dataset `name` of its coordinates, an HDF5 dimension scale. */
typedef struct axis {
  const char *name;
  dataset_words words;
  hsize_t points;
  double first, spacing;     /* coordinate i is first + (from + i every) spacing, */
  int64_t from, every;       /* 0 means 1; */
  bool whole;                /* stored as int64, not as float64 */
  const double *values;      /* or these instead; NULL: none */
  const char *const *labels; /* or texts instead; NULL: none */
} axis;
void axis_create(new_hdf5 *f, const axis *a);
/* Says which axes the `count` axes of the dataset are. */
void axes_attach(new_hdf5 *f, hid_t dataset, int count, const char *const *names);

#endif
