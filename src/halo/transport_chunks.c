/* Halos pass through the host in pieces. While one piece leaves the device, the piece before is with MPI, and the piece
 * before that one enters the neighbour's device. Between ranks of one node the pieces pass through memory that both
 * map, and MPI is not needed: the sender copies from its device straight to where the receiver's copy begins. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/numbers.h"
#include "shared_memory.h"
#include "device/trace.h"
#include "transport.h"

enum { CHUNK_BYTES_MIN = 256 << 10, LINE = 128 };

/* The beginning of a rank's part of the node's memory: the number of pieces put there for each side since opening. The
 * pieces follow: two halos for each side, which alternate. The neighbour may still read one halo while the next is
 * written. When its pieces of the last exchange have come, the neighbour has read the halo of two exchanges ago. */
typedef struct mailbox {
  struct {
    _Atomic uint64_t posted;
    char rest[LINE - sizeof(uint64_t)];
  } side[2];
} mailbox;

/* The link to one neighbour. */
typedef struct chunks_link {
  bool open;
  float *send[2], *receive[2]; /* two buffers; with MPI both are one, pinned */
  _Atomic uint64_t *posted;    /* this rank's count in node memory; NULL: by MPI */
  const _Atomic uint64_t *arrived;
  MPI_Request sends[CHUNKS_MAX], receives[CHUNKS_MAX];
} chunks_link;

struct chunks {
  halo *h; /* not owned */
  chunks_link links[2];
  device_event *copied[2][CHUNKS_MAX]; /* a piece has left the device; owned */
  int count;                           /* pieces a halo */
  uint64_t passed;                     /* pieces to either side before this exchange */
  int buffer;
  MPI_Win window; /* of the node's memory */
  char *memory;   /* of all ranks of the node, pinned */
};

/* --- pieces ----------------------------------------------------------------------------------------------------- */

static int chunks_rows_before(const chunks *c, int k) {
  const slab *s = c->h->slab;
  return (int)((int64_t)RADIUS * (int64_t)slab_rows(s) * k / c->count);
}

static size_t chunks_floats_before(const chunks *c, int k) {
  return (size_t)chunks_rows_before(c, k) * c->h->slab->pitch;
}

static int chunks_move_piece(chunks *c, float *on_device, float *on_host, int k, copy_direction direction,
                             error *e) {
  const size_t from = chunks_floats_before(c, k),
               bytes = (chunks_floats_before(c, k + 1) - from) * sizeof(float);
  device *dev = c->h->dev;
  const bool in = direction == COPY_TO_DEVICE;
  const copy_args piece = {(in ? on_device : on_host) + from, (in ? on_host : on_device) + from, bytes,
                           direction};
  return dev->table->copy(dev, STREAM_BOUNDARY, &piece, e);
}

/* --- links ------------------------------------------------------------------------------------------------------ */

static int chunks_post(chunks *c, chunks_link *l, int k, error *e) {
  if (l->posted)
    atomic_store_explicit(l->posted, c->passed + (uint64_t)k + 1, memory_order_release);
  else
    MPI_TRY(e, MPI_Start(&l->sends[k]));
  return 0;
}

/* Waits until the neighbour has posted `count` pieces. A neighbour is seldom very late. */
static void chunks_wait_for(const _Atomic uint64_t *arrived, uint64_t count) {
  const double LONGEST = 50e-6; /* s */
  pace p = {.begin = clock_seconds(), .spins = 4000};
  while (atomic_load_explicit(arrived, memory_order_acquire) < count) pace_wait(&p, LONGEST);
}

static int chunks_arrive(chunks *c, chunks_link *l, int k, error *e) {
  if (l->arrived)
    chunks_wait_for(l->arrived, c->passed + (uint64_t)k + 1);
  else
    MPI_TRY(e, MPI_Wait(&l->receives[k], MPI_STATUS_IGNORE));
  return 0;
}

static int chunks_begin_receiving(chunks *c, error *e) {
  for (int side = 0; side < 2; side++)
    if (c->links[side].open && !c->links[side].arrived)
      MPI_TRY(e, MPI_Startall(c->count, c->links[side].receives));
  return 0;
}

static int chunks_end_sending(chunks *c, error *e) {
  for (int side = 0; side < 2; side++)
    if (c->links[side].open && !c->links[side].posted)
      MPI_TRY(e, MPI_Waitall(c->count, c->links[side].sends, MPI_STATUSES_IGNORE));
  return 0;
}

