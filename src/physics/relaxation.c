#include "relaxation.h"
#include <complex.h>
#include <math.h>

enum { UNKNOWNS = 2 * RELAXATIONS_MAX, RESIDUALS = RELAXATION_FREQUENCIES + RELAXATIONS_MAX };
static const double PI = 3.14159265358979323846;

void relaxation_of_quality(double quality, double *loss, double *power) {
  const double gamma = atan(1 / quality) / PI;
  *loss = tan(PI / 2 * gamma);
  *power = -gamma;
}

double relaxation_of_attenuation(double alpha0, double y, double reference, double v) {
  const double nepers = alpha0 * 100 / (20 * log10(exp(1)));
  return nepers * pow(reference / (2 * PI * 1e6), y) * v / reference;
}

/* 1 / sqrt(M) at a frequency that a trace has when its dispersion is removed. */
static double complex relaxation_slowness(const relaxation *r, double omega, double kappa) {
  const double psi = 2 * asin(omega * r->dt / 2);
  double complex m = 1;
  for (int l = 0; l < r->count; l++) m -= kappa * r->b[l] / (1 - r->a[l] * cexp(-I * psi));
  return 1 / csqrt(m);
}

double relaxation_speed(const relaxation *r, double kappa) {
  const double s = creal(relaxation_slowness(r, r->reference, kappa));
  return s * s;
}

double relaxation_strength(const relaxation *r) {
  double sum = 0;
  for (int l = 0; l < r->count; l++) sum += r->b[l] / (1 - r->a[l]);
  return sum;
}

double relaxation_loss(const relaxation *r, double kappa) {
  const double complex s = relaxation_slowness(r, r->reference, kappa);
  return -cimag(s) / creal(s);
}

double relaxation_kappa(const relaxation *r, double loss) {
  double lo = 0, hi = 0.95 / relaxation_strength(r);
  for (int i = 0; i < 60; i++) {
    const double middle = (lo + hi) / 2;
    if (relaxation_loss(r, middle) < loss)
      lo = middle;
    else
      hi = middle;
  }
  return (lo + hi) / 2;
}

/* --- the fit: Levenberg and Marquardt's method, from several starts ---------------------------------------------- */

/* Sets a and b from x: the logarithms of the relaxation times, then of g. */
static void relaxation_set(relaxation *r, const double *x) {
  for (int l = 0; l < r->count; l++) {
    const double rest = expm1(-r->dt / exp(x[l]));
    r->a[l] = 1 + rest;
    r->b[l] = -rest * exp(x[r->count + l]);
  }
}

static double relaxation_frequency(const loss_law *law, int i) {
  return law->lowest * pow(law->highest / law->lowest, i / (RELAXATION_FREQUENCIES - 1.0));
}

/* Sets `out` to alpha / law - 1 at each frequency; then to small terms that keep each g small. Returns the sum of
 * squares. */
static double relaxation_residuals(relaxation *r, const loss_law *law, const double *x, double *out) {
  double sum = 0;
  relaxation_set(r, x);
  const double speed = sqrt(relaxation_speed(r, 1));
  for (int i = 0; i < RELAXATION_FREQUENCIES; i++) {
    const double omega = relaxation_frequency(law, i);
    const double wanted = law->loss * pow(omega / law->reference, law->power);
    out[i] = -cimag(relaxation_slowness(r, omega, 1)) / speed / wanted - 1;
  }
  for (int l = 0; l < r->count; l++) out[RELAXATION_FREQUENCIES + l] = 1e-3 * exp(x[r->count + l]);
  for (int i = 0; i < RELAXATION_FREQUENCIES + r->count; i++) sum += out[i] * out[i];
  return sum;
}

/* Solves h step = g, n equations, by elimination with pivoting; both are overwritten. */
static void relaxation_solve(int n, double h[UNKNOWNS][UNKNOWNS], double *g) {
  for (int k = 0; k < n; k++) {
    int pivot = k;
    for (int i = k + 1; i < n; i++)
      if (fabs(h[i][k]) > fabs(h[pivot][k])) pivot = i;
    for (int j = 0; j < n; j++) {
      const double value = h[k][j];
      h[k][j] = h[pivot][j], h[pivot][j] = value;
    }
    const double right = g[k];
    g[k] = g[pivot], g[pivot] = right;
    for (int i = k + 1; i < n; i++) {
      const double factor = h[i][k] / h[k][k];
      for (int j = k; j < n; j++) h[i][j] -= factor * h[k][j];
      g[i] -= factor * g[k];
    }
  }
  for (int k = n - 1; k >= 0; k--) {
    for (int j = k + 1; j < n; j++) g[k] -= h[k][j] * g[j];
    g[k] /= h[k][k];
  }
}

