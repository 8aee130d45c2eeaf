/* A wavefront gives the bits of single steps of the reference, in both fields and their ghosts: for every equation,
 * depth, size, height of tiles, number of threads and rule of faces it supports. Sources, receivers and layers:
 * tests/e2e/wavefront.py. */
#include "launch_case.h"
#include "device/device.h"
#include "kernels/host/wavefront.h"
#include <stdlib.h>

enum { PASSES = 2 };

/* Two fields, as the passes leave them and as single steps do. */
typedef struct pass_case {
  launch_case c[EQUATION_STATES]; /* whose `in` the fields begin as */
  wavefront_args args;
  float *got[EQUATION_STATES], *expected[EQUATION_STATES];
} pass_case;

static float *copy_of(const launch_case *c) {
  float *copy = new_field(c->floats);
  memcpy(copy, c->in, c->floats * sizeof *copy);
  return copy;
}

/* z does not wrap. */
static void case_open(pass_case *p, enum equation equation, int steps, const int n[3], int threads,
                      uint64_t *random) {
  for (int i = 0; i < EQUATION_STATES; i++) {
    new_case_of(&p->c[i], true, n, 0, n[2], random);
    p->got[i] = copy_of(&p->c[i]);
    p->expected[i] = copy_of(&p->c[i]);
  }
  const kernel_args field =
      with_fields(&p->c[0], equation, (launch_fields){p->got[0], p->got[1], p->c[0].medium});
  p->args = (wavefront_args){.field = field, .steps = steps, .rows = 1 + random_below(random, 50)};
  unsigned char *rules = p->args.field.ghosts;
  for (int face = FACE_Z_LO; face < FACE_COUNT; face++)
    if (rules[face] == GHOST_WRAP) rules[face] = n[2] < 5 ? GHOST_KEEP : GHOST_EVEN;
  const int counters = wavefront_cut(&p->args, 1 + random_below(random, threads));
  p->args.done = calloc((size_t)counters, sizeof *p->args.done);
}

static void case_close(pass_case *p) {
  free(p->args.done);
  for (int i = 0; i < EQUATION_STATES; i++) {
    free_case(&p->c[i]);
    free(p->got[i]);
    free(p->expected[i]);
  }
}

/* One step after the other, each over all planes. */
static void expect(const pass_case *p, int from) {
  const size_t first = slab_offset(&p->c[0].s, 0, 0, 0);
  const int states = equation_states(p->args.field.equation);
  for (int k = 0; k < p->args.steps; k++) {
    kernel_args f = p->args.field;
    f.in = p->expected[(from + k) % states] + first;
    f.out = p->expected[(from + k + 1) % states] + first;
    host_reference(&f, 0, 1);
  }
}

static void check(pass_case *p, int i) {
  launch_case *c = &p->c[0];
  float *const kept = c->got;
  size_t at = 0;
  c->got = p->got[i];
  forgive_padding(c, p->expected[i]);
  c->got = kept;
  if (memcmp(p->got[i], p->expected[i], c->floats * sizeof(float)) == 0) return;
  while (memcmp(&p->got[i][at], &p->expected[i][at], sizeof(float)) == 0) at++;
  fail_msg("%s, %d steps, %d x %d x %d points, %d tiles of %d rows, %d chunks: float %zu is %a, expected %a",
           equation_name(p->args.field.equation), p->args.steps, c->s.nx, c->s.ny, c->s.nz, p->args.tiles,
           p->args.rows, p->args.chunks, at, (double)p->got[i][at], (double)p->expected[i][at]);
}

/* By the device's threads, or by this one. */
static void run_case(device *dev, int threads, enum equation equation, int steps, const int n[3],
                     uint64_t *random) {
  pass_case p;
  const int states = equation_states(equation);
  case_open(&p, equation, steps, n, threads, random);
  for (int pass = 0; pass < PASSES; pass++) {
    const int from = pass * steps % states;
    for (int i = 0; i < states; i++)
      p.args.u[i] = p.got[(from + i) % states] + slab_offset(&p.c[0].s, 0, 0, 0);
    expect(&p, from);
    if (random_below(random, 4) == 0)
      operation_wavefront.host(&p.args, 0, threads);
    else
      OK(dev->table->apply(dev, STREAM_INTERIOR, &operation_wavefront, &p.args, &E));
    OK(dev->table->sync(dev, STREAM_INTERIOR, &E));
    p.args.before += wavefront_counts(&p.args);
    for (int i = 0; i < states; i++) check(&p, i);
  }
  case_close(&p);
}

TEST(gives_the_bits_of_the_reference) {
#if defined __SANITIZE_THREAD__
  enum { CASES = 9, THREADS_LEAST = 2 }; /* one thread alone has no races */
#elif defined __SANITIZE_ADDRESS__
  enum { CASES = 20, THREADS_LEAST = 1 };
#else
  enum { CASES = 120, THREADS_LEAST = 1 };
#endif
  static const int xs[] = {1, 5, 9, 16, 17, 31, 33, 64, 100}, zs[] = {4, 5, 8, 13, 24, 33, 75, 150};
  uint64_t random = 31337u;
  for (int threads = THREADS_LEAST; threads <= 4; threads++) {
    device *dev;
    OK(device_open("host", &(device_options){.local_ranks = 1, .threads = threads}, &dev, &E));
    for (int i = 0; i < CASES; i++) {
      const int steps = 2 + random_below(&random, WAVEFRONT_DEPTH_MAX - 1);
      const int n[3] = {xs[random_below(&random, 9)], 1 + random_below(&random, 15 * steps),
                        zs[random_below(&random, 8)]};
      run_case(dev, threads, (enum equation)(i % EQUATION_COUNT), steps, n, &random);
    }
    dev->table->close(dev);
  }
}

TEST_MAIN("wavefront", NULL, NULL)
