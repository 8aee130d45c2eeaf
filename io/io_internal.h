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
/* That of files PATH.*; where it is not there, the one in which it can be made, and true is returned. */
bool path_ground(const char *path, char ground[FILE_NAME]);

/* PATH.SSSSSSSS and `extension`; exit 2 where that is too long. */
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

/* Attributes of an open object of the file whose name, for messages, is `file`: `count` values, or a scalar for 0. */
int attribute_int64(const char *file, hid_t object, const char *name, int count, const int64_t *values,
                    error *e);
int attribute_double(const char *file, hid_t object, const char *name, int count, const double *values,
                     error *e);
/* Texts of `size` bytes, ASCII, or for H5T_VARIABLE of any length, UTF-8: those lie outside the object header with its
 * 64 KiB limit, and are what h5py gives back as str. Negative on failure. */
hid_t text_type(size_t size);
/* A text of this type. NULL: empty. */
int attribute_string(const char *file, hid_t object, const char *name, size_t size, const char *text,
                     error *e);
int attribute_text(const char *file, hid_t object, const char *name, const char *text, error *e);
/* The run that made this, which program, and when: step, time, dt, mpi_ranks, config, command, backend, kernel, transport,
 * equation, created_by, creation_date, git_hash. */
int attribute_run(const char *file, hid_t object, const run_meta *m, error *e);

/* A contiguous dataset (scalar for rank 0) whose space is taken now; nothing fills it. With `deflate`, a gzip level but 0, it
 * is shuffled and compressed instead, a row a chunk. Negative on failure. */
hid_t dataset_create(hid_t in, const char *name, hid_t type, int rank, const hsize_t *shape, int deflate);

/* u has the unit of the initial field or of the sources, which nothing names. CF's word for that is 1. */
#define FIELD_UNITS "1"

/* What a dataset says of itself. NULL: nothing. */
typedef struct dataset_words {
  const char *units, *long_name;
} dataset_words;
int dataset_describe(const char *file, hid_t dataset, dataset_words words, error *e);
/* The same of values of u. */
int field_describe(const char *file, hid_t dataset, const run_meta *m, error *e);

/* An axis that datasets of a file share: the dataset `name` of its coordinates, an HDF5 dimension scale. */
typedef struct axis {
  const char *name;
  dataset_words words;
  hsize_t points;
  double first, spacing;     /* coordinate i is first + (i every) spacing, */
  int64_t every;             /* 0 means 1; */
  bool whole;                /* stored as int64, not as float64 */
  const char *const *labels; /* or texts instead; NULL: none */
} axis;
int axis_create(const char *file, hid_t in, const axis *a, error *e);
/* Says which axes of group `in` the `count` axes of the dataset are. */
int axes_attach(const char *file, hid_t in, hid_t dataset, int count, const char *const *names, error *e);

/* Endings of the lists of saved fields, and of the file of receivers. */
#define SERIES_XDMF      ".xdmf"
#define SERIES_PARAVIEW  ".hdf.series"
#define RECEIVERS_ENDING ".receivers.h5"

#endif
