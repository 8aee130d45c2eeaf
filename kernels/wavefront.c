#include "wavefront.h"
#include <math.h>
#include <stdbool.h>
#include "base/clock.h"
#include "host_simd.h"
#include "operation.h"
#include "base/numbers.h"

_Static_assert((int)WAVEFRONT_LAG >= (int)GHOST_REACH, "what a step reads is there");

enum { SPINS = 200 }; /* looks at a counter before the core is offered to others */

void wavefront_range(const wavefront_args *a, int k, int *begin, int *end) {
  const int beyond = GHOST_REACH * (a->steps - 1 - k);
  *begin = a->lower ? -beyond : 0;
  *end = a->field.nz + (a->upper ? beyond : 0);
}

int wavefront_lean(const wavefront_args *a) {
  const size_t most = 16, loaded = ((size_t)a->field.nx + most - 1) / most * most + most; /* lanes */
  return loaded + GHOST_REACH <= a->field.pitch ? GHOST_REACH : WAVEFRONT_LEAN_MOST;
}

int wavefront_tiles(int ny, int rows) {
  return (ny + rows - 1) / rows;
}

/* Planes of step k in a chunk. */
static void chunk_range(const wavefront_args *a, int chunk, int k, int *begin, int *end) {
  wavefront_range(a, k, begin, end);
  if (chunk > 0) *begin = host_share_begin(a->field.nz, chunk, a->chunks) + GHOST_REACH * k;
  if (chunk < a->chunks - 1) *end = host_share_begin(a->field.nz, chunk + 1, a->chunks) + GHOST_REACH * k;
}

int wavefront_positions(const wavefront_args *a, int chunk) {
  int first, last, unused;
  chunk_range(a, chunk, 0, &first, &unused);
  chunk_range(a, chunk, a->steps - 1, &unused, &last);
  const int planes = last - first + (a->steps - 1) * WAVEFRONT_LAG;
  return (planes + WAVEFRONT_PLANES - 1) / WAVEFRONT_PLANES;
}

long long wavefront_counts(const wavefront_args *a) {
  int most = a->tiles;
  for (int chunk = 0; chunk < a->chunks; chunk++) most = larger(most, wavefront_positions(a, chunk));
  return most;
}

host_share wavefront_share(const wavefront_args *a, int chunk, int tile, int k, int at) {
  const int lower = wavefront_lean(a) * k, ny = a->field.ny;
  int first, begin, end, unused;
  chunk_range(a, chunk, 0, &first, &unused);
  chunk_range(a, chunk, k, &begin, &end);
  const int z = first + at * WAVEFRONT_PLANES - k * WAVEFRONT_LAG;
  host_share share = {.z_begin = larger(z, begin), .z_end = smaller(z + WAVEFRONT_PLANES, end)};
  share.y_begin = tile == 0 ? 0 : tile * a->rows - lower;
  share.y_end = tile == a->tiles - 1 ? ny : (tile + 1) * a->rows - lower;
  return share;
}

/* The layer at a seam is complete when the chunk below has come to it. */
void wavefront_layers(const wavefront_args *a, int chunk, int k, host_share share, int *begin, int *end) {
  int lowest, seam;
  chunk_range(a, chunk, k, &lowest, &seam);
  const bool above = chunk > 0 && share.z_begin == lowest,
             below = chunk < a->chunks - 1 && share.z_end == seam;
  *begin = larger(above ? 2 * share.z_begin : 2 * share.z_begin - 1, 0);
  *end = smaller(below ? 2 * share.z_end : 2 * share.z_end - 1, 2 * a->field.nz);
}

/* What sources add to the points of a share. */
static void inject(const wavefront_args *a, const kernel_args *field, int k, host_share share) {
  const wavefront_sources *s = &a->sources;
  const inject_args args = {
      .field = *field, .points = s->points, .shares = s->shares, .signal = s->signal[k]};
  for (int i = s->plane_begin[share.z_begin]; i < s->plane_begin[share.z_end]; i++)
    if (s->points[i].y >= share.y_begin && s->points[i].y < share.y_end) inject_point(&args, i);
}

