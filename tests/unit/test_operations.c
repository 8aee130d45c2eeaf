/* Ghosts, point sources and receivers of operation.h against plain loops, bit for bit: for every cut of the planes, on the
 * host or, with the argument "cuda", on CUDA. */
#include "tests/backend_main.h"
#include <math.h>
#include <stdio.h>
#include "ghost_rules.h"
#include "kernels/host/host_simd.h"

static device *dev;
/* A field on the device, and what it should hold. */
typedef struct field {
  slab slab;
  kernel_args args; /* out is the field */
  float *memory, *back, *expected;
} field;

static float *pinned(size_t floats) {
  float *memory;
  OK(dev->table->alloc(dev, (void **)&memory, floats * sizeof *memory, MEMORY_PINNED, &E));
  return memory;
}

static void *on_device(const void *from, size_t bytes) {
  void *memory;
  OK(dev->table->alloc(dev, &memory, bytes, MEMORY_DEVICE, &E));
  OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){memory, from, bytes, COPY_TO_DEVICE}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
  return memory;
}

static void free_on_device(void *memory) {
  OK(dev->table->free(dev, memory, MEMORY_DEVICE, &E));
}

static float *point(const field *f, float *memory, int z, int y, int x) {
  return memory + slab_offset(&f->slab, z, y, x);
}

/* Random numbers everywhere, also in ghosts and padding, which must stay. */
static void open_field(field *f, int nx, int ny, int nz, const unsigned char ghosts[FACE_COUNT],
                       uint64_t seed) {
  OK(slab_init(&f->slab, &(slab_shape){.nx = nx, .ny = ny, .nz = nz}, 0, 1, &E));
  const size_t floats = slab_floats(&f->slab);
  f->back = pinned(floats);
  f->expected = malloc(floats * sizeof(float));
  for (size_t i = 0; i < floats; i++) f->expected[i] = test_random(&seed);
  f->memory = on_device(f->expected, floats * sizeof(float));
  f->args =
      (kernel_args){.out = point(f, f->memory, 0, 0, 0), .pitch = f->slab.pitch, .plane = f->slab.plane};
  f->args.nx = nx, f->args.ny = ny, f->args.nz = nz;
  memcpy(f->args.ghosts, ghosts, FACE_COUNT);
}

static void close_field(field *f) {
  free_on_device(f->memory);
  OK(dev->table->free(dev, f->back, MEMORY_PINNED, &E));
  free(f->expected);
}

static void check_field(field *f) {
  const size_t bytes = slab_floats(&f->slab) * sizeof(float);
  for (int s = 0; s < STREAM_COUNT; s++) OK(dev->table->sync(dev, s, &E));
  OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){f->back, f->memory, bytes, COPY_TO_HOST}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
  assert_memory_equal(f->back, f->expected, bytes);
}

/* Held points and images of planes [begin, end), as they should be. */
static void expect_ghosts(field *f, int begin, int end) {
  kernel_args a = f->args;
  a.z_begin = begin, a.z_end = end;
  rules_apply(&f->slab, &a, f->expected);
}

/* --- ghosts ----------------------------------------------------------------------------------------------------- */

static const unsigned char RULES[][FACE_COUNT] = {
    {GHOST_KEEP, GHOST_KEEP, GHOST_KEEP, GHOST_KEEP, GHOST_KEEP, GHOST_KEEP},
    {GHOST_ODD, GHOST_EVEN, GHOST_EVEN, GHOST_ODD, GHOST_ODD, GHOST_EVEN},
    {GHOST_WRAP, GHOST_WRAP, GHOST_WRAP, GHOST_WRAP, GHOST_WRAP, GHOST_WRAP},
    {GHOST_EVEN, GHOST_KEEP, GHOST_WRAP, GHOST_WRAP, GHOST_KEEP, GHOST_ODD},
    {GHOST_KEEP, GHOST_ODD, GHOST_KEEP, GHOST_EVEN, GHOST_ODD, GHOST_ODD},
    {GHOST_WRAP, GHOST_WRAP, GHOST_ODD, GHOST_ODD, GHOST_EVEN, GHOST_KEEP}};
enum { RULE_COUNT = sizeof RULES / sizeof *RULES };
static const int SIZES[][3] = {{5, 5, 5}, {9, 6, 7}, {10, 11, 12}, {37, 10, 9}, {131, 5, 40}};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

static void enqueue_ghosts(field *f, int begin, int end) {
  f->args.z_begin = begin, f->args.z_end = end;
  OK(dev->table->apply(dev, STREAM_BOUNDARY, &operation_ghosts, &f->args, &E));
}

