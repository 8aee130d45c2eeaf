#include "dispersion.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "base/isa.h"
#include "base/numbers.h"
#include "base/thread.h"

/* A sum of exp(i phi t) over uneven phi becomes a sum over an even grid of phi, which is a Fourier transform. Each
 * value spreads over SPREAD points, and each sample is divided by the transform of the spreading shape (A. H. Barnett
 * et al., SIAM J. Sci. Comput. 41 (2019), C479). The grid is at least twice as fine as n asks for; the error is
 * 1e-12. */
enum { SPREAD = 14 };
static const double PI = 3.14159265358979323846;
static const double STEEP = 2.3 * SPREAD;

/* One frequency psi >= 0 of the scheme. */
typedef struct frequency {
  double re, im;          /* weight in the integral, -psi included; turned by half a series */
  int64_t first;          /* the first point that it spreads to, the others follow */
  double weights[SPREAD]; /* of the points */
} frequency;

/* Tables of transforms of the same lengths. */
typedef struct dispersion_table {
  enum dispersion_kind kind;
  int64_t n, every;     /* samples */
  int64_t psi_n, phi_n; /* of series about them */
  frequency *all;       /* psi_n / 2: from psi = 0 on; owned, as are the next three */
  double *unspread;     /* n */
  double (*psi_turns)[2], (*phi_turns)[2];
  bool kept; /* by dispersion_tables */
  struct dispersion_table *next;
} dispersion_table;

struct dispersion_tables {
  pthread_mutex_t lock;
  dispersion_table *first;
  int count;
};

/* Series of one length, which are transformed together. */
typedef struct dispersion {
  dispersion_table *t;
  fourier psi, phi;
  int count;
  int64_t n, series[FOURIER_SERIES];
} dispersion;

/* The shape in which a value spreads; x: -1 to 1 over its width. */
static double dispersion_shape(double x) {
  return x * x < 1 ? exp(STEEP * (sqrt(1 - x * x) - 1)) : 0;
}

/* The divisor of samples: the transform of the shape. It is even like the shape. The shape is smooth and 1e-14 at its
 * ends, so the sum is as accurate as the integral. */
static void dispersion_set_unspread(const dispersion_table *t) {
  enum { POINTS = 32 };
  double shape[POINTS];
  for (int i = 0; i < POINTS; i++) shape[i] = (i ? 2 : 1) * dispersion_shape((double)i / POINTS);
  for (int64_t k = 0, middle = t->n / 2; k <= middle; k++) {
    const double angle = PI * SPREAD * (double)k / ((double)POINTS * (double)t->phi_n);
    double sum = 0;
    for (int i = 0; i < POINTS; i++) sum += shape[i] * cos(angle * i);
    t->unspread[middle - k] = 2 * POINTS / (sum * SPREAD);
    if (middle + k < t->n) t->unspread[middle + k] = t->unspread[middle - k];
  }
}

static void dispersion_set_frequency(const dispersion_table *t, int64_t p, frequency *f) {
  const double every = (double)t->every, psi = 2 * PI * (double)p / (double)t->psi_n,
               slow = psi / (2 * every);
  const double phi = 2 * every * sin(slow), at = phi * (double)t->phi_n / (2 * PI);
  const double fade = sin(PI / 2 * fmin(1, (1 - psi / PI) / (1 - DISPERSION_FADES)));
  const double weight =
      fade * fade * (p ? 2 : 1) * (t->kind == DISPERSION_SOURCE ? cos(slow) : 1) / (double)t->psi_n;
  f->re = weight * cos((double)(t->n / 2) * phi);
  f->im = weight * sin((double)(t->n / 2) * phi);
  f->first = (int64_t)ceil(at - SPREAD / 2.0);
  for (int m = 0; m < SPREAD; m++)
    f->weights[m] = dispersion_shape(((double)(f->first + m) - at) * (2.0 / SPREAD));
}

static void dispersion_table_close(dispersion_table *t) {
  if (!t) return;
  free(t->all);
  free(t->unspread);
  free(t->psi_turns);
  free(t->phi_turns);
  free(t);
}

/* Makes a table; NULL: memory is short. The caller frees the table, or keeps it. */
static dispersion_table *dispersion_table_open(const dispersion_table *like) {
  dispersion_table *t = malloc(sizeof *t);
  if (!t) return NULL;
  *t = *like;
  t->all = malloc((size_t)t->psi_n / 2 * sizeof *t->all);
  t->unspread = malloc((size_t)t->n * sizeof *t->unspread);
  t->psi_turns = fourier_twiddles(t->psi_n);
  t->phi_turns = fourier_twiddles(t->phi_n);
  if (!t->all || !t->unspread || !t->psi_turns || !t->phi_turns) {
    dispersion_table_close(t);
    return NULL;
  }
  for (int64_t p = 0; p < t->psi_n / 2; p++) dispersion_set_frequency(t, p, &t->all[p]);
  dispersion_set_unspread(t);
  return t;
}

