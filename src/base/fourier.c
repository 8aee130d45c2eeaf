#include "fourier.h"
#include <math.h>
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

/* *sum = a + b, *turned = (a - b) (re + i im). */
static void fourier_pair(const fourier_number *a, const fourier_number *b, const double turn[2], int sign,
                         fourier_number *sum, fourier_number *turned) {
  const double re = turn[0], im = sign * turn[1];
  for (int l = 0; l < FOURIER_SERIES; l++) {
    const double r = a->re[l] - b->re[l], i = a->im[l] - b->im[l];
    sum->re[l] = a->re[l] + b->re[l];
    sum->im[l] = a->im[l] + b->im[l];
    turned->re[l] = r * re - i * im;
    turned->im[l] = r * im + i * re;
  }
}

/* Stockham's form: C. Van Loan, Computational Frameworks for the Fast Fourier Transform (1992), 1.7. */
void fourier_transform(fourier *f, int sign) {
  for (int64_t half = f->n / 2, stride = 1; half > 0; half /= 2, stride *= 2) {
    const fourier_number *from = f->series;
    fourier_number *to = f->scratch;
    for (int64_t p = 0; p < half; p++)
      for (int64_t q = stride * p; q < stride * (p + 1); q++)
        fourier_pair(from + q, from + q + stride * half, f->turns[p * stride], sign, to + q + stride * p,
                     to + q + stride * (p + 1));
    f->scratch = f->series;
    f->series = to;
  }
}
