/* How the host kernels divide their work: each thread gets a share of the planes, cut into blocks of rows. */
#ifndef STENCIL_HOST_SHARE_H
#define STENCIL_HOST_SHARE_H

#include <stdbool.h>
#include "kernel.h"
#include "base/numbers.h"

enum {
  GROUP = 4,      /* planes computed together; four is also what a boundary launch has */
  BLOCK_X = 1024, /* points: longest piece of a row swept at once, a multiple of every vector's length */
  BLOCK_BYTES = 768 << 10, /* of input that a block may keep in the L2 cache */
  BLOCK_Y_LEAST = 8        /* rows: fewer would mostly load their neighbours */
};

/* Points x in [0, nx), y in [y_begin, y_end), z in [z_begin, z_end). */
typedef struct host_share {
  int y_begin, y_end, z_begin, z_end;
} host_share;

/* First of `n` items that share `part` of `parts` owns; n for part == parts. */
static inline int host_share_begin(int n, int part, int parts) {
  return (int)((long long)n * part / parts);
}

/* Most rows of a block: GROUP + 8 of its planes, with 8 more rows of neighbours, fit BLOCK_BYTES. */
static inline int host_block_rows(int nx) {
  const int row_bytes = (GROUP + 8) * (smaller(nx, BLOCK_X) + 8) * (int)sizeof(float);
  return larger(BLOCK_BYTES / row_bytes - 8, BLOCK_Y_LEAST);
}

static inline bool host_planes_suffice(const kernel_args *a, int shares) {
  const int planes = a->z_end - a->z_begin;
  return planes >= 8 * shares || planes >= a->ny;
}

/* Into how many pieces (blocks of rows) to cut each of so many shares of a launch. A block goes through all planes of
 * its share by itself, so any thread may take it at no cost. */
static inline int host_share_pieces(const kernel_args *a, int shares) {
  const int rows = host_block_rows(a->nx);
  return host_planes_suffice(a, shares) ? larger((a->ny + rows - 1) / rows, 1) : 1;
}

/* Share `part` of `parts` of a launch. With plenty of planes it is a range of planes, cut into pieces where `parts`
 * allows it. With few planes (a boundary launch has four) it is rows of every plane. It may be empty. */
static inline host_share host_share_of(const kernel_args *a, int part, int parts) {
  const int planes = a->z_end - a->z_begin;
  host_share share = {0, a->ny, a->z_begin, a->z_end};
  int pieces = host_share_pieces(a, 1);
  if (parts % pieces || !host_planes_suffice(a, parts / pieces)) pieces = 1;
  const int shares = parts / pieces;
  if (host_planes_suffice(a, shares)) {
    share.z_begin = a->z_begin + host_share_begin(planes, part / pieces, shares);
    share.z_end = a->z_begin + host_share_begin(planes, part / pieces + 1, shares);
    share.y_begin = host_share_begin(a->ny, part % pieces, pieces);
    share.y_end = host_share_begin(a->ny, part % pieces + 1, pieces);
  } else {
    share.y_begin = host_share_begin(a->ny, part, parts);
    share.y_end = host_share_begin(a->ny, part + 1, parts);
  }
  return share;
}

#endif
