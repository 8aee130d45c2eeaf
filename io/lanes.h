/* Lanes: how bytes pass between the ranks and rank 0 where rank 0 alone uses a file. A rank asks, "put these bytes at this
 * place of the file" or "get those", and rank 0 answers. The bytes lie in the lane's room. On rank 0's node both ranks map
 * that memory, and a thread of rank 0 serves the lane, so nothing is copied; from other nodes the same requests come as
 * MPI messages.
 *
 * lanes_serve on rank 0 answers until every lane has ended; on the other ranks each thread that moves blocks has a lane
 * of its own. A request that fails on rank 0 is remembered there (lanes_serve returns it); the others only learn that they
 * can stop. Agree afterwards. */
#ifndef STENCIL_LANES_H
#define STENCIL_LANES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

typedef struct lanes lanes;

/* Each rank gets `each` lanes in common memory, where that can be had, or, where `each` is 0, as it must be but on rank 0's
 * node, one that is messages. `room`: bytes of a request at most, the same on all ranks; lanes that are open, *opened not
 * NULL, are kept where they have it. Collective over `comm`, agreed. Close them also after a failure. */
int lanes_open(lanes **opened, MPI_Comm comm, int each, size_t room, error *e);
void lanes_close(lanes *l); /* NULL is allowed */

/* Lanes of this rank: so many of its threads may move blocks at once; 1: only the calling one may. 0 on rank 0. */
int lanes_own(const lanes *l);

/* What rank 0 does with requests: puts bytes at a place of the file, or gets them from there; by any of its threads,
 * several at a time. */
typedef struct lanes_keeper {
  int (*move)(void *context, uint64_t at, void *bytes, size_t count, error *e);
  void *context;
} lanes_keeper;

/* All ranks, before the first request: with `put` all requests put bytes, else they get them. Rank 0 starts its threads; the
 * others have no keeper, NULL. */
void lanes_begin(lanes *l, bool put, const lanes_keeper *keeper);
/* Rank 0: answers the rest and waits for all lanes to end. Returns the first failure of the keeper. */
int lanes_serve(lanes *l, error *e);

/* Any rank but 0, lane `k`. Wait for its room: bytes that were put must have been taken before others may lie there.
 * -1: rank 0 has failed and takes no more. */
int lane_wait(lanes *l, int k, error *e);
/* The room, which is the caller's but for the time from putting to lane_wait. */
char *lane_room(const lanes *l, int k);
/* Puts what lies in the room, at least a byte, at this place of the file, or gets it from there. -1: rank 0 has failed. */
int lane_move(lanes *l, int k, uint64_t at, size_t bytes, error *e);
/* No more requests on this lane: to be called for each of them, in any case. */
int lane_end(lanes *l, int k, error *e);

#endif