static void ghosts_are_images(void) {
  for (int i = 0; i < RULE_COUNT * SIZE_COUNT; i++) {
    const int *n = SIZES[i % SIZE_COUNT];
    field f;
    open_field(&f, n[0], n[1], n[2], RULES[i / SIZE_COUNT], 100 + (uint64_t)i);
    enqueue_ghosts(&f, 1, 3); /* these planes and no others */
    expect_ghosts(&f, 1, 3);
    check_field(&f);
    enqueue_ghosts(&f, 3, n[2]);
    enqueue_ghosts(&f, 0, 1);
    expect_ghosts(&f, 0, n[2]);
    check_field(&f);
    close_field(&f);
  }
}

/* --- point sources ---------------------------------------------------------------------------------------------- */

enum { SIGNALS = 7, PLACES = 40 };

typedef struct source_lists {
  point_weights places[PLACES], *places_on_device;
  source_share own[PLACES]; /* of each place */
  source_tile *tiles, *tiles_on_device;
  source_share *shares, *shares_on_device;
  int count, *plane_begin;
  float signals[SIGNALS], *signal, *medium; /* on the device; NULL: scale */
  float *medium_on_host;
} source_lists;

static int below(int n, uint64_t *seed) {
  return (int)((0.5 + 0.5 * (double)test_random(seed)) * n);
}

/* The index of a place's point (z, y, x) along each axis; false where it is none of its points. */
static bool covers(const kernel_args *a, const point_weights *p, int z, int y, int x, int at[3]) {
  at[0] = z - p->z, at[1] = (y - p->y + a->ny) % a->ny, at[2] = (x - p->x + a->nx) % a->nx;
  return z >= p->z && at[0] < p->nz && at[1] < p->ny && at[2] < p->nx;
}

/* Places of 1 to 8 points along each axis, many across the ends of x and y and some of z; on some a value is imposed. */
static void make_places(const kernel_args *a, source_lists *l, uint64_t *seed) {
  for (int i = 0; i < PLACES; i++) {
    point_weights *p = &l->places[i];
    const bool imposed = i % 5 == 4;
    const int n[3] = {a->nz, a->ny, a->nx};
    int count[3], first[3];
    for (int k = 0; k < 3; k++) {
      count[k] = imposed ? 1 : 1 + below(n[k] < POINTS_MOST ? n[k] : POINTS_MOST, seed);
      first[k] = below(n[k], seed);
    }
    *p = (point_weights){.z = first[0] - (imposed ? 0 : below(3, seed)), .y = first[1], .x = first[2]};
    p->nz = (unsigned char)count[0], p->ny = (unsigned char)count[1], p->nx = (unsigned char)count[2];
    for (int k = 0; k < POINTS_MOST; k++)
      p->wz[k] = test_random(seed), p->wy[k] = test_random(seed), p->wx[k] = test_random(seed);
    l->own[i] = (source_share){i, below(SIGNALS - 1, seed)};
    int unused[3];
    for (int k = 4; k < i; k += 5) /* no two on one point */
      if (imposed && covers(a, &l->places[k], p->z, p->y, p->x, unused)) l->own[i].signal = SIGNALS - 1;
    if (imposed) l->own[i].signal = ~l->own[i].signal;
  }
}

/* Those of tile (z, y, x), in their order. */
static void make_tile(const kernel_args *a, source_lists *l, int z, int y, int x, int *shares) {
  const int first = *shares;
  for (int i = 0; i < PLACES; i++) {
    bool any = false;
    int unused[3];
    for (int k = 0; k < TILE_Y * TILE_X && !any; k++)
      any = y + k / TILE_X < a->ny && x + k % TILE_X < a->nx &&
            covers(a, &l->places[i], z, y + k / TILE_X, x + k % TILE_X, unused);
    if (any) l->shares[(*shares)++] = l->own[i];
  }
  if (*shares > first) l->tiles[l->count++] = (source_tile){z, y, x, first, *shares - first};
}

