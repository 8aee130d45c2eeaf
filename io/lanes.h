/* Lanes: how bytes pass between the ranks and rank 0 where rank 0 alone uses a file. A rank asks, "put these bytes at this
 * place of the file" or "get those", by messages, and rank 0 answers. A request that fails on rank 0 is remembered there
 * (lanes_serve returns it); the others only learn that they can stop. Agree afterwards. */
#ifndef STENCIL_LANES_H
#define STENCIL_LANES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

/* One end of them. */
typedef struct lane {
  MPI_Comm comm;
  bool put;   /* requests put bytes; else they get them */
  char *room; /* of the largest request of any rank; owned by whoever fills this in */
  bool waits; /* not on rank 0: for an answer */
} lane;

/* Puts bytes at a place of the file, or gets them from there. */
typedef int lane_keeper(void *context, uint64_t at, void *bytes, size_t count, error *e);

/* Rank 0: answers until the lanes of all `others` have ended. Returns the first failure of the keeper. */
int lanes_serve(lane *l, int others, lane_keeper *keep, void *context, error *e);

/* The other ranks, by one thread. Waits until what was put has been taken: then the room may be filled again. -1: rank 0
 * has failed and takes no more. */
int lane_wait(lane *l, error *e);
/* Puts what lies in the room, at least a byte, at this place of the file, or gets it from there. -1: rank 0 has failed. */
int lane_move(lane *l, uint64_t at, size_t bytes, error *e);
/* No more requests: to be called in any case. */
int lane_end(lane *l, error *e);

#endif
