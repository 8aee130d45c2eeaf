/* Lanes: how bytes pass between the ranks and rank 0 where rank 0 alone uses a file. A rank asks, "put these bytes at this
 * place of the file" or "get those", and rank 0 answers. On rank 0's node a lane is memory that both map, and a thread of
 * rank 0 serves it; from other nodes the same requests come as MPI messages.
 *
 * lanes_serve on rank 0 answers until every lane has ended; on the other ranks each thread that moves blocks has a lane
 * of its own. A request that fails on rank 0 is remembered there (lanes_serve returns it); the others hear nothing of it
 * but for a `get` without bytes. Agree afterwards. */
#ifndef STENCIL_LANES_H
#define STENCIL_LANES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

typedef struct lanes lanes;

enum { LANE_ROOM = 1 << 20 /* bytes of a piece: stays in a core's cache */ };

/* Collective over `comm`, agreed. `shared`: through common memory where a rank is on rank 0's node, and that can be;
 * else all lanes are messages. */
int lanes_open(lanes **opened, MPI_Comm comm, bool shared, error *e);
void lanes_close(lanes *l); /* NULL is allowed */

/* Lanes of this rank: so many of its threads may move blocks at once; 1: only the calling one may. 0 on rank 0. */
int lanes_own(const lanes *l);

/* Any rank but 0, lane `k`. The bytes of a put that rank 0 takes whole (lanes_keeper) are one request. A get that has failed
 * returns -1. */
int lane_put(lanes *l, int k, uint64_t at, const void *from, size_t bytes, error *e);
/* A put without a copy: room for LANE_ROOM bytes, to be filled and then sent, or given back. */
void *lane_take_room(lanes *l, int k);
int lane_send_room(lanes *l, int k, uint64_t at, size_t bytes, error *e);
void lane_give_room(lanes *l, int k);
int lane_get(lanes *l, int k, uint64_t at, void *to, size_t bytes, error *e);
/* No more requests on this lane: to be called for each of them, in any case. */
int lane_end(lanes *l, int k, error *e);

/* What rank 0 does with requests; by any of its threads, several at a time. */
typedef struct lanes_keeper {
  int (*put)(void *context, uint64_t at, const void *from, size_t bytes, error *e);
  int (*get)(void *context, uint64_t at, void *to, size_t bytes, error *e);
  void *context;
  bool whole; /* it takes and gives the bytes of a request at once; else piece by piece, each at its place */
} lanes_keeper;

/* Rank 0: lanes_begin starts the threads, lanes_serve answers the rest and waits for all to end. Returns the first
 * failure of the keeper. */
int lanes_begin(lanes *l, const lanes_keeper *keeper, error *e);
int lanes_serve(lanes *l, error *e);

#endif
