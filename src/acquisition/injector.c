#include "injector.h"
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"

enum { INJECTOR_RING = 32 /* steps */, INJECTOR_BLOCK = 8 /* steps computed and copied together */ };

/* The arrays that go to the device; owned (injector_free_lists). */
typedef struct injector_lists {
  point_weights *places; /* of all shots' sources, in order */
  int *signal_of;        /* of each place, as source_part */
  source_tile *tiles;
  source_part *parts;
} injector_lists;

static void injector_free_lists(injector *j) {
  injector_lists *w = j->planned;
  if (!w) return;
  free(w->places);
  free(w->signal_of);
  free(w->tiles);
  free(w->parts);
  free(w);
  j->planned = NULL;
}

/* --- the tiles -------------------------------------------------------------------------------------------------- */

/* The tiles along an axis of n points, each `size` of them, that points `first` to first + count - 1 lie in. */
static int injector_tiles_of(int first, int count, int n, int size, int tiles[POINTS_MOST]) {
  int found = 0;
  for (int i = 0; i < count; i++) {
    const int tile = points_at(first, i, n) / size;
    int k = 0;
    while (k < found && tiles[k] != tile) k++;
    if (k == found) tiles[found++] = tile;
  }
  return found;
}

/* All tiles of the slab's planes between the first and the last in which a source acts. */
typedef struct injector_tiling {
  int z_begin, z_end;
  int ny, nx; /* tiles of a plane */
  int rows;   /* of a tile: TILE_Y, or fewer where a shot has fewer: its sources are its own */
  int *begin; /* of each tile, and one more: of its parts; owned */
  const slab *b;
} injector_tiling;

static size_t injector_tile_count(const injector_tiling *t) {
  return (size_t)(t->z_end - t->z_begin) * (size_t)t->ny * (size_t)t->nx;
}

static void injector_find_planes(injector_tiling *t, const point_weights *places, int count) {
  t->z_begin = t->b->nz;
  for (const point_weights *p = places; p < places + count; p++) {
    t->z_begin = smaller(t->z_begin, larger(p->z, 0));
    t->z_end = larger(t->z_end, smaller(p->z + p->nz, t->b->nz));
  }
}

/* Counts the parts of each tile in begin[its number + 1]; with `parts`, stores the parts from begin[its number] on
 * instead, and advances that index. */
static void injector_visit_tiles(const injector_tiling *t, const injector *j, source_part *parts) {
  const injector_lists *w = j->planned;
  for (int i = 0; i < j->place_count; i++) {
    const point_weights *p = &w->places[i];
    int ys[POINTS_MOST], xs[POINTS_MOST];
    const int rows = injector_tiles_of(p->y, p->ny, t->b->ny, t->rows, ys),
              columns = injector_tiles_of(p->x, p->nx, t->b->nx, TILE_X, xs);
    for (int z = larger(p->z, 0); z < smaller(p->z + p->nz, t->b->nz); z++)
      for (int k = 0; k < rows * columns; k++) {
        const size_t tile =
            ((size_t)(z - t->z_begin) * (size_t)t->ny + (size_t)ys[k / columns]) * (size_t)t->nx +
            (size_t)xs[k % columns];
        if (parts)
          parts[t->begin[tile]++] = (source_part){i, w->signal_of[i]};
        else
          t->begin[tile + 1]++;
      }
  }
}

/* Makes the list of tiles that have parts. The parts are stored by then, so begin[tile] is the end of the tile's
 * parts. */
static int injector_list_tiles(injector *j, const injector_tiling *t, error *e) {
  injector_lists *w = j->planned;
  const size_t all = injector_tile_count(t), plane = (size_t)t->ny * (size_t)t->nx;
  int count = 0;
  for (size_t i = 0; i < all; i++) count += t->begin[i] > (i ? t->begin[i - 1] : 0);
  TRY(ALLOC(e, w->tiles, count, "the sources"));
  for (size_t i = 0; i < all; i++) {
    const int first = i ? t->begin[i - 1] : 0, z = t->z_begin + (int)(i / plane);
    if (t->begin[i] > first)
      w->tiles[j->tile_count++] = (source_tile){z,
                                                (int)(i % plane / (size_t)t->nx) * t->rows,
                                                (int)(i % (size_t)t->nx) * TILE_X,
                                                first,
                                                t->begin[i] - first,
                                                0};
    j->plane_begin[z + 1] = j->tile_count;
  }
  for (int z = t->z_end; z < t->b->nz; z++) j->plane_begin[z + 1] = j->tile_count;
  return 0;
}

/* Makes tiles and their parts, in the order of the sources, from places. */
static int injector_make_tiles(injector *j, error *e) {
  injector_lists *w = j->planned;
  const slab *b = j->slab;
  const int rows = smaller(TILE_Y, j->rows);
  injector_tiling t = {
      .ny = (b->ny + rows - 1) / rows, .nx = (b->nx + TILE_X - 1) / TILE_X, .rows = rows, .b = b};
  TRY(ALLOC(e, j->plane_begin, b->nz + 1, "the sources"));
  injector_find_planes(&t, w->places, j->place_count);
  const size_t all = injector_tile_count(&t);
  TRY(ALLOC(e, t.begin, all + 1, "the sources"));
  injector_visit_tiles(&t, j, NULL);
  for (size_t i = 0; i < all; i++) t.begin[i + 1] += t.begin[i];
  j->part_count = t.begin[all];
  if (!ALLOC(e, w->parts, j->part_count, "the sources")) {
    injector_visit_tiles(&t, j, w->parts);
    injector_list_tiles(j, &t, e);
  }
  free(t.begin);
  return e->id;
}

