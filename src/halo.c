#include "halo.h"
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include "error_mpi.h"
#include "trace.h"

enum { LOWER = 0, UPPER = 1 };
enum { TAG_DOWN = 1, TAG_UP = 2 };

static int neighbour(const halo *h, int side) {
  int rank = side == LOWER ? h->slab->lower : h->slab->upper;
  return rank == SLAB_NO_RANK ? MPI_PROC_NULL : rank;
}

static size_t halo_bytes(const slab *s) {
  return (size_t)s->ghost * s->plane * sizeof(float);
}

/* First float of the planes from z on: of whole planes, ghosts of x and y included, so that a halo is one
 * copy. */
static float *planes_at(float *field, const slab *s, int z) {
  return field + slab_offset(s, z, -RADIUS, -RADIUS);
}

/* --- sendrecv: pinned bounce buffers and MPI_Sendrecv
 * ---------------------------------------------------------- */

static int sendrecv_open(halo *h, error *e) {
  for (int side = 0; side < 2; side++) {
    if (neighbour(h, side) == MPI_PROC_NULL) continue;
    TRY(h->dev->table->alloc(h->dev, (void **)&h->send[side], halo_bytes(h->slab), MEMORY_PINNED, e));
    TRY(h->dev->table->alloc(h->dev, (void **)&h->receive[side], halo_bytes(h->slab), MEMORY_PINNED, e));
  }
  return 0;
}

static void sendrecv_close(halo *h) {
  error ignored = {0}; /* closing happens after failures too */
  for (int side = 0; side < 2; side++) {
    h->dev->table->free(h->dev, h->send[side], MEMORY_PINNED, &ignored);
    h->dev->table->free(h->dev, h->receive[side], MEMORY_PINNED, &ignored);
  }
}

/* One direction: everybody sends to one side while receiving from the other. An outer face is MPI_PROC_NULL,
 * for which MPI does nothing, but some versions insist on a buffer unless the count is 0. */
static int sendrecv_shift(halo *h, int to, int from, int tag, error *e) {
  const slab *s = h->slab;
  int rows =
      s->ghost * (s->ny + 2 * RADIUS); /* counted in rows, so that the count of a huge plane fits an int */
  MPI_TRY(e, MPI_Sendrecv(h->send[to], h->send[to] ? rows : 0, h->row, neighbour(h, to), tag,
                          h->receive[from], h->receive[from] ? rows : 0, h->row, neighbour(h, from), tag,
                          h->comm, MPI_STATUS_IGNORE));
  return 0;
}

static int sendrecv_exchange(halo *h, float *field, const halo_events *events, bool serial, error *e) {
  const device_table *t = h->dev->table;
  const slab *s = h->slab;
  const int send_from[2] = {0, s->nz - s->ghost}, receive_to[2] = {-s->ghost, s->nz};
  for (int side = 0; side < 2; side++)
    if (h->send[side])
      TRY(t->copy(h->dev, STREAM_BOUNDARY, h->send[side], planes_at(field, s, send_from[side]), halo_bytes(s),
                  COPY_TO_HOST, e));
  if (events) TRY(t->record(h->dev, STREAM_BOUNDARY, events->to_host, e));
  /* The planes must have arrived before MPI reads them; this also ends the copies out of the receive buffers
   * that the exchange before this one left behind, so that MPI may fill these again. */
  TRY(t->sync(h->dev, STREAM_BOUNDARY, e));

  trace_begin("exchange");
  double begin = MPI_Wtime();
  TRY(sendrecv_shift(h, LOWER, UPPER, TAG_DOWN, e));
  TRY(sendrecv_shift(h, UPPER, LOWER, TAG_UP, e));
  h->exchange_seconds += MPI_Wtime() - begin;
  trace_end();

  if (events) TRY(t->record(h->dev, STREAM_BOUNDARY, events->to_device_begin, e));
  for (int side = 0; side < 2; side++)
    if (h->receive[side])
      TRY(t->copy(h->dev, STREAM_BOUNDARY, planes_at(field, s, receive_to[side]), h->receive[side],
                  halo_bytes(s), COPY_TO_DEVICE, e));
  if (events) TRY(t->record(h->dev, STREAM_BOUNDARY, events->to_device, e));
  return serial ? t->sync(h->dev, STREAM_BOUNDARY, e) : 0;
}

/* --- the table
 * ------------------------------------------------------------------------------------------------ */

static const struct transport transports[] = {
    {"sendrecv", sendrecv_open, sendrecv_exchange, sendrecv_close},
};

const struct transport *transport_find(const char *name) {
  if (strcmp(name, "auto") == 0) return &transports[0];
  for (size_t i = 0; i < sizeof transports / sizeof *transports; i++)
    if (strcmp(name, transports[i].name) == 0) return &transports[i];
  return NULL;
}

int halo_open(halo *h, const char *name, device *dev, const slab *slab, MPI_Comm comm, error *e) {
  *h = (halo){
      .dev = dev, .slab = slab, .comm = comm, .row = MPI_DATATYPE_NULL, .transport = transport_find(name)};
  MPI_TRY(e, MPI_Type_contiguous((int)slab->pitch, MPI_FLOAT, &h->row));
  MPI_TRY(e, MPI_Type_commit(&h->row));
  return h->transport->open(h, e);
}

bool halo_needed(const halo *h) {
  return neighbour(h, LOWER) != MPI_PROC_NULL || neighbour(h, UPPER) != MPI_PROC_NULL;
}

int halo_exchange(halo *h, float *field, const halo_events *events, bool serial, error *e) {
  if (!halo_needed(h)) return 0;
  return h->transport->exchange(h, field, events, serial, e);
}

void halo_close(halo *h) {
  if (!h->transport) return;
  h->transport->close(h);
  if (h->row != MPI_DATATYPE_NULL) MPI_Type_free(&h->row);
  h->transport = NULL;
}