/* The first of receivers [begin, end) of a layer whose row is not below y. */
static int receiver_at_row(const wavefront_receivers *r, int begin, int end, int y) {
  while (begin < end) {
    const int middle = begin + (end - begin) / 2;
    if (r->row[middle] < y)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/* Waits until a tile has done so many positions. Never sleeps: it is computed at this moment. */
static void wavefront_wait_for(const wavefront_args *a, int chunk, int tile, int positions) {
  const atomic_llong *done = &a->done[chunk * a->tiles + tile];
  const long long count = a->before + positions;
  pace p = {.begin = clock_seconds(), .eager = INFINITY, .spins = SPINS};
  while (atomic_load_explicit(done, memory_order_acquire) < count) pace_wait(&p, 0);
}

/* Samples the receivers whose points step k has completed with this share. */
static void sample(const wavefront_args *a, int chunk, int k, host_share share) {
  const wavefront_receivers *r = &a->receivers;
  const sample_args args = {.field = a->u[!(k & 1)], .plane = a->field.plane, .receivers = r->places};
  int begin, end;
  wavefront_layers(a, chunk, k, share, &begin, &end);
  for (int layer = begin; layer < end; layer++) {
    const int stop = r->layer_begin[layer + 1];
    int i = receiver_at_row(r, r->layer_begin[layer], stop, share.y_begin);
    for (; i < stop && r->row[i] < share.y_end; i++) r->samples[k][i] = sample_point(&args, i);
  }
}

/* What step k asks for on behalf of the first step's next position: one of the streams in, out, medium, so that every
 * step waits for its share of memory. Where the first step has come to the chunk's end that is a position of the tile
 * above: the later steps, which begin and end later, so ask for every position, too. */
static host_ahead ahead_of(const wavefront_args *a, int chunk, int tile, int k, int at) {
  const ptrdiff_t pitch = (ptrdiff_t)a->field.pitch, plane = (ptrdiff_t)a->field.plane;
  ptrdiff_t next = (k * WAVEFRONT_LAG + WAVEFRONT_PLANES) * plane + k * wavefront_lean(a) * pitch;
  const float *const from[AHEAD_STREAMS] = {a->u[0] + GHOST_REACH * (plane + pitch), a->u[1],
                                            a->field.medium};
  host_ahead ahead = {.eager = a->eager};
  int begin, end;
  chunk_range(a, chunk, 0, &begin, &end);
  const int positions = (end - begin + WAVEFRONT_PLANES - 1) / WAVEFRONT_PLANES;
  const bool turns = at + 1 >= positions;
  if (turns && (tile == a->tiles - 1 || at + 1 >= 2 * positions)) return ahead;
  if (turns) next += a->rows * pitch - positions * WAVEFRONT_PLANES * plane;
  for (int i = 0; i < AHEAD_STREAMS; i++)
    if (i % a->steps == k && from[i]) ahead.stream[i] = from[i] + next;
  return ahead;
}

/* Step k of a share that is not empty, but for its receivers. */
static void advance(const wavefront_args *a, const host_isa *isa, int k, host_share share, host_ahead ahead) {
  absorb_args args = a->layers;
  args.field = a->field;
  args.field.in = a->u[k & 1];
  args.field.out = a->u[!(k & 1)];
  if (k & 1) absorb_swap(&args);
  if (args.width)
    isa->share_layers(&args, share, ahead);
  else
    isa->share[a->equation](&args.field, share, ahead);
  if (a->sources.points) inject(a, &args.field, k, share);
}

/* What lies farthest up of what step k reads, overwrites or samples at position `at` the chunk above does, whatever k is,
 * at its position at + 1 - (groups of planes below the seam). The last step comes to the seam after 2 (steps - 1). */
int wavefront_awaited(const wavefront_args *a, int chunk, int at) {
  int first, seam, unused;
  if (chunk == a->chunks - 1) return 0;
  chunk_range(a, chunk, 0, &first, &unused);
  chunk_range(a, chunk + 1, 0, &seam, &unused);
  const int positions = at + 2 - (seam - first) / WAVEFRONT_PLANES;
  return larger(smaller(positions, 2 * (a->steps - 1)), 0);
}

/* Waits for what a position of a tile needs of the tile below and of the chunk above. */
static void wait_below_and_above(const wavefront_args *a, int chunk, int tile, int at) {
  const int above = wavefront_awaited(a, chunk, at);
  if (tile > 0) wavefront_wait_for(a, chunk, tile - 1, at + 1);
  if (above > 0) wavefront_wait_for(a, chunk + 1, tile, above);
}

static void run_tile(const wavefront_args *a, const host_isa *isa, int chunk, int tile) {
  const int positions = wavefront_positions(a, chunk);
  for (int at = 0; at < positions; at++) {
    wait_below_and_above(a, chunk, tile, at);
    for (int k = 0; k < a->steps; k++) {
      const host_share share = wavefront_share(a, chunk, tile, k, at);
      const bool some = share.z_begin < share.z_end;
      if (some) advance(a, isa, k, share, ahead_of(a, chunk, tile, k, at));
      if (some && a->receivers.samples[k]) sample(a, chunk, k, share);
    }
    atomic_store_explicit(&a->done[chunk * a->tiles + tile], a->before + at + 1, memory_order_release);
  }
}

static atomic_llong *counter_of_taken(const wavefront_args *a, int chunk) {
  return &a->done[a->chunks * a->tiles + chunk];
}

/* How many tiles of a chunk have been taken in this pass. */
static long long tiles_taken(const wavefront_args *a, int chunk) {
  const long long count = atomic_load_explicit(counter_of_taken(a, chunk), memory_order_relaxed);
  return count > a->before ? count - a->before : 0;
}

/* The chunk whose next tile a thread should take: its own; but where that has none left, or the next one would
 * wait for a tile above that nobody has taken, the one that is farthest behind, the highest of these. -1: none is left.
 * So what a tile waits for has been taken before it, and threads that are slow hold up others only for a tile. */
static int chunk_to_help(const wavefront_args *a, int own, long long *tile) {
  *tile = tiles_taken(a, own);
  if (*tile < a->tiles && (own == a->chunks - 1 || tiles_taken(a, own + 1) > *tile)) return own;
  int chunk = -1;
  *tile = a->tiles;
  for (int other = a->chunks - 1; other >= 0; other--) {
    const long long taken = tiles_taken(a, other);
    if (taken < *tile) *tile = taken, chunk = other;
  }
  return chunk;
}

static void wavefront_host(const void *args, int part, int parts) {
  const wavefront_args *a = args;
  const host_isa *isa = host_isa_get(0);
  const int own = part % a->chunks;
  long long tile;
  (void)parts;
  for (int chunk; (chunk = chunk_to_help(a, own, &tile)) >= 0;) {
    atomic_llong *taken = counter_of_taken(a, chunk);
    long long count = atomic_load_explicit(taken, memory_order_relaxed);
    const bool next = count == a->before + tile || (tile == 0 && count < a->before);
    if (next && atomic_compare_exchange_strong(taken, &count, a->before + tile + 1))
      run_tile(a, isa, chunk, (int)tile);
  }
}

const operation operation_wavefront = {
    .name = "wavefront", .args_bytes = sizeof(wavefront_args), .host = wavefront_host};
