/* A wavefront gives the bits of single steps of the reference, in both fields and their ghosts: for every equation,
 * depth, size, height of tiles, number of threads and rule of faces it supports, with and without sources,
 * neighbours and absorbing layers. Own points and ghosts are random everywhere; padding is NaN. Receivers record what
 * they do between single steps. */
#include "ghost_rules.h"
#include "wavefront_receivers.h"
#include "device/device.h"
#include "physics/absorb.h"
#include "step/wavefront.h"
#include <math.h>
#include <stdio.h>

host_kernel jacobi_host_reference, heat_host_reference, wave_host_reference;
static host_kernel *const REFERENCE[EQUATION_COUNT] = {jacobi_host_reference, heat_host_reference,
                                                       wave_host_reference};
enum { SOURCES_MAX = 6, SLOW_SHARES = 20000, PASSES = 2 };

typedef struct pass_case {
  slab s;
  size_t floats;
  wavefront_args args;
  wavefront front;
  float *got[2], *expected[2], *medium;
  source_point points[SOURCES_MAX + 1];
  source_share shares[SOURCES_MAX + 1 + SLOW_SHARES];
  float signals[WAVEFRONT_DEPTH_MAX][SOURCES_MAX + 1];
  int *plane_begin; /* from plane -ghost on */
  recorders recorders;
  config c;         /* of the layers */
  absorb layers[2]; /* what the pass gets, what is expected */
} pass_case;

static float *random_field(const slab *s, uint64_t *random) {
  float *field = aligned_alloc(256, (slab_floats(s) * sizeof(float) + 255) / 256 * 256);
  assert_non_null(field);
  for (size_t i = 0; i < slab_floats(s); i++) field[i] = NAN;
  for (int z = -s->ghost; z < s->nz + s->ghost; z++)
    for (int y = -RADIUS; y < s->ny + RADIUS; y++)
      for (int x = -RADIUS; x < s->nx + RADIUS; x++) field[slab_offset(s, z, y, x)] = test_random(random);
  return field;
}

static float *copy_of(const slab *s, const float *field) {
  float *copy = aligned_alloc(256, (slab_floats(s) * sizeof(float) + 255) / 256 * 256);
  memcpy(copy, field, slab_floats(s) * sizeof(float));
  return copy;
}

/* The rules that a wavefront supports: z does not wrap, y wraps only where one tile has all rows; a neighbour's face
 * keeps what it holds. */
static void rules_of(pass_case *c, uint64_t *random) {
  kernel_args *f = &c->args.field;
  random_rules(f, random);
  for (int face = c->front.tiles == 1 ? FACE_Z_LO : FACE_Y_LO; face < FACE_COUNT; face++)
    if (f->ghosts[face] == GHOST_WRAP) f->ghosts[face] = GHOST_EVEN;
  for (int face = FACE_Y_LO; face < FACE_COUNT; face++)
    if ((face < FACE_Z_LO ? c->s.ny : c->s.nz) < 5) f->ghosts[face] = GHOST_KEEP;
  if (c->args.lower) f->ghosts[FACE_Z_LO] = GHOST_KEEP;
  if (c->args.upper) f->ghosts[FACE_Z_HI] = GHOST_KEEP;
}

static void weights_of(kernel_args *f, uint64_t *random) {
  f->center = 0.3f * test_random(random);
  for (int r = 1; r <= RADIUS; r++) {
    f->wx[r] = 0.1f * test_random(random);
    f->wy[r] = 0.1f * test_random(random);
    f->wz[r] = 0.1f * test_random(random);
  }
  f->scale = test_random(random);
}

/* The plane above the highest seam that the chunk below waits for last; -1: there is no seam. */
static int plane_awaited(const pass_case *c) {
  const int chunks = c->args.chunks;
  return chunks > 1 ? host_share_begin(c->s.nz, chunks - 1, chunks) + RADIUS * (c->args.steps - 2) : -1;
}

/* A few points in ascending order, each with one share; but one where a chunk is awaited has so many that the chunk is
 * late, and who does not wait for it reads what is not there yet. */
