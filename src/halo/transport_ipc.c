/* ipc: boundary planes go straight from one GPU's memory into the ghost planes of its neighbour's, over NVLink where
 * there is one, and counters in the neighbour's memory announce them. Everything is enqueued: the host waits for
 * nothing.
 *
 * Exchange n of a rank writes the neighbours' ghosts of the field that they compute in step n. The neighbour last
 * read these ghosts in step n - 1, as input. On the neighbour's device counter n - 1 follows that step, and this rank
 * waited for this counter in its exchange n - 1. So no other handshake is needed while the ranks step; a `serial`
 * exchange, of a field just loaded, has one of its own. */
#include <stdio.h>
#include "transport.h"

typedef struct ipc {
  uint32_t *counters;                      /* device memory, one for each side, on cache lines of their own */
  float *remote[2][HALO_FIELDS];           /* the neighbours' fields, mapped here; [side]; NULL: not by ipc */
  uint32_t *remote_counters[2];            /* the neighbours' counters, mapped here */
  peer_memory handles[2][HALO_FIELDS + 1]; /* of the mapped memory */
  slab slabs[2];                           /* the neighbours' slabs */
  uint32_t exchanges;
  chunks *others; /* the path to neighbours on other nodes */
} ipc;

static bool ipc_possible(const halo *h, char why[HALO_WHY]) {
  const device_peer *peer = h->dev->table->peer;
  if (peer && peer->offer) return true;
  snprintf(why, HALO_WHY, "it needs a GPU");
  return false;
}

/* A rank sends this to its neighbours. */
typedef struct offer {
  peer_memory fields[HALO_FIELDS], counters;
  slab slab;
} offer;

static int ipc_make_offer(halo *h, ipc *p, offer *o, error *e) {
  const device_peer *peer = h->dev->table->peer;
  TRY(h->dev->table->alloc(h->dev, (void **)&p->counters, 2 * COUNTER_STRIDE * sizeof(uint32_t),
                           MEMORY_DEVICE, e));
  for (int i = 0; i < transport_fields(h); i++)
    TRY(peer->offer(h->dev, h->setup.fields[i], &o->fields[i], e));
  TRY(peer->offer(h->dev, p->counters, &o->counters, e));
  o->slab = *h->slab;
  return 0;
}

/* Maps what the neighbour on a side has offered. */
static int ipc_map_side(halo *h, ipc *p, int side, const offer *o, error *e) {
  const device_peer *peer = h->dev->table->peer;
  void *memory;
  p->slabs[side] = o->slab;
  for (int i = 0; i < transport_fields(h); i++) {
    p->handles[side][i] = o->fields[i];
    TRY(peer->map(h->dev, &o->fields[i], &memory, e));
    p->remote[side][i] = memory;
  }
  p->handles[side][HALO_FIELDS] = o->counters;
  TRY(peer->map(h->dev, &o->counters, &memory, e));
  p->remote_counters[side] = memory;
  return 0;
}

/* Sends `mine` to both neighbours and receives theirs, [side]. */
static int ipc_tell_neighbours(halo *h, const void *mine, void *const theirs[2], int bytes, error *e) {
  for (int side = 0; side < 2; side++)
    MPI_TRY(e,
            MPI_Sendrecv(mine, bytes, MPI_BYTE, transport_neighbour(h, side), TAG_READY, theirs[!side], bytes,
                         MPI_BYTE, transport_neighbour(h, !side), TAG_READY, h->comm, MPI_STATUS_IGNORE));
  return 0;
}

static int ipc_open(halo *h, error *e) {
  bool elsewhere[2];
  offer mine = {.slab = {.nx = 0}}, theirs[2] = {{.slab = {.nx = 0}}, {.slab = {.nx = 0}}};
  ipc *p = h->state;
  ipc_make_offer(h, p, &mine, e);
  TRY(error_agree(e, h->comm));
  TRY(ipc_tell_neighbours(h, &mine, (void *[]){&theirs[LOWER], &theirs[UPPER]}, (int)sizeof mine, e));
  for (int side = 0; side < 2; side++) {
    int local = MPI_UNDEFINED;
    if (!e->id) transport_local_neighbour(h, side, &local, e);
    elsewhere[side] = local == MPI_UNDEFINED;
    if (!e->id && !elsewhere[side]) ipc_map_side(h, p, side, &theirs[side], e);
  }
  TRY(error_agree(e, h->comm));
  return chunks_open(h, elsewhere, false, &p->others, e);
}

