/* The reference, which every kernel must equal, is what docs/DESIGN.md says: weights, order of operations, ghosts. */
#include "launch_case.h"

static float weight_at(const kernel_args *a, int dz, int dy, int dx) {
  if (!dx && !dy && !dz) return a->center;
  if (!dy && !dz && abs(dx) <= 4) return a->wx[abs(dx)];
  if (!dx && !dz && abs(dy) <= 4) return a->wy[abs(dy)];
  if (!dx && !dy && abs(dz) <= 4) return a->wz[abs(dz)];
  return 0;
}

/* The response to a single 1 is the weights themselves, exactly, at 25 points and 0 at all others. */
TEST(reference_reproduces_its_weights) {
  uint64_t random = 9u;
  launch_case c;
  new_case(&c, 13, 11, 12, 0, 12, &random);
  const int at[3] = {6, 5, 7}; /* z y x */
  memset(c.in, 0, c.floats * sizeof(float));
  c.in[slab_offset(&c.s, at[0], at[1], at[2])] = 1;
  kernel_args args = with_fields(&c, EQUATION_JACOBI, (launch_fields){c.in, c.got, c.medium});
  host_reference(&args, 0, 1);
  int nonzero = 0;
  for (int z = 0; z < 12; z++)
    for (int y = 0; y < 11; y++)
      for (int x = 0; x < 13; x++) {
        float got = c.got[slab_offset(&c.s, z, y, x)];
        float weight = weight_at(&args, z - at[0], y - at[1], x - at[2]);
        assert_true(got == weight);
        nonzero += got != 0;
      }
  assert_int_equal(nonzero, 25);
  free_case(&c);
}

/* u = x^2 + 2 y^2 + 3 z^2 + xyz with whole weights: every intermediate is a whole number below 2^24, hence
 * exact, and by hand the sum of w (u[-r] + u[+r]) along an axis with coefficient k of its square is w (2 u +
 * 2 k r^2). */
TEST(reference_of_a_polynomial) {
  uint64_t random = 1u;
  launch_case c;
  new_case(&c, 9, 8, 7, 0, 7, &random);
  c.args.center = -3;
  int sum = -3, curvature = 0;
  for (int r = 1; r <= 4; r++) {
    int wx = r + 1, wy = 7 - 2 * r, wz = 3 * r - 5;
    c.args.wx[r] = (float)wx, c.args.wy[r] = (float)wy, c.args.wz[r] = (float)wz;
    sum += 2 * (wx + wy + wz);
    curvature += 2 * r * r * (wx + 2 * wy + 3 * wz);
  }
  for (int z = -4; z < 11; z++)
    for (int y = -4; y < 12; y++)
      for (int x = -4; x < 13; x++)
        c.in[slab_offset(&c.s, z, y, x)] = (float)(x * x + 2 * y * y + 3 * z * z + x * y * z);
  kernel_args args = with_fields(&c, EQUATION_JACOBI, (launch_fields){c.in, c.got, c.medium});
  host_reference(&args, 0, 1);
  for (int z = 0; z < 7; z++)
    for (int y = 0; y < 8; y++)
      for (int x = 0; x < 9; x++) {
        int u = x * x + 2 * y * y + 3 * z * z + x * y * z;
        assert_true(c.got[slab_offset(&c.s, z, y, x)] == (float)(sum * u + curvature));
      }
  free_case(&c);
}

/* heat and wave are the stencil of jacobi and one or two more roundings (docs/DESIGN.md, the order of operations at a
 * point). */
TEST(reference_of_each_equation) {
  uint64_t random = 3u;
  launch_case c;
  for (int nx = 12; nx <= 15; nx++) { /* with a medium and with a scale */
    new_case(&c, nx, 7, 6, 1, 5, &random);
    for (int z = 1; z < 5; z++)
      for (int y = 0; y < 7; y++)
        for (int x = 0; x < nx; x++) {
          size_t i = slab_offset(&c.s, z, y, x);
          float stencil = c.expected[EQUATION_JACOBI][i],
                m = c.args.medium[0] ? c.medium[0][i] : c.args.scale[0];
          assert_true(c.expected[EQUATION_HEAT][i] == fmaf(m, stencil, c.in[i]));
          assert_true(c.expected[EQUATION_WAVE][i] ==
                      fmaf(m, stencil, 2 * c.in[i] - c.before[EQUATION_WAVE][i]));
        }
    free_case(&c);
  }
}

/* The oracle goes from point to point; its ghosts are those that the rules give, ghost by ghost. */
TEST(reference_of_each_rule) {
  uint64_t random = 31u;
  for (int turn = 0; turn < 60; turn++) {
    launch_case c;
    int n[3] = {4 + random_below(&random, 12), 4 + random_below(&random, 8), 4 + random_below(&random, 8)};
    int begin = random_below(&random, n[2]), end = begin + 1 + random_below(&random, n[2] - begin);
    new_case_of(&c, true, n, begin, end, &random);
    for (int q = 0; q < EQUATION_COUNT; q++) {
      memcpy(c.got, c.before[q], c.floats * sizeof(float));
      kernel_args args = with_fields(&c, (enum equation)q, (launch_fields){c.in, c.got, c.medium});
      memset(args.ghosts, GHOST_KEEP, sizeof args.ghosts);
      host_reference(&args, 0, 1);
      rules_apply(&c.s, &c.args, c.got);
      check_case(&c, (enum equation)q, "reference");
    }
    free_case(&c);
  }
}

TEST_MAIN("reference", NULL, NULL)
