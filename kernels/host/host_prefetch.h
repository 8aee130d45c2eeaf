/* The lines that a host kernel prefetches, some rows before it needs them. */
#ifndef STENCIL_HOST_PREFETCH_H
#define STENCIL_HOST_PREFETCH_H

#include "host_images.h"

/* Four planes on, a tile of a wavefront reads rows that the tile below it computed long ago: in its own planes four
 * below its first row, in the planes that enter its first four, and as many of the medium. Row `i` of `rows` asks for
 * its part of them. */
static inline void prefetch_tile_below(prefetch_list *to, const kernel_args *a, int i, int rows) {
  const ptrdiff_t row = (ptrdiff_t)a->pitch, plane = (ptrdiff_t)a->plane;
  const float *const from[] = {a->in + GROUP * plane - RADIUS * row, a->in + (GROUP + RADIUS) * plane,
                               a->medium[0] ? a->medium[0] + GROUP * plane : NULL};
  const int all = (a->medium[0] ? 3 : 2) * RADIUS, end = all * (i + 1) / rows;
  for (int n = all * i / rows; n < end && to->count < PREFETCH_MOST; n++)
    to->from[to->count++] = from[n / RADIUS] + (n % RADIUS - i) * row;
}

/* What row y of block `b` asks for. In a launch by itself the last rows ask for the first ones of the next column or
 * planes, and one row in each eighth of the block asks for one of the eight beside the block, which the next planes
 * have for neighbours. While a block's first planes are computed, they and those below are prefetched, too. */
static inline prefetch_list prefetch_list_at(const simd_launch *s, block b, int z, int y) {
  const kernel_args *a = s->args;
  const ptrdiff_t row = (ptrdiff_t)a->pitch, plane = (ptrdiff_t)a->plane;
  const int rows = b.y_end - b.y_begin, i = y - b.y_begin, beside = 2 * RADIUS * i / rows;
  const ptrdiff_t jump = i < rows - s->ahead_rows ? 0 : b.to_next - rows * row;
  prefetch_list to = {.count = 0};
  for (int k = 0; k < AHEAD_ARRAYS; k++)
    if (s->ahead.array[k]) to.from[to.count++] = s->ahead.array[k] + jump;
  if (!s->ahead_rows) {
    const bool lowest = b.y_begin == s->range.y_begin;
    if (lowest && b.y_begin > 0) prefetch_tile_below(&to, a, i, rows);
    return to;
  }
  if (2 * RADIUS * (i + 1) / rows > beside)
    to.from[to.count++] = a->in + RADIUS * plane + (beside - RADIUS - i + (beside < RADIUS ? 0 : rows)) * row;
  if (z == s->range.z_begin) {
    to.from[to.count++] = s->ahead.array[0] - 2 * RADIUS * plane;
    to.from[to.count++] = s->ahead.array[0] - RADIUS * plane + RADIUS * row;
  }
  return to;
}

#endif
