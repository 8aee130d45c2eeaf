/* shared: through memory that the ranks of a node share.
 *
 * On the host nothing is copied where that can be: the planes at both sides of the face between two ranks, 4 of each,
 * are the same pages of memory for both, so what one computes is among the other's ghosts at once. Slabs lie in their
 * memory so that these planes begin at the same place within a page for both (slab.lead); where the range's first and
 * last page reach beyond it, they hold planes of one rank, and nothing of the other.
 *
 * An exchange is a handshake. After step n a rank says: my planes of step n are there, and I have read yours of step
 * n - 1, which lie where you will put those of step n + 1. Boundary kernels and receivers are all that reads ghosts,
 * and they do so on the halo's stream, before the next exchange there. Kernels of the interior touch neither ghosts nor
 * planes that a neighbour reads, and copies for files only what is the rank's own. No other synchronisation is needed
 * while the ranks step. halo.h says when fields may be loaded.
 *
 * On GPUs, and where a pass of several steps writes ghosts between exchanges, planes are copied in pieces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shared_memory.h"
#include "transport.h"

/* Whole pages. */
typedef struct shared_range {
  char *begin;
  size_t bytes;
} shared_range;

typedef struct shared {
  bool local[2];                       /* [side]: the neighbour is on this node */
  bool mapped[2];                      /* its planes are this rank's ghosts */
  bool possible;                       /* planes of all neighbours on a node are mapped, on all ranks */
  shared_range ranges[2][HALO_FIELDS]; /* the shared pages in this rank's memory; bytes 0: none */
  lent_pages lent[HALO_FIELDS];        /* to the upper neighbour */
  uint32_t *mine[2];                   /* counters of exchanges, in the node's memory */
  const uint32_t *theirs[2];           /* the neighbours' */
  uint32_t exchanges;
  MPI_Win window; /* of the counters */
  chunks *others; /* to neighbours whose planes are copied */
} shared;

/* --- pages ------------------------------------------------------------------------------------------------------ */

/* The face at a side: first plane above it. */
static int shared_face_at(const slab *s, int side) {
  return side == LOWER ? 0 : s->nz;
}

/* The first float of a field that the ranks at both sides of a face share. */
static float *shared_first(const halo *h, int field, int side) {
  const int z = shared_face_at(h->slab, side) - RADIUS;
  return h->setup.fields[field] + slab_offset(h->slab, z, -RADIUS, -RADIUS);
}

static size_t shared_into_page(const void *at) {
  return (uintptr_t)at % shared_pages_size();
}

static shared_range shared_range_of(const halo *h, int field, int side) {
  const size_t page = shared_pages_size();
  float *first = shared_first(h, field, side);
  const size_t into = shared_into_page(first), bytes = into + 2 * RADIUS * h->slab->plane * sizeof(float);
  return (shared_range){(char *)first - into, (bytes + page - 1) / page * page};
}

/* Sets a range to NaN, like fresh memory, as far as the field reaches. */
static void shared_spoil(const halo *h, int field, char *begin, char *end) {
  char *last = (char *)(h->setup.fields[field] + slab_floats(h->slab));
  if (end > last) end = last;
  memset(begin, 0xFF, (size_t)(end - begin));
}

