/* A wavefront gives the bits of single steps of the reference, in both fields and their ghosts: for every equation,
 * depth, size, height of tiles, number of threads and rule of faces it supports. Own points and ghosts are random
 * everywhere; padding is NaN. Sources, receivers and layers: tests/e2e/wavefront.py. */
#include "ghost_rules.h"
#include "device/device.h"
#include "kernels/wavefront.h"
#include <math.h>
#include <stdlib.h>

host_kernel jacobi_host_reference, heat_host_reference, wave_host_reference;
static host_kernel *const REFERENCE[EQUATION_COUNT] = {jacobi_host_reference, heat_host_reference,
                                                       wave_host_reference};
enum { PASSES = 2, DEEPEST = WAVEFRONT_DEPTH_MAX };

typedef struct pass_case {
  slab s;
  wavefront_args args;
  float *got[2], *expected[2], *medium;
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

/* The rules that a wavefront supports: z does not wrap. */
static void rules_of(pass_case *c, uint64_t *random) {
  kernel_args *f = &c->args.field;
  random_rules(f, random);
  for (int face = FACE_Z_LO; face < FACE_COUNT; face++)
    if (f->ghosts[face] == GHOST_WRAP) f->ghosts[face] = GHOST_EVEN;
  for (int face = FACE_Y_LO; face < FACE_COUNT; face++)
    if ((face < FACE_Z_LO ? c->s.ny : c->s.nz) < 5) f->ghosts[face] = GHOST_KEEP;
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

static void case_open(pass_case *c, enum equation equation, int steps, const int n[3], int threads,
                      uint64_t *random) {
  error e = {0};
  *c = (pass_case){.args = {.equation = equation, .steps = steps, .rows = 1 + random_below(random, 50)}};
  assert_ok(slab_init(&c->s, &(slab_shape){n[0], n[1], n[2], .ghost = RADIUS}, 0, 1, &e), &e);
  const slab *s = &c->s;
  c->args.field = (kernel_args){.pitch = s->pitch, .plane = s->plane, .nx = s->nx, .ny = s->ny, .nz = s->nz};
  rules_of(c, random);
  weights_of(&c->args.field, random);
  c->medium = random_field(s, random);
  const bool medium = equation != EQUATION_JACOBI && random_below(random, 2);
  c->args.field.medium = medium ? c->medium + slab_offset(s, 0, 0, 0) : NULL;
  for (int i = 0; i < 2; i++) {
    c->got[i] = random_field(s, random);
    c->expected[i] = copy_of(s, c->got[i]);
  }
  c->args.done =
      calloc((size_t)wavefront_cut(&c->args, 1 + random_below(random, threads)), sizeof *c->args.done);
}

static void case_close(pass_case *c) {
  free(c->args.done);
  free(c->medium);
  for (int i = 0; i < 2; i++) free(c->got[i]), free(c->expected[i]);
}

/* One step after the other, each over all its planes; the last output is expected[steps & 1]. */
static void expect(pass_case *c, float *u[2]) {
  for (int k = 0; k < c->args.steps; k++) {
    kernel_args f = c->args.field;
    f.z_end = c->s.nz;
    f.in = u[k & 1] + slab_offset(&c->s, 0, 0, 0);
    f.out = u[!(k & 1)] + slab_offset(&c->s, 0, 0, 0);
    REFERENCE[c->args.equation](&f, 0, 1);
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
                 "%d: point z %d y %d x %d is %a, expected %a",
                 equation_name(c->args.equation), c->args.steps, s->nx, s->ny, s->nz, c->args.tiles,
                 c->args.rows, threads, g[0], g[1], g[2], g[3], g[4], g[5], z, y, x, (double)got[at],
                 (double)expected[at]);
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

static void run_case(device *dev, int threads, enum equation equation, int steps, const int n[3],
                     uint64_t *random) {
  pass_case c;
  case_open(&c, equation, steps, n, threads, random);
  for (int pass = 0; pass < PASSES; pass++) {
    const int from = pass * steps & 1;
    for (int i = 0; i < 2; i++) c.args.u[i] = c.got[from ^ i] + slab_offset(&c.s, 0, 0, 0);
    expect(&c, (float *[2]){c.expected[from], c.expected[!from]});
    run_pass(&c, dev, threads, random_below(random, 4) == 0);
    c.args.before += wavefront_counts(&c.args);
    for (int i = 0; i < 2; i++) check(&c, c.got[i], c.expected[i], threads);
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
      const int steps = 2 + random_below(&random, DEEPEST - 1);
      const int n[3] = {xs[random_below(&random, 9)], 1 + random_below(&random, 15 * steps),
                        zs[random_below(&random, 8)]};
      run_case(dev, threads, (enum equation)(i % EQUATION_COUNT), steps, n, &random);
    }
    dev->table->close(dev);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(gives_the_bits_of_the_reference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
