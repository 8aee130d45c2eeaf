/* Stores images in ghosts for the host kernels `simd` (rules: ghosts.h). Once a launch or row it finds which rows and
 * which ends of rows have images. Vectors are stored from registers to all their places, since values stored around
 * the cache are slow to read back. Ghosts at the ends of a row may have cache lines to themselves. They are stored as
 * whole lines with their padding, in large launches around the cache. A store of a few floats would first fetch the
 * line from memory. Other ghosts are gathered from the strip. */
#ifndef STENCIL_HOST_IMAGES_H
#define STENCIL_HOST_IMAGES_H

#include "host_layers.h"
#include "host_simd.h"
#include "base/numbers.h"
#include <stdbool.h>

enum {
  LINE = 16 /* floats of a cache line */
};

/* Another place of a new value. */
typedef struct image {
  ptrdiff_t distance; /* floats from the point to its image */
  bool negated;
} image;

/* Point x of every row has its image at `to`, along x. */
typedef struct x_image {
  int x, to;
  bool negated;
} x_image;

/* The line beside an end of a row, with the ghosts there. */
typedef struct ghost_line {
  bool some; /* its ghosts are images */
  bool negated;
  int to;         /* x of the line's first float */
  int source;     /* x of the vector whose images the ghosts are, at this end or the other */
  unsigned kept;  /* a bit for each float of the line: 1: a ghost, 0: padding */
  int from[LINE]; /* lane of that vector that goes to each float */
} ghost_line;

/* The lines that a row prefetches, relative to the point being computed, for all planes of a group. */
enum { PREFETCH_MOST = AHEAD_ARRAYS + 3 };
typedef struct prefetch_list {
  const float *from[PREFETCH_MOST];
  int count;
} prefetch_list;

/* A launch for every instruction set: its arguments, and what follows from them. */
typedef struct simd_launch {
  const kernel_args *args;
  const absorb_args *layers; /* NULL: none */
  bool large;                /* the launch is too large for the next one to find it in the cache */
  bool around_cache;         /* new values are stored around the cache */
  bool columns;              /* a block's rows in columns (host_form) */
  host_ahead ahead;
  int ahead_rows; /* rows by which prefetches are ahead of the computation; 0 in a wavefront */
  host_range range;
  prefetch_list prefetch_list;
  bool whole; /* ghosts at the ends of rows are stored as whole lines */
  ghost_line left, right;
  int x_middle_begin, x_middle_end; /* points between these have no image along x */
  int x_count;
  x_image x_images[2 * RADIUS];
} simd_launch;

/* Images along y and z of the points of one row. */
typedef struct row_images {
  int count;
  bool held;
  image to[4];
} row_images;

/* The rows of a block that are computed together: one of each plane of a group. */
typedef struct strip {
  ptrdiff_t first; /* floats from own point (0, 0, 0) to the first row's x = 0 */
  int x_begin, x_end, z;
  bool z_images;   /* some plane has images along z */
  bool row_images; /* some row has images along y or z, or is held: `rows` has them */
  row_images rows[GROUP];
  /* New values from x_begin on, set where vectors have images along x that are stored one by one. */
  float ends[GROUP][BLOCK_X];
} strip;

/* The images along one axis of point i of n; at most 2. Returns how many. */
static inline int images_of(image to[2], int i, int n, ptrdiff_t stride, int lo, int hi) {
  const int mirror = n - 1 - i;
  int count = 0;
  if (lo == GHOST_WRAP) {
    if (i >= n - RADIUS) to[count++] = (image){-n * stride, false};
    if (i < RADIUS) to[count++] = (image){n * stride, false};
    return count;
  }
  if (lo != GHOST_KEEP && i >= 1 && i <= RADIUS) to[count++] = (image){-2 * i * stride, lo == GHOST_ODD};
  if (hi != GHOST_KEEP && mirror >= 1 && mirror <= RADIUS)
    to[count++] = (image){2 * mirror * stride, hi == GHOST_ODD};
  return count;
}

