#include "wavefront.h"
#include <stdlib.h>
#include <unistd.h>
#include "../kernels/order.h"

/* Of the L2 cache, what a tile may fill: the rest is for what passes through. */
static const double L2_SHARE = 0.75;
static const long L2_BYTES = 1 << 20; /* where the system does not say */

/* Rows of a tile so that the planes between the first step's highest and the last step's lowest stay in the cache; and
 * no fewer tiles than threads of a chunk, as far as images let them be that small. */
static int rows_of(const slab *s, int depth, bool medium, int threads) {
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const int between = WAVEFRONT_LAG * (depth - 1) + WAVEFRONT_PLANES;
  const double planes = 2 * (between + 2 * RADIUS) + (medium ? between : 0);
  const double row_bytes = planes * ((double)s->nx + 2 * RADIUS) * sizeof(float);
  const int rows = (int)(L2_SHARE * (double)(l2 > 0 ? l2 : L2_BYTES) / row_bytes) - 2 * RADIUS;
  return larger(smaller(rows, (s->ny + threads - 1) / threads), wavefront_rows_least(depth));
}

int wavefront_open(wavefront *w, const slab *s, int depth, int rows, bool medium, int threads, error *e) {
  const int chunks = smaller(threads, wavefront_chunks_most(s->nz, depth));
  *w = (wavefront){.depth = depth, .rows = rows, .threads = threads};
  if (rows <= 0) w->rows = rows_of(s, depth, medium, (threads + chunks - 1) / chunks);
  const size_t tiles = (size_t)wavefront_tiles(s->ny, w->rows) * (size_t)threads;
  w->done = malloc(tiles * sizeof *w->done);
  if (!w->done) return FAIL(e, OUT_OF_MEMORY, tiles * sizeof *w->done, "the wavefront's counters");
  for (size_t i = 0; i < tiles; i++) atomic_init(&w->done[i], 0);
  return 0;
}

void wavefront_close(wavefront *w) {
  free(w->done);
  *w = (wavefront){0};
}