static void sources_of(pass_case *c, uint64_t *random) {
  const int planes = c->s.nz + 2 * c->s.ghost, slow = plane_awaited(c);
  c->plane_begin = calloc((size_t)planes + 1, sizeof *c->plane_begin);
  if (random_below(random, 3) == 0) return;
  int count = 0;
  for (int plane = 0; plane < planes; plane++) {
    const int z = plane - c->s.ghost;
    const bool inside = z >= (c->args.lower ? RADIUS - c->s.ghost : 0) &&
                        z < c->s.nz + (c->args.upper ? c->s.ghost - RADIUS : 0);
    const bool some = count < SOURCES_MAX && random_below(random, planes) < 2 * SOURCES_MAX;
    if (inside && (some || z == slow)) {
      c->points[count] = (source_point){z, random_below(random, c->s.ny), random_below(random, c->s.nx),
                                        z == slow ? SOURCES_MAX + 1 : count, z == slow ? SLOW_SHARES : 1};
      c->shares[count] = (source_share){count, test_random(random)};
      count++;
    }
    c->plane_begin[plane + 1] = count;
  }
  for (int i = 0; i < SLOW_SHARES; i++) c->shares[SOURCES_MAX + 1 + i] = (source_share){0, 1e-6f};
  wavefront_sources *s = &c->args.sources;
  *s = (wavefront_sources){
      .points = c->points, .plane_begin = c->plane_begin + c->s.ghost, .shares = c->shares};
  for (int k = 0; k < WAVEFRONT_DEPTH_MAX; k++) {
    for (int i = 0; i <= SOURCES_MAX; i++) c->signals[k][i] = test_random(random);
    s->signal[k] = c->signals[k];
  }
}

/* Some faces of the wave that keep their ghosts absorb, where there is room and no neighbour. */
static void layers_of(pass_case *c, device *dev, uint64_t *random) {
  const int n[3] = {c->s.nx, c->s.ny, c->s.nz};
  error e = {0};
  c->c = (config){.nx = n[0], .ny = n[1], .nz = n[2], .dx = 1, .dy = 1, .dz = 1, .space_order = 8};
  c->c.boundary_width = 1 + random_below(random, 20);
  const bool some = c->args.equation == EQUATION_WAVE && !c->args.lower && !c->args.upper;
  for (int face = 0; face < FACE_COUNT; face++) {
    const bool room = n[face / 2] > 2 * c->c.boundary_width && c->args.field.ghosts[face] == GHOST_KEEP;
    c->c.boundary[face] = some && room && random_below(random, 2) ? BOUNDARY_ABSORBING : BOUNDARY_FIXED;
  }
  const problem on = {.dev = dev, .slab = &c->s, .config = &c->c};
  for (int i = 0; i < 2; i++)
    assert_ok(absorb_open(&c->layers[i], &on, &c->args.field, (absorb_motion){1, 0.3}, &e), &e);
}

static void case_open(pass_case *c, enum equation equation, const wavefront_shape *shape, const int n[3],
                      int threads, uint64_t *random) {
  const int steps = shape->depth;
  error e = {0};
  *c = (pass_case){.args = {.equation = equation, .steps = steps}};
  c->args.lower = n[2] >= RADIUS * steps && random_below(random, 2);
  c->args.upper = n[2] >= RADIUS * steps && random_below(random, 2);
  const int ghost = c->args.lower || c->args.upper ? RADIUS * steps : RADIUS;
  assert_ok(slab_init(&c->s, &(slab_shape){n[0], n[1], n[2], .ghost = ghost}, 0, 1, &e), &e);
  const slab *s = &c->s;
  c->args.field = (kernel_args){.pitch = s->pitch, .plane = s->plane, .nx = s->nx, .ny = s->ny, .nz = s->nz};
  const bool medium = equation != EQUATION_JACOBI && random_below(random, 2);
  assert_ok(wavefront_open(&c->front, s, shape, medium, threads, &e), &e);
  rules_of(c, random);
  weights_of(&c->args.field, random);
  c->medium = random_field(s, random);
  c->args.field.medium = medium ? c->medium + slab_offset(s, 0, 0, 0) : NULL;
  for (int i = 0; i < 2; i++) {
    c->got[i] = random_field(s, random);
    c->expected[i] = copy_of(s, c->got[i]);
  }
  c->args.chunks = random_below(random, 2) ? c->front.chunks : 1 + random_below(random, c->front.chunks);
  sources_of(c, random);
  c->args.rows = c->front.shape.rows;
  c->args.tiles = c->front.tiles;
  c->args.eager = c->front.shape.manner == WAVEFRONT_EAGER;
  c->args.done = c->front.done;
  recorders_open(&c->recorders, &c->args, random);
}

static void case_close(pass_case *c) {
  wavefront_close(&c->front);
  for (int i = 0; i < 2; i++) absorb_close(&c->layers[i]);
  recorders_close(&c->recorders);
  free(c->plane_begin);
  free(c->medium);
  for (int i = 0; i < 2; i++) free(c->got[i]), free(c->expected[i]);
}

