/* What the transports share. */
#ifndef STENCIL_TRANSPORT_H
#define STENCIL_TRANSPORT_H

#include "base/error_mpi.h"
#include "halo.h"

enum { LOWER = 0, UPPER = 1 };
enum { TAG_DOWN = 1, TAG_UP = 2, TAG_READY = 3 };

/* uint32_t from one side's counter of exchanges to the next: cache lines of their own, which hosts fetch in pairs. */
enum { COUNTER_STRIDE = 32 };

/* Fields that are ever exchanged. */
int transport_fields(const halo *h);
/* The neighbour on a side, or MPI_PROC_NULL. */
int transport_neighbour(const halo *h, int side);
/* Its rank among those of this node, or MPI_UNDEFINED where it is on another. */
int transport_local_neighbour(const halo *h, int side, int *local, error *e);

/* Bytes of a halo: of the whole planes that one side sends or receives, ghosts of x and y included, so that it is one
 * copy. */
size_t transport_bytes(const slab *s);
/* First float of the planes that go to a side, and of the ghosts that come from it. */
float *transport_own(float *field, const slab *s, int side);
float *transport_ghosts(float *field, const slab *s, int side);

/* --- halo_test.c --- */

/* Exchanges patterns in all fields and looks at what came: TRANSPORT_WRONG where it is something else. Collective,
 * agreed. */
int halo_test(halo *h, error *e);
/* Seconds an exchange of the first field takes, the slowest rank's. Collective, agreed. */
int halo_measure(halo *h, double *seconds, error *e);

/* --- transport_chunks.c: halos in pieces through the host, used by other transports for neighbours elsewhere --- */

typedef struct chunks chunks;
enum { CHUNKS_MAX = 8 /* pieces of a halo */ };
/* Opens the path to the neighbours on `sides`; `node_memory`: where a neighbour is on this node, through memory that
 * both share. Collective, also for ranks without such sides. */
int chunks_open(halo *h, const bool sides[2], bool node_memory, chunks **opened, error *e);
/* How many pieces a halo is sent in. */
int chunks_cut(chunks *c, int count, error *e);
/* Into how many pieces? More of them overlap better, and each costs. What wins is measured, with the exchange of `h`,
 * which is open but for this; all ranks see the same times. Collective. */
int chunks_measure(halo *h, chunks *c, error *e);
int chunks_exchange(chunks *c, float *field, const halo_events *events, error *e);
void chunks_close(chunks *c);

/* --- transport_ipc.c: for kernels that hand over planes by themselves --- */

typedef struct peers {
  /* [side][field]: the neighbour's point (first ghost plane, 0, 0), mapped here. */
  float *ghosts[2][HALO_FIELDS];
  uint32_t *theirs[2];     /* counters in the neighbours' memory, */
  const uint32_t *mine[2]; /* and in this device's, of exchanges that are done; NULL: no neighbour */
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