/* --- planning, opening and closing ------------------------------------------------------------------------------ */

/* Frees all but the memory of the device. */
static void injector_forget(injector *j) {
  injector_free_lists(j);
  free(j->plane_begin);
  free(j->of);
  *j = (injector){.dev = j->dev, .kept = j->kept};
}

/* Takes the places of a shot, the rows of which begin at `y`. Imposed values have the numbers ~i. */
static void injector_take(injector *j, sources *from, int y) {
  injector_lists *w = j->planned;
  for (int i = 0; i < from->here.count; i++) {
    const int signal = from->signal_of[from->here.source_of[i]];
    w->places[j->place_count] = from->here.places[i];
    w->places[j->place_count].y += y;
    w->signal_of[j->place_count++] = signal + (signal < 0 ? -j->signal_count : j->signal_count);
  }
  j->signal_count += from->signal_count;
  sources_free_places(from);
}

int injector_plan(injector *j, sources *const *of, int count, const problem *on, int rows, error *e) {
  int places = 0;
  injector_forget(j);
  j->dev = on->dev, j->slab = on->slab, j->count = count, j->rows = rows;
  TRY(ALLOC(e, j->of, count, "the sources"));
  for (int i = 0; i < count; i++) places += of[i]->here.count, j->of[i] = of[i];
  if (!places) return 0;
  TRY(ALLOC(e, j->planned, 1, "the sources"));
  TRY(ALLOC(e, j->planned->places, places, "the sources"));
  TRY(ALLOC(e, j->planned->signal_of, places, "the sources"));
  for (int i = 0; i < count; i++) injector_take(j, of[i], i * rows);
  return injector_make_tiles(j, e);
}

static size_t injector_ring_bytes(const injector *j) {
  return INJECTOR_RING * (size_t)j->signal_count * sizeof *j->ring;
}

static int injector_put(const injector *j, device_buffer *to, const void *from, size_t bytes, error *e) {
  TRY(device_reserve(j->dev, to, bytes, MEMORY_DEVICE, e));
  return j->dev->table->copy(j->dev, STREAM_BOUNDARY, &(copy_args){to->memory, from, bytes, COPY_TO_DEVICE},
                             e);
}

static bool injector_in_layer(const absorb_axis *a, int begin, int end) {
  return absorb_locate(a, begin).inward || absorb_locate(a, end - 1).inward;
}

/* Numbers the tiles that layers reach, and allocates memory for the layers' state there. */
static int injector_open_layers(injector *j, error *e) {
  const slab *b = j->slab;
  float *zeros;
  j->stretched = 0;
  for (source_tile *t = j->planned->tiles; j->layers && t < j->planned->tiles + j->tile_count; t++) {
    const absorb_axis *axis = j->layers->args.axis;
    if (injector_in_layer(&axis[0], t->x, smaller(t->x + TILE_X, b->nx)) ||
        injector_in_layer(&axis[1], t->y, smaller(t->y + TILE_Y, b->ny)) ||
        injector_in_layer(&axis[2], t->z, t->z + 1))
      t->stretched = ++j->stretched;
  }
  if (!j->stretched) return 0;
  const size_t floats = (size_t)j->stretched * ABSORB_AXES * TILE_Y * TILE_X;
  TRY(ALLOC(e, zeros, floats, "the sources"));
  injector_put(j, &j->kept.chi, zeros, floats * sizeof *zeros, e);
  if (!e->id) j->dev->table->sync(j->dev, STREAM_BOUNDARY, e);
  free(zeros);
  return e->id;
}

int injector_open(injector *j, error *e) {
  if (j->place_count == 0) return 0;
  TRY(injector_open_layers(j, e));
  const device_table *t = j->dev->table;
  const injector_lists *w = j->planned;
  TRY(injector_put(j, &j->kept.tiles, w->tiles, (size_t)j->tile_count * sizeof *j->tiles, e));
  TRY(injector_put(j, &j->kept.parts, w->parts, (size_t)j->part_count * sizeof *j->parts, e));
  TRY(injector_put(j, &j->kept.places, w->places, (size_t)j->place_count * sizeof *j->places, e));
  TRY(device_reserve(j->dev, &j->kept.signal, injector_ring_bytes(j), MEMORY_DEVICE, e));
  TRY(device_reserve(j->dev, &j->kept.ring, injector_ring_bytes(j), MEMORY_PINNED, e));
  if (!j->kept.brought) TRY(t->make_events(j->dev, &j->kept.brought, 1, false, e));
  j->tiles = j->kept.tiles.memory, j->parts = j->kept.parts.memory, j->places = j->kept.places.memory;
  j->signal = j->kept.signal.memory, j->ring = j->kept.ring.memory;
  j->computed = INT64_MIN;
  TRY(t->sync(j->dev, STREAM_BOUNDARY, e));
  injector_free_lists(j);
  return 0;
}

