#include "wavefront.h"
#include <sched.h>
#include <stdbool.h>
#include "host_simd.h"
#include "operation_points.h"
#include "order.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { SPINS = 200 }; /* looks at a counter before the core is offered to others */

void wavefront_range(const wavefront_args *a, int k, int *begin, int *end) {
  const int beyond = GHOST_REACH * (a->steps - 1 - k);
  *begin = a->lower ? -beyond : 0;
  *end = a->field.nz + (a->upper ? beyond : 0);
}

int wavefront_positions(const wavefront_args *a) {
  int first, last, unused;
  wavefront_range(a, 0, &first, &unused);
  wavefront_range(a, a->steps - 1, &unused, &last);
  const int planes = last - first + 2 * (a->steps - 1) * WAVEFRONT_LAG;
  return (planes + WAVEFRONT_PLANES - 1) / WAVEFRONT_PLANES;
}

static int columns_of(int nx, wavefront_tile tile) {
  return (nx + tile.width - 1) / tile.width;
}

int wavefront_tiles(int nx, int ny, wavefront_tile tile) {
  return columns_of(nx, tile) * ((ny + tile.rows - 1) / tile.rows);
}

static int tiles_of(const wavefront_args *a) {
  return wavefront_tiles(a->field.nx, a->field.ny, a->tile);
}

/* What tile `i` of `count` has of an axis of n points, in steps that have moved it down by `lean`. */
static void tile_range(int n, int i, int count, int size, int lean, int *begin, int *end) {
  *begin = i == 0 ? 0 : i * size - lean;
  *end = i == count - 1 ? n : (i + 1) * size - lean;
}

/* Planes of step k in a chunk. */
static void chunk_range(const wavefront_args *a, int chunk, int k, int *begin, int *end) {
  wavefront_range(a, k, begin, end);
  if (chunk > 0) *begin = host_share_begin(a->field.nz, chunk, a->chunks) + GHOST_REACH * k;
  if (chunk < a->chunks - 1) *end = host_share_begin(a->field.nz, chunk + 1, a->chunks) + GHOST_REACH * k;
}

