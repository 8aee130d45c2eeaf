/* Finite-difference weights, stability sums and phase velocities. */
#include "physics/fd.h"
#include <math.h>
#include <stdbool.h>
#include "test.h"

/* The second derivative of x^p at 0 is 2 for p = 2 and 0 otherwise: exact up to p = order + 1, and not beyond. */
static double derivative_of_power(const double w[5], int p) {
  double sum = p == 0 ? w[0] : 0;
  for (int r = 1; r <= 4; r++) sum += w[r] * (pow(r, p) + pow(-r, p));
  return sum;
}

TEST(weights_are_exact_for_polynomials) {
  for (int order = 2; order <= 8; order += 2) {
    double w[5];
    fd_weights(order, w);
    for (int p = 0; p <= order + 1; p++)
      assert_true(fabs(derivative_of_power(w, p) - (p == 2 ? 2 : 0)) < 1e-11 * pow(4, p));
    assert_true(fabs(derivative_of_power(w, order + 2)) > 0.1);
    for (int r = order / 2 + 1; r <= 4; r++) assert_true(w[r] == 0);
  }
}

/* The shortest wave of the grid, +1 -1 +1 ..., is the eigenvector of the largest eigenvalue. */
TEST(sum_is_the_largest_eigenvalue) {
  const double spacing[3] = {2, 0.5, 1.25};
  for (int order = 2; order <= 8; order += 2) {
    double w[5], largest = 0;
    fd_weights(order, w);
    for (int axis = 0; axis < 3; axis++) {
      double value = w[0];
      for (int r = 1; r <= 4; r++) value += 2 * w[r] * (r % 2 ? -1 : 1);
      largest -= value / (spacing[axis] * spacing[axis]);
    }
    assert_true(fabs(fd_sum(order, spacing) / largest - 1) < 1e-12);
  }
  assert_true(fabs(fd_sum(2, (double[]){1, 1, 1}) - 12) < 1e-12);
}

/* Measured: the frequency at which a standing wave of the time-discrete equation swings. */
TEST(phase_velocity_is_that_of_leapfrog) {
  for (int order = 2; order <= 8; order += 2)
    for (int points = 4; points <= 12; points += 4) {
      const double courant = 0.4, kh = 2 * M_PI / points;
      double w[5], symbol;
      fd_weights(order, w);
      symbol = w[0];
      for (int r = 1; r <= 4; r++) symbol += 2 * w[r] * cos(r * kh);
      /* u(n+1) = (2 + courant^2 symbol) u(n) - u(n-1) from u = cos(omega t): the factor is 2 cos(omega dt) */
      double omega = acos(1 + courant * courant * symbol / 2);
      assert_true(fabs(fd_phase_velocity(order, points, courant) / (omega / (courant * kh)) - 1) < 1e-10);
    }
  assert_true(fabs(fd_phase_velocity(8, 10, 0.01) - 1) < 1e-4);
  assert_true(fabs(fd_phase_velocity(2, 5, 0) / fd_phase_velocity(2, 5, 1e-4) - 1) < 1e-7);
  assert_true(fd_phase_velocity(2, 5, 0.01) < 0.95);
}

static const double SPACINGS[][3] = {
    {1, 1, 1}, {10, 10, 10}, {12.5, 12.5, 10}, {7, 5, 3}, {1e-3, 1e-3, 1e-3}};

static double sum_of(float center, const float w[3][5]) {
  double sum = center;
  for (int axis = 0; axis < 3; axis++)
    for (int r = 1; r <= 4; r++) sum += 2 * (double)w[axis][r];
  return sum;
}

/* Weights rounded as physics.c does, then balanced: the Laplacian of a constant is 0, and the weights have hardly
 * changed. */
TEST(balanced_weights_sum_exactly) {
  bool rounding_showed = false;
  for (int order = 2; order <= 8; order += 2)
    for (int i = 0; i < COUNT(SPACINGS); i++)
      for (int heat = 0; heat < 2; heat++) {
        double w[5], scale = heat ? 0.9 * 2 / fd_sum(order, SPACINGS[i]) : 1, center = heat;
        float rounded[3][5] = {{0}}, moved[3][5];
        fd_weights(order, w);
        for (int axis = 0; axis < 3; axis++) {
          double h2 = SPACINGS[i][axis] * SPACINGS[i][axis];
          center += scale * w[0] / h2;
          for (int r = 1; r <= 4; r++) rounded[axis][r] = (float)(scale * w[r] / h2);
        }
        memcpy(moved, rounded, sizeof moved);
        float balanced = (float)center;
        if (sum_of(balanced, rounded) != heat) rounding_showed = true;
        fd_balance(heat, &balanced, (float *const[]){moved[0], moved[1], moved[2]});
        assert_true(sum_of(balanced, moved) == heat);
        assert_true(fabs(balanced / center - 1) < 1e-6);
        for (int axis = 0; axis < 3; axis++)
          for (int r = 1; r <= 4; r++)
            assert_true(fabs(moved[axis][r] - rounded[axis][r]) <= 1.1e-6 * fabs(rounded[axis][r]));
      }
  assert_true(rounding_showed);
}

TEST_MAIN("fd", NULL, NULL)
