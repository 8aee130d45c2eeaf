#include "wavefront.h"
#include <stdlib.h>
#include <unistd.h>
#include "../kernels/order.h"

/* Of the L2 cache, what a tile may fill: the rest is for what passes through. */
static const double L2_SHARE = 0.75;
static const long L2_BYTES = 1 << 20; /* where the system does not say */

enum { ROWS_WANTED = 32, WIDTH_LEAST = 128 };

/* Rows of a tile of that width so that the planes between the first step's highest and the last step's lowest stay in the
 * cache. */
static int rows_of(int width, int depth, bool medium) {
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const int between = WAVEFRONT_LAG * (depth - 1) + WAVEFRONT_PLANES;
  const double planes = 2 * (between + 2 * RADIUS) + (medium ? between : 0);
  const double row_bytes = planes * ((double)width + 2 * RADIUS) * sizeof(float);
  return (int)(L2_SHARE * (double)(l2 > 0 ? l2 : L2_BYTES) / row_bytes) - 2 * RADIUS;
}

/* Points in x of each of `columns` tiles. */
static int width_of(const slab *s, int columns) {
  const int lines = (s->nx + WAVEFRONT_SHIFT - 1) / WAVEFRONT_SHIFT;
  return (lines + columns - 1) / columns * WAVEFRONT_SHIFT;
}

/* Tiles as wide as leaves them rows enough, of which each re-reads a few of the tile below it; and no fewer than there are
 * threads in a chunk, as far as images let them be that small. */
static wavefront_tile tile_of(const slab *s, int depth, bool medium, bool whole_rows, int threads) {
  int columns = 1;
  while (!whole_rows && rows_of(width_of(s, columns), depth, medium) < ROWS_WANTED &&
         width_of(s, columns + 1) >= larger(WIDTH_LEAST, wavefront_width_least(depth)))
    columns++;
  const int width = width_of(s, columns), rows = rows_of(width, depth, medium);
  return (wavefront_tile){width,
                          larger(smaller(rows, (s->ny + threads - 1) / threads), wavefront_rows_least(depth))};
}

int wavefront_open(wavefront *w, const slab *s, const kernel_args *args, int depth,
                   const wavefront_tile *tile, int threads, error *e) {
  const int chunks = smaller(threads, wavefront_chunks_most(s->nz, depth));
  const bool whole_rows = chunks < threads || args->ghosts[FACE_X_LO] == GHOST_WRAP;
  *w = (wavefront){.depth = depth, .threads = threads};
  w->tile = tile ? *tile : tile_of(s, depth, args->medium, whole_rows, (threads + chunks - 1) / chunks);
  const size_t tiles = (size_t)wavefront_tiles(s->nx, s->ny, w->tile) * (size_t)threads;
  w->done = malloc(tiles * sizeof *w->done);
  if (!w->done) return FAIL(e, OUT_OF_MEMORY, tiles * sizeof *w->done, "the wavefront's counters");
  for (size_t i = 0; i < tiles; i++) atomic_init(&w->done[i], 0);
  return 0;
}

void wavefront_close(wavefront *w) {
  free(w->done);
  *w = (wavefront){0};
}