/* --- an exchange ------------------------------------------------------------------------------------------------ */

static int chunks_leave_device(chunks *c, float *field, error *e) {
  device *dev = c->h->dev;
  for (int k = 0; k < c->count; k++)
    for (int side = 0; side < 2; side++) {
      if (!c->links[side].open) continue;
      TRY(chunks_move_piece(c, transport_own(field, c->h->slab, side), c->links[side].send[c->buffer], k,
                            COPY_TO_HOST, e));
      TRY(dev->table->record(dev, STREAM_BOUNDARY, c->copied[side][k], e));
    }
  return 0;
}

/* The first event also shows that the previous exchange's copies out of the receive buffers are done, since those are
 * earlier on the same stream. */
static int chunks_hand_over(chunks *c, double *begin, error *e) {
  device *dev = c->h->dev;
  bool first = true;
  for (int k = 0; k < c->count; k++)
    for (int side = 0; side < 2; side++) {
      if (!c->links[side].open) continue;
      TRY(dev->table->sync_event(dev, c->copied[side][k], e));
      if (first) {
        *begin = MPI_Wtime();
        TRY(chunks_begin_receiving(c, e));
      }
      first = false;
      TRY(chunks_post(c, &c->links[side], k, e));
    }
  return 0;
}

static int chunks_reach_device(chunks *c, float *field, error *e) {
  for (int k = 0; k < c->count; k++)
    for (int side = 0; side < 2; side++) {
      chunks_link *l = &c->links[side];
      if (!l->open) continue;
      TRY(chunks_arrive(c, l, k, e));
      TRY(chunks_move_piece(c, transport_ghosts(field, c->h->slab, side), l->receive[c->buffer], k,
                            COPY_TO_DEVICE, e));
    }
  return 0;
}

