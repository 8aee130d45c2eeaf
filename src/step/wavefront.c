#include "wavefront.h"
#include <stdlib.h>
#include <unistd.h>
#include "base/numbers.h"

const char *const wavefront_manner_names[WAVEFRONT_MANNERS] = {"plain", "eager", "tall"};

const wavefront_shape wavefront_ways[WAVEFRONT_WAYS] = {
    {.depth = 1},
    {.depth = 2},
    {.depth = 2, .manner = WAVEFRONT_EAGER},
    {.depth = 3},
    {.depth = 3, .manner = WAVEFRONT_EAGER},
    {.depth = 3, .manner = WAVEFRONT_TALL},
    {.depth = 4},
    {.depth = 4, .manner = WAVEFRONT_EAGER},
    {.depth = 4, .manner = WAVEFRONT_TALL},
    {.depth = 6},
    {.depth = 6, .manner = WAVEFRONT_EAGER},
    {.depth = 6, .manner = WAVEFRONT_TALL},
};

/* The part of the L2 cache that a tile may fill. The rest is for data that is used once. */
static const double L2_SHARE = 0.75;
static const long L2_BYTES = 1 << 20; /* where the system does not say */

/* So few rows that a tile's planes from the first step's highest to the last step's lowest stay in the L2 cache. */
static int wavefront_rows_in_l2(const slab *s, int depth, bool medium) {
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const int between = WAVEFRONT_LAG * (depth - 1) + WAVEFRONT_PLANES;
  const double planes = 2 * (between + 2 * RADIUS) + (medium ? between : 0);
  const double row_bytes = planes * ((double)s->nx + 2 * RADIUS) * sizeof(float);
  return (int)(L2_SHARE * (double)(l2 > 0 ? l2 : L2_BYTES) / row_bytes) - 2 * RADIUS;
}

/* Rows of a tile: so few that there is a tile for each thread of a chunk; but as many as images need. */
static int wavefront_rows_for(const slab *s, const wavefront_shape *shape, bool medium, int threads) {
  const int rows = shape->manner == WAVEFRONT_TALL ? host_block_rows(s->nx)
                                                   : wavefront_rows_in_l2(s, shape->depth, medium);
  return larger(smaller(rows, (s->ny + threads - 1) / threads), wavefront_rows_least(shape->depth));
}

int wavefront_open(wavefront *w, const slab *s, const wavefront_shape *shape, bool medium, int threads,
                   error *e) {
  *w = (wavefront){.shape = *shape, .chunks = smaller(threads, wavefront_chunks_most(s->nz, shape->depth))};
  if (shape->rows <= 0)
    w->shape.rows = wavefront_rows_for(s, shape, medium, (threads + w->chunks - 1) / w->chunks);
  w->tiles = wavefront_tiles(s->ny, w->shape.rows);
  const size_t counters = ((size_t)w->tiles + 1) * (size_t)w->chunks;
  w->done = malloc(counters * sizeof *w->done);
  if (!w->done) return FAIL(e, OUT_OF_MEMORY, counters * sizeof *w->done, "the wavefront's counters");
  for (size_t i = 0; i < counters; i++) atomic_init(&w->done[i], 0);
  return 0;
}

void wavefront_close(wavefront *w) {
  free(w->done);
  *w = (wavefront){0};
}