/* The part of a range that lies on this rank's side of the face. */
static void shared_spoil_own(const halo *h, int field, int side) {
  const shared_range r = shared_range_of(h, field, side);
  char *face = (char *)(shared_first(h, field, side) + RADIUS * h->slab->plane);
  if (side == LOWER)
    shared_spoil(h, field, face, r.begin + r.bytes);
  else
    shared_spoil(h, field, r.begin, face);
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* True if no page would be shared at both faces. */
static bool shared_ranges_apart(const halo *h) {
  const int fields = transport_fields(h);
  for (int i = 0; i < fields; i++) {
    const shared_range lower = shared_range_of(h, i, LOWER), upper = shared_range_of(h, i, UPPER);
    if (lower.begin + lower.bytes > upper.begin) return false;
  }
  return true;
}

/* Fails with the reason if this rank's planes cannot be shared as whole pages. Not collective. */
static int shared_check_possible(const halo *h, const shared *p, error *why) {
  const slab *s = h->slab;
  char text[HALO_WHY] = "";
  if (h->dev->table->backend != BACKEND_HOST || !h->dev->table->peer)
    snprintf(text, sizeof text, "only fields in host memory can be mapped");
  else if (s->ghost != RADIUS)
    snprintf(text, sizeof text, "a pass of several steps writes into its ghosts");
  else if (SLAB_PAGE * sizeof(float) % shared_pages_size() != 0)
    snprintf(text, sizeof text, "pages are larger than %zu bytes", SLAB_PAGE * sizeof(float));
  else if (p->local[LOWER] && p->local[UPPER] && !shared_ranges_apart(h))
    snprintf(text, sizeof text, "%d planes a rank are too few", s->nz);
  return text[0] ? FAIL(why, TRANSPORT_REFUSED, text) : 0;
}

/* Puts new pages at the upper face of every field and lends them. */
static int shared_lend_all(const halo *h, shared *p, error *why) {
  const int fields = transport_fields(h);
  if (!p->local[UPPER]) return 0;
  for (int i = 0; i < fields; i++) {
    const shared_range r = shared_range_of(h, i, UPPER);
    TRY(shared_pages_lend(r.begin, r.bytes, &p->lent[i], why));
    p->lent[i].into = shared_into_page(shared_first(h, i, UPPER));
    p->ranges[UPPER][i] = r;
  }
  return 0;
}

/* Puts the pages that the lower neighbour has lent at the lower face of every field. */
static int shared_borrow_all(const halo *h, shared *p, const lent_pages theirs[HALO_FIELDS], error *why) {
  const int fields = transport_fields(h);
  if (!p->local[LOWER]) return 0;
  for (int i = 0; i < fields; i++) {
    const shared_range r = shared_range_of(h, i, LOWER);
    if (theirs[i].bytes != r.bytes || theirs[i].into != shared_into_page(shared_first(h, i, LOWER)))
      return FAIL(why, TRANSPORT_REFUSED,
                  "the planes of the periodic faces do not begin at the same place within a page");
    TRY(shared_pages_borrow(r.begin, &theirs[i], why));
    p->ranges[LOWER][i] = r;
  }
  return 0;
}

static uint32_t *shared_counter_of(void *share, int side) {
  return (uint32_t *)share + (side + 1) * COUNTER_STRIDE;
}

/* Counters of this rank, 0, and of its neighbours. Collective. */
static int shared_open_counters(halo *h, shared *p, error *e) {
  const size_t bytes = 4 * COUNTER_STRIDE * sizeof(uint32_t);
  void *mine, *theirs;
  TRY(shared_window(h->node, bytes, &mine, &p->window, e));
  memset(mine, 0, bytes);
  MPI_TRY(e, MPI_Barrier(h->node));
  for (int side = 0; side < 2; side++) {
    MPI_Aint size;
    int local, unit;
    if (!p->local[side]) continue;
    TRY(transport_local_neighbour(h, side, &local, e));
    MPI_TRY(e, MPI_Win_shared_query(p->window, local, &size, &unit, &theirs));
    p->mine[side] = shared_counter_of(mine, side);
    p->theirs[side] = shared_counter_of(theirs, !side);
  }
  return 0;
}

/* Shares the planes with all neighbours on this node, or fails with the reason, leaving what is done to
 * shared_leave_all. Collective, agreed. */
static int shared_map_all(halo *h, shared *p, error *why) {
  lent_pages theirs[HALO_FIELDS];
  shared_check_possible(h, p, why);
  TRY(error_agree(why, h->comm));
  shared_lend_all(h, p, why);
  MPI_TRY(why, MPI_Sendrecv(p->lent, sizeof p->lent, MPI_BYTE, transport_neighbour(h, UPPER), TAG_READY,
                            theirs, sizeof theirs, MPI_BYTE, transport_neighbour(h, LOWER), TAG_READY,
                            h->comm, MPI_STATUS_IGNORE));
  if (!why->id) shared_borrow_all(h, p, theirs, why);
  TRY(error_agree(why, h->comm)); /* every rank has borrowed by now */
  shared_open_counters(h, p, why);
  return error_agree(why, h->comm);
}

static void shared_end_lending(shared *p) {
  for (int i = 0; i < HALO_FIELDS; i++) shared_pages_end(&p->lent[i]);
}

/* A neighbour that still reads keeps the shared pages. */
static void shared_leave_all(const halo *h, shared *p) {
  error ignored = {0};
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < HALO_FIELDS; i++) {
      shared_range *r = &p->ranges[side][i];
      if (!r->bytes) continue;
      if (!shared_pages_leave(r->begin, r->bytes, &ignored))
        shared_spoil(h, i, r->begin, r->begin + r->bytes);
      *r = (shared_range){NULL, 0};
    }
}

