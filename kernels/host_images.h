/* How the host kernels `simd` store ghosts that are images (ghosts.h has the rules): which rows and which ends of rows
 * have images, found once a sweep or row. A vector is stored from its registers to all its places along y and z.
 * Images along x are gathered in two lines beside the row, and where a line holds nothing else it is stored as a
 * whole, around the cache: a store of a few floats would first have to fetch the line from memory, twice a row. */
#ifndef STENCIL_HOST_IMAGES_H
#define STENCIL_HOST_IMAGES_H

#include "ghosts.h"
#include <stdbool.h>
#include <string.h>

enum {
  GROUP = 4,      /* planes computed together; four is also what a boundary launch has */
  BLOCK_X = 1024, /* points: longest piece of a row swept at once, a multiple of every vector's length */
  LINE = 16       /* floats of a cache line */
};

/* Where else a new value goes. */
typedef struct image {
  ptrdiff_t distance; /* floats from the point to its image */
  bool negated;
} image;

/* An image along x; its place is in the line before the row, floats 0 .. LINE - 1, or from the row's end on,
 * LINE .. 2 LINE - 1. */
typedef struct x_image {
  int x, place;
  bool negated;
} x_image;

/* What every instruction set's sweep needs to know of a launch, besides its arguments. */
typedef struct sweep {
  const kernel_args *args;
  bool large;                       /* too large to be found in the cache by the next launch */
  bool stream;                      /* store around the cache */
  bool whole_left, whole_right;     /* the lines with a row's left and right ghosts are stored whole */
  int x_middle_begin, x_middle_end; /* the points between have no image along x */
  int x_count;
  x_image x_images[2 * GHOST_REACH]; /* in ascending x */
} sweep;

typedef struct block {
  int x_begin, x_end, y_begin, y_end;
} block;

/* Images along y and z of the points of one row. */
typedef struct row_images {
  int count;
  bool held;
  image to[4];
} row_images;

/* The rows of a block that are computed together: one of each plane of a group. */
typedef struct strip {
  ptrdiff_t first; /* floats from own point (0, 0, 0) to the first row's x = 0 */
  int x_begin, z;
  bool z_images, row_images;  /* some plane has images along z; some row of the strip along y or z */
  int image_begin, image_end; /* range in the sweep's x_images, of points in the block */
  row_images rows[GROUP];
  float ends[GROUP]
            [BLOCK_X]; /* new values from x_begin on, where vectors have images along x; else not set */
  float lines[2][GROUP][2 * LINE] __attribute__((aligned(64))); /* of even and of odd rows */
} strip;

static inline int smaller(int a, int b) {
  return a < b ? a : b;
}

/* The images along one axis of point i of n; at most 2. Returns how many. */
static inline int images_of(image to[2], int i, int n, ptrdiff_t stride, int lo, int hi) {
  const int mirror = n - 1 - i;
  int count = 0;
  if (lo == GHOST_WRAP) {
    if (i >= n - GHOST_REACH) to[count++] = (image){-n * stride, false};
    if (i < GHOST_REACH) to[count++] = (image){n * stride, false};
    return count;
  }
  if (lo != GHOST_KEEP && i >= 1 && i <= GHOST_REACH) to[count++] = (image){-2 * i * stride, lo == GHOST_ODD};
  if (hi != GHOST_KEEP && mirror >= 1 && mirror <= GHOST_REACH)
    to[count++] = (image){2 * mirror * stride, hi == GHOST_ODD};
  return count;
}

/* Fills in what a sweep does with images along x; `large` is set. */
static inline void find_x_images(sweep *s) {
  const kernel_args *a = s->args;
  const int nx = a->nx, lo = a->ghosts[FACE_X_LO], hi = a->ghosts[FACE_X_HI];
  const int room = (int)a->pitch - GHOST_REACH; /* from there on lie the left ghosts of the next row */
  s->x_middle_end = nx;
  if (lo == GHOST_KEEP && hi == GHOST_KEEP) return;
  s->x_middle_begin = GHOST_REACH + 1;
  s->x_middle_end = nx - GHOST_REACH - 1;
  s->whole_left = s->large && lo != GHOST_KEEP && nx <= BLOCK_X && nx + GHOST_REACH <= (int)a->pitch - LINE;
  s->whole_right = s->large && hi != GHOST_KEEP && nx <= BLOCK_X && nx % LINE == 0 && nx + LINE <= room;
  for (int x = 0; x < nx; x++) {
    image to[2];
    int count = images_of(to, x, nx, 1, lo, hi);
    for (int i = 0; i < count; i++) {
      int at = x + (int)to[i].distance;
      s->x_images[s->x_count++] = (x_image){x, at < 0 ? LINE + at : LINE + at - nx, to[i].negated};
    }
  }
}

