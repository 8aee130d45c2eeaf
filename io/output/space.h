/* The disks under a run's output paths: free space, and files of earlier runs. For one process, not collective.
 * Quotas are not seen; writes beyond them fail. */
#ifndef STENCIL_SPACE_H
#define STENCIL_SPACE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "config/config.h"

/* The file system of a folder. */
typedef struct disk_space {
  uint64_t device;    /* which one it is */
  uint64_t available; /* bytes; UINT64_MAX where the file system does not say */
} disk_space;

/* The free space for files named PATH.*; exit 2 naming `path` where there is no folder. */
int space_of(const char *path, disk_space *space, error *e);

/* Exit 2, saying how much there is, unless `bytes` fit beside the file `name`, which is about to be written. */
int space_check(const char *name, uint64_t bytes, error *e);

/* The steps whose files count. */
typedef struct space_steps {
  bool all;
  /* Unless `all`: steps divisible by `every`, after `first`, up to `last`; `every` 0: none. */
  int64_t first, last, every;
  bool begins; /* `first` itself may count too */
  bool ends;   /* the last one counts in any case */
  bool none;   /* in space_move_aside: nothing stays that a run may have written, whatever its steps */
  bool over;   /* in space_move_aside, with [output] replace: the run's own files are written */
} space_steps;

/* The disk under a path, and what files there take. */
typedef struct space_use {
  disk_space space;
  uint64_t taken; /* bytes */
  int files;
} space_use;

/* Counts the files PATH.SSSSSSSS + `ending` whose step counts: `taken` and `files`. Exit 2 where one is a folder, which
 * could not be replaced. */
int space_taken(const char *path, const char *ending, const space_steps *which, space_use *use, error *e);

/* Files of earlier runs that are moved aside. */
typedef struct space_aside {
  int files, number; /* moved to PATH.old<number>.*, or deleted */
  bool listed;       /* a list of saved fields stays */
  int traces;        /* the number of the traces that the run's own will replace; 0: there are none */
} space_aside;

/* Moves files under c->output_path aside: fields, their lists, traces, maps and gradients. Files that a run of `c`,
 * which saves the steps `which`, writes or reads stay. Traces that the run replaces at its end are moved until then,
 * so that a killed run leaves none that pass for its own. A run that goes on from step which->first leaves the fields
 * up to that step, and the lists, which are its own. Half-written files of killed runs are deleted. With `dry` it
 * only counts. A kill on the way loses nothing: each file has one name or the other. With [output] replace all files
 * stay; once the run is over, those that it does not write are deleted. */
int space_move_aside(const config *c, const space_steps *which, bool dry, space_aside *aside, error *e);

#endif
