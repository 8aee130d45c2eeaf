#include "fourier.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "isa.h"

int64_t fourier_length(int64_t least) {
  int64_t n = 2;
  while (n < least) n *= 2;
  return n;
}

double (*fourier_twiddles(int64_t n))[2] {
  double(*twiddles)[2] = malloc((size_t)n / 2 * sizeof *twiddles);
  for (int64_t k = 0; twiddles && k < n / 2; k++) {
    const double angle = 2 * 3.14159265358979323846 * (double)k / (double)n;
    twiddles[k][0] = cos(angle), twiddles[k][1] = sin(angle);
  }
  return twiddles;
}

static size_t fourier_bytes(const fourier *f) {
  return ((size_t)f->n / 2 + 1 + 2 * FOURIER_MARGIN) * sizeof *f->series;
}

static void fourier_free(fourier_number *numbers) {
  if (numbers) free(numbers - FOURIER_MARGIN);
}

/* Allocates numbers, each on cache lines of its own. */
static fourier_number *fourier_alloc(const fourier *f) {
  fourier_number *all = aligned_alloc(sizeof(fourier_values), fourier_bytes(f));
  return all ? all + FOURIER_MARGIN : NULL;
}

int fourier_open(fourier *f, int64_t n, const double (*twiddles)[2]) {
  *f = (fourier){.n = n, .twiddles = twiddles};
  f->series = fourier_alloc(f);
  f->scratch = fourier_alloc(f);
  return f->series && f->scratch ? 0 : -1;
}

void fourier_close(fourier *f) {
  fourier_free(f->series);
  fourier_free(f->scratch);
  *f = (fourier){0};
}

void fourier_clear(fourier *f) {
  memset(f->series - FOURIER_MARGIN, 0, fourier_bytes(f));
}

/* --- complex numbers ---------------------------------------------------------------------------------------------- */

/* *sum = a + b, *rotated = (a - b) (re + i im). */
static inline void fourier_pair(const fourier_number *a, const fourier_number *b, const double twiddle[2],
                                int sign, fourier_number *sum, fourier_number *rotated) {
  const double re = twiddle[0], im = sign * twiddle[1];
  const fourier_values a_re = a->re, a_im = a->im, b_re = b->re, b_im = b->im, r = a_re - b_re,
                       i = a_im - b_im;
  sum->re = a_re + b_re;
  sum->im = a_im + b_im;
  rotated->re = r * re - i * im;
  rotated->im = r * im + i * re;
}

/* Does one pass over all n / 2 numbers with `half` twiddles, each for `stride` numbers. The form is Stockham's: C. Van
 * Loan, Computational Frameworks for the Fast Fourier Transform (1992), 1.7. */
static inline void fourier_pass(const fourier *f, int64_t half, int64_t stride, int sign) {
  const fourier_number *from = f->series;
  for (int64_t p = 0; p < half; p++)
    for (int64_t q = stride * p; q < stride * (p + 1); q++)
      fourier_pair(from + q, from + q + stride * half, f->twiddles[2 * p * stride], sign,
                   f->scratch + q + stride * p, f->scratch + q + stride * (p + 1));
}

/* Does a fourier_pass and the next one, with the same operations, but reads and writes memory once. */
static inline void fourier_two_passes(const fourier *f, int64_t half, int64_t stride, int sign) {
  for (int64_t p = 0; p < half / 2; p++) {
    const double *twiddle[3] = {f->twiddles[2 * p * stride], f->twiddles[2 * (p + half / 2) * stride],
                                f->twiddles[4 * p * stride]};
    for (int64_t q = 0; q < stride; q++) {
      const fourier_number *from = f->series + q + stride * p;
      fourier_number *to = f->scratch + q + 4 * stride * p, sum[2], rotated[2];
      for (int k = 0; k < 2; k++)
        fourier_pair(from + k * stride * half / 2, from + k * stride * half / 2 + stride * half, twiddle[k],
                     sign, &sum[k], &rotated[k]);
      fourier_pair(&sum[0], &sum[1], twiddle[2], sign, to, to + 2 * stride);
      fourier_pair(&rotated[0], &rotated[1], twiddle[2], sign, to + stride, to + 3 * stride);
    }
  }
}

static inline void fourier_passes(fourier *f, int sign) {
  for (int64_t half = f->n / 4, stride = 1; half > 0;) {
    const bool two = half > 1;
    if (two)
      fourier_two_passes(f, half, stride, sign);
    else
      fourier_pass(f, half, stride, sign);
    fourier_number *done = f->scratch;
    f->scratch = f->series;
    f->series = done;
    half >>= 1 + two, stride <<= 1 + two;
  }
}

/* --- real samples ------------------------------------------------------------------------------------------------- */

/* Samples 2j and 2j + 1 are the parts of complex number j. So the numbers' transform combines those of even and odd
 * samples. Sign -1: computes the samples' transform from the numbers'; 1: the reverse. */
static inline void fourier_split(const fourier *f, int sign) {
  const int64_t last = f->n / 2;
  fourier_number *all = f->series;
  const fourier_values first = all[0].re;
  if (sign < 0) {
    all[last].re = first - all[0].im, all[last].im = first - first;
    all[0].re = first + all[0].im, all[0].im = first - first;
  } else {
    all[0].re = first + all[last].re, all[0].im = first - all[last].re;
  }
  for (int64_t k = 1; k <= last / 2; k++) {
    const fourier_number a = all[k], b = all[last - k];
    const double re = -0.5 * f->twiddles[k][1], im = 0.5 * sign * f->twiddles[k][0];
    const fourier_values even_re = 0.5 * (a.re + b.re), even_im = 0.5 * (a.im - b.im), r = a.re - b.re,
                         i = a.im + b.im, odd_re = r * re - i * im, odd_im = r * im + i * re;
    all[last - k].re = even_re - odd_re, all[last - k].im = odd_im - even_im;
    all[k].re = even_re + odd_re, all[k].im = even_im + odd_im;
  }
}

static inline void fourier_transform(fourier *f, int sign) {
  if (sign > 0) fourier_split(f, sign);
  fourier_passes(f, sign);
  if (sign < 0) fourier_split(f, sign);
}

#define TRANSFORM(isa, target)                                                                               \
  target __attribute__((flatten)) static void fourier_transform_##isa(fourier *f, int sign) {                \
    fourier_transform(f, sign);                                                                              \
  }
HOST_ISAS(TRANSFORM)

void fourier_analyse(fourier *f) {
  HOST_ISA_OF(fourier_transform)(f, -1);
}

void fourier_synthesize(fourier *f) {
  HOST_ISA_OF(fourier_transform)(f, 1);
}