/* Does a vector at x hold points with images along x? */
static inline bool is_end(const sweep *s, int x, int lanes) {
  return x < s->x_middle_begin || x + lanes > s->x_middle_end;
}

/* One bit for each lane of a vector at x: 0 where the point is held 0. */
static inline unsigned lanes_kept(const sweep *s, int x) {
  const kernel_args *a = s->args;
  const int last = a->nx - 1 - x;
  unsigned kept = ~0u;
  if (a->ghosts[FACE_X_LO] == GHOST_ODD && x == 0) kept &= ~1u;
  if (a->ghosts[FACE_X_HI] == GHOST_ODD && last < 32) kept &= ~(1u << last);
  return kept;
}

/* Readies `t` for the rows of `planes` planes from z on, of points [x_begin, x_end). */
static inline void strip_init(strip *t, const sweep *s, int z, int planes, int x_begin, int x_end) {
  const kernel_args *a = s->args;
  t->z = z, t->x_begin = x_begin;
  t->image_end = s->x_count;
  while (t->image_end > 0 && s->x_images[t->image_end - 1].x >= x_end) t->image_end--;
  t->image_begin = 0;
  while (t->image_begin < t->image_end && s->x_images[t->image_begin].x < x_begin) t->image_begin++;
  t->z_images = false;
  for (int k = 0; k < planes; k++)
    t->z_images |= ghosts_touch(z + k, a->nz, a->ghosts[FACE_Z_LO], a->ghosts[FACE_Z_HI]);
  memset(t->rows, 0, sizeof t->rows);
  memset(t->lines, 0, sizeof t->lines);
  t->row_images = false;
}

/* Fills in the images along y and z of rows y of `planes` planes, and whether there is any or a row is held. */
static inline void find_row_images(strip *t, const kernel_args *a, int y, int planes) {
  const unsigned char *g = a->ghosts;
  const bool before = t->row_images;
  t->row_images = t->z_images || ghosts_touch(y, a->ny, g[FACE_Y_LO], g[FACE_Y_HI]);
  for (int k = 0; (before || t->row_images) && k < planes; k++) {
    const int z = t->z + k;
    row_images *r = &t->rows[k];
    r->count = images_of(r->to, y, a->ny, (ptrdiff_t)a->pitch, g[FACE_Y_LO], g[FACE_Y_HI]);
    r->count += images_of(r->to + r->count, z, a->nz, (ptrdiff_t)a->plane, g[FACE_Z_LO], g[FACE_Z_HI]);
    r->held = ghosts_held(y, a->ny, g[FACE_Y_LO], g[FACE_Y_HI]) ||
              ghosts_held(z, a->nz, g[FACE_Z_LO], g[FACE_Z_HI]);
  }
}

/* Gathers the images along x of rows y in t->lines, and stores those whose lines are not stored whole. */
static inline void gather_x_images(strip *t, const sweep *s, int y, int planes) {
  const kernel_args *a = s->args;
  float *row = a->out + t->first;
  for (int k = 0; k < planes; k++, row += a->plane) {
    float *line = t->lines[y % 2][k];
    for (int i = t->image_begin; i < t->image_end; i++) {
      const x_image *p = &s->x_images[i];
      const float value = t->ends[k][p->x - t->x_begin];
      line[p->place] = p->negated ? -value : value;
    }
    for (int i = t->image_begin; !(s->whole_left && s->whole_right) && i < t->image_end; i++) {
      const int place = s->x_images[i].place;
      if (place < LINE && !s->whole_left) row[place - LINE] = line[place];
      if (place >= LINE && !s->whole_right) row[place - LINE + a->nx] = line[place];
    }
  }
}

#endif