/* One step after the other, each over all its planes; the last output is expected[steps & 1]. */
static void expect(pass_case *c, float *u[2]) {
  const wavefront_sources *s = &c->args.sources;
  for (int k = 0; k < c->args.steps; k++) {
    kernel_args f = c->args.field;
    const int later = c->args.steps - 1 - k; /* steps, which reach RADIUS planes each */
    f.z_begin = c->args.lower ? -RADIUS * later : 0;
    f.z_end = c->s.nz + (c->args.upper ? RADIUS * later : 0);
    f.in = u[k & 1] + slab_offset(&c->s, 0, 0, 0);
    f.out = u[!(k & 1)] + slab_offset(&c->s, 0, 0, 0);
    REFERENCE[c->args.equation](&f, 0, 1);
    if (absorb_needed(&c->layers[1])) {
      absorb_args layers = c->layers[1].args;
      layers.field = f;
      operation_absorb.host(&layers, 0, 1);
      absorb_advance(&c->layers[1], 1);
    }
    if (s->points) {
      const int first = s->plane_begin[f.z_begin];
      const inject_args inject = {f, s->points + first, s->plane_begin[f.z_end] - first, s->shares,
                                  s->signal[k]};
      operation_inject.host(&inject, 0, 1);
    }
    if (later) recorders_expect(&c->recorders, &f, k, f.out);
  }
}

static void check(const pass_case *c, const float *got, const float *expected, int threads) {
  const slab *s = &c->s;
  const unsigned char *g = c->args.field.ghosts;
  for (int z = -s->ghost; z < s->nz + s->ghost; z++)
    for (int y = -RADIUS; y < s->ny + RADIUS; y++)
      for (int x = -RADIUS; x < s->nx + RADIUS; x++) {
        const size_t at = slab_offset(s, z, y, x);
        if (memcmp(&got[at], &expected[at], sizeof(float)) == 0) continue;
        fail_msg("%s, %d steps, %d x %d x %d points, %d tiles of %d rows, %d threads, rules %d %d %d %d %d "
                 "%d, neighbours %d %d: point z %d y %d x %d is %a, expected %a",
                 equation_name(c->args.equation), c->args.steps, s->nx, s->ny, s->nz, c->args.tiles,
                 c->args.rows, threads, g[0], g[1], g[2], g[3], g[4], g[5], c->args.lower, c->args.upper, z,
                 y, x, (double)got[at], (double)expected[at]);
      }
}

/* One pass, by the device's threads, or by one thread that does the part of each after the other: the first one finds
 * all tiles left. */
static void run_pass(pass_case *c, device *dev, int threads, bool alone) {
  error e = {0};
  if (alone) {
    for (int part = 0; part < threads; part++) operation_wavefront.host(&c->args, part, threads);
    return;
  }
  assert_ok(dev->table->apply(dev, STREAM_INTERIOR, &operation_wavefront, &c->args, &e), &e);
  assert_ok(dev->table->sync(dev, STREAM_INTERIOR, &e), &e);
}

static void run_case(device *dev, int threads, enum equation equation, const wavefront_shape *shape,
                     const int n[3], uint64_t *random) {
  pass_case c;
  case_open(&c, equation, shape, n, threads, random);
  layers_of(&c, dev, random);
  for (int pass = 0; pass < PASSES; pass++) {
    const int from = pass * shape->depth & 1;
    for (int i = 0; i < 2; i++) c.args.u[i] = c.got[from ^ i] + slab_offset(&c.s, 0, 0, 0);
    if (absorb_needed(&c.layers[0])) c.args.layers = c.layers[0].args;
    recorders_clear(&c.recorders);
    expect(&c, (float *[2]){c.expected[from], c.expected[!from]});
    run_pass(&c, dev, threads, random_below(random, 4) == 0);
    c.args.before += wavefront_counts(&c.args);
    for (int i = 0; i < 2; i++) check(&c, c.got[i], c.expected[i], threads);
    recorders_check(&c.recorders, &c.args, threads);
    absorb_advance(&c.layers[0], c.args.steps);
    if (absorb_needed(&c.layers[0]))
      assert_memory_equal(c.layers[0].memory, c.layers[1].memory, absorb_bytes(&c.c, &c.s));
  }
  case_close(&c);
}

static void gives_the_bits_of_the_reference(void **unused) {
  (void)unused;
#if defined __SANITIZE_THREAD__
  enum { CASES = 9, THREADS_LEAST = 2 }; /* one thread alone has no races */
#elif defined __SANITIZE_ADDRESS__
  enum { CASES = 60, THREADS_LEAST = 1 };
#else
  enum { CASES = 200, THREADS_LEAST = 1 };
#endif
  static const int xs[] = {1, 5, 9, 16, 17, 31, 33, 64, 100}, zs[] = {4, 5, 8, 13, 24, 33, 75, 150};
  uint64_t random = 31337u;
  for (int threads = THREADS_LEAST; threads <= 4; threads++) {
    device *dev;
    error e = {0};
    assert_ok(device_open("host", &(device_options){.local_ranks = 1, .threads = threads}, &dev, &e), &e);
    for (int i = 0; i < CASES; i++) {
      const int steps = 2 + random_below(&random, WAVEFRONT_DEPTH_MAX - 1),
                least = wavefront_rows_least(steps);
      const int n[3] = {xs[random_below(&random, 9)], 1 + random_below(&random, 3 * least),
                        zs[random_below(&random, 8)]};
      const int rows[] = {0, n[1], least + random_below(&random, 9), least + random_below(&random, 9)};
      const wavefront_shape shape = {.depth = steps,
                                     .rows = rows[random_below(&random, 4)],
                                     .manner = random_below(&random, WAVEFRONT_MANNERS)};
      run_case(dev, threads, (enum equation)(i % EQUATION_COUNT), &shape, n, &random);
    }
    dev->table->close(dev);
  }
}