dispersion_tables *dispersion_tables_open(void) {
  dispersion_tables *all = calloc(1, sizeof *all);
  if (all) pthread_mutex_init(&all->lock, NULL);
  return all;
}

void dispersion_tables_close(dispersion_tables *all) {
  if (!all) return;
  for (dispersion_table *t = all->first, *next; t; t = next) {
    next = t->next;
    dispersion_table_close(t);
  }
  pthread_mutex_destroy(&all->lock);
  free(all);
}

/* A thread waits for a table that another thread is making. */
static dispersion_table *dispersion_find_table(dispersion_tables *kept, dispersion_table like) {
  enum { MOST = 16 };
  if (!kept) return dispersion_table_open(&like);
  pthread_mutex_lock(&kept->lock);
  dispersion_table *t = kept->first;
  while (t && (t->kind != like.kind || t->n != like.n || t->every != like.every)) t = t->next;
  like.kept = kept->count < MOST, like.next = kept->first;
  if (!t && (t = dispersion_table_open(&like)) && t->kept) kept->first = t, kept->count++;
  pthread_mutex_unlock(&kept->lock);
  return t;
}

static void dispersion_close(dispersion *d) {
  fourier_close(&d->psi);
  fourier_close(&d->phi);
  if (d->t && !d->t->kept) dispersion_table_close(d->t);
  *d = (dispersion){.n = 0};
}

/* Prepares *d for series of n samples. False where memory is short. */
static bool dispersion_open(dispersion *d, const dispersion_series *s, int64_t n) {
  dispersion_close(d);
  d->n = n;
  d->t = dispersion_find_table(s->kept, (dispersion_table){.kind = s->kind,
                                                           .n = n,
                                                           .every = s->every,
                                                           .psi_n = fourier_length(4 * n),
                                                           .phi_n = fourier_length(2 * n + 2 * SPREAD)});
  return d->t && !fourier_open(&d->psi, d->t->psi_n, (const double(*)[2])d->t->psi_turns) &&
         !fourier_open(&d->phi, d->t->phi_n, (const double(*)[2])d->t->phi_turns);
}

/* --- the parts of the matrix ------------------------------------------------------------------------------------ */

/* Cosines in psi have the imaginary part 0. */
static inline fourier_number dispersion_cosine(const dispersion *d, fourier_number of) {
  if (d->t->kind == DISPERSION_REST) of.im -= of.im;
  return of;
}

/* Multiplies a value by the weight of a frequency (sign 1) or by its conjugate (-1). */
static inline fourier_number dispersion_weigh(const frequency *f, int sign, fourier_number value) {
  const double im = sign * f->im;
  return (fourier_number){f->re * value.re - im * value.im, f->re * value.im + im * value.re};
}

/* Spreads frequencies psi over points of the grid of phi. Consecutive frequencies with the same points are done
 * together. */
static inline void dispersion_spread(const dispersion *d) {
  enum { TOGETHER = 4 };
  const frequency *all = d->t->all, *end = all + d->t->psi_n / 2;
  fourier_number values[TOGETHER];
  for (const frequency *f = all, *next; f < end; f = next) {
    for (next = f; next < end && next - f < TOGETHER && next->first == f->first; next++)
      values[next - f] = dispersion_weigh(next, 1, dispersion_cosine(d, d->psi.series[next - all]));
    for (int m = 0; m < SPREAD; m++) {
      fourier_number sum = d->phi.series[f->first + m];
      for (const frequency *one = f; one < next; one++) {
        sum.re += one->weights[m] * values[one - f].re;
        sum.im += one->weights[m] * values[one - f].im;
      }
      d->phi.series[f->first + m] = sum;
    }
  }
}

/* The adjoint of the spreading: each value is the conjugate of the one that the synthesis uses. */
static inline void dispersion_collect(const dispersion *d) {
  const frequency *all = d->t->all;
  for (int64_t p = 0; p < d->t->psi_n / 2; p++) {
    const fourier_number *from = d->phi.series + all[p].first;
    fourier_number sum = {from->re - from->re, from->re - from->re};
    for (int m = 0; m < SPREAD; m++) {
      sum.re += all[p].weights[m] * from[m].re;
      sum.im += all[p].weights[m] * from[m].im;
    }
    d->psi.series[p] = dispersion_cosine(d, dispersion_weigh(&all[p], -1, sum));
  }
}

#define PARTS(isa, target)                                                                                   \
  target __attribute__((flatten)) static void dispersion_spread_##isa(const dispersion *d) {                 \
    dispersion_spread(d);                                                                                    \
  }                                                                                                          \
  target __attribute__((flatten)) static void dispersion_collect_##isa(const dispersion *d) {                \
    dispersion_collect(d);                                                                                   \
  }
