/* Ghosts and point sources of kernels/operation.h against plain loops, bit for bit: for every cut of the planes, on the
 * host or, with the argument "cuda", on CUDA. */
#include "tests/backend_main.h"
#include <math.h>
#include <stdio.h>
#include "ghost_rules.h"

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
  OK(slab_init(&f->slab, &(slab_shape){nx, ny, nz, .ghost = RADIUS}, 0, 1, &E));
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

enum { SIGNALS = 7, SHARES_MAX = 5 };

typedef struct source_lists {
  source_point *points, *points_on_device;
  source_share *shares, *shares_on_device;
  int count, *plane_begin;
  float *signal, *medium; /* pinned; on the device, NULL: scale */
  float *medium_on_host;
} source_lists;

/* About one point in three, also near all faces, each with up to 5 shares. */
static void make_sources(const field *f, source_lists *l, bool medium, uint64_t seed) {
  const kernel_args *a = &f->args;
  const size_t most = (size_t)a->nx * (size_t)a->ny * (size_t)a->nz;
  int shares = 0;
  *l = (source_lists){.points = calloc(most, sizeof *l->points), .signal = pinned(SIGNALS)};
  l->shares = calloc(SHARES_MAX * most, sizeof *l->shares);
  l->plane_begin = calloc((size_t)a->nz + 1, sizeof *l->plane_begin);
  for (int z = 0; z < a->nz; z++, l->plane_begin[z] = l->count)
    for (int y = 0; y < a->ny; y++)
      for (int x = 0; x < a->nx; x++) {
        if (random_below(&seed, 3)) continue;
        const int count = 1 + random_below(&seed, SHARES_MAX);
        l->points[l->count++] = (source_point){z, y, x, shares, count};
        for (int k = 0; k < count; k++)
          l->shares[shares++] = (source_share){random_below(&seed, SIGNALS), fabsf(test_random(&seed))};
      }
  for (int i = 0; i < SIGNALS; i++) l->signal[i] = test_random(&seed);
  l->points_on_device = on_device(l->points, (size_t)l->count * sizeof *l->points);
  l->shares_on_device = on_device(l->shares, (size_t)shares * sizeof *l->shares);
  if (!medium) return;
  const size_t floats = slab_floats(&f->slab);
  l->medium_on_host = malloc(floats * sizeof(float));
  for (size_t i = 0; i < floats; i++) l->medium_on_host[i] = test_random(&seed);
  l->medium = on_device(l->medium_on_host, floats * sizeof(float));
}

static void free_sources(source_lists *l) {
  free_on_device(l->points_on_device);
  free_on_device(l->shares_on_device);
  free_on_device(l->medium);
  OK(dev->table->free(dev, l->signal, MEMORY_PINNED, &E));
  free(l->points);
  free(l->shares);
  free(l->plane_begin);
  free(l->medium_on_host);
}

static void enqueue_sources(const field *f, const source_lists *l, int stream, int begin, int end) {
  inject_args a = {.field = f->args, .shares = l->shares_on_device, .signal = l->signal};
  a.field.z_begin = begin, a.field.z_end = end;
  a.points = l->points_on_device + l->plane_begin[begin];
  a.count = l->plane_begin[end] - l->plane_begin[begin];
  OK(dev->table->apply(dev, stream, &operation_inject, &a, &E));
}

static void expect_sources(field *f, const source_lists *l) {
  for (int i = 0; i < l->count; i++) {
    const source_point p = l->points[i];
    float *u = point(f, f->expected, p.z, p.y, p.x), s = 0;
    for (int k = 0; k < p.count; k++)
      s = fmaf(l->shares[p.first + k].weight, l->signal[l->shares[p.first + k].source], s);
    *u = fmaf(l->medium ? *point(f, l->medium_on_host, p.z, p.y, p.x) : f->args.scale[0], s, *u);
  }
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

static void run_all(const char *backend, int threads) {
  const device_options options = {.local_ranks = 1, .threads = threads};
  OK(device_open(backend, &options, &dev, &E));
  ghosts_are_images();
  sources_add_up();
  dev->table->close(dev);
}

TEST_OF(all_operations, const char *backend) {
  const bool host = strcmp(backend, "host") == 0;
  for (int threads = 1; threads <= (host ? 3 : 1); threads += 2) run_all(backend, threads);
}

BACKEND_MAIN
