/* chunked: halos in pieces through the host (transport_chunks.c). */
#include "transport.h"

int chunks_measure(halo *h, chunks *c, error *e) {
  double least = 0, seconds;
  int best = 1;
  for (int count = 1; count <= CHUNKS_MAX; count *= 2) {
    TRY(chunks_cut(c, count, e));
    TRY(halo_measure(h, &seconds, e));
    if (count == 1 || seconds < least) best = count, least = seconds;
  }
  return chunks_cut(c, best, e);
}

static int chunked_open(halo *h, error *e) {
  const bool sides[2] = {true, true};
  chunks *c = NULL;
  chunks_open(h, sides, false, &c, e);
  h->state = c;
  TRY(error_agree(e, h->comm));
  return chunks_measure(h, c, e);
}

static int chunked_exchange(halo *h, float *field, int set, error *e) {
  return chunks_exchange(h->state, field, set, e);
}

static void chunked_close(halo *h) {
  chunks_close(h->state);
  h->state = NULL;
}

const transport transport_chunked = {
    .open = chunked_open, .exchange = chunked_exchange, .close = chunked_close};