HOST_ISAS(PARTS)

/* Points of the grid of phi before 0 and after its half are the conjugates of points within. Adds them there, or sets
 * them (`set`). */
static void dispersion_fold(const dispersion *d, bool set) {
  const int64_t half = d->phi.n / 2;
  for (int m = 1; m <= SPREAD; m++)
    for (int upper = 0; upper < 2; upper++) {
      fourier_number *beyond = d->phi.series + (upper ? half + m : -m),
                     *within = d->phi.series + (upper ? half - m : m);
      if (set)
        beyond->re = within->re, beyond->im = -within->im;
      else
        within->re += beyond->re, within->im -= beyond->im;
    }
}

/* The factor of sample j: with cosines, each sample stands for -j, too. */
static double dispersion_twice(const dispersion *d, int64_t j) {
  return d->t->kind == DISPERSION_REST && j > 0 ? 2 : 1;
}

/* Where sample i lies in the transform over phi. */
static double *dispersion_at(const dispersion *d, int64_t i) {
  return fourier_samples(&d->phi)[(i - d->t->n / 2) & (d->phi.n - 1)];
}

static void dispersion_scale(double *to, const double *from, double factor) {
  for (int l = 0; l < FOURIER_SERIES; l++) to[l] = from[l] * factor;
}

/* Computes K x from the samples of psi. Of the sum over psi >= 0 the real part counts. */
static void dispersion_forward(dispersion *d) {
  double(*x)[FOURIER_SERIES] = fourier_samples(&d->psi);
  for (int64_t j = 0; j < d->n; j++) dispersion_scale(x[j], x[j], dispersion_twice(d, j));
  fourier_analyse(&d->psi);
  fourier_clear(&d->phi);
  HOST_ISA_OF(dispersion_spread)(d);
  dispersion_fold(d, false);
  fourier_synthesize(&d->phi);
  x = fourier_samples(&d->psi);
  for (int64_t i = 0; i < d->n; i++) dispersion_scale(x[i], dispersion_at(d, i), d->t->unspread[i]);
}

/* Computes K^T x: the parts of dispersion_forward in reverse order. */
static void dispersion_backward(dispersion *d) {
  double(*x)[FOURIER_SERIES] = fourier_samples(&d->psi);
  fourier_clear(&d->phi);
  for (int64_t i = 0; i < d->n; i++) dispersion_scale(dispersion_at(d, i), x[i], d->t->unspread[i]);
  fourier_analyse(&d->phi);
  dispersion_fold(d, true);
  fourier_clear(&d->psi);
  HOST_ISA_OF(dispersion_collect)(d);
  fourier_synthesize(&d->psi);
  x = fourier_samples(&d->psi);
  for (int64_t j = 0; j < d->n; j++) dispersion_scale(x[j], x[j], dispersion_twice(d, j));
}

/* --- all series -------------------------------------------------------------------------------------------------- */

typedef struct dispersion_work {
  const dispersion_series *s;
  atomic_llong next; /* series */
  atomic_bool failed;
} dispersion_work;

/* Signals of sources are multiplied by K^T. */
static void dispersion_flush(dispersion *d, const dispersion_series *s) {
  if (!d->count) return;
  fourier_clear(&d->psi);
  for (int k = 0; k < d->count; k++) s->get(s->context, d->series[k], d->n, k, fourier_samples(&d->psi));
  if (s->transposed == (s->kind == DISPERSION_SOURCE))
    dispersion_forward(d);
  else
    dispersion_backward(d);
  for (int k = 0; k < d->count; k++) s->put(s->context, d->series[k], d->n, k, fourier_samples(&d->psi));
  d->count = 0;
}

static void *dispersion_main(void *context) {
  dispersion_work *w = context;
  dispersion d = {.n = 0};
  bool ready = true;
  for (int64_t i; ready && (i = atomic_fetch_add(&w->next, 1)) < w->s->count;) {
    const int64_t n = w->s->length ? w->s->length(w->s->context, i) : w->s->n;
    if (n == 0) continue;
    if (n != d.n || d.count == FOURIER_SERIES) dispersion_flush(&d, w->s);
    if (n != d.n) ready = dispersion_open(&d, w->s, n);
    d.series[d.count++] = i;
  }
  if (ready)
    dispersion_flush(&d, w->s);
  else
    atomic_store(&w->failed, true);
  dispersion_close(&d);
  return NULL;
}

int dispersion_transform(const dispersion_series *s, int threads, error *e) {
  dispersion_work w = {.s = s};
  thread_run((int)smaller64(threads, (s->count + FOURIER_SERIES - 1) / FOURIER_SERIES), dispersion_main, &w);
  return atomic_load(&w.failed) ? FAIL(e, OUT_OF_MEMORY, (size_t)s->count * 600, "a transform in time") : 0;
}