/* Decides how each neighbour is reached. Collective, agreed. */
static int shared_find_ways(halo *h, shared *p, error *e) {
  const int fields = transport_fields(h);
  error why = {0};
  for (int side = 0; side < 2; side++) {
    int local = MPI_UNDEFINED;
    if (!e->id) transport_local_neighbour(h, side, &local, e);
    p->local[side] = local != MPI_UNDEFINED;
  }
  TRY(error_agree(e, h->comm));
  shared_map_all(h, p, &why);
  shared_end_lending(p);
  p->possible = !why.id;
  if (!p->possible) shared_leave_all(h, p);
  for (int side = 0; side < 2; side++) {
    p->mapped[side] = p->local[side] && p->possible;
    if (!p->mapped[side]) continue;
    for (int i = 0; i < fields; i++) shared_spoil_own(h, i, side);
  }
  h->on_device = p->mapped[LOWER] || p->mapped[UPPER];
  h->mapped = h->on_device;
  for (int side = 0; side < 2; side++)
    if (transport_neighbour(h, side) != MPI_PROC_NULL) h->mapped = h->mapped && p->mapped[side];
  if (!halo_needed(h)) return 0;
  if (p->possible)
    snprintf(h->way, sizeof h->way, "mapped: boundary planes are the ghosts of neighbours on the same node");
  else
    snprintf(h->way, sizeof h->way, "copied: %.200s", why.text);
  return 0;
}

static int shared_open(halo *h, error *e) {
  shared *p = h->state = calloc(1, sizeof *p);
  if (!p) FAIL(e, OUT_OF_MEMORY, sizeof *p, "the transport");
  TRY(error_agree(e, h->comm));
  p->window = MPI_WIN_NULL;
  TRY(shared_find_ways(h, p, e));
  const bool copied[2] = {!p->mapped[LOWER], !p->mapped[UPPER]};
  int any = 0;
  for (int side = 0; side < 2; side++) any |= copied[side] && transport_neighbour(h, side) != MPI_PROC_NULL;
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_LOR, h->comm));
  chunks_open(h, copied, !p->possible, &p->others, e);
  TRY(error_agree(e, h->comm));
  return any ? chunks_measure(h, p->others, e) : 0;
}

static void shared_close(halo *h) {
  error ignored = {0};
  shared *p = h->state;
  if (!p) return;
  for (int stream = 0; stream < STREAM_COUNT; stream++) h->dev->table->sync(h->dev, stream, &ignored);
  shared_leave_all(h, p);
  if (p->window != MPI_WIN_NULL) MPI_Win_free(&p->window);
  chunks_close(p->others);
  free(p);
}

/* --- an exchange ------------------------------------------------------------------------------------------------ */

/* Announces that the earlier work of the stream is done, and makes later work wait until the neighbours have done the
 * same. */
static int shared_shake_hands(halo *h, shared *p, float *field, error *e) {
  const device_peer *peer = h->dev->table->peer;
  p->exchanges++;
  for (int side = 0; side < 2; side++)
    if (p->mapped[side]) TRY(peer->signal(h->dev, h->stream, p->mine[side], p->exchanges, e));
  TRY(chunks_exchange(p->others, field, HALO_UNTIMED, e));
  for (int side = 0; side < 2; side++)
    if (p->mapped[side]) TRY(peer->await(h->dev, h->stream, p->theirs[side], p->exchanges, e));
  return 0;
}

static int shared_exchange(halo *h, float *field, int set, bool serial, error *e) {
  const device_table *t = h->dev->table;
  shared *p = h->state;
  if (h->on_device) {
    TRY(transport_record(h, set, HALO_TO_HOST, e));
    TRY(shared_shake_hands(h, p, field, e));
    TRY(transport_record(h, set, HALO_TO_DEVICE_BEGIN, e));
    TRY(transport_record(h, set, HALO_TO_DEVICE, e));
  } else
    TRY(chunks_exchange(p->others, field, set, e));
  return serial ? t->sync(h->dev, h->stream, e) : 0;
}

const transport transport_shared = {.open = shared_open, .exchange = shared_exchange, .close = shared_close};
