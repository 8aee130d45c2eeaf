/* chunked and shared: halos in pieces through the host (transport_chunks.c). */
#include "transport.h"

/* Into how many pieces? More of them overlap better, and each costs. What wins is measured; all ranks see the same
 * times. */
static int measure_pieces(halo *h, chunks *c, error *e) {
  double least = 0, seconds;
  int best = 1;
  for (int count = 1; count <= CHUNKS_MAX; count *= 2) {
    TRY(chunks_cut(c, count, e));
    TRY(halo_measure(h, &seconds, e));
    if (count == 1 || seconds < least) best = count, least = seconds;
  }
  return chunks_cut(c, best, e);
}

static int open_both(halo *h, bool node_memory, error *e) {
  const bool sides[2] = {true, true};
  chunks *c = NULL;
  chunks_open(h, sides, node_memory, &c, e);
  h->state = c;
  TRY(error_agree(e, h->comm));
  return measure_pieces(h, c, e);
}

static int chunked_open(halo *h, error *e) {
  return open_both(h, false, e);
}

static int shared_open(halo *h, error *e) {
  return open_both(h, true, e);
}

static int exchange(halo *h, float *field, const halo_events *events, bool serial, error *e) {
  TRY(chunks_exchange(h->state, field, events, e));
  return serial ? h->dev->table->sync(h->dev, STREAM_BOUNDARY, e) : 0;
}

static void close_chunks(halo *h) {
  chunks_close(h->state);
}

const transport transport_chunked = {.name = "chunked",
                                     .note = "in pieces: the copies to and from the device overlap with MPI",
                                     .open = chunked_open,
                                     .exchange = exchange,
                                     .close = close_chunks};

const transport transport_shared = {
    .name = "shared",
    .note = "in pieces through memory that the ranks of a node share; else as chunked",
    .open = shared_open,
    .exchange = exchange,
    .close = close_chunks};