/* All ranks stop writing before any unmaps, and all unmap before any frees. */
static void ipc_close(halo *h) {
  error ignored = {0};
  ipc *p = h->state;
  h->dev->table->sync(h->dev, STREAM_BOUNDARY, &ignored);
  MPI_Barrier(h->comm);
  for (int side = 0; side < 2; side++) {
    for (int i = 0; i < HALO_FIELDS; i++)
      if (p->remote[side][i])
        h->dev->table->peer->unmap(h->dev, &p->handles[side][i], p->remote[side][i], &ignored);
    if (p->remote_counters[side])
      h->dev->table->peer->unmap(h->dev, &p->handles[side][HALO_FIELDS], p->remote_counters[side], &ignored);
  }
  MPI_Barrier(h->comm);
  h->dev->table->free(h->dev, p->counters, MEMORY_DEVICE, &ignored);
  chunks_close(p->others);
}

/* Waits until the neighbours have done all that may still use the ghosts that will be written. */
static int ipc_meet_neighbours(halo *h, error *e) {
  TRY(h->dev->table->sync(h->dev, STREAM_BOUNDARY, e));
  TRY(h->dev->table->sync(h->dev, STREAM_INTERIOR, e));
  return ipc_tell_neighbours(h, NULL, (void *[]){NULL, NULL}, 0, e);
}

static int ipc_put(halo *h, ipc *p, float *field, int index, error *e) {
  const device_table *t = h->dev->table;
  for (int side = 0; side < 2; side++) {
    if (!p->remote[side][index]) continue;
    const copy_args planes = {.to = transport_ghosts(p->remote[side][index], &p->slabs[side], !side),
                              .from = transport_own(field, h->slab, side),
                              .bytes = transport_bytes(h->slab),
                              .direction = COPY_ON_DEVICE};
    TRY(t->copy(h->dev, STREAM_BOUNDARY, &planes, e));
    TRY(t->peer->signal(h->dev, STREAM_BOUNDARY, p->remote_counters[side] + !side * COUNTER_STRIDE,
                        p->exchanges, e));
  }
  return 0;
}

static int ipc_await(halo *h, ipc *p, int index, error *e) {
  for (int side = 0; side < 2; side++)
    if (p->remote[side][index])
      TRY(h->dev->table->peer->await(h->dev, STREAM_BOUNDARY, p->counters + side * COUNTER_STRIDE,
                                     p->exchanges, e));
  return 0;
}

/* Index of `field` among the fields that neighbours have mapped; -1: it is none of them. */
static int ipc_field_index(const halo *h, const float *field) {
  const int fields = transport_fields(h);
  for (int i = 0; i < fields; i++)
    if (h->setup.fields[i] == field) return i;
  return -1;
}

static int ipc_exchange(halo *h, float *field, int set, error *e) {
  (void)set;
  ipc *p = h->state;
  const int index = ipc_field_index(h, field);
  if (index < 0) return FAIL(e, TRANSPORT_FIELD);
  p->exchanges++;
  TRY(ipc_put(h, p, field, index, e));
  TRY(chunks_exchange(p->others, field, HALO_UNTIMED, e));
  return ipc_await(h, p, index, e);
}

int transport_peers(const halo *h, peers *all, error *e) {
  const ipc *p = h->state;
  *all = (peers){.mine = {NULL, NULL}};
  if (h->transport != &transport_ipc) return FAIL(e, TRANSPORT_REFUSED, "it needs transport = ipc");
  for (int side = 0; side < 2; side++) {
    if (transport_neighbour(h, side) == MPI_PROC_NULL) continue;
    if (!p->remote_counters[side]) return FAIL(e, TRANSPORT_REFUSED, "it needs all ranks on one node");
    const slab *s = &p->slabs[side];
    for (int i = 0; i < transport_fields(h); i++)
      all->ghosts[side][i] = p->remote[side][i] + slab_offset(s, side == LOWER ? s->nz : -RADIUS, 0, 0);
    all->theirs[side] = p->remote_counters[side] + !side * COUNTER_STRIDE;
    all->mine[side] = p->counters + side * COUNTER_STRIDE;
  }
  return 0;
}

uint32_t transport_passed(halo *h, uint32_t exchanges) {
  ipc *p = h->state;
  if (h->transport != &transport_ipc) return 0;
  p->exchanges += exchanges;
  return p->exchanges - exchanges;
}

const transport transport_ipc = {.possible = ipc_possible,
                                 .open = ipc_open,
                                 .exchange = ipc_exchange,
                                 .meet = ipc_meet_neighbours,
                                 .state_bytes = sizeof(ipc),
                                 .close = ipc_close,
                                 .on_device = true};
