/* Ghosts, point sources, receivers and nu of mu against plain loops, bit for bit: for every cut of the planes, on the
 * host or, with the argument "cuda", on CUDA. */
#include "tests/backend_main.h"
#include <math.h>
#include <stdio.h>
#include "ghost_rules.h"
#include "kernels/host/host_simd.h"
#include "kernels/layers/surplus.h"

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

/* --- layers in the adjoint -------------------------------------------------------------------------------------- */

enum { LAYER = 3 };
static const float COEFFICIENTS[4 * LAYER + 2 * ABSORB_BEYOND] = {0.5f, 0.75f, 0.875f, -0.9f, -0.4f, -0.1f};

/* Layers of LAYER points at those faces whose bits are set, where both fit and a face has no images. */
static void set_layers(const kernel_args *a, unsigned faces, absorb_axis axis[ABSORB_AXES],
                       const float *coefficients) {
  const int n[ABSORB_AXES] = {a->nx, a->ny, a->nz};
  for (int i = 0; i < ABSORB_AXES; i++) {
    axis[i] = (absorb_axis){.coefficients = coefficients, .points = n[i]};
    if (n[i] > 2 * LAYER && (faces >> 2 * i & 1)) axis[i].lo = LAYER;
    if (n[i] > 2 * LAYER && (faces >> (2 * i + 1) & 1)) axis[i].hi = LAYER;
  }
}

/* The coefficients at a place of an axis; false: it lies in no layer. */
static bool in_layer(const absorb_axis *s, int at, float *a, float *b) {
  const int i = at < s->lo ? at : at >= s->points - s->hi ? s->points - 1 - at : -1;
  if (i < 0) return false;
  *a = COEFFICIENTS[i], *b = COEFFICIENTS[LAYER + i];
  return true;
}

/* --- point sources ---------------------------------------------------------------------------------------------- */

enum { SIGNALS = 7, PLACES = 40 };

typedef struct source_lists {
  point_weights places[PLACES], *places_on_device;
  source_part own[PLACES]; /* of each place */
  source_tile *tiles, *tiles_on_device;
  source_part *parts, *parts_on_device;
  int count, *plane_begin;
  float signals[SIGNALS], *signal, *medium; /* on the device; NULL: scale */
  absorb_axis layers[ABSORB_AXES];          /* on the device: */
  float *coefficients, *chi, *expected;     /* expected: chi of each point and axis */
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
    l->own[i] = (source_part){i, below(SIGNALS - 1, seed)};
    int unused[3];
    for (int k = 4; k < i; k += 5) /* no two on one point */
      if (imposed && covers(a, &l->places[k], p->z, p->y, p->x, unused)) l->own[i].signal = SIGNALS - 1;
    if (imposed) l->own[i].signal = ~l->own[i].signal;
  }
}

/* Adds the parts of tile (z, y, x), in order. */
static void make_tile(const kernel_args *a, source_lists *l, int z, int y, int x, int *parts) {
  const int first = *parts, number = l->count;
  for (int i = 0; i < PLACES; i++) {
    bool any = false;
    int unused[3];
    for (int k = 0; k < TILE_Y * TILE_X && !any; k++)
      any = y + k / TILE_X < a->ny && x + k % TILE_X < a->nx &&
            covers(a, &l->places[i], z, y + k / TILE_X, x + k % TILE_X, unused);
    if (any) l->parts[(*parts)++] = l->own[i];
  }
  if (*parts > first) l->tiles[l->count++] = (source_tile){z, y, x, first, *parts - first, number};
}