void injector_bytes(const injector *j, size_t *on_device, size_t *pinned) {
  *pinned = injector_ring_bytes(j);
  *on_device = (size_t)j->tile_count * sizeof *j->tiles + (size_t)j->part_count * sizeof *j->parts +
               (size_t)j->place_count * sizeof *j->places + *pinned;
}

void injector_close(injector *j) {
  if (j->dev) {
    device_release(j->dev, &j->kept.tiles, MEMORY_DEVICE);
    device_release(j->dev, &j->kept.parts, MEMORY_DEVICE);
    device_release(j->dev, &j->kept.places, MEMORY_DEVICE);
    device_release(j->dev, &j->kept.signal, MEMORY_DEVICE);
    device_release(j->dev, &j->kept.chi, MEMORY_DEVICE);
    device_release(j->dev, &j->kept.ring, MEMORY_PINNED);
    j->dev->table->unmake_events(j->dev, &j->kept.brought, 1);
  }
  injector_forget(j);
  j->kept = (injector_memory){0};
}

/* --- a step ----------------------------------------------------------------------------------------------------- */

/* Steps count from -1, at which the field of step 0 is imposed. */
static size_t injector_slot(const injector *j, int64_t step) {
  return (size_t)((step + 1) % INJECTOR_RING) * (size_t)j->signal_count;
}

/* The signals of a step, shot after shot. */
static void injector_fill(const injector *j, int64_t step, float *to) {
  for (int i = 0; i < j->count; i++)
    for (int k = 0; k < j->of[i]->signal_count; k++) *to++ = sources_value(j->of[i], k, step);
}

/* Does no shot add anything at this step? */
static bool injector_silent(const injector *j, int64_t step) {
  int i = 0;
  while (i < j->count && sources_silent(j->of[i], step)) i++;
  return i == j->count;
}

/* Computes the signals of a block of steps at the first call for any of them, and then returns true. They replace the
 * signals of INJECTOR_RING steps earlier, which no kernel reads any more: at most 16 steps are unfinished, two passes
 * of at most WAVEFRONT_DEPTH_MAX steps. */
static bool injector_compute(injector *j, int64_t step) {
  const int64_t first = (step + 1) / INJECTOR_BLOCK * INJECTOR_BLOCK - 1;
  if (j->computed == first) return false;
  j->computed = first;
  for (int64_t k = first; k < first + INJECTOR_BLOCK; k++) injector_fill(j, k, j->ring + injector_slot(j, k));
  return true;
}

/* Enqueues the copy of a step's signals to the device on `stream`. The host's kernels read the signals where these were
 * computed. */
static int injector_bring(injector *j, int stream, int64_t step, error *e) {
  const device_table *t = j->dev->table;
  const bool now = injector_compute(j, step), device = t->backend != BACKEND_HOST;
  if (now) j->informed = 0;
  if (!device || j->informed >> stream & 1) return 0;
  j->informed |= 1u << stream;
  if (!now) return t->wait(j->dev, stream, j->kept.brought, e);
  const size_t at = injector_slot(j, j->computed),
               bytes = INJECTOR_BLOCK * (size_t)j->signal_count * sizeof *j->ring;
  TRY(t->copy(j->dev, stream, &(copy_args){j->signal + at, j->ring + at, bytes, COPY_TO_DEVICE}, e));
  return t->record(j->dev, stream, j->kept.brought, e);
}

int injector_apply(injector *j, int stream, const kernel_args *args, int64_t step, error *e) {
  if (j->place_count == 0) return 0;
  const int begin = j->plane_begin[args->z_begin], end = j->plane_begin[args->z_end];
  if (begin == end || (!j->stretched && injector_silent(j, step))) return 0;
  TRY(injector_bring(j, stream, step, e));
  const float *signals = j->dev->table->backend == BACKEND_HOST ? j->ring : j->signal;
  inject_args inject = {.field = *args,
                        .tiles = j->tiles + begin,
                        .count = end - begin,
                        .parts = j->parts,
                        .places = j->places,
                        .signal = signals + injector_slot(j, step)};
  if (j->stretched) {
    memcpy(inject.layers, j->layers->args.axis, sizeof inject.layers);
    inject.width = j->layers->args.width, inject.chi = j->kept.chi.memory;
  }
  return j->dev->table->apply(j->dev, stream, &operation_inject, &inject, e);
}

void injector_of_pass(injector *j, int64_t step, int steps, wavefront_sources *pass) {
  *pass = (wavefront_sources){.tiles = j->tiles, .parts = j->parts, .places = j->places};
  if (j->place_count == 0) return;
  pass->plane_begin = j->plane_begin;
  for (int k = 0; k < steps; k++) {
    injector_compute(j, step + k);
    pass->signal[k] = j->ring + injector_slot(j, step + k);
  }
}
