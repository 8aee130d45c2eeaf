/* Traces that have left memory while their run goes on, until PATH.receivers.h5 is written: floats and nothing else, block
 * after block of samples, of each block all samples of one receiver after those of another. The receivers are in the order of
 * the grid, which is the same for any number of ranks. What else there is to know of it is in memory, and in checkpoints. */
#ifndef STENCIL_PARTIAL_FILE_H
#define STENCIL_PARTIAL_FILE_H

#include "rows.h"

enum { PARTIAL_NAME = FILE_NAME + TEMPORARY_ENDING };

typedef struct partial_file {
  char name[PARTIAL_NAME]; /* "": there is none */
  int64_t receivers;       /* of all ranks */
  int64_t blocks;
  const int64_t *ends; /* of each block: samples before its end; not owned here */
  uint64_t sum;        /* of all values and their places */
} partial_file;

/* What a rank moves of it. */
typedef struct partial_rows {
  int64_t begin, end;   /* blocks */
  int64_t first, count; /* receivers in the file's order */
  float *
      values; /* sample i of these blocks, of receiver k of these: values[i count + k]; NULL: the sum is asked for alone */
  uint64_t sum; /* out: of what was moved */
} partial_rows;

/* Samples before block i. */
static inline int64_t partial_begin(const partial_file *p, int64_t i) {
  return i ? p->ends[i - 1] : 0;
}

/* Creates PATH.receivers.partial under a temporary name; for one process alone. */
int partial_create(const char *path, char name[PARTIAL_NAME], error *e);
/* Gives it another name, durably, or, with NULL, removes it; likewise. */
int partial_rename(const char *name, const char *to, error *e);

/* What is done to it. */
enum partial_use { PARTIAL_READ, PARTIAL_WRITE, PARTIAL_SYNC /* makes it durable */ };
/* Moves what the ranks have of it; `rows` NULL: nothing. Collective over the way, agreed. */
int partial_move(io_way *way, const partial_file *p, enum partial_use use, partial_rows *rows, error *e);

#endif
