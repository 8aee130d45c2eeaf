/* The z-partition: which planes a rank owns, what it exchanges with whom, and how a slab lies in memory.
 * Pure arithmetic: no MPI, no device, no allocation. */
#ifndef STENCIL_SLAB_H
#define STENCIL_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"
#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SLAB_ALIGN = 32,  /* floats: the first point of every row starts on a 128-byte line */
  SLAB_PAGE = 1024, /* floats of a page */
  /* Floats of a huge page: a plane lies at the same place within one on every rank that holds it. */
  SLAB_HUGE = 512 * SLAB_PAGE,
  SLAB_NO_RANK = -1 /* no neighbour: an outer face of the grid */
};

/* Half-open range of planes [begin, end), numbered from the slab's first own plane; ghosts are < 0 or >= nz.
 */
typedef struct zrange {
  int begin, end;
} zrange;

/* One rank's part of the grid. Memory is (nz + 2 RADIUS) planes of slab_rows rows of `pitch` floats. A row's 4 left
 * ghosts lie just before its first point, its 4 right ghosts just after its last, in the padding of the next row. So
 * every row starts aligned and shares its padding with its neighbour. `lead` floats come first. With them a plane and
 * its copy among a neighbour's ghosts begin at the same offset in a huge page (SLAB_HUGE), if both memories begin on
 * one. Ranks of a node can then share the pages. */
typedef struct slab {
  int nx, ny, nz_global; /* points of the whole grid */
  int rank, ranks;       /* this computing rank and their number */
  bool reflects[2];      /* the grid's lower and upper z face */
  int layers[2];         /* planes of the absorbing layers at these faces */
  int z0, nz;            /* first global plane and number of planes this rank owns */
  int lower, upper;      /* ranks owning the planes below z0 and above z0 + nz, or SLAB_NO_RANK */
  size_t pitch;          /* floats from a row to the next: odd multiple of SLAB_ALIGN */
  size_t plane;          /* floats from a plane to the next */
  size_t lead;           /* multiple of SLAB_ALIGN, less than SLAB_HUGE */
} slab;

/* The arguments of a partition. */
typedef struct slab_shape {
  int nx, ny, nz;   /* points of the whole grid */
  bool reflects[2]; /* the grid's lower and upper z face */
  int layers[2];    /* planes of the absorbing layers at these faces; both together fit the grid */
} slab_shape;

/* Fills `s` for `rank` of `ranks`. The ranks share the planes equally; the first ranks own one more where the planes
 * are not divisible. A plane of an absorbing layer counts as 2.5, since all ranks wait for the slowest. A rank owns at
 * least RADIUS planes, one more at a reflecting face, whatever they count. ERROR_SLAB_TOO_THIN,
 * ERROR_SLAB_TOO_MANY_RANKS or ERROR_SLAB_REFLECTS where a rank would own fewer; the message names the largest number
 * of ranks. */
int slab_init(slab *s, const slab_shape *shape, int rank, int ranks, error *e);

/* Gives a slab of one row a plane `rows` rows, each a run of its own (kernel_args.flat). */
void slab_batch(slab *s, int rows);

/* Joins the two z faces of the grid: the first and the last rank become neighbours. One rank alone keeps none, since
 * its kernels wrap its ghosts (kernels/ghosts.h), unless it is to be `own_neighbour`. */
void slab_wrap(slab *s, bool own_neighbour);

/* First global plane owned by `rank` (also for rank == ranks: nz) of the partition that `s` belongs to. */
int slab_first_plane(const slab *s, int rank);

/* The fewest and the most planes that a rank owns. */
typedef struct slab_counts {
  int least, most;
} slab_counts;
slab_counts slab_planes(const slab *s);

/* The three ranges that a step computes. The neighbours need lo and hi (empty without a neighbour); interior is the
 * rest. Together they cover [0, nz) once. A slab thinner than 2 RADIUS has an empty interior. */
void slab_ranges(const slab *s, zrange *lo, zrange *interior, zrange *hi);

/* Rows of a plane in memory: ny, 8 ghost rows, and for some ny 4 more that keep planes apart in caches. */
size_t slab_rows(const slab *s);

/* Floats to allocate for one field of this slab. */
size_t slab_floats(const slab *s);

/* Offset in floats of own point (z, y, x) from the start of the allocation; ghosts are reached with z in
 * [-4, nz + 4), y in [-4, ny + 4), x in [-4, nx + 4). */
size_t slab_offset(const slab *s, int z, int y, int x);

static inline int zrange_planes(zrange r) {
  return r.end > r.begin ? r.end - r.begin : 0;
}

#ifdef __cplusplus
}
#endif
#endif
