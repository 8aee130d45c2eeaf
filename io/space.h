/* Room on disk. For one process alone, not collective. Quotas are not seen; a write that fails tells of those. */
#ifndef STENCIL_SPACE_H
#define STENCIL_SPACE_H

#include <stdbool.h>
#include <stdint.h>
#include "../src/error.h"

/* The file system of a folder. */
typedef struct disk_space {
  uint64_t device;    /* which one it is */
  uint64_t available; /* bytes; UINT64_MAX where it does not say */
} disk_space;

/* That of the files named PATH.*; exit 2 naming `path` where there is none. */
int space_of(const char *path, disk_space *space, error *e);

/* Exit 2, saying how much there is, unless `bytes` fit beside the file `name`, which is about to be written. */
int space_check(const char *name, uint64_t bytes, error *e);

/* Bytes that files PATH.SSSSSSSS + `ending` take whose step `counts` likes, NULL: all; *files is their number. */
typedef bool space_filter(const void *context, int64_t step);
uint64_t space_taken(const char *path, const char *ending, space_filter *counts, const void *context, int *files);

#endif