static void make_sources(const field *f, source_lists *l, bool medium, uint64_t seed) {
  const kernel_args *a = &f->args;
  const size_t most = (size_t)a->nz * (size_t)(a->ny / TILE_Y + 1) * (size_t)(a->nx / TILE_X + 1);
  int parts = 0;
  *l = (source_lists){.tiles = calloc(most, sizeof *l->tiles)};
  l->parts = calloc(PLACES * most, sizeof *l->parts);
  l->plane_begin = calloc((size_t)a->nz + 1, sizeof *l->plane_begin);
  make_places(a, l, &seed);
  for (int z = 0; z < a->nz; z++, l->plane_begin[z] = l->count)
    for (int y = 0; y < a->ny; y += TILE_Y)
      for (int x = 0; x < a->nx; x += TILE_X) make_tile(a, l, z, y, x, &parts);
  for (int i = 0; i < SIGNALS; i++) l->signals[i] = i == SIGNALS - 1 ? NAN : test_random(&seed);
  l->tiles_on_device = on_device(l->tiles, (size_t)l->count * sizeof *l->tiles);
  l->parts_on_device = on_device(l->parts, (size_t)parts * sizeof *l->parts);
  l->places_on_device = on_device(l->places, sizeof l->places);
  l->signal = on_device(l->signals, sizeof l->signals);
  const size_t floats = slab_floats(&f->slab), chi = most * ABSORB_AXES * TILE_Y * TILE_X;
  l->coefficients = on_device(COEFFICIENTS, sizeof COEFFICIENTS);
  set_layers(a, (unsigned)seed, l->layers, l->coefficients);
  l->expected = calloc(chi + ABSORB_AXES * floats, sizeof(float));
  l->chi = on_device(l->expected, chi * sizeof(float));
  if (!medium) return;
  l->medium_on_host = malloc(floats * sizeof(float));
  for (size_t i = 0; i < floats; i++) l->medium_on_host[i] = test_random(&seed);
  l->medium = on_device(l->medium_on_host, floats * sizeof(float));
}

static void free_sources(source_lists *l) {
  free_on_device(l->tiles_on_device);
  free_on_device(l->parts_on_device);
  free_on_device(l->places_on_device);
  free_on_device(l->signal);
  free_on_device(l->medium);
  free_on_device(l->coefficients);
  free_on_device(l->chi);
  free(l->expected);
  free(l->tiles);
  free(l->parts);
  free(l->plane_begin);
  free(l->medium_on_host);
}

static void enqueue_sources(const field *f, const source_lists *l, int stream, int begin, int end) {
  inject_args a = {.field = f->args,
                   .parts = l->parts_on_device,
                   .places = l->places_on_device,
                   .signal = l->signal,
                   .width = LAYER,
                   .chi = l->chi};
  memcpy(a.layers, l->layers, sizeof a.layers);
  a.field.z_begin = begin, a.field.z_end = end;
  a.tiles = l->tiles_on_device + l->plane_begin[begin];
  a.count = l->plane_begin[end] - l->plane_begin[begin];
  OK(dev->table->apply(dev, stream, &operation_inject, &a, &E));
}

