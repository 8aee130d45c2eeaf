/* The lines that a host kernel prefetches, some rows before it needs them. */
#ifndef STENCIL_HOST_PREFETCH_H
#define STENCIL_HOST_PREFETCH_H

#include "host_images.h"

/* Adds prefetches for four planes on, where a tile of a wavefront reads rows that the tile below computed long ago.
 * These are the four rows below its first row, the first four rows of the planes that enter, and as many of the
 * medium. Row `i` of `rows` prefetches its share. */
static inline void prefetch_tile_below(prefetch_list *to, const kernel_args *a, int i, int rows) {
  const ptrdiff_t row = (ptrdiff_t)a->pitch, plane = (ptrdiff_t)a->plane;
  const float *const from[] = {a->in + GROUP * plane - RADIUS * row, a->in + (GROUP + RADIUS) * plane,
                               a->medium[0] ? a->medium[0] + GROUP * plane : NULL};
  const int all = (a->medium[0] ? 3 : 2) * RADIUS, end = all * (i + 1) / rows;
  for (int n = all * i / rows; n < end && to->count < PREFETCH_MOST; n++)
    to->from[to->count++] = from[n / RADIUS] + (n % RADIUS - i) * row;
}

/* Lists the lines that row y of block `b` prefetches. In a launch of one step the last rows prefetch the first rows
 * of the next column or planes. One row in each eighth of the block prefetches one of the eight rows beside the
 * block. While a block's first planes are computed, these planes and those below are prefetched too. */
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