static void make_sources(const field *f, source_lists *l, bool medium, uint64_t seed) {
  const kernel_args *a = &f->args;
  const size_t most = (size_t)a->nz * (size_t)(a->ny / TILE_Y + 1) * (size_t)(a->nx / TILE_X + 1);
  int shares = 0;
  *l = (source_lists){.tiles = calloc(most, sizeof *l->tiles)};
  l->shares = calloc(PLACES * most, sizeof *l->shares);
  l->plane_begin = calloc((size_t)a->nz + 1, sizeof *l->plane_begin);
  make_places(a, l, &seed);
  for (int z = 0; z < a->nz; z++, l->plane_begin[z] = l->count)
    for (int y = 0; y < a->ny; y += TILE_Y)
      for (int x = 0; x < a->nx; x += TILE_X) make_tile(a, l, z, y, x, &shares);
  for (int i = 0; i < SIGNALS; i++) l->signals[i] = i == SIGNALS - 1 ? NAN : test_random(&seed);
  l->tiles_on_device = on_device(l->tiles, (size_t)l->count * sizeof *l->tiles);
  l->shares_on_device = on_device(l->shares, (size_t)shares * sizeof *l->shares);
  l->places_on_device = on_device(l->places, sizeof l->places);
  l->signal = on_device(l->signals, sizeof l->signals);
  if (!medium) return;
  const size_t floats = slab_floats(&f->slab);
  l->medium_on_host = malloc(floats * sizeof(float));
  for (size_t i = 0; i < floats; i++) l->medium_on_host[i] = test_random(&seed);
  l->medium = on_device(l->medium_on_host, floats * sizeof(float));
}

static void free_sources(source_lists *l) {
  free_on_device(l->tiles_on_device);
  free_on_device(l->shares_on_device);
  free_on_device(l->places_on_device);
  free_on_device(l->signal);
  free_on_device(l->medium);
  free(l->tiles);
  free(l->shares);
  free(l->plane_begin);
  free(l->medium_on_host);
}

static void enqueue_sources(const field *f, const source_lists *l, int stream, int begin, int end) {
  inject_args a = {
      .field = f->args, .shares = l->shares_on_device, .places = l->places_on_device, .signal = l->signal};
  a.field.z_begin = begin, a.field.z_end = end;
  a.tiles = l->tiles_on_device + l->plane_begin[begin];
  a.count = l->plane_begin[end] - l->plane_begin[begin];
  OK(dev->table->apply(dev, stream, &operation_inject, &a, &E));
}

/* Source after source, at every point of the grid. */
static void expect_at(field *f, const source_lists *l, int z, int y, int x) {
  float s = 0, imposed = NAN, *u = point(f, f->expected, z, y, x);
  int any = 0, at[3];
  for (int i = 0; i < PLACES; i++) {
    const point_weights *p = &l->places[i];
    const int signal = l->own[i].signal;
    if (!covers(&f->args, p, z, y, x, at)) continue;
    if (signal < 0 && !isnan(l->signals[~signal])) imposed = l->signals[~signal];
    if (signal < 0) continue;
    s = fmaf((p->wz[at[0]] * p->wy[at[1]]) * p->wx[at[2]], l->signals[signal], s);
    any++;
  }
  if (any) *u = fmaf(l->medium ? *point(f, l->medium_on_host, z, y, x) : f->args.scale[0], s, *u);
  if (!isnan(imposed)) *u = imposed;
}

static void expect_sources(field *f, const source_lists *l) {
  for (int z = 0; z < f->args.nz; z++)
    for (int y = 0; y < f->args.ny; y++)
      for (int x = 0; x < f->args.nx; x++) expect_at(f, l, z, y, x);
}

/* Ghosts are images before, so all of them are images after. */
static void sources_add_up(void) {
  for (int i = 0; i < RULE_COUNT * SIZE_COUNT; i++) {
    const int *n = SIZES[i % SIZE_COUNT];
    field f;
    source_lists l;
    open_field(&f, n[0], n[1], n[2], RULES[i / SIZE_COUNT], 200 + (uint64_t)i);
    f.args.scale[0] = 0.37f;
    make_sources(&f, &l, i % 2, 300 + (uint64_t)i);
    if (l.medium) f.args.medium[0] = point(&f, l.medium, 0, 0, 0);
    enqueue_ghosts(&f, 0, n[2]);
    OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
    f.args.z_begin = 0, f.args.z_end = n[2];
    rules_hold(&f.slab, &f.args, f.expected);
    for (int k = 0; k < 3; k++) { /* all at once; cut in three, on both streams */
      const int lo = k ? k : 0, hi = k ? n[2] - 2 : n[2];
      enqueue_sources(&f, &l, STREAM_INTERIOR, lo, hi);
      enqueue_sources(&f, &l, STREAM_BOUNDARY, 0, lo);
      enqueue_sources(&f, &l, STREAM_BOUNDARY, hi, n[2]);
      expect_sources(&f, &l);
      expect_ghosts(&f, 0, n[2]);
      check_field(&f);
    }
    free_sources(&l);
    close_field(&f);
  }
}

