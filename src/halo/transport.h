/* Shared by the transports. */
#ifndef STENCIL_TRANSPORT_H
#define STENCIL_TRANSPORT_H

#include "base/error_mpi.h"
#include "halo.h"

enum { LOWER = 0, UPPER = 1 };
enum { TAG_DOWN = 1, TAG_UP = 2, TAG_READY = 3 };

/* The distance of two sides' counters of exchanges, in uint32_t. Counters have cache lines of their own, which hosts
 * fetch in pairs. */
enum { COUNTER_STRIDE = 32 };

/* Number of fields that are ever exchanged. */
int transport_fields(const halo *h);
/* The neighbour on a side, or MPI_PROC_NULL. */
int transport_neighbour(const halo *h, int side);
/* Sets *local to the neighbour's rank in h->node, or to MPI_UNDEFINED where it is on another node or there is none. */
int transport_local_neighbour(const halo *h, int side, int *local, error *e);

/* Bytes of a halo: the planes that one side sends or receives, with ghosts in x and y, so that a halo is one copy. */
size_t transport_bytes(const slab *s);
/* First float of the planes that go to a side, and of the ghosts that come from it. */
float *transport_own(float *field, const slab *s, int side);
float *transport_ghosts(float *field, const slab *s, int side);

/* Records an event of an exchange; nothing where `set` is HALO_UNTIMED. */
int transport_record(const halo *h, int set, enum halo_event event, error *e);

/* --- halo_test.c --- */

/* Exchanges patterns in all fields and checks what arrives: TRANSPORT_WRONG if a value differs. Collective,
 * agreed. */
int halo_test(halo *h, error *e);
/* Sets *seconds to the time of an exchange of the first field on the slowest rank. Collective, agreed. */
int halo_measure(halo *h, double *seconds, error *e);

/* --- transport_chunks.c: halos in pieces through the host, used by other transports for neighbours elsewhere --- */

typedef struct chunks chunks;
enum { CHUNKS_MAX = 8 /* pieces of a halo */ };
/* Opens the path to the neighbours on `sides`. `node_memory`: a neighbour on this node is reached through memory that
 * both share. Collective, also for ranks without such sides. */
int chunks_open(halo *h, const bool sides[2], bool node_memory, chunks **opened, error *e);
/* Sends halos in `count` pieces from now on, or in fewer where pieces would be too small. */
int chunks_cut(chunks *c, int count, error *e);
/* Chooses the number of pieces. More of them overlap better, but each has a cost, so exchanges of `h` are measured; all
 * else in `h` must be open. All ranks see the same times. Collective. */
int chunks_measure(halo *h, chunks *c, error *e);
int chunks_exchange(chunks *c, float *field, int set, error *e);
void chunks_close(chunks *c);

/* --- transport_ipc.c: for kernels that hand over planes by themselves --- */

typedef struct peers {
  /* [side][field]: the neighbour's point (first ghost plane, 0, 0), mapped here. */
  float *ghosts[2][HALO_FIELDS];
  uint32_t *theirs[2];     /* counters of exchanges in the neighbours' memory */
  const uint32_t *mine[2]; /* counters in this device's memory; NULL: no neighbour */
} peers;
/* TRANSPORT_REFUSED unless the transport is ipc and all neighbours are on this node. */
int transport_peers(const halo *h, peers *all, error *e);
/* Counts `exchanges` that a kernel does by itself; returns the count before. 0 where there are no peers. */
uint32_t transport_passed(halo *h, uint32_t exchanges);

/* --- the table's entries --- */
#define TRANSPORT(constant, name, note) extern const transport transport_##name;
#include "transports.def"
#undef TRANSPORT

#endif
