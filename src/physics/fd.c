#include "fd.h"
#include <math.h>
#include <string.h>

void fd_weights(int order, double w[5]) {
  static const double table[4][5] = {{-2, 1},
                                     {-5.0 / 2, 4.0 / 3, -1.0 / 12},
                                     {-49.0 / 18, 3.0 / 2, -3.0 / 20, 1.0 / 90},
                                     {-205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560}};
  memcpy(w, table[order / 2 - 1], sizeof table[0]);
}

/* By how much the stencil's sum is above `sum`. */
static double fd_excess(double sum, float center, float *const axes[3]) {
  double all = center - sum;
  for (int axis = 0; axis < 3; axis++)
    for (int r = 1; r <= 4; r++) all += 2 * (double)axes[axis][r];
  return all;
}

/* Moves the largest weights first, whose last bits are coarse; the smallest ones correct what remains. */
void fd_balance(double sum, float *center, float *const axes[3]) {
  *center = (float)(*center - fd_excess(sum, *center, axes));
  for (int r = 1; r <= 4; r++)
    for (int axis = 0; axis < 3; axis++) {
      double move = -fd_excess(sum, *center, axes) / 2;
      if (fabs(move) <= 1e-6 * fabsf(axes[axis][r])) axes[axis][r] = (float)(axes[axis][r] + move);
    }
}

double fd_sum(int order, const double spacing[3]) {
  double w[5], sum = 0, all = 0;
  fd_weights(order, w);
  for (int r = 1; r <= 4; r++) sum += 2 * fabs(w[r]);
  sum += fabs(w[0]);
  for (int axis = 0; axis < 3; axis++)
    if (spacing[axis] > 0) all += sum / (spacing[axis] * spacing[axis]);
  return all;
}

double fd_phase_velocity(int order, double points, double courant) {
  double w[5], kh = 2 * M_PI / points;
  fd_weights(order, w);
  double squared = -w[0];
  for (int r = 1; r <= 4; r++) squared -= 2 * w[r] * cos(r * kh);
  double half = courant * sqrt(squared) / 2;
  return courant > 0 ? 2 * asin(half < 1 ? half : 1) / (courant * kh) : sqrt(squared) / kh;
}