/* Finds the step from x, whose residuals are `at`. */
static void relaxation_step(relaxation *r, const loss_law *law, double damping, const double *x,
                            const double *at, double *step) {
  const double LITTLE = 1e-6;
  const int n = 2 * r->count, rows = RELAXATION_FREQUENCIES + r->count;
  double slopes[UNKNOWNS][RESIDUALS], h[UNKNOWNS][UNKNOWNS];
  for (int k = 0; k < n; k++) {
    double moved[UNKNOWNS];
    for (int j = 0; j < n; j++) moved[j] = x[j] + (j == k ? LITTLE : 0);
    relaxation_residuals(r, law, moved, slopes[k]);
    for (int i = 0; i < rows; i++) slopes[k][i] = (slopes[k][i] - at[i]) / LITTLE;
  }
  for (int k = 0; k < n; k++) {
    step[k] = 0;
    for (int i = 0; i < rows; i++) step[k] -= slopes[k][i] * at[i];
    for (int j = 0; j < n; j++) {
      h[k][j] = 0;
      for (int i = 0; i < rows; i++) h[k][j] += slopes[k][i] * slopes[j][i];
    }
    h[k][k] += damping * (h[k][k] + 1e-12);
  }
  relaxation_solve(n, h, step);
}

static double relaxation_within(double x, double least, double most) {
  return fmin(fmax(x, least), most);
}

/* Improves x by up to 150 steps; returns the sum of squares. Relaxation times of at least dt / 4 and g below 0.5 keep
 * the medium passive. */
static double relaxation_improve(relaxation *r, const loss_law *law, double *x) {
  double at[RESIDUALS], next[RESIDUALS], damping = 1e-2, sum = relaxation_residuals(r, law, x, at);
  for (int i = 0; i < 150; i++) {
    double step[UNKNOWNS];
    relaxation_step(r, law, damping, x, at, step);
    for (int k = 0; k < 2 * r->count; k++) {
      const double moved = x[k] + relaxation_within(step[k], -1, 1);
      step[k] = k < r->count ? relaxation_within(moved, log(r->dt / 4), log(100 / law->lowest))
                             : relaxation_within(moved, -30, -0.7);
    }
    const double better = relaxation_residuals(r, law, step, next);
    damping = better < sum ? fmax(damping / 5, 1e-9) : fmin(4 * damping, 1e8);
    if (!(better < sum)) continue;
    sum = better;
    for (int k = 0; k < 2 * r->count; k++) x[k] = step[k];
    for (int k = 0; k < RELAXATION_FREQUENCIES + r->count; k++) at[k] = next[k];
  }
  return sum;
}

/* The worst |alpha / law - 1| in the band, where the loss is `loss` at the reference. */
static double relaxation_error(const relaxation *r, const loss_law *law, double loss) {
  const double kappa = relaxation_kappa(r, loss);
  const double at_reference = cimag(relaxation_slowness(r, law->reference, kappa));
  double worst = 0;
  for (int i = 0; i < RELAXATION_FREQUENCIES; i++) {
    const double omega = relaxation_frequency(law, i);
    const double alpha = cimag(relaxation_slowness(r, omega, kappa)) / at_reference;
    worst = fmax(worst, fabs(alpha / pow(omega / law->reference, law->power) - 1));
  }
  return worst;
}

bool relaxation_fit(relaxation *r, const loss_law *law, int count, double dt) {
  const double SPREADS[] = {0.3, 0.6, 1}, SHIFTS[] = {-1.5, 0, 1};
  double best = INFINITY, chosen[UNKNOWNS];
  *r = (relaxation){.count = count, .dt = dt, .reference = law->reference};
  if (!(law->highest * dt < 2) || !(law->reference * dt < 2)) return false;
  const double strength = log(fmin(4 * law->loss / count, 0.5));
  for (int start = 0; start < 9; start++) {
    double x[UNKNOWNS];
    for (int l = 0; l < count; l++) {
      const double place = SPREADS[start / 3] * (l - (count - 1) / 2.0);
      x[l] =
          SHIFTS[start % 3] - log(law->lowest * law->highest) / 2 + place * log(law->highest / law->lowest);
      x[count + l] = strength;
    }
    const double sum = relaxation_improve(r, law, x);
    if (!(sum < best)) continue;
    best = sum;
    for (int k = 0; k < 2 * count; k++) chosen[k] = x[k];
  }
  relaxation_set(r, chosen);
  const double NONE = 1e-12; /* a loss up to this comes from rounding */
  r->worst =
      law->loss > NONE ? fmax(relaxation_error(r, law, law->loss), relaxation_error(r, law, law->least)) : 0;
  return true;
}