/* Each step computes every own point once, at the position that the schedule promises. Every place for a receiver is
 * sampled once; the highest layer only where there are planes above it, which the last step lacks. */
static void check_cover(const wavefront_args *a, int k) {
  const int tiles = a->tiles;
  const int layers = 2 * a->field.nz - (k == a->steps - 1 || !a->upper);
  int begin, end;
  long rows = 0, places = 0;
  wavefront_range(a, k, &begin, &end);
  for (int tile = 0; tile < tiles * a->chunks; tile++)
    for (int at = 0; at < wavefront_positions(a, tile / tiles); at++) {
      const host_share s = wavefront_share(a, tile / tiles, tile % tiles, k, at);
      assert_true(s.z_end - s.z_begin <= WAVEFRONT_PLANES && s.y_end > s.y_begin);
      if (s.z_end <= s.z_begin) continue;
      int first, last;
      wavefront_layers(a, tile / tiles, k, s, &first, &last);
      rows += (long)(s.y_end - s.y_begin) * (s.z_end - s.z_begin);
      if (last > first) places += (long)(s.y_end - s.y_begin) * (last - first);
    }
  assert_int_equal(rows, (long)a->field.ny * (end - begin));
  assert_int_equal(places, (long)a->field.ny * layers);
}

/* Step k of a share reads planes of step k - 1, and overwrites planes that step k - 1 reads, up to RADIUS beyond its own;
 * and it samples between its highest plane and the next one. The chunk above has done all of that by then. */
static void check_seam(const wavefront_args *a, int chunk, int at, int k) {
  const host_share s = wavefront_share(a, chunk, 0, k, at);
  if (s.z_end <= s.z_begin) return;
  for (int later = wavefront_awaited(a, chunk, at); later < wavefront_positions(a, chunk + 1); later++) {
    const host_share before = wavefront_share(a, chunk + 1, 0, larger(k - 1, 0), later),
                     same = wavefront_share(a, chunk + 1, 0, k, later);
    if (k > 0 && before.z_begin < before.z_end) assert_true(before.z_begin >= s.z_end + RADIUS);
    if (k < a->steps - 1 && same.z_begin < same.z_end) assert_true(same.z_begin > s.z_end);
  }
}

static void chunks_wait_for_what_lies_above(void **unused) {
  (void)unused;
  uint64_t random = 6u;
  for (int i = 0; i < 200; i++) {
    wavefront_args a = {.steps = 2 + random_below(&random, WAVEFRONT_DEPTH_MAX - 1), .rows = 40, .tiles = 1};
    a.lower = random_below(&random, 2), a.upper = random_below(&random, 2);
    a.field.nx = a.field.ny = 20, a.field.pitch = 32,
    a.field.nz = RADIUS * a.steps + random_below(&random, 200);
    a.chunks = wavefront_chunks_most(a.field.nz, a.steps);
    for (int chunk = 0; chunk < a.chunks - 1; chunk++)
      for (int at = 0; at < wavefront_positions(&a, chunk); at++)
        for (int k = 0; k < a.steps; k++) check_seam(&a, chunk, at, k);
  }
}

static void shares_cover_every_point_once(void **unused) {
  (void)unused;
  uint64_t random = 5u;
  for (int i = 0; i < 200; i++) {
    wavefront_args a = {.steps = 1 + random_below(&random, WAVEFRONT_DEPTH_MAX)};
    a.lower = random_below(&random, 2), a.upper = random_below(&random, 2);
    a.field.ny = 1 + random_below(&random, 90), a.field.nz = RADIUS * a.steps + random_below(&random, 40);
    a.field.pitch = random_below(&random, 2) ? 64 : 32; /* leans by 4, by 5 */
    a.field.nx = 17;
    a.rows = wavefront_rows_least(a.steps) + random_below(&random, 5);
    a.tiles = wavefront_tiles(a.field.ny, a.rows);
    a.chunks = 1 + random_below(&random, wavefront_chunks_most(a.field.nz, a.steps));
    for (int k = 0; k < a.steps; k++) check_cover(&a, k);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shares_cover_every_point_once),
                                     cmocka_unit_test(chunks_wait_for_what_lies_above),
                                     cmocka_unit_test(gives_the_bits_of_the_reference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
