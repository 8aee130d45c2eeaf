/* Transforms in time, on an oscillator u" = -omega^2 u + s whose exact motion is known. */
#include "acquisition/exact_time.h"
#include <math.h>
#include "test.h"
#include "base/numbers.h"

enum { N = 1000, SERIES = FOURIER_SERIES };
typedef double series[SERIES];

static const double PI = 3.14159265358979323846;
static const enum dispersion_kind KINDS[] = {DISPERSION_TRACE, DISPERSION_SOURCE, DISPERSION_REST};

static void get(void *context, int64_t i, int64_t n, int lane, series *x) {
  const series *from = context;
  for (int64_t k = 0; k < n; k++) x[k][lane] = from[k][i];
}

static void put(void *context, int64_t i, int64_t n, int lane, series *x) {
  series *to = context;
  for (int64_t k = 0; k < n; k++) to[k][i] = x[k][lane];
}

static void apply(enum dispersion_kind kind, int64_t n, int64_t every, bool transposed, series *x) {
  error e = {0};
  const dispersion_series all = {kind, transposed, every, SERIES, n, NULL, x, NULL, get, put};
  assert_int_equal(dispersion_transform(&all, 1, &e), 0);
}

static void fill(series *x, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < n * SERIES; i++)
    x[i / SERIES][i % SERIES] = (double)(mix64(seed + (uint64_t)i) >> 11) * 0x1p-52 - 1;
}

TEST(transposes_are_transposes) {
  static series x[N], y[N], kx[N], ky[N];
  for (int kind = 0; kind < 3; kind++)
    for (int64_t n = 1; n <= N; n = 3 * n + 2) {
      const int64_t every = kind == DISPERSION_SOURCE ? 1 : 1 + n % 3;
      fill(x, n, 1), fill(y, n, 100000);
      memcpy(kx, x, sizeof x), memcpy(ky, y, sizeof y);
      apply(KINDS[kind], n, every, false, kx);
      apply(KINDS[kind], n, every, true, ky);
      for (int s = 0; s < SERIES; s++) {
        double one = 0, other = 0, scale = 0;
        for (int64_t i = 0; i < n; i++) {
          one += kx[i][s] * y[i][s];
          other += x[i][s] * ky[i][s];
          scale += fabs(kx[i][s] * y[i][s]);
        }
        assert_true(fabs(one - other) <= 1e-11 * scale);
      }
    }
}

TEST(series_do_not_mix) {
  static series x[N], y[N];
  fill(x, N, 1), fill(y, N, 77);
  for (int i = 0; i < N; i++) y[i][3] = x[i][3];
  apply(DISPERSION_TRACE, N, 1, false, x);
  apply(DISPERSION_TRACE, N, 1, false, y);
  for (int i = 0; i < N; i++) assert_true(memcmp(&x[i][3], &y[i][3], sizeof(double)) == 0);
}

/* omega dt of oscillator k; the scheme turns them by up to 2 asin(0.35) = 0.715 a step, exactly by 0.7. */
static double omega(int k) {
  return 0.7 * (k + 1) / SERIES;
}

/* A pulse without frequencies above 1.5 or so. */
static double pulse(double t) {
  const double a = (t - 40) / 5;
  return (1 - 2 * a * a) * exp(-a * a);
}

/* The motion that the pulse causes, dt = 1: by the trapezoidal rule, whose error is tiny for a smooth pulse. */
static double exact(double w, double t) {
  const double FINE = 0.02;
  double sum = 0;
  for (int i = 0; i * FINE < fmin(t, 100); i++) sum += sin(w * (t - i * FINE)) / w * pulse(i * FINE) * FINE;
  return sum;
}

/* Largest error relative to the largest value, of samples every so many steps. */
static double oscillator_error(int64_t every, bool removed) {
  static series s[N], u[N];
  double most = 0, worst = 0;
  const int64_t n = (N - 1) / every + 1;
  for (int i = 0; i < N; i++)
    for (int k = 0; k < SERIES; k++) s[i][k] = pulse(i);
  if (removed) apply(DISPERSION_SOURCE, N, 1, false, s);
  for (int k = 0; k < SERIES; k++) {
    double before = 0, now = 0;
    for (int i = 0; i < N; i++) {
      if (i % every == 0) u[i / every][k] = now;
      const double next = 2 * now - before - omega(k) * omega(k) * now + s[i][k];
      before = now, now = next;
    }
  }
  if (removed) apply(DISPERSION_TRACE, n, every, false, u);
  for (int k = 0; k < SERIES; k++)
    for (int64_t i = 0; i < n - 40; i++) { /* the last ones need samples after them (exact_time_extra) */
      most = fmax(most, fabs(exact(omega(k), (double)(i * every))));
      worst = fmax(worst, fabs(u[i][k] - exact(omega(k), (double)(i * every))));
    }
  return worst / most;
}

TEST(sources_give_exact_traces) {
  for (int every = 1; every <= 2; every++) {
    assert_true(oscillator_error(every, false) > 0.5);
    assert_true(oscillator_error(every, true) < 2e-5);
  }
}

/* Of a tone's amplitude, so many samples after its begin or before its end. */
static double grown(int samples) {
  const double part = sin(PI / 2 * fmin(1, samples / 400.0));
  return part * part;
}

/* A tone has one amplitude as it is meant, injected and recorded; the latter to its end, which extra samples follow. */
TEST(tones_keep_their_amplitude) {
  static series u[N], s[N];
  const config c = {.receivers = RECEIVERS_POINTS, .receivers_every = 1, .equation = EQUATION_WAVE};
  const int extra = (int)exact_time_extra(&c, N);
  for (int i = 0; i < N; i++)
    for (int k = 0; k < SERIES; k++) {
      u[i][k] = grown(i) * cos(2 * asin(omega(k) / 2) * i + k);
      s[i][k] = grown(i) * grown(N - i) * cos(omega(k) * i + k);
    }
  apply(DISPERSION_TRACE, N, 1, false, u);
  apply(DISPERSION_SOURCE, N, 1, false, s);
  for (int k = 0; k < SERIES; k++) {
    double most = 0;
    for (int i = 500; i < N - extra; i++) assert_true(fabs(u[i][k] - cos(omega(k) * i + k)) < 2e-3);
    for (int i = 400; i < 560; i++) most = fmax(most, fabs(s[i][k]));
    assert_true(fabs(most - 1) < 5e-3);
  }
  assert_true(fabs(u[N - 1][5] - cos(omega(5) * (N - 1) + 5)) > 2e-2); /* they do need them */
}

/* Oscillators that are let go, as many as make a pulse that comes and goes: exact is the sum of cos(omega t). */
TEST(rest_gives_exact_traces) {
  enum { MANY = 400 };
  static series u[N];
  static double sum[N];
  double worst = 0;
  for (int k = 0; k < MANY; k++) {
    const double w = 1.2 * (k + 0.5) / MANY, size = exp(-pow((w - 0.5) / 0.12, 2)) * cos(300 * w);
    double now = size, before = size * (1 - w * w / 2);
    for (int i = 0; i < N; i++) {
      const double next = 2 * now - before - w * w * now;
      u[i][1] += now, sum[i] += size * cos(w * i);
      before = now, now = next;
    }
  }
  apply(DISPERSION_REST, N, 1, false, u);
  for (int i = 0; i < N; i++) worst = fmax(worst, fabs(u[i][1] - sum[i]));
  assert_true(worst < 1e-6 * 30);
}

TEST_MAIN("dispersion", NULL, NULL)
