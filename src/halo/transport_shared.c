/* shared: through memory that the ranks of a node share.
 *
 * On the host nothing is copied where pages can be shared: a field of all ranks of a node lies in one file without
 * a name, plane after plane, and each rank's memory is a window into it. So the planes that one rank computes are the
 * ghosts of another at once. Slabs lie in their memory so that a window can consist of huge pages (slab.lead). A grid
 * periodic in z, all of it on one node, is a ring: the file's last page is followed by its first.
 *
 * An exchange is a handshake. After step n a rank signals that its planes of step n are stored, and that it has
 * read the neighbour's of step n - 1. So step n + 1 may overwrite these. Only boundary kernels and receivers read
 * ghosts, on the halo's stream, before the next exchange there. Kernels of the interior touch neither ghosts nor planes
 * that a neighbour reads, and copies for files read only the rank's own planes. No other synchronisation is needed
 * while the ranks step. halo.h says when fields may be loaded.
 *
 * On GPUs planes are copied in pieces. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/numbers.h"
#include "shared_memory.h"
#include "transport.h"

/* Whole pages. */
typedef struct shared_range {
  char *begin;
  size_t bytes;
} shared_range;

typedef struct shared {
  bool local[2];                 /* [side]: the neighbour is on this node */
  bool mapped[2];                /* the neighbour's planes are this rank's ghosts */
  bool possible;                 /* planes of all neighbours on a node are mapped, on all ranks */
  int first, ranks;              /* the first rank of this node, and how many follow each other there */
  size_t ring;                   /* bytes of the file, where it is a ring; 0: it is none */
  shared_range own[HALO_FIELDS]; /* the window in this rank's memory; bytes 0: none */
  uint32_t *mine[2];             /* counters of exchanges, in the node's memory */
  const uint32_t *theirs[2];     /* the neighbours' */
  uint32_t exchanges;
  MPI_Win window; /* of the counters */
  chunks *others; /* to neighbours whose planes are copied */
} shared;

/* --- windows ----------------------------------------------------------------------------------------------------- */

/* Where a plane of the grid begins in the file. Its place within a huge page is the same as in this rank's memory. */
static size_t shared_place(const slab *s, int z) {
  return (slab_offset(s, -RADIUS, -RADIUS, -RADIUS) - s->lead + (size_t)(z + RADIUS) * s->plane) *
         sizeof(float);
}

