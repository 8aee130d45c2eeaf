/* Datasets that users provide, wherever their values lie. HDF5 by itself waits for FIFOs, reads zeros from sources that
 * are missing or too short, and follows a dataset that names itself until the stack is full. So every file is looked at
 * before HDF5 opens it, and a dataset's sources are checked like the dataset. */
#ifndef STENCIL_INPUT_H
#define STENCIL_INPUT_H

#include "io_internal.h"
#include "quantity.h"

/* Which datasets a name may mean: how many axes they have, and how a message calls them. */
typedef struct dataset_kind {
  int rank_min, rank_max;
  const char *name; /* "3D" */
} dataset_kind;

/* Where a dataset is. */
typedef struct input {
  const char *name; /* as dataset_open was told, for messages; not owned */
  char file[FILE_NAME], path[FILE_NAME];
  dataset_kind kind;     /* of the datasets that a message lists where there is none at `path` */
  bool linked;           /* links to other files lead to it, */
  error unlinked;        /* or not, and why */
  bool source;           /* it is a part of a virtual dataset, and must not be one */
  bool checked;          /* another rank has found its type and storage sound */
  bool guarded;          /* a crash is told of as its damage */
  hid_t opened, dataset; /* H5I_INVALID_HID where not open */
  hid_t *held; /* files of its sources, open as long as it is: HDF5 reads the fill value for those that it */
  size_t held_count; /* cannot open; owned */
} input;

/* Exit 2, with the system's own words, unless `file` is a regular file that can be read. The message calls it `shown`.
 * Never waits. */
int input_check_file(const char *file, const char *shown, error *e);

/* Opens the dataset in->path of in->file, which end as its own place where links lead there, and checks all but its shape
 * and values. input_close in any case. */
int input_open(input *in, error *e);
/* The same for dataset `name`, FILE:/path, where there must be one of this kind. `checked`: see input. Not collective. */
int dataset_open(const char *name, dataset_kind kind, bool checked, input *in, error *e);
void input_close(input *in);

/* Finds `file`, which the file `from` names, where HDF5 does: as it is if absolute and there; else (an absolute one by its
 * last part) in the folders `prefixes`, NULL or with colons between, beside `from`, in the working folder, or beside what
 * `from` is a symbolic link to. Exit 2 unless it is a regular file. */
int input_find_file(const char *from, const char *prefixes, const char *file, char found[FILE_NAME],
                    error *e);

/* Exit 2: the dataset is damaged, and why. */
int input_damaged(const input *in, const char *why, error *e);
/* Exit 2: it cannot be read, why, and the command that makes plain numbers of it. */
int input_convert(const input *in, const char *why, error *e);
/* input_storage.c: exit 2 unless the open dataset holds plain numbers, and they are all there, in this file or others.
 * Opens all sources of a virtual one; does nothing else where it is `checked`. */
int input_check_storage(input *in, error *e);
/* Is it a type of plain numbers, whose parts are within its bytes? */
bool input_sound_number(hid_t type);
/* input_plain.c: exit 2 unless the open dataset's numbers are values in the SI unit of this quantity, but for those that are
 * missing. Names the attribute, and the command that makes such numbers. */
int input_check_plain(const input *in, enum quantity quantity, missing_values *missing, error *e);
/* Reads an attribute of the group that the dataset is in; "" where there is no text of less than `size` bytes. */
void input_read_word(const input *in, const char *name, char *word, size_t size);
/* Its attribute `spacing`, x y z; zeros: it has none of three numbers. */
int input_read_spacing(const input *in, double spacing[3], error *e);

#endif