int chunks_exchange(chunks *c, float *field, int set, error *e) {
  halo *h = c->h;
  double begin = 0;
  if (!c->links[LOWER].open && !c->links[UPPER].open) return 0;
  TRY(chunks_leave_device(c, field, e));
  TRY(transport_record(h, set, HALO_TO_HOST, e));
  trace_begin("exchange");
  TRY(chunks_hand_over(c, &begin, e));
  TRY(transport_record(h, set, HALO_TO_DEVICE_BEGIN, e));
  TRY(chunks_reach_device(c, field, e));
  TRY(chunks_end_sending(c, e));
  h->exchange_seconds += MPI_Wtime() - begin;
  trace_end();
  c->passed += (uint64_t)c->count;
  c->buffer = !c->buffer;
  return 0;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

static void chunks_free_requests(chunks_link *l) {
  for (int k = 0; k < CHUNKS_MAX; k++) {
    if (l->sends[k] != MPI_REQUEST_NULL) MPI_Request_free(&l->sends[k]);
    if (l->receives[k] != MPI_REQUEST_NULL) MPI_Request_free(&l->receives[k]);
  }
}

static int chunks_make_requests(chunks *c, int side, error *e) {
  chunks_link *l = &c->links[side];
  const int peer = transport_neighbour(c->h, side);
  const int out = side == LOWER ? TAG_DOWN : TAG_UP, in = side == LOWER ? TAG_UP : TAG_DOWN;
  for (int k = 0; k < c->count; k++) {
    const int rows = chunks_rows_before(c, k + 1) - chunks_rows_before(c, k);
    const size_t at = chunks_floats_before(c, k);
    MPI_TRY(e, MPI_Send_init(l->send[0] + at, rows, c->h->row, peer, out, c->h->comm, &l->sends[k]));
    MPI_TRY(e, MPI_Recv_init(l->receive[0] + at, rows, c->h->row, peer, in, c->h->comm, &l->receives[k]));
  }
  return 0;
}

int chunks_cut(chunks *c, int count, error *e) {
  const size_t pieces = transport_bytes(c->h->slab) / CHUNK_BYTES_MIN;
  const int most = pieces < 1 ? 1 : pieces < CHUNKS_MAX ? (int)pieces : CHUNKS_MAX;
  c->count = count < most ? count : most;
  for (int side = 0; side < 2; side++) {
    if (!c->links[side].open || c->links[side].posted) continue;
    chunks_free_requests(&c->links[side]);
    TRY(chunks_make_requests(c, side, e));
  }
  return 0;
}

/* --- by MPI --- */

static int chunks_open_mpi(chunks *c, int side, error *e) {
  device *dev = c->h->dev;
  chunks_link *l = &c->links[side];
  const size_t bytes = transport_bytes(c->h->slab);
  TRY(dev->table->alloc(dev, (void **)&l->send[0], bytes, MEMORY_PINNED, e));
  TRY(dev->table->alloc(dev, (void **)&l->receive[0], bytes, MEMORY_PINNED, e));
  l->send[1] = l->send[0];
  l->receive[1] = l->receive[0];
  return 0;
}

/* --- through the node's memory --- */

/* The first cache line that begins in MPI's memory. It is at the same place for every process, since processes map
 * whole pages. */
static char *chunks_aligned(char *memory) {
  return memory + (LINE - (uintptr_t)memory % LINE) % LINE;
}

static float *chunks_halo_in(char *memory, const chunks *c, int side, int buffer) {
  return (float *)(void *)(memory + sizeof(mailbox) +
                           (size_t)(2 * side + buffer) * transport_bytes(c->h->slab));
}

/* Halos of all ranks have one size, and so have the ranks' parts, which lie one after another. */
static int chunks_open_memory(chunks *c, error *e) {
  int rank, ranks;
  void *mine, *all;
  MPI_Comm node = c->h->node;
  MPI_TRY(e, MPI_Comm_rank(node, &rank));
  MPI_TRY(e, MPI_Comm_size(node, &ranks));
  const size_t bytes = round_up(LINE + sizeof(mailbox) + 4 * transport_bytes(c->h->slab), 4096);
  TRY(shared_window(node, bytes, &mine, &c->window, e));
  TRY(shared_window_of(c->window, 0, &all, e));
  memset(mine, 0, bytes); /* first touch: near this rank */
  MPI_TRY(e, MPI_Barrier(node));
  if (c->h->dev->table->pin) TRY(c->h->dev->table->pin(c->h->dev, all, (size_t)ranks * bytes, e));
  c->memory = all;
  for (int side = 0; side < 2; side++) {
    chunks_link *l = &c->links[side];
    int local;
    TRY(transport_local_neighbour(c->h, side, &local, e));
    if (!l->open || local == MPI_UNDEFINED) continue;
    char *own = chunks_aligned(c->memory) + (size_t)rank * bytes,
         *theirs = chunks_aligned(c->memory) + (size_t)local * bytes;
    l->posted = &((mailbox *)(void *)own)->side[side].posted;
    l->arrived = &((mailbox *)(void *)theirs)->side[!side].posted;
    for (int buffer = 0; buffer < 2; buffer++) {
      l->send[buffer] = chunks_halo_in(own, c, side, buffer);
      l->receive[buffer] = chunks_halo_in(theirs, c, !side, buffer);
    }
  }
  return 0;
}

int chunks_open(halo *h, const bool sides[2], bool node_memory, chunks **opened, error *e) {
  ALLOC(e, *opened, 1, "the transport");
  TRY(error_agree(e, h->comm));
  chunks *c = *opened;
  *c = (chunks){.h = h, .count = 1, .window = MPI_WIN_NULL};
  for (int side = 0; side < 2; side++) {
    chunks_link *l = &c->links[side];
    l->open = sides[side] && transport_neighbour(h, side) != MPI_PROC_NULL;
    for (int k = 0; k < CHUNKS_MAX; k++) l->sends[k] = l->receives[k] = MPI_REQUEST_NULL;
  }
  if (node_memory) TRY(chunks_open_memory(c, e));
  for (int side = 0; side < 2; side++)
    if (c->links[side].open && !c->links[side].posted) TRY(chunks_open_mpi(c, side, e));
  TRY(h->dev->table->make_events(h->dev, c->copied[0], 2 * CHUNKS_MAX, false, e));
  return chunks_cut(c, 1, e);
}

void chunks_close(chunks *c) {
  error ignored = {0};
  if (!c) return;
  const device_table *t = c->h->dev->table;
  for (int side = 0; side < 2; side++) {
    chunks_link *l = &c->links[side];
    chunks_free_requests(l);
    if (l->posted) continue;
    t->free(c->h->dev, l->send[0], MEMORY_PINNED, &ignored);
    t->free(c->h->dev, l->receive[0], MEMORY_PINNED, &ignored);
  }
  t->unmake_events(c->h->dev, c->copied[0], 2 * CHUNKS_MAX);
  if (c->memory && t->unpin) t->unpin(c->h->dev, c->memory, &ignored);
  if (c->window != MPI_WIN_NULL) MPI_Win_free(&c->window);
  free(c);
}
