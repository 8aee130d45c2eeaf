#include "slab.h"
#include <stdint.h>
#include "base/numbers.h"

/* A step takes longer for a plane of an absorbing layer along z than for any other: 2.4 times as long on a GPU, about
 * twice on a host (docs/SCALING.md). One ratio serves both: only the balance of a run depends on it. */
enum { LAYER_WORK = 5, PLANE_WORK = 2 };

/* The plane below which `work` of the grid's work lies, rounded up, as if a slab could have any number of planes. */
static int slab_plane_below(const slab *s, int64_t work) {
  const int64_t lower = s->layers[0], between = s->nz_global - lower - s->layers[1];
  const int64_t in_lower = lower * LAYER_WORK, in_between = between * PLANE_WORK,
                beyond = work - in_lower - in_between;
  if (beyond > 0) return (int)(lower + between + (beyond + LAYER_WORK - 1) / LAYER_WORK);
  if (work < in_lower) return (int)((work + LAYER_WORK - 1) / LAYER_WORK);
  return (int)(lower + (work - in_lower + PLANE_WORK - 1) / PLANE_WORK);
}

/* Every slab is at least as thick as the ghosts made from it. A reflecting face needs one plane more: its 4 ghosts are
 * the 4 planes beside the face's own. */
int slab_first_plane(const slab *s, int rank) {
  const int64_t layers = s->layers[0] + s->layers[1];
  const int64_t work = (s->nz_global - layers) * PLANE_WORK + layers * LAYER_WORK;
  const int64_t each = work / s->ranks, extra = work % s->ranks;
  int plane = 0;
  for (int r = 1; r <= rank; r++) {
    const int least = plane + RADIUS + (r == 1 ? s->reflects[0] : 0);
    const int most = s->nz_global - (s->ranks - r) * RADIUS - (r < s->ranks ? s->reflects[1] : 0);
    plane = slab_plane_below(s, r * each + (r < extra ? r : extra));
    if (plane < least) plane = least;
    if (plane > most) plane = most;
  }
  return plane;
}

slab_counts slab_planes(const slab *s) {
  slab_counts planes = {s->nz_global, 0};
  for (int r = 0, next, first = 0; r < s->ranks; r++, first = next) {
    next = slab_first_plane(s, r + 1);
    if (next - first < planes.least) planes.least = next - first;
    if (next - first > planes.most) planes.most = next - first;
  }
  return planes;
}

void slab_wrap(slab *s, bool own_neighbour) {
  if (s->ranks == 1 && !own_neighbour) return;
  if (s->lower == SLAB_NO_RANK) s->lower = s->ranks - 1;
  if (s->upper == SLAB_NO_RANK) s->upper = 0;
}

static int slab_check_planes(const slab_shape *shape, int ranks, error *e) {
  const int nz = shape->nz, faces = shape->reflects[0] + shape->reflects[1], least = RADIUS + (faces > 0);
  const int most = (nz - faces) / RADIUS > 1 ? (nz - faces) / RADIUS : 1;
  if (nz < least) return FAIL(e, SLAB_TOO_THIN, nz, least);
  const char *fit = most == 1 ? " fits" : "s fit";
  if (nz / ranks < RADIUS) return FAIL(e, SLAB_TOO_MANY_RANKS, nz, ranks, RADIUS, most, fit);
  return ranks > most ? FAIL(e, SLAB_REFLECTS, nz, ranks, RADIUS, least, most, fit) : 0;
}

/* A first-level cache finds a line by its place within SLAB_PAGE and keeps 8 or 12 lines per place. The rows and planes
 * of a stencil must not share one place: with rows of 4 KiB (nx = 1000, rounded up) a step took four times as long. So
 * rows are an odd number of SLAB_ALIGN apart, and planes are never a multiple of half a page apart. Four rows are
 * added, not one: then a grid fills whole pages where nz is a multiple of 8. Only so can ranks share the pages of a
 * grid periodic in z. */
static size_t slab_pitch_of(int nx) {
  const size_t pitch = round_up((size_t)nx + 2 * RADIUS, SLAB_ALIGN);
  return pitch / SLAB_ALIGN % 2 ? pitch : pitch + SLAB_ALIGN;
}

static size_t slab_rows_of(int ny) {
  const size_t rows = (size_t)ny + 2 * RADIUS;
  return rows % (SLAB_PAGE / SLAB_ALIGN / 2) ? rows : rows + 4;
}

int slab_init(slab *s, const slab_shape *shape, int rank, int ranks, error *e) {
  TRY(slab_check_planes(shape, ranks, e));
  *s = (slab){.nx = shape->nx,
              .ny = shape->ny,
              .nz_global = shape->nz,
              .rank = rank,
              .ranks = ranks,
              .reflects = {shape->reflects[0], shape->reflects[1]},
              .layers = {shape->layers[0], shape->layers[1]}};
  s->z0 = slab_first_plane(s, rank);
  s->nz = slab_first_plane(s, rank + 1) - s->z0;
  s->lower = rank > 0 ? rank - 1 : SLAB_NO_RANK;
  s->upper = rank < ranks - 1 ? rank + 1 : SLAB_NO_RANK;
  s->pitch = slab_pitch_of(s->nx);
  s->plane = s->pitch * slab_rows_of(s->ny);
  s->lead = (size_t)s->z0 * s->plane % SLAB_HUGE;
  return 0;
}

void slab_batch(slab *s, int rows) {
  s->ny = rows;
  s->plane = s->pitch * slab_rows_of(rows);
  s->lead = (size_t)s->z0 * s->plane % SLAB_HUGE;
}

void slab_ranges(const slab *s, zrange *lo, zrange *interior, zrange *hi) {
  int begin =
      s->lower == SLAB_NO_RANK ? 0 : RADIUS; /* an outer face has nothing to send: no boundary kernel */
  int end = s->upper == SLAB_NO_RANK ? s->nz : s->nz - RADIUS;
  if (end < begin) end = begin;
  *lo = (zrange){0, begin};
  *interior = (zrange){begin, end};
  *hi = (zrange){end, s->nz};
}

size_t slab_floats(const slab *s) {
  /* One pad precedes the first point's left ghosts; one follows the last row, for its right ghosts. */
  return ((size_t)s->nz + 2 * RADIUS) * s->plane + 2 * SLAB_ALIGN + s->lead;
}

size_t slab_rows(const slab *s) {
  return s->plane / s->pitch;
}

size_t slab_offset(const slab *s, int z, int y, int x) {
  size_t row = (size_t)(z + RADIUS) * slab_rows(s) + (size_t)(y + RADIUS);
  return SLAB_ALIGN + s->lead + row * s->pitch +
         (size_t)x; /* x < 0 wraps, and unsigned addition unwraps it */
}
