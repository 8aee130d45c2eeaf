#include "wavefront.h"
#include <math.h>
#include <stdbool.h>
#include "base/clock.h"
#include "base/numbers.h"
#include "host_simd.h"

_Static_assert((int)GROUP >= (int)RADIUS, "what a step reads is there");

enum { SPINS = 200 }; /* reads of a counter before the thread yields its core */

/* Rows by which the tiles of a step move down from those of the step before: the reach of a step. It is one more where
 * vectors at the ends of rows load, and drop, points of the next rows. */
static int wavefront_offset(const wavefront_args *a) {
  const size_t most = 16, loaded = ((size_t)a->field.nx + most - 1) / most * most + most; /* lanes */
  return loaded + RADIUS <= a->field.pitch ? RADIUS : RADIUS + 1;
}

int wavefront_cut(wavefront_args *a, int threads) {
  /* The lowest tile has at least one row in the last step, and the sources of all images in the others. Each chunk has
   * a few planes in every step; the highest one has the sources of all images. */
  const int least = (RADIUS + 1) * (a->steps - 1) + 1, ny = a->field.ny;
  a->rows = a->field.ghosts[FACE_Y_LO] == GHOST_WRAP ? ny : larger(a->rows, least);
  a->tiles = (ny + a->rows - 1) / a->rows;
  a->chunks = larger(smaller(threads, a->field.nz / (4 * a->steps + 8)), 1);
  return a->tiles * a->chunks + 1;
}

/* Planes of step k in a chunk. */
static void wavefront_range(const wavefront_args *a, int chunk, int k, int *begin, int *end) {
  const int nz = a->field.nz;
  *begin = chunk > 0 ? host_range_begin(nz, chunk, a->chunks) + RADIUS * k : 0;
  *end = chunk < a->chunks - 1 ? host_range_begin(nz, chunk + 1, a->chunks) + RADIUS * k : nz;
}

/* Positions of the front in a chunk. */
static int wavefront_positions(const wavefront_args *a, int chunk) {
  int first, last, unused;
  wavefront_range(a, chunk, 0, &first, &unused);
  wavefront_range(a, chunk, a->steps - 1, &unused, &last);
  return (last - first + (a->steps - 1) * GROUP + GROUP - 1) / GROUP;
}

long long wavefront_counts(const wavefront_args *a) {
  int most = a->tiles * a->chunks;
  for (int chunk = 0; chunk < a->chunks; chunk++) most = larger(most, wavefront_positions(a, chunk));
  return most;
}

/* The range of step k in `tile` of `chunk` when the front is at position `at`; may be empty. */
static host_range wavefront_part(const wavefront_args *a, int chunk, int tile, int k, int at) {
  const int lower = wavefront_offset(a) * k;
  int first, begin, end, unused;
  wavefront_range(a, chunk, 0, &first, &unused);
  wavefront_range(a, chunk, k, &begin, &end);
  const int z = first + (at - k) * GROUP;
  host_range range = {.z_begin = larger(z, begin), .z_end = smaller(z + GROUP, end)};
  range.y_begin = tile == 0 ? 0 : tile * a->rows - lower;
  range.y_end = tile == a->tiles - 1 ? a->field.ny : (tile + 1) * a->rows - lower;
  return range;
}

static void wavefront_inject(const wavefront_args *a, const kernel_args *field, int k, host_range range) {
  const wavefront_sources *s = &a->sources;
  const inject_args args = {.field = *field, .parts = s->parts, .places = s->places, .signal = s->signal[k]};
  for (int i = s->plane_begin[range.z_begin]; i < s->plane_begin[range.z_end]; i++)
    if (s->tiles[i].y + TILE_Y > range.y_begin && s->tiles[i].y < range.y_end)
      host_isa_get(0)->inject(&args, &s->tiles[i], range.y_begin, range.y_end);
}