/* Fills in the lines beside the ends of rows of whole vectors. */
static inline void find_ghost_lines(simd_launch *s, int lanes) {
  const kernel_args *a = s->args;
  const int lo = a->ghosts[FACE_X_LO], hi = a->ghosts[FACE_X_HI], last = a->nx - lanes;
  const bool wrap = lo == GHOST_WRAP;
  s->left = (ghost_line){lo != GHOST_KEEP, lo == GHOST_ODD, -LINE, wrap ? last : 0, 0, {0}};
  s->right = (ghost_line){hi != GHOST_KEEP, hi == GHOST_ODD, a->nx, wrap ? 0 : last, 0, {0}};
  /* Ghosts nx + r and r - 4 are images of points r and nx - 4 + r on a periodic axis, else of nx - 2 - r and 4 - r. */
  for (int r = 0; r < RADIUS; r++) {
    s->right.from[r] = wrap ? r : lanes - 2 - r;
    s->left.from[LINE - RADIUS + r] = wrap ? lanes - RADIUS + r : RADIUS - r;
    s->right.kept |= 1u << r;
    s->left.kept |= 1u << (LINE - RADIUS + r);
  }
}

/* Finds the images along x of a launch with vectors of `lanes`; `large` must be set. */
static inline void find_x_images(simd_launch *s, int lanes) {
  const kernel_args *a = s->args;
  const int nx = a->nx, lo = a->ghosts[FACE_X_LO], hi = a->ghosts[FACE_X_HI];
  s->x_middle_end = nx;
  if (lo == GHOST_KEEP && hi == GHOST_KEEP) return;
  s->x_middle_begin = RADIUS + 1;
  s->x_middle_end = nx - RADIUS - 1;
  if (lanes > RADIUS) find_ghost_lines(s, lanes);
  s->whole = lanes > RADIUS && nx % LINE == 0 && nx + 2 * LINE <= (int)a->pitch;
  for (int x = 0; x < nx; x++) {
    image to[2];
    int count = images_of(to, x, nx, 1, lo, hi);
    for (int i = 0; i < count; i++)
      s->x_images[s->x_count++] = (x_image){x, x + (int)to[i].distance, to[i].negated};
  }
}

/* Does a vector at x hold points with images along x? */
static inline bool is_end(const simd_launch *s, int x, int lanes) {
  return x < s->x_middle_begin || x + lanes > s->x_middle_end;
}

/* Returns a bit for each lane of a vector at x: 0 where the point is held. */
static inline unsigned lanes_kept(const simd_launch *s, int x) {
  const kernel_args *a = s->args;
  const int last = a->nx - 1 - x;
  unsigned kept = ~0u;
  if (a->ghosts[FACE_X_LO] == GHOST_ODD && x == 0) kept &= ~1u;
  if (a->ghosts[FACE_X_HI] == GHOST_ODD && last < 32) kept &= ~(1u << last);
  return kept;
}

/* Prepares `t` for the rows of `planes` planes from z on, of points [x_begin, x_end). */
static inline void strip_init(strip *t, const simd_launch *s, int z, int planes, int x_begin, int x_end) {
  const kernel_args *a = s->args;
  t->z = z, t->x_begin = x_begin, t->x_end = x_end;
  t->z_images = t->row_images = false;
  for (int k = 0; k < planes; k++)
    t->z_images |= ghosts_touch(z + k, a->nz, a->ghosts[FACE_Z_LO], a->ghosts[FACE_Z_HI]);
}

/* Finds the images along y and z of rows y of `planes` planes, and whether there is any or a row is held. */
static inline void find_row_images(strip *t, const kernel_args *a, int y, int planes) {
  const unsigned char *g = a->ghosts;
  t->row_images = t->z_images || ghosts_touch(y, a->ny, g[FACE_Y_LO], g[FACE_Y_HI]);
  for (int k = 0; t->row_images && k < planes; k++) {
    const int z = t->z + k;
    row_images *r = &t->rows[k];
    r->count = images_of(r->to, y, a->ny, (ptrdiff_t)a->pitch, g[FACE_Y_LO], g[FACE_Y_HI]);
    r->count += images_of(r->to + r->count, z, a->nz, (ptrdiff_t)a->plane, g[FACE_Z_LO], g[FACE_Z_HI]);
    r->held = ghosts_held(y, a->ny, g[FACE_Y_LO], g[FACE_Y_HI]) ||
              ghosts_held(z, a->nz, g[FACE_Z_LO], g[FACE_Z_HI]);
  }
}

/* Stores the images along x of the strip's rows, one by one. */
static inline void store_x_images(const strip *t, const simd_launch *s, int planes) {
  for (int i = 0; i < s->x_count; i++) {
    const x_image p = s->x_images[i];
    if (p.x < t->x_begin || p.x >= t->x_end) continue;
    float *to = s->args->out + t->first + p.to;
    for (int k = 0; k < planes; k++, to += s->args->plane) {
      const float value = t->ends[k][p.x - t->x_begin];
      *to = p.negated ? -value : value;
    }
  }
}

#endif