host_share wavefront_share(const wavefront_args *a, int chunk, int tile, int k, int at) {
  const int columns = columns_of(a->field.nx, a->tile);
  int first, begin, end, unused;
  chunk_range(a, chunk, 0, &first, &unused);
  chunk_range(a, chunk, k, &begin, &end);
  const int z = first + at * WAVEFRONT_PLANES - k * WAVEFRONT_LAG;
  host_share s = {.z_begin = larger(z, begin), .z_end = smaller(z + WAVEFRONT_PLANES, end)};
  tile_range(a->field.nx, tile % columns, columns, a->tile.width, WAVEFRONT_SHIFT * k, &s.x_begin, &s.x_end);
  tile_range(a->field.ny, tile / columns, tiles_of(a) / columns, a->tile.rows, WAVEFRONT_LEAN * k, &s.y_begin,
             &s.y_end);
  return s;
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
    if (s->points[i].y >= share.y_begin && s->points[i].y < share.y_end && s->points[i].x >= share.x_begin &&
        s->points[i].x < share.x_end)
      inject_point(&args, i);
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

/* The highest point in x that receiver i, of a layer, reads. */
static int column_of(const wavefront_args *a, int layer, int i) {
  const receiver *p = &a->receivers.places[i];
  const int z = layer / 2, y = a->receivers.row[i] - (p->fy != 0);
  return (int)(p->at - z * (ptrdiff_t)a->field.plane - y * (ptrdiff_t)a->field.pitch) + (p->fx != 0);
}

/* Samples the receivers whose points step k has completed with this share. */
static void sample(const wavefront_args *a, int chunk, int k, host_share share) {
  const wavefront_receivers *r = &a->receivers;
  const sample_args args = {
      .field = a->u[!(k & 1)], .pitch = a->field.pitch, .plane = a->field.plane, .receivers = r->places};
  int begin, end;
  wavefront_layers(a, chunk, k, share, &begin, &end);
  for (int layer = begin; layer < end; layer++) {
    const int stop = r->layer_begin[layer + 1];
    int i = receiver_at_row(r, r->layer_begin[layer], stop, share.y_begin);
    for (; i < stop && r->row[i] < share.y_end; i++) {
      const int column = column_of(a, layer, i);
      if (column >= share.x_begin && column < share.x_end) r->samples[k][i] = sample_point(&args, i);
    }
  }
}

/* What step k asks for on behalf of the first step's next position: one of the streams in, out, medium, so that every
 * step waits for its share of memory. */
static host_ahead ahead_of(const wavefront_args *a, int k) {
  const ptrdiff_t pitch = (ptrdiff_t)a->field.pitch, plane = (ptrdiff_t)a->field.plane;
  const ptrdiff_t next =
      (k * WAVEFRONT_LAG + WAVEFRONT_PLANES) * plane + k * WAVEFRONT_LEAN * pitch + k * WAVEFRONT_SHIFT;
  const float *const from[AHEAD_STREAMS] = {a->u[0] + GHOST_REACH * (plane + pitch), a->u[1],
                                            a->field.medium};
  host_ahead ahead = {{NULL}};
  for (int i = k; i < AHEAD_STREAMS; i += a->steps)
    if (from[i]) ahead.stream[i] = from[i] + next;
  return ahead;
}

static void advance(const wavefront_args *a, host_share_kernel *run, int chunk, int tile, int at) {
  kernel_args args = a->field;
  for (int k = 0; k < a->steps; k++) {
    const host_share share = wavefront_share(a, chunk, tile, k, at);
    if (share.z_begin >= share.z_end) continue;
    args.in = a->u[k & 1];
    args.out = a->u[!(k & 1)];
    run(&args, share, ahead_of(a, k));
    if (a->sources.points) inject(a, &args, k, share);
    if (a->receivers.samples[k]) sample(a, chunk, k, share);
  }
}

static void wait_for(atomic_llong *done, long long count) {
  for (int spins = 0; atomic_load_explicit(done, memory_order_acquire) < count; spins++) {
    if (spins >= SPINS) sched_yield();
#ifdef __SSE2__
    _mm_pause();
#endif
  }
}

/* Waits for what a position needs: of the tile before, that position; of the chunk above, once the front reads beyond
 * the seam, two groups of every step. */
static void wait_for_others(const wavefront_args *a, int chunk, int tile, int at) {
  const int tiles = tiles_of(a);
  int first, seam, unused;
  if (tile > 0) wait_for(&a->done[chunk * tiles + tile - 1], a->before + at + 1);
  if (chunk == a->chunks - 1) return;
  chunk_range(a, chunk, 0, &first, &seam);
  chunk_range(a, chunk + 1, 0, &seam, &unused);
  if (first + (at + 1) * WAVEFRONT_PLANES + GHOST_REACH > seam)
    wait_for(&a->done[(chunk + 1) * tiles + tile], a->before + 2 * a->steps);
}

static void wavefront_host(const void *args, int part, int parts) {
  const wavefront_args *a = args;
  host_share_kernel *run = host_isa_get(0)->share[a->equation];
  const int tiles = tiles_of(a), positions = wavefront_positions(a);
  const int chunk = part % a->chunks, lane = part / a->chunks;
  const int lanes = (parts - chunk + a->chunks - 1) / a->chunks;
  for (int tile = lane; tile < tiles; tile += lanes)
    for (int at = 0; at < positions; at++) {
      wait_for_others(a, chunk, tile, at);
      advance(a, run, chunk, tile, at);
      atomic_store_explicit(&a->done[chunk * tiles + tile], a->before + at + 1, memory_order_release);
    }
}

const operation operation_wavefront = {
    .name = "wavefront", .args_bytes = sizeof(wavefront_args), .host = wavefront_host};