/* Returns the first of receivers [begin, end) of a layer whose row is at or above y. */
static int wavefront_receiver_at(const wavefront_receivers *r, int begin, int end, int y) {
  while (begin < end) {
    const int middle = begin + (end - begin) / 2;
    if (r->row[middle] < y)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/* Waits until a tile has done so many positions. It never sleeps, since another thread is computing them. */
static void wavefront_wait_for(const wavefront_args *a, int chunk, int tile, int positions) {
  const atomic_llong *done = &a->done[chunk * a->tiles + tile];
  const long long count = a->before + positions;
  pace p = {.begin = clock_seconds(), .eager = INFINITY, .spins = SPINS};
  while (atomic_load_explicit(done, memory_order_acquire) < count) pace_wait(&p, 0);
}

/* Does step k complete the points of a layer's receivers, such as p, with a range of planes? The chunk below a seam
 * completes points on both sides of it, with its highest plane: by then the chunk above is farther up. */
static bool wavefront_completes(const wavefront_args *a, int chunk, int k, host_range range,
                                const point_weights *p) {
  int lowest, seam;
  wavefront_range(a, chunk, k, &lowest, &seam);
  const int last = smaller(p->z + p->nz, seam) - 1;
  return p->z >= lowest && p->z < seam && last >= range.z_begin && last < range.z_end;
}

/* The field that step k reads, and the step before writes. */
static float *wavefront_field(const wavefront_args *a, int k) {
  return a->u[k % equation_states(a->field.equation)];
}

/* Samples the receivers whose points step k has completed with this range. */
static void wavefront_sample(const wavefront_args *a, int chunk, int k, host_range range) {
  const wavefront_receivers *r = &a->receivers;
  const kernel_args *f = &a->field;
  const sample_args args = {.field = wavefront_field(a, k + 1),
                            .pitch = f->pitch,
                            .plane = f->plane,
                            .ny = f->ny,
                            .nx = f->nx,
                            .receivers = r->places,
                            .samples = r->samples[k]};
  const int begin = larger(range.z_begin - RADIUS, 0), end = smaller(range.z_end + RADIUS, f->nz);
  for (int layer = 2 * begin; layer < 2 * end; layer++) {
    const int first = r->layer_begin[layer], stop = r->layer_begin[layer + 1];
    if (first == stop || !wavefront_completes(a, chunk, k, range, &r->places[first])) continue;
    host_isa_get(0)->sample(&args, wavefront_receiver_at(r, first, stop, range.y_begin),
                            wavefront_receiver_at(r, first, stop, range.y_end));
  }
}

/* The lines that step k prefetches for the first step's next position. They are of one of the arrays in, out,
 * medium, so that every step waits for a part of memory. At the chunk's end the next position is the first of the
 * next tile. */
static host_ahead wavefront_ahead(const wavefront_args *a, int chunk, int tile, int k, int at) {
  const ptrdiff_t pitch = (ptrdiff_t)a->field.pitch, plane = (ptrdiff_t)a->field.plane;
  ptrdiff_t next = (k + 1) * GROUP * plane + k * wavefront_offset(a) * pitch;
  const float *const from[AHEAD_ARRAYS] = {a->u[0] + RADIUS * (plane + pitch), a->u[1], a->field.medium[0]};
  host_ahead ahead = {{NULL}};
  int begin, end;
  wavefront_range(a, chunk, 0, &begin, &end);
  const int positions = (end - begin + GROUP - 1) / GROUP;
  const bool wraps = at + 1 >= positions;
  if (wraps && (tile == a->tiles - 1 || at + 1 >= 2 * positions)) return ahead;
  if (wraps) next += a->rows * pitch - positions * GROUP * plane;
  for (int i = 0; i < AHEAD_ARRAYS; i++)
    if (i % a->steps == k && from[i]) ahead.array[i] = from[i] + next;
  return ahead;
}

/* Does step k of a range that is not empty, except its receivers. */
static void wavefront_advance(const wavefront_args *a, const host_isa *isa, int k, host_range range,
                              host_ahead ahead) {
  absorb_args args = a->layers;
  args.field = a->field;
  args.field.in = wavefront_field(a, k);
  args.field.out = wavefront_field(a, k + 1);
  if (k & 1) absorb_swap(&args);
  host_simd_range(isa, &args.field, args.width ? &args : NULL, range, ahead);
  if (a->sources.tiles) wavefront_inject(a, &args.field, k, range);
}

/* The positions of the same tile in the chunk above that must be done before position `at` of `chunk`. Step k reads,
 * overwrites or samples up to 7 planes above the seam. The chunk above does these, whatever k is, at its position at +
 * 2 - (groups of planes below the seam). The last step reaches the seam after 2 (steps - 1). */
static int wavefront_awaited(const wavefront_args *a, int chunk, int at) {
  int first, seam, unused;
  if (chunk == a->chunks - 1) return 0;
  wavefront_range(a, chunk, 0, &first, &unused);
  wavefront_range(a, chunk + 1, 0, &seam, &unused);
  const int positions = at + 3 - (seam - first + GROUP - 1) / GROUP;
  return larger(smaller(positions, 2 * (a->steps - 1)), 0);
}

/* Waits until the tile below and the chunk above have done the positions that this one needs. */
static void wavefront_wait(const wavefront_args *a, int chunk, int tile, int at) {
  const int above = wavefront_awaited(a, chunk, at);
  if (tile > 0) wavefront_wait_for(a, chunk, tile - 1, at + 1);
  if (above > 0) wavefront_wait_for(a, chunk + 1, tile, above);
}

static void wavefront_run_tile(const wavefront_args *a, const host_isa *isa, int chunk, int tile) {
  const int positions = wavefront_positions(a, chunk);
  for (int at = 0; at < positions; at++) {
    wavefront_wait(a, chunk, tile, at);
    for (int k = 0; k < a->steps; k++) {
      const host_range range = wavefront_part(a, chunk, tile, k, at);
      const bool some = range.z_begin < range.z_end;
      if (some) wavefront_advance(a, isa, k, range, wavefront_ahead(a, chunk, tile, k, at));
      if (some && a->receivers.samples[k]) wavefront_sample(a, chunk, k, range);
    }
    atomic_store_explicit(&a->done[chunk * a->tiles + tile], a->before + at + 1, memory_order_release);
  }
}

/* Takes the next tile of all chunks. Returns its number, or the number of tiles if none is left. The first tiles of
 * all chunks come first, from the highest chunk down. So a tile waits only for tiles taken before it, and a slow
 * thread delays others by one tile at most. */
static int wavefront_take(const wavefront_args *a) {
  const int all = a->chunks * a->tiles;
  atomic_llong *taken = &a->done[all];
  long long count = atomic_load_explicit(taken, memory_order_relaxed), next;
  do next = count > a->before ? count - a->before : 0;
  while (next < all && !atomic_compare_exchange_weak(taken, &count, a->before + next + 1));
  return (int)next;
}

static void wavefront_host(const void *args, int part, int parts) {
  const wavefront_args *a = args;
  const host_isa *isa = host_isa_get(0);
  (void)part, (void)parts;
  for (int next; (next = wavefront_take(a)) < a->chunks * a->tiles;)
    wavefront_run_tile(a, isa, a->chunks - 1 - next % a->chunks, next / a->chunks);
}

const operation operation_wavefront = {
    .name = "wavefront", .args_bytes = sizeof(wavefront_args), .host = wavefront_host};