/* Maps the planes that this rank sees of a field, in whole pages, in the place of its memory. */
static int shared_map(const halo *h, shared *p, int field, int file, error *e) {
  const slab *s = h->slab;
  char *first = (char *)(h->setup.fields[field] + slab_offset(s, -RADIUS, -RADIUS, -RADIUS));
  const size_t page = page_bytes(), into = (uintptr_t)first % page;
  const size_t bytes = into + (size_t)(s->nz + 2 * RADIUS) * s->plane * sizeof(float);
  size_t from = shared_place(s, s->z0 - RADIUS) - into;
  shared_range *mapped = &p->own[field];
  *mapped = (shared_range){first - into, round_up(bytes, page)};
  if (from % page) return FAIL(e, SHARED_PAGES, "mmap", "the field does not begin on a page");
  for (size_t done = 0, length; done < mapped->bytes; done += length, from += length) {
    if (p->ring) from %= p->ring;
    length = mapped->bytes - done;
    if (p->ring && length > p->ring - from) length = p->ring - from;
    TRY(shared_pages_map(mapped->begin + done, length, file, from, e));
  }
  return 0;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* Fails with the reason if this rank's planes cannot be shared as whole pages. Not collective. */
static int shared_check_possible(const halo *h, const shared *p, error *why) {
  const slab *s = h->slab;
  char text[HALO_WHY] = "";
  int node_rank = 0;
  MPI_TRY(why, MPI_Comm_rank(h->node, &node_rank));
  if (h->dev->table->backend != BACKEND_HOST || !h->dev->table->peer)
    snprintf(text, sizeof text, "only fields in host memory can be mapped");
  else if (SLAB_PAGE * sizeof(float) % page_bytes() != 0)
    snprintf(text, sizeof text, "pages are larger than %zu bytes", SLAB_PAGE * sizeof(float));
  else if (s->rank != p->first + node_rank)
    snprintf(text, sizeof text, "the ranks of a node do not follow each other");
  else if (p->ring % page_bytes() != 0)
    snprintf(text, sizeof text,
             "the planes of the periodic faces do not begin at the same place within a page");
  return text[0] ? FAIL(why, TRANSPORT_REFUSED, text) : 0;
}

/* Finds the ranks of the node, and whether their planes form a ring. Collective over the node. */
static int shared_find_node(const halo *h, shared *p, error *e) {
  const slab *s = h->slab;
  int first[2] = {s->rank, s->rank == 0 && s->lower != SLAB_NO_RANK}; /* on the node's first rank */
  MPI_TRY(e, MPI_Comm_size(h->node, &p->ranks));
  MPI_TRY(e, MPI_Bcast(first, 2, MPI_INT, 0, h->node));
  p->first = first[0];
  p->ring = first[1] && p->ranks == s->ranks ? (size_t)s->nz_global * s->plane * sizeof(float) : 0;
  return 0;
}

/* Opens the file of a field: the node's first rank makes it and lends it to the others. -1 after a failure, of any
 * rank. Collective over the node. */
static int shared_open_file(const halo *h, const shared *p, error *why) {
  const slab *s = h->slab;
  const size_t page = page_bytes(), bytes = p->ring ? p->ring : shared_place(s, s->nz_global + RADIUS);
  const bool maker = s->rank == p->first;
  lent_file lent = {0};
  int file = -1;
  if (maker && !why->id) file = shared_file_new(round_up(bytes + 1, page), why);
  if (file >= 0) shared_file_lend(file, &lent, why);
  error_from_mpi(why, MPI_Bcast(&lent, sizeof lent, MPI_BYTE, 0, h->node), "MPI_Bcast");
  if (!maker && !why->id && lent.process) file = shared_file_borrow(&lent, why);
  return file;
}

static uint32_t *shared_counter_of(void *memory, int side) {
  return (uint32_t *)memory + (side + 1) * COUNTER_STRIDE;
}

/* Opens this rank's counters. Collective. */
static int shared_open_window(halo *h, shared *p, error *e) {
  const size_t bytes = 4 * COUNTER_STRIDE * sizeof(uint32_t);
  void *mine;
  TRY(shared_window(h->node, bytes, &mine, &p->window, e));
  memset(mine, 0, bytes);
  MPI_TRY(e, MPI_Barrier(h->node));
  return 0;
}

static int shared_find_counters(const halo *h, shared *p, error *e) {
  void *mine, *theirs;
  TRY(shared_window_of(p->window, h->slab->rank - p->first, &mine, e));
  for (int side = 0; side < 2; side++) {
    int local;
    if (!p->local[side]) continue;
    TRY(transport_local_neighbour(h, side, &local, e));
    TRY(shared_window_of(p->window, local, &theirs, e));
    p->mine[side] = shared_counter_of(mine, side);
    p->theirs[side] = shared_counter_of(theirs, !side);
  }
  return 0;
}

/* Has this rank a neighbour on its node? A rank alone there has none, and keeps its fields in its own memory. Where
 * planes can be shared, all ranks of a larger node have one. */
static bool shared_any_local(const shared *p) {
  return p->local[LOWER] || p->local[UPPER];
}

/* Shares the planes with all neighbours on this node, or fails with the reason; shared_leave_all then undoes what is
 * done. Collective, agreed. */
static int shared_map_all(halo *h, shared *p, error *why) {
  int files[HALO_FIELDS];
  const int fields = shared_any_local(p) ? transport_fields(h) : 0;
  shared_find_node(h, p, why);
  shared_check_possible(h, p, why);
  TRY(error_agree(why, h->comm));
  for (int i = 0; i < fields; i++) {
    files[i] = shared_open_file(h, p, why);
    if (files[i] >= 0 && !why->id) shared_map(h, p, i, files[i], why);
  }
  error_agree(why, h->comm); /* every rank has opened the files by now */
  for (int i = 0; i < fields; i++)
    if (files[i] >= 0) close(files[i]);
  TRY(why->id);
  if (!shared_open_window(h, p, why)) shared_find_counters(h, p, why);
  return error_agree(why, h->comm);
}

/* Sets planes [begin, end) of the slab to NaN, like fresh memory. */
static void shared_spoil(const halo *h, int field, int begin, int end) {
  float *first = h->setup.fields[field] + slab_offset(h->slab, begin, -RADIUS, -RADIUS);
  memset(first, 0xFF, (size_t)(end - begin) * h->slab->plane * sizeof(float));
}

/* Replaces shared pages by this rank's own. A neighbour that still reads keeps the shared pages. */
static void shared_leave_all(const halo *h, shared *p) {
  error ignored = {0};
  const slab *s = h->slab;
  for (int i = 0; i < HALO_FIELDS; i++) {
    if (!p->own[i].bytes) continue;
    if (!shared_pages_leave(p->own[i].begin, p->own[i].bytes, &ignored)) {
      shared_spoil(h, i, -RADIUS, RADIUS);
      shared_spoil(h, i, s->nz - RADIUS, s->nz + RADIUS);
    }
    p->own[i] = (shared_range){NULL, 0};
  }
}

/* Takes the pages of this rank's planes, and of ghosts that are nobody's planes. */
static int shared_place_planes(const halo *h, const shared *p, error *e) {
  const slab *s = h->slab;
  const int fields = transport_fields(h), begin = p->local[LOWER] ? 0 : -RADIUS,
            end = s->nz + (p->local[UPPER] ? 0 : RADIUS);
  for (int i = 0; i < fields; i++)
    TRY(h->dev->table->peer->place(h->dev, h->setup.fields[i] + slab_offset(s, begin, -RADIUS, -RADIUS),
                                   (size_t)(end - begin) * s->plane * sizeof(float), e));
  return 0;
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

/* Decides how each neighbour is reached. Collective, agreed. */
static int shared_find_ways(halo *h, shared *p, error *e) {
  error why = {0};
  for (int side = 0; side < 2; side++) {
    int local = MPI_UNDEFINED;
    if (!e->id) transport_local_neighbour(h, side, &local, e);
    p->local[side] = local != MPI_UNDEFINED;
  }
  TRY(error_agree(e, h->comm));
  shared_map_all(h, p, &why);
  p->possible = !why.id;
  if (!p->possible) shared_leave_all(h, p);
  for (int side = 0; side < 2; side++) p->mapped[side] = p->local[side] && p->possible;
  h->on_device = p->mapped[LOWER] || p->mapped[UPPER];
  h->mapped = h->on_device;
  for (int side = 0; side < 2; side++)
    if (transport_neighbour(h, side) != MPI_PROC_NULL) h->mapped = h->mapped && p->mapped[side];
  if (!halo_needed(h)) return 0;
  if (p->possible)
    snprintf(h->method, sizeof h->method,
             "mapped: boundary planes are the ghosts of neighbours on the same node");
  else
    snprintf(h->method, sizeof h->method, "copied: %.200s", why.text);
  return 0;
}

static int shared_open(halo *h, error *e) {
  shared *p = h->state;
  p->window = MPI_WIN_NULL;
  TRY(shared_find_ways(h, p, e));
  if (p->possible && shared_any_local(p) && !h->trial) shared_place_planes(h, p, e);
  TRY(error_agree(e, h->comm));
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
  for (int stream = 0; stream < STREAM_COUNT; stream++) h->dev->table->sync(h->dev, stream, &ignored);
  shared_leave_all(h, p);
  if (p->window != MPI_WIN_NULL) MPI_Win_free(&p->window);
  chunks_close(p->others);
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

static int shared_exchange(halo *h, float *field, int set, error *e) {
  shared *p = h->state;
  return h->on_device ? shared_shake_hands(h, p, field, e) : chunks_exchange(p->others, field, set, e);
}

const transport transport_shared = {
    .open = shared_open, .exchange = shared_exchange, .close = shared_close, .state_bytes = sizeof(shared)};