/* --- receivers -------------------------------------------------------------------------------------------------- */

/* Places as sources have, every other one of 8 x 8 x 8 points where the grid has them, all within ghosts along z. */
static void make_receivers(const kernel_args *a, source_lists *l, uint64_t *seed) {
  const int n[3] = {a->nz + RADIUS, a->ny, a->nx};
  make_places(a, l, seed);
  for (int i = 0; i < PLACES; i++) {
    point_weights *p = &l->places[i];
    unsigned char *const count[3] = {&p->nz, &p->ny, &p->nx};
    for (int k = 0; k < 3 && i % 2; k++) *count[k] = n[k] < POINTS_MOST ? (unsigned char)n[k] : POINTS_MOST;
    if (p->z + p->nz > n[0]) p->z = n[0] - p->nz;
  }
}

static float expect_sample(const field *f, const float *sigma, const point_weights *p) {
  float s = 0;
  for (int x = 0; x < p->nx; x++) {
    float column = 0;
    for (int z = 0; z < p->nz; z++) {
      float row = 0;
      for (int y = 0; y < p->ny; y++) {
        const ptrdiff_t at =
            slab_offset(&f->slab, p->z + z, (p->y + y) % f->args.ny, (p->x + x) % f->args.nx);
        row = fmaf(p->wy[y], sigma ? f->expected[at] / sigma[at] : f->expected[at], row);
      }
      column = fmaf(p->wz[z], row, column);
    }
    s = fmaf(p->wx[x], column, s);
  }
  return s;
}

static void check_samples(const field *f, const source_lists *l, const float *sigma,
                          const float samples[PLACES]) {
  for (int i = 0; i < PLACES; i++) {
    const float expected = expect_sample(f, sigma, &l->places[i]);
    assert_memory_equal(&samples[i], &expected, sizeof expected);
  }
}

/* By the device, and on the host by each set of instructions. */
static void sample(const field *f, const source_lists *l, const float *sigma, bool host) {
  float samples[PLACES] = {0}, *on = on_device(samples, sizeof samples), *scale = NULL;
  if (sigma) scale = on_device(sigma, slab_floats(&f->slab) * sizeof(float));
  const sample_args a = {.field = f->args.out,
                         .sigma = scale ? point(f, scale, 0, 0, 0) : NULL,
                         .pitch = f->slab.pitch,
                         .plane = f->slab.plane,
                         .ny = f->args.ny,
                         .nx = f->args.nx,
                         .receivers = l->places_on_device,
                         .count = PLACES,
                         .samples = on};
  OK(dev->table->apply(dev, STREAM_BOUNDARY, &operation_sample, &a, &E));
  OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){samples, on, sizeof samples, COPY_TO_HOST}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
  check_samples(f, l, sigma, samples);
  for (int k = 0; host && host_isa_get(k); k++) {
    memset(on, 0, sizeof samples);
    host_isa_get(k)->sample(&a, 0, PLACES);
    check_samples(f, l, sigma, on);
  }
  free_on_device(on);
  if (scale) free_on_device(scale);
}

static void receivers_interpolate(bool host) {
  for (int i = 0; i < SIZE_COUNT; i++) {
    uint64_t seed = 400 + (uint64_t)i;
    field f;
    source_lists l;
    open_field(&f, SIZES[i][0], SIZES[i][1], SIZES[i][2], RULES[0], seed);
    const size_t floats = slab_floats(&f.slab);
    float *sigma = malloc(floats * sizeof *sigma);
    for (size_t k = 0; k < floats; k++) sigma[k] = 1.5f + test_random(&seed);
    make_receivers(&f.args, &l, &seed);
    l.places_on_device = on_device(l.places, sizeof l.places);
    sample(&f, &l, NULL, host);
    sample(&f, &l, sigma, host);
    free_on_device(l.places_on_device);
    free(sigma);
    close_field(&f);
  }
}

static void run_all(const char *backend, int threads) {
  const device_options options = {.local_ranks = 1, .threads = threads};
  OK(device_open(backend, &options, &dev, &E));
  ghosts_are_images();
  sources_add_up();
  receivers_interpolate(strcmp(backend, "host") == 0);
  dev->table->close(dev);
}

TEST_OF(all_operations, const char *backend) {
  const bool host = strcmp(backend, "host") == 0;
  for (int threads = 1; threads <= (host ? 3 : 1); threads += 2) run_all(backend, threads);
}

BACKEND_MAIN