/* The first tile of all is. */
static bool unstretched(const source_lists *l, int z, int y, int x) {
  const source_tile *t = l->tiles;
  return z == t->z && y / TILE_Y * TILE_Y == t->y && x / TILE_X * TILE_X == t->x;
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
  for (int i = 0; any && i < ABSORB_AXES && !unstretched(l, z, y, x); i++) {
    const int place[ABSORB_AXES] = {x, y, z};
    float a, b, *chi = l->expected + ABSORB_AXES * (u - f->expected) + i;
    if (!in_layer(&l->layers[i], place[i], &a, &b)) continue;
    *chi = fmaf(a, *chi, b * s);
    s += *chi;
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

/* --- surplus ------------------------------------------------------------------------------------------------------ */

enum { ROUNDS = 3, TERMS = 2 };

/* Fields laid out as mu, on the device and as they should be. */
enum { IMAGE, U, KAPPA, GRADIENT, AFTER, SIGMA, MEDIUM, FIELDS };
typedef struct mu_fields {
  field mu;
  float *on[FIELDS], *host[FIELDS], *coefficients;
  surplus_args args;
  float *chi[ABSORB_AXES], *l, *last, *missing,
      *r[TERMS]; /* expected, laid out as mu; l: after the last step, last: before */
} mu_fields;

static float *zeros_on_device(size_t floats) {
  float *zeros = calloc(floats, sizeof *zeros), *on = on_device(zeros, floats * sizeof *zeros);
  free(zeros);
  return on;
}

/* A whole grid, or a slab that begins and ends in the layers along z. */
static void open_surplus(mu_fields *m, const int n[3], unsigned faces, int memories, uint64_t seed) {
  const bool part = seed % 2;
  *m = (mu_fields){.coefficients = on_device(COEFFICIENTS, sizeof COEFFICIENTS)};
  open_field(&m->mu, n[0], n[1], n[2], RULES[0], seed);
  const size_t floats = slab_floats(&m->mu.slab);
  surplus_args *a = &m->args;
  *a = (surplus_args){.layers = {.width = LAYER, .nx = n[0], .ny = n[1], .nz = n[2]}, .field = m->mu.args};
  set_layers(&m->mu.args, faces, a->layers.axis, m->coefficients);
  if (part) a->layers.axis[2].points += 4, a->layers.axis[2].origin = 2;
  for (int i = 0; i < FIELDS; i++) {
    m->host[i] = malloc(floats * sizeof(float));
    for (size_t k = 0; k < floats; k++) m->host[i][k] = 1.5f + test_random(&seed);
    m->on[i] = on_device(m->host[i], floats * sizeof(float));
  }
  for (int i = 0; i < ABSORB_AXES; i++) {
    a->layers.chi[i] = zeros_on_device(floats);
    m->chi[i] = calloc(floats, sizeof(float));
  }
  float **const device_arrays[] = {&a->missing, &a->before, &a->last, &a->memory[0], &a->memory[1]},
                **const expected[] = {&m->l, &m->last, &m->missing, &m->r[0], &m->r[1]};
  for (int i = 0; i < 3 + TERMS; i++)
    *device_arrays[i] = zeros_on_device(floats), *expected[i] = calloc(floats, sizeof(float));
  kernel_terms *t = &a->field.terms;
  a->mu = m->mu.args.out, a->image = point(&m->mu, m->on[IMAGE], 0, 0, 0);
  a->after = point(&m->mu, m->on[AFTER], 0, 0, 0), a->field.medium[0] = point(&m->mu, m->on[MEDIUM], 0, 0, 0);
  a->field.equation = EQUATION_WAVE;
  *t = (kernel_terms){.memories = memories,
                      .a = {0.6f, 0.9f},
                      .b = {0.05f, 0.02f},
                      .loss = point(&m->mu, m->on[KAPPA], 0, 0, 0),
                      .recalled = point(&m->mu, m->on[U], 0, 0, 0),
                      .gradient = point(&m->mu, m->on[GRADIENT], 0, 0, 0)};
}

static void close_surplus(mu_fields *m) {
  surplus_args *a = &m->args;
  float *const device_arrays[] = {a->missing,   a->before,    a->last,
                                  a->memory[0], a->memory[1], m->coefficients},
               *const expected[] = {m->l, m->last, m->missing, m->r[0], m->r[1]};
  for (int i = 0; i < 4 + TERMS; i++) free_on_device(device_arrays[i]);
  for (int i = 0; i < 3 + TERMS; i++) free(expected[i]);
  for (int i = 0; i < ABSORB_AXES; i++) free_on_device(a->layers.chi[i]), free(m->chi[i]);
  for (int i = 0; i < FIELDS; i++) free_on_device(m->on[i]), free(m->host[i]);
  close_field(&m->mu);
}

static void enqueue_surplus(mu_fields *m, enum surplus_kind kind, int begin, int end) {
  m->args.kind = kind, m->args.field.z_begin = begin, m->args.field.z_end = end;
  m->args.seen[0] = (surplus_seen){m->args.mu, m->args.field.terms.recalled};
  m->args.seen[1] = (surplus_seen){m->args.after, m->args.field.terms.loss};
  OK(dev->table->apply(dev, STREAM_BOUNDARY, &operation_surplus, &m->args, &E));
}

/* e of a point; mu: of a step, or NULL; *in: it lies in a layer. */
static float expect_e(mu_fields *m, int z, int y, int x, const float *mu, bool *in) {
  const absorb_axis *axis = m->args.layers.axis;
  const ptrdiff_t at = point(&m->mu, m->mu.expected, z, y, x) - m->mu.expected;
  const int place[ABSORB_AXES] = {x, y, z + axis[2].origin};
  float e = 0, a, b;
  *in = false;
  for (int i = 0; i < ABSORB_AXES; i++) {
    float *chi = &m->chi[i][at];
    if (place[i] < 0 || place[i] >= axis[i].points || !in_layer(&axis[i], place[i], &a, &b)) continue;
    if (mu) *chi = fmaf(a, *chi, b * (mu[at] - e)) / (1 + b);
    e += *chi, *in = true;
  }
  return e;
}

static void expect_of(mu_fields *m, const float *mu, const float *by, int z, int y, int x) {
  const kernel_terms *t = &m->args.field.terms;
  const ptrdiff_t at = point(&m->mu, m->mu.expected, z, y, x) - m->mu.expected;
  bool in;
  const float e = expect_e(m, z, y, x, mu, &in), u = by[at], kappa = m->host[KAPPA][at];
  float l = e, all = 0;
  if (!in || z < 0 || z >= m->mu.args.nz) return;
  m->host[IMAGE][at] = fmaf(-u, e, m->host[IMAGE][at]);
  for (int i = 0; i < t->memories; i++) l = fmaf(t->a[i], m->r[i][at], l), all += t->b[i];
  if (t->memories) l /= fmaf(-kappa, all, 1);
  for (int i = 0; i < t->memories; i++) m->r[i][at] = fmaf(t->a[i], m->r[i][at], t->b[i] * kappa * l);
  m->missing[at] = fmaf(u, (l - m->l[at]) - (m->l[at] - m->last[at]), m->missing[at]);
  m->last[at] = m->l[at], m->l[at] = l;
}

/* The second step of two has other fields as mu and u. */
static void expect_step(mu_fields *m, int z, int y, int x) {
  expect_of(m, m->mu.expected, m->host[U], z, y, x);
  if (m->args.steps > 1) expect_of(m, m->host[AFTER], m->host[KAPPA], z, y, x);
}

static void expect_end(mu_fields *m, int z, int y, int x) {
  const ptrdiff_t at = point(&m->mu, m->mu.expected, z, y, x) - m->mu.expected;
  bool in;
  expect_e(m, z, y, x, NULL, &in);
  if (!in) return;
  m->mu.expected[at] -= m->l[at], m->host[AFTER][at] -= m->last[at];
  m->host[GRADIENT][at] -= m->missing[at] / m->host[MEDIUM][at];
}

/* mu times the product of 1 + b, then over it. */
static void expect_rest(mu_fields *m, int z, int y, int x) {
  const absorb_axis *axis = m->args.layers.axis;
  const int place[ABSORB_AXES] = {x, y, z + axis[2].origin};
  float P = 1, a, b, *mu = point(&m->mu, m->mu.expected, z, y, x);
  for (int i = 0; i < ABSORB_AXES; i++)
    if (in_layer(&axis[i], place[i], &a, &b)) P *= 1 + b;
  *mu = m->args.kind == SURPLUS_TIMES ? *mu * P : *mu / P;
}

static void expect_surplus(mu_fields *m, void (*expect)(mu_fields *m, int z, int y, int x), int begin,
                           int end) {
  for (int z = begin; z < end; z++)
    for (int y = 0; y < m->mu.args.ny; y++)
      for (int x = 0; x < m->mu.args.nx; x++) expect(m, z, y, x);
}

/* nu times sigma where sources are, ghosts along z too. */
static void check_nu(mu_fields *m, uint64_t seed) {
  source_lists l;
  field nu = m->mu;
  nu.expected = malloc(slab_floats(&nu.slab) * sizeof(float));
  bool in;
  make_receivers(&nu.args, &l, &seed);
  for (int z = -RADIUS; z < nu.args.nz + RADIUS; z++)
    for (int y = 0; y < nu.args.ny; y++)
      for (int x = 0; x < nu.args.nx; x++) {
        const ptrdiff_t at = point(&nu, nu.expected, z, y, x) - nu.expected;
        nu.expected[at] = (m->mu.expected[at] - expect_e(m, z, y, x, NULL, &in)) * m->host[SIGMA][at];
      }
  float samples[PLACES] = {0}, *on = on_device(samples, sizeof samples);
  l.places_on_device = on_device(l.places, sizeof l.places);
  const sample_args a = {.field = nu.args.out,
                         .sigma = point(&nu, m->on[SIGMA], 0, 0, 0),
                         .adjoint = true,
                         .pitch = nu.slab.pitch,
                         .plane = nu.slab.plane,
                         .ny = nu.args.ny,
                         .nx = nu.args.nx,
                         .receivers = l.places_on_device,
                         .count = PLACES,
                         .samples = on,
                         .layers = m->args.layers};
  OK(dev->table->apply(dev, STREAM_BOUNDARY, &operation_sample, &a, &E));
  OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){samples, on, sizeof samples, COPY_TO_HOST}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
  check_samples(&nu, &l, NULL, samples);
  free_on_device(on);
  free_on_device(l.places_on_device);
  free(nu.expected);
}

static void check_surplus(mu_fields *m, enum surplus_kind kind) {
  const int checked[] = {IMAGE, GRADIENT, AFTER};
  check_field(&m->mu);
  for (int i = 0; i < 3; i++) {
    field f = m->mu;
    f.memory = m->on[checked[i]], f.expected = m->host[checked[i]];
    if (kind == SURPLUS_END || i == 0) check_field(&f);
  }
}

/* After steps, one or two of them, in which all is done at once, or cut in three. */
static void nu_is_made_of_mu(void) {
  for (int i = 0; i < 4 * SIZE_COUNT; i++) {
    const int *n = SIZES[i % SIZE_COUNT], begin = -RADIUS * (i / 2 % 2), end = n[2] - begin;
    mu_fields m;
    open_surplus(&m, n, i < 2 ? 63 : 7 * (unsigned)i, i % 3 % (TERMS + 1), 500 + (uint64_t)i);
    const absorb_axis *z = &m.args.layers.axis[2]; /* beyond a layer there is nothing */
    const int first = z->lo && begin < -z->origin ? -z->origin : begin,
              last = z->hi && end > z->points - z->origin ? z->points - z->origin : end;
    for (int k = 0; k < ROUNDS; k++) {
      m.args.steps = 1 + k % 2;
      enqueue_surplus(&m, SURPLUS_STEP, first, k ? 2 : last);
      if (k) enqueue_surplus(&m, SURPLUS_STEP, 2, n[2] - 2);
      if (k) enqueue_surplus(&m, SURPLUS_STEP, n[2] - 2, last);
      expect_surplus(&m, expect_step, first, last);
      check_surplus(&m, SURPLUS_STEP);
    }
    if (begin < 0) check_nu(&m, 600 + (uint64_t)i);
    enqueue_surplus(&m, SURPLUS_END, 0, n[2]);
    expect_surplus(&m, expect_end, 0, n[2]);
    check_surplus(&m, SURPLUS_END);
    for (int kind = SURPLUS_TIMES; kind <= SURPLUS_OVER; kind++) {
      enqueue_surplus(&m, (enum surplus_kind)kind, 0, n[2]);
      expect_surplus(&m, expect_rest, 0, n[2]);
      check_surplus(&m, SURPLUS_STEP);
    }
    close_surplus(&m);
  }
}

static void run_all(const char *backend, int threads) {
  const device_options options = {.local_ranks = 1, .threads = threads};
  OK(device_open(backend, &options, &dev, &E));
  ghosts_are_images();
  sources_add_up();
  receivers_interpolate(strcmp(backend, "host") == 0);
  nu_is_made_of_mu();
  dev->table->close(dev);
}

TEST_OF(all_operations, const char *backend) {
  const bool host = strcmp(backend, "host") == 0;
  for (int threads = 1; threads <= (host ? 3 : 1); threads += 2) run_all(backend, threads);
}

BACKEND_MAIN
