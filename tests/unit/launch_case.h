/* One launch of a kernel with random inputs, and the result of the reference. Inputs are random at own points and
 * ghosts, NaN elsewhere. Outputs are NaN before; with several time levels they are random at own points. */
#ifndef STENCIL_LAUNCH_CASE_H
#define STENCIL_LAUNCH_CASE_H

#include <math.h>
#include <stdio.h>
#include "ghost_rules.h"
#include "halo/slab.h"
#include "kernels/kernel.h"

host_kernel host_reference;

/* One launch: a slab, the range and weights in `args` (whose pointers are set for each run), fields and the
 * answer. */
typedef struct launch_case {
  slab s;
  size_t floats;
  float *in, *medium[EQUATION_MEDIA], *got;
  float *before[EQUATION_COUNT],
      *expected[EQUATION_COUNT]; /* the output before and after; with more levels a launch reads it first */
  kernel_args args;
} launch_case;

static inline float *new_field(size_t floats) {
  float *field = aligned_alloc(256, (floats * sizeof(float) + 255) / 256 * 256);
  assert_non_null(field);
  for (size_t i = 0; i < floats; i++) field[i] = NAN;
  return field;
}

/* Where the fields of a launch are, here or on a device. */
typedef struct launch_fields {
  float *in, *out, *const *medium;
} launch_fields;

static inline kernel_args with_fields(const launch_case *c, enum equation equation, launch_fields f) {
  size_t first = slab_offset(&c->s, 0, 0, 0);
  kernel_args args = c->args;
  args.in = f.in + first;
  args.out = f.out + first;
  args.equation = equation;
  for (int i = 0; i < EQUATION_MEDIA; i++)
    if (args.medium[i]) args.medium[i] = f.medium[i] + first;
  return args;
}

static inline void fill_own(const launch_case *c, float *field, uint64_t *random) {
  for (int z = 0; z < c->s.nz; z++)
    for (int y = 0; y < c->s.ny; y++)
      for (int x = 0; x < c->s.nx; x++) field[slab_offset(&c->s, z, y, x)] = test_random(random);
}

static inline void set_args(launch_case *c, bool rules, int z_begin, int z_end, uint64_t *random) {
  const slab *s = &c->s;
  c->args = (kernel_args){.pitch = s->pitch, .plane = s->plane, .nx = s->nx, .ny = s->ny, .nz = s->nz};
  c->args.z_begin = z_begin;
  c->args.z_end = z_end;
  c->args.center = test_random(random);
  for (int r = 1; r <= 4; r++) {
    c->args.wx[r] = test_random(random);
    c->args.wy[r] = test_random(random);
    c->args.wz[r] = test_random(random);
  }
  for (int i = 0; i < EQUATION_MEDIA; i++) c->args.scale[i] = test_random(random);
  if (rules) random_rules(&c->args, random);
  for (int i = 0; i < EQUATION_MEDIA; i++) /* NULL: scale is the medium */
    c->args.medium[i] = (s->nx + s->ny + z_end + i) % 4 ? c->medium[i] : NULL;
}

/* A case with random rules, or one whose ghosts keep their value. */
static inline void new_case_of(launch_case *c, bool rules, const int n[3], int z_begin, int z_end,
                               uint64_t *random) {
  const slab_shape shape = {.nx = n[0], .ny = n[1], .nz = n[2] < RADIUS ? RADIUS : n[2]};
  OK(slab_init(&c->s, &shape, 0, 1, &E));
  c->floats = slab_floats(&c->s);
  c->in = new_field(c->floats);
  for (int i = 0; i < EQUATION_MEDIA; i++) c->medium[i] = new_field(c->floats);
  c->got = new_field(c->floats);
  for (int z = -RADIUS; z < c->s.nz + RADIUS; z++)
    for (int y = -4; y < n[1] + 4; y++)
      for (int x = -4; x < n[0] + 4; x++) c->in[slab_offset(&c->s, z, y, x)] = test_random(random);
  set_args(c, rules, z_begin, z_end, random);
  for (int i = 0; i < EQUATION_MEDIA; i++) fill_own(c, c->medium[i], random);
  for (int q = 0; q < EQUATION_COUNT; q++) {
    c->before[q] = new_field(c->floats);
    if (EQUATIONS[q].levels > 1) fill_own(c, c->before[q], random);
    c->expected[q] = new_field(c->floats);
    memcpy(c->expected[q], c->before[q], c->floats * sizeof(float));
    kernel_args args = with_fields(c, (enum equation)q, (launch_fields){c->in, c->expected[q], c->medium});
    host_reference(&args, 0, 1);
  }
}

static inline void new_case(launch_case *c, int nx, int ny, int nz, int z_begin, int z_end,
                            uint64_t *random) {
  new_case_of(c, false, (const int[3]){nx, ny, nz}, z_begin, z_end, random);
}

static inline void free_case(launch_case *c) {
  free(c->in);
  for (int i = 0; i < EQUATION_MEDIA; i++) free(c->medium[i]);
  free(c->got);
  for (int q = 0; q < EQUATION_COUNT; q++) {
    free(c->before[q]);
    free(c->expected[q]);
  }
}

/* Sets the padding (between the ghosts of a row and those of the next) to the expected values, since a kernel may write
 * it. */
static inline void forgive_padding(const launch_case *c, const float *expected) {
  const slab *s = &c->s;
  for (int z = -RADIUS; z < s->nz + RADIUS; z++)
    for (int y = -RADIUS; y < s->ny + RADIUS; y++) {
      size_t first = slab_offset(s, z, y, s->nx + RADIUS);
      memcpy(c->got + first, expected + first, (s->pitch - (size_t)s->nx - 2 * RADIUS) * sizeof(float));
    }
}

/* The whole allocation but padding is compared: the answer in the range, its images, and NaN everywhere else. */
static inline void check_case(const launch_case *c, enum equation equation, const char *who) {
  const float *expected = c->expected[equation];
  const unsigned char *g = c->args.ghosts;
  forgive_padding(c, expected);
  if (memcmp(c->got, expected, c->floats * sizeof(float)) == 0) return;
  size_t i = 0;
  while (memcmp(&c->got[i], &expected[i], sizeof(float)) == 0) i++;
  ptrdiff_t from_first = (ptrdiff_t)i - (ptrdiff_t)slab_offset(&c->s, 0, 0, 0);
  ptrdiff_t row = from_first + 4 + 4 * (ptrdiff_t)c->s.pitch + 4 * (ptrdiff_t)c->s.plane;
  fail_msg("%s %s, %d x %d points, planes [%d, %d) of %d, rules %d %d %d %d %d %d: first difference at float "
           "%td from "
           "point 0 (z %td y %td x %td): %a, expected %a",
           equation_name(equation), who, c->s.nx, c->s.ny, c->args.z_begin, c->args.z_end, c->s.nz, g[0],
           g[1], g[2], g[3], g[4], g[5], from_first, row / (ptrdiff_t)c->s.plane - 4,
           row % (ptrdiff_t)c->s.plane / (ptrdiff_t)c->s.pitch - 4, row % (ptrdiff_t)c->s.pitch - 4,
           (double)c->got[i], (double)expected[i]);
}

#endif
