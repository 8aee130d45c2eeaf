/* An input: the rows of a dataset that a user names, wherever its values lie. A row is what one index of the first
 * axis means. HDF5 by itself waits for FIFOs, and reads zeros from sources that are missing or too short. It follows
 * a dataset that names itself until the stack is full. So every file is checked before HDF5 opens it, and a dataset's
 * sources are checked like the dataset. */
#ifndef STENCIL_INPUT_H
#define STENCIL_INPUT_H

#include "io/hdf5/io_internal.h"
#include "io/hdf5/quantity.h"

/* The kind of dataset that a name may mean: its number of axes, and its name in messages. */
typedef struct dataset_kind {
  int rank_min, rank_max;
  const char *name; /* "3D" */
} dataset_kind;

typedef struct input {
  const char *name; /* the argument of input_open, for messages; not owned */
  int rank;         /* axes of the dataset; then its shape, as numbers and as text */
  hsize_t shape[H5S_MAX_RANK];
  char found[SHAPE_TEXT];
  missing_values missing; /* set by input_check_plain */
  char file[FILE_NAME], path[FILE_NAME];
  dataset_kind kind;     /* a message lists datasets of this kind where there is none at `path` */
  bool linked;           /* links to other files lead to it */
  error unlinked;        /* why a link could not be followed */
  bool source;           /* a source of a virtual dataset, which must not be virtual itself */
  bool checked;          /* another rank has found its type and storage sound */
  bool guarded;          /* a crash is reported as damage of this input */
  hid_t opened, dataset; /* H5I_INVALID_HID where not open */
  /* Files of its sources, open as long as the input: HDF5 reads fill values from sources that it cannot open. Owned. */
  hid_t *held;
  size_t held_count;
} input;

/* Exit 2, with the system's own words, unless `file` is a regular file that can be read. The message calls it `shown`.
 * Never waits. */
int input_check_file(const char *file, const char *shown, error *e);

/* Opens dataset `name`, FILE:/path, of this kind, and checks all but its values. Where links lead to it, `file` and
 * `path` become the target's. Call input_close in any case. `checked`: see input. Not collective. */
int input_open(input *in, const char *name, dataset_kind kind, bool checked, error *e);
/* Does the same for the dataset in->path of in->file, but reads no shape. */
int input_open_place(input *in, error *e);
/* A block of a dataset, and the type of its numbers in memory. */
typedef struct input_block {
  hid_t type;
  int rank;
  hsize_t start[H5S_MAX_RANK], count[H5S_MAX_RANK];
} input_block;
/* Reads a block. Any thread may call it, one at a time. */
int input_get(const input *in, const input_block *b, void *to, error *e);
/* Are the values float32 as they are in memory, all in one piece of the file? *at: the first byte; 0: they are not. */
bool input_is_bytes(const input *in, uint64_t *at);
/* Exit 2 unless the input has the shape of the grid. */
int input_check_shape(const input *in, const slab *s, error *e);
void input_close(input *in);

/* Finds `file`, which the file `from` refers to, as HDF5 does. An absolute path is used if it exists. Else the name (of
 * an absolute path its last part) is searched in the folders `prefixes`, NULL or separated by colons, beside `from`, in
 * the working folder, and beside the target of the symbolic link `from`. Exit 2 unless it is a regular file. */
int input_find_file(const char *from, const char *prefixes, const char *file, char found[FILE_NAME],
                    error *e);

/* Exit 2: the dataset is damaged, and why. */
int input_damaged(const input *in, const char *why, error *e);
/* Exit 2: the dataset cannot be read, why, and the command that makes plain numbers of it. */
int input_convert(const input *in, const char *why, error *e);
/* input_storage.c: exit 2 unless the open dataset holds plain numbers, and they are all there, in this file or
 * others. Opens all sources of a virtual dataset; checks no other where `checked` is set. */
int input_check_storage(input *in, error *e);
/* input_plain.c: exit 2 unless the open dataset's numbers are values in the SI unit of this quantity, except
 * in->missing. The message names the attribute, and the command that makes such numbers. */
int input_check_plain(input *in, enum quantity quantity, error *e);
/* Reads an attribute of the group that the dataset is in; "" where there is no text of less than `size` bytes. */
void input_read_word(const input *in, const char *name, char *word, size_t size);
/* Reads the attribute `spacing`, x y z; zeros where there is none of three numbers. */
int input_read_spacing(const input *in, double spacing[3], error *e);

#endif
