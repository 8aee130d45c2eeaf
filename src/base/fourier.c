#include "fourier.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

int fourier_open(fourier *f, int64_t least) {
  int64_t n = 2;
  while (n < least) n *= 2;
  *f = (fourier){.n = n};
  f->turns = malloc((size_t)n / 2 * sizeof *f->turns);
  f->series = malloc((size_t)n * sizeof *f->series);
  f->scratch = malloc((size_t)n * sizeof *f->scratch);
  if (!f->turns || !f->series || !f->scratch) return -1;
  for (int64_t k = 0; k < n / 2; k++) {
    const double angle = 2 * 3.14159265358979323846 * (double)k / (double)n;
    f->turns[k][0] = cos(angle), f->turns[k][1] = sin(angle);
  }
  return 0;
}

void fourier_close(fourier *f) {
  free(f->turns);
  free(f->series);
  free(f->scratch);
  *f = (fourier){0};
}

/* One of the parts of a number, as a vector. */
typedef double fourier_part
    __attribute__((vector_size(FOURIER_SERIES * sizeof(double)), aligned(8), may_alias));

static inline fourier_part *fourier_part_of(const double *of) {
  return (fourier_part *)(uintptr_t)of;
}

/* *sum = a + b, *turned = (a - b) (re + i im). */
static inline void fourier_pair(const fourier_number *a, const fourier_number *b, const double turn[2],
                                int sign, fourier_number *sum, fourier_number *turned) {
  const double re = turn[0], im = sign * turn[1];
  const fourier_part a_re = *fourier_part_of(a->re), a_im = *fourier_part_of(a->im),
                     b_re = *fourier_part_of(b->re), b_im = *fourier_part_of(b->im);
  const fourier_part r = a_re - b_re, i = a_im - b_im;
  *fourier_part_of(sum->re) = a_re + b_re;
  *fourier_part_of(sum->im) = a_im + b_im;
  *fourier_part_of(turned->re) = r * re - i * im;
  *fourier_part_of(turned->im) = r * im + i * re;
}

/* One pass over all numbers, with `half` turns, each of `stride` numbers. Stockham's form: C. Van Loan, Computational
 * Frameworks for the Fast Fourier Transform (1992), 1.7. */
static inline void fourier_pass(const fourier *f, int64_t half, int64_t stride, int sign) {
  const fourier_number *from = f->series;
  for (int64_t p = 0; p < half; p++)
    for (int64_t q = stride * p; q < stride * (p + 1); q++)
      fourier_pair(from + q, from + q + stride * half, f->turns[p * stride], sign,
                   f->scratch + q + stride * p, f->scratch + q + stride * (p + 1));
}

/* That pass and the next one, with the same operations, in one visit of memory. */
static inline void fourier_two_passes(const fourier *f, int64_t half, int64_t stride, int sign) {
  for (int64_t p = 0; p < half / 2; p++) {
    const double *turn[3] = {f->turns[p * stride], f->turns[(p + half / 2) * stride],
                             f->turns[2 * p * stride]};
    for (int64_t q = 0; q < stride; q++) {
      const fourier_number *from = f->series + q + stride * p;
      fourier_number *to = f->scratch + q + 4 * stride * p, sum[2], turned[2];
      for (int k = 0; k < 2; k++)
        fourier_pair(from + k * stride * half / 2, from + k * stride * half / 2 + stride * half, turn[k],
                     sign, &sum[k], &turned[k]);
      fourier_pair(&sum[0], &sum[1], turn[2], sign, to, to + 2 * stride);
      fourier_pair(&turned[0], &turned[1], turn[2], sign, to + stride, to + 3 * stride);
    }
  }
}

static inline void fourier_passes(fourier *f, int sign) {
  for (int64_t half = f->n / 2, stride = 1; half > 0;) {
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

/* The same for processors of today: the same bits, as no product is fused with a sum. */
#ifdef __x86_64__
__attribute__((target("avx2"), flatten)) static void fourier_passes_avx2(fourier *f, int sign) {
  fourier_passes(f, sign);
}
#endif

void fourier_transform(fourier *f, int sign) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return fourier_passes_avx2(f, sign);
#endif
  fourier_passes(f, sign);
}
