/* Cuts the work of host kernels into parts: each thread gets a range of the planes, cut into pieces (blocks of
 * rows). */
#ifndef STENCIL_HOST_RANGE_H
#define STENCIL_HOST_RANGE_H

#include <stdbool.h>
#include "kernel.h"
#include "base/numbers.h"

enum {
  GROUP = 4, /* planes computed together; four is also what a boundary launch has */
  BLOCK_X =
      1024, /* points: the longest piece of a row computed at once, a multiple of every vector's length */
  COLUMN_X =
      /* the same of a column: the 44 rows of a group's stencil, with neighbours, take 32 KiB */
  160,
  BLOCK_BYTES = 768 << 10, /* bytes of input that a block may keep in the L2 cache */
  BLOCK_Y_LEAST = 8,       /* rows: fewer would mostly load their neighbours */
  RANGE_PIECES = 8,        /* pieces of a thread at most: small ones shorten the wait for the last one */
  RANGE_ROWS = 32          /* rows of a piece at least */
};

/* The points of a part: x in [0, nx), y in [y_begin, y_end), z in [z_begin, z_end). */
typedef struct host_range {
  int y_begin, y_end, z_begin, z_end;
} host_range;

/* A block of rows, or a column of it. */
typedef struct block {
  int x_begin, x_end, y_begin, y_end;
  ptrdiff_t to_next; /* floats from its first row to the row computed after its last one */
} block;

/* First of `n` items that part `part` of `parts` has; n for part == parts. */
static inline int host_range_begin(int n, int part, int parts) {
  return (int)((long long)n * part / parts);
}

/* Most rows of a block: GROUP + 8 of its planes, with 8 more rows of neighbours, fit BLOCK_BYTES. */
static inline int host_block_rows(int nx) {
  const int row_bytes = (GROUP + 8) * (smaller(nx, BLOCK_X) + 8) * (int)sizeof(float);
  return larger(BLOCK_BYTES / row_bytes - 8, BLOCK_Y_LEAST);
}

/* Into how many columns to cut a block. */
static inline int host_columns(block b) {
  return (b.x_end - b.x_begin + COLUMN_X - 1) / COLUMN_X;
}

/* Where column `i` of `columns` of a block begins: at a multiple of two of the longest vectors. For i == columns:
 * where the block ends. */
static inline int host_column_begin(block b, int i, int columns) {
  enum { STEP = 32 };
  const int x = host_range_begin(b.x_end - b.x_begin, i, columns);
  return smaller(b.x_begin + (x + STEP - 1) / STEP * STEP, b.x_end);
}

/* Column `i` of `columns` of a block. */
static inline block host_column(const kernel_args *a, block b, int i, int columns) {
  block c = b;
  c.x_begin = host_column_begin(b, i, columns);
  c.x_end = host_column_begin(b, i + 1, columns);
  c.to_next = i + 1 < columns ? c.x_end - c.x_begin : GROUP * (ptrdiff_t)a->plane + b.x_begin - c.x_begin;
  return c;
}

static inline bool host_planes_suffice(const kernel_args *a, int threads) {
  const int planes = a->z_end - a->z_begin;
  return planes >= 8 * threads || planes >= a->ny;
}

/* Into how many pieces (blocks of rows) to cut the planes of each of `threads` threads. A piece goes through all
 * these planes by itself, so any thread may take it at no cost. */
static inline int host_range_pieces(const kernel_args *a, int threads) {
  const int rows = host_block_rows(a->nx), blocks = (a->ny + rows - 1) / rows;
  return host_planes_suffice(a, threads)
             ? larger(blocks, larger(smaller(RANGE_PIECES, a->ny / RANGE_ROWS), 1))
             : 1;
}

/* The range of part `part` of `parts`; it may be empty. With many planes each thread has a range of planes, cut into
 * pieces where `parts` allows it. With few planes (a boundary launch has four) a part is rows of every plane. */
static inline host_range host_range_of(const kernel_args *a, int part, int parts) {
  const int planes = a->z_end - a->z_begin;
  host_range range = {0, a->ny, a->z_begin, a->z_end};
  int pieces = host_range_pieces(a, 1);
  if (parts % pieces || !host_planes_suffice(a, parts / pieces)) pieces = 1;
  const int threads = parts / pieces;
  if (host_planes_suffice(a, threads)) {
    range.z_begin = a->z_begin + host_range_begin(planes, part / pieces, threads);
    range.z_end = a->z_begin + host_range_begin(planes, part / pieces + 1, threads);
    range.y_begin = host_range_begin(a->ny, part % pieces, pieces);
    range.y_end = host_range_begin(a->ny, part % pieces + 1, pieces);
  } else {
    range.y_begin = host_range_begin(a->ny, part, parts);
    range.y_end = host_range_begin(a->ny, part + 1, parts);
  }
  return range;
}

#endif
