/* Shared by the files of io/ that use HDF5. It includes hdf5.h, so nothing outside io/ includes it. */
#ifndef STENCIL_IO_INTERNAL_H
#define STENCIL_IO_INTERNAL_H

#include <hdf5.h>
#include "disk_driver.h"
#include "io/bytes/atomic_file.h"
#include "field_io.h"

enum { HDF5_TEXT = 512 };

/* Why the HDF5 call just made failed, in HDF5's words, for the end of a message. Use through HDF5_WHY, before
 * any other HDF5 call, which would forget it. */
const char *hdf5_why(char text[HDF5_TEXT]);
#define HDF5_WHY hdf5_why((char[HDF5_TEXT]){""})

enum { SHAPE_TEXT = 32 + H5S_MAX_RANK * 24 };
/* (2, 3, 4) */
void shape_print(int rank, const hsize_t *shape, char text[SHAPE_TEXT]);

/* Reads an attribute of an open object: at most so many numbers, or one text, which may be cut. Returns how many
 * there are; -1: another type or shape, or unreadable. `why` is HDF5's reason in the last case, else "". */
enum { ATTRIBUTE_TEXT = 256 };
int attribute_get_numbers(hid_t object, const char *name, int most, double values[], char why[HDF5_TEXT]);
int attribute_get_text(hid_t object, const char *name, char text[ATTRIBUTE_TEXT], char why[HDF5_TEXT]);

/* The next functions write to a new file. *f keeps the first failure; after one they write nothing. */

/* `object` is the name of an object; `count` values, or a scalar for 0. */
void attribute_int64(new_hdf5 *f, const char *object, const char *name, int count, const int64_t *values);
void attribute_double(new_hdf5 *f, const char *object, const char *name, int count, const double *values);
/* Makes a type of texts: of `size` bytes, ASCII, or, for H5T_VARIABLE, of any length, UTF-8. The latter lie outside
 * the object header with its limit of 64 KiB, and h5py returns them as str. The caller closes the type unless it is
 * negative. */
hid_t text_type(new_hdf5 *f, size_t size);
/* A text of this type. NULL: empty. */
void attribute_string(new_hdf5 *f, const char *object, const char *name, size_t size, const char *text);
void attribute_text(new_hdf5 *f, const char *object, const char *name, const char *text);
/* The run that made the file, which program, and when: step, time, dt, mpi_ranks, config, command, backend, kernel,
 * transport, equation, created_by, creation_date, git_hash. */
void attribute_run(new_hdf5 *f, const run_meta *m);

/* Around calls of HDF5 that do not wait for each other: it is for one thread. A thread may take it again. */
void hdf5_take(void);
void hdf5_give(void);

/* Is `type` one of plain numbers, whose parts are within their bytes? */
bool hdf5_sound_number(hid_t type);

/* Writes the content of a new file except large values, and sets f->plan.at to the places of their arrays. */
typedef void new_file_content(new_hdf5 *to, new_file *f, const void *context);
/* Creates the file f->name under a temporary name, on rank 0 or in a process alone, in any thread. It stays open
 * through `to`; with NULL it is closed, and removed after a failure. */
int new_file_create(new_file *f, new_hdf5 *to, new_file_content *content, const void *context, error *e);

/* u has the unit of the initial field or of the sources, which nothing names. CF's word for that is 1. */
#define FIELD_UNITS "1"

/* The points that a file holds, the position of the first, and their spacing: x y z. */
typedef struct field_grid {
  config_cut cut[3];
  double origin[3], spacing[3]; /* m */
} field_grid;
field_grid field_grid_of(const field_meta *m, const slab *s);

/* The attributes of a dataset; NULL: none. */
typedef struct dataset_words {
  const char *units, *long_name;
} dataset_words;
/* The units and the long name of u. */
dataset_words field_words(const run_meta *m);

enum { DATASET_RANK = 5 };
typedef struct new_dataset {
  const char *name;
  hid_t type; /* as stored */
  int rank;   /* 0: a scalar */
  hsize_t shape[DATASET_RANK];
  const char *axes[DATASET_RANK]; /* names of axes that the file has; NULL: none */
  dataset_words words;
  const void *values; /* NULL: only space is taken */
  hid_t memory;       /* type of `values`; 0: as stored */
  int deflate;        /* gzip level, after shuffle, a row a chunk; 0: contiguous */
  bool scale;         /* the dataset is an axis itself */
} new_dataset;
/* Returns where the values begin in the file; 0: there are none, they are compressed, or something has failed. */
uint64_t dataset_write(new_hdf5 *f, const new_dataset *d);

/* An axis that datasets of a file share: the dataset `name` of its coordinates, an HDF5 dimension scale. */
typedef struct axis {
  const char *name;
  dataset_words words;
  hsize_t points;
  double first, spacing;     /* coordinate i is first + (from + i every) spacing */
  int64_t from, every;       /* `every`: 0 means 1 */
  bool whole;                /* stored as int64, not as float64 */
  const double *values;      /* the coordinates instead; NULL: none */
  const char *const *labels; /* texts instead; NULL: none */
} axis;
void axis_write(new_hdf5 *f, const axis *a);

#endif
