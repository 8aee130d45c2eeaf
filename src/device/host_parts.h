/* Parts of a task, which whoever is free takes: threads of its stream, and, if it is a launch on a board, threads of
 * other ranks of the node, whose own work has to wait. So nobody waits long for a slow or busy core. */
#ifndef STENCIL_HOST_PARTS_H
#define STENCIL_HOST_PARTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include "device.h"

/* Parts of a task that one thread has of its own; in a cache line of its own. Whoever has taken one may read the task
 * until he is done with it: it ends after him. */
typedef struct host_parts {
  /* Lower half: how many of them nobody has taken. Upper half: a number of the task, so that nobody who looked at an
   * earlier one takes a part of this. */
  _Alignas(64) atomic_ullong left;
} host_parts;

void host_parts_open(host_parts *p, int count);
/* Takes one and sets *left to how many are left; false if there was none. */
bool host_parts_take(host_parts *p, int *left);
/* Which part of its task it was: the `pieces` of thread `owner` follow those of the threads before. */
static inline int host_parts_number(int owner, int pieces, int left) {
  return (owner + 1) * pieces - 1 - left;
}

enum { BOARD_THREADS = 64 };
/* What a rank's launch looks like to others of its node; in memory that all of them see, zeros at first. */
typedef struct host_board {
  _Alignas(64) atomic_int undone; /* parts of the launch that are not done */
  atomic_int threads;             /* that have parts; 0: the rank shares nothing */
  int pieces;                     /* parts of each thread */
  int kernel;                     /* index into kernel_table: ranks have it at different addresses */
  int fields[DEVICE_FIELDS];      /* which fields `in`, `out` and `medium` are; -1: NULL */
  kernel_args args;
  host_parts parts[BOARD_THREADS];
} host_board;

/* The ranks of this node that do parts of each other's launches, as this process sees them. */
typedef struct host_members {
  int rank, ranks;
  float *own[DEVICE_FIELDS]; /* this rank's fields as its launches name them */
  host_board *mine;
  device_member all[]; /* [rank] */
} host_members;

/* A copy of what the caller describes, to be freed; NULL: no memory. */
host_members *host_members_new(const device_share *s, int threads);
/* Writes a launch that it takes on this rank's board, whose last one must be done. */
void host_board_write(const host_members *m, const kernel *k, const kernel_args *args, int pieces);
/* Does a launch work on fields that the others see, by a kernel that they have? */
bool host_board_takes(const host_members *m, const kernel *k, const kernel_args *args);
/* Does one part of a launch of another rank; false if there is none. */
bool host_members_help(const host_members *m);

#endif
