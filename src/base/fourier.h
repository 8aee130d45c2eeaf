/* Fourier transforms of several series of real samples at once. Bits are the same everywhere; the bits of a series do
 * not depend on other series. */
#ifndef STENCIL_FOURIER_H
#define STENCIL_FOURIER_H

#include <stdint.h>

enum { FOURIER_SERIES = 8 }; /* series transformed at once */

/* A value of each series, as a vector. */
typedef double fourier_values
    __attribute__((vector_size(FOURIER_SERIES * sizeof(double)), aligned(8), may_alias));

/* A complex number of each series. */
typedef struct fourier_number {
  fourier_values re, im;
} fourier_number;

enum { FOURIER_MARGIN = 16 /* spare numbers of `series` before and after its own */ };

typedef struct fourier {
  int64_t n;                        /* samples of a series, a power of two */
  const double (*twiddles)[2];      /* not owned */
  fourier_number *series, *scratch; /* n / 2 + 1 numbers each, owned; transforms work on `series` */
} fourier;

/* The least power of two that is at least `least`, and at least 2. */
int64_t fourier_length(int64_t least);
/* cos and sin of 2 pi k / n, k < n / 2, for transforms of n samples. The caller frees them. NULL: memory is short. */
double (*fourier_twiddles(int64_t n))[2];
/* Prepares transforms of n = fourier_length() samples with these twiddles. Returns 0, or -1 where memory is short. Call
 * fourier_close, also after a failure. */
int fourier_open(fourier *f, int64_t n, const double (*twiddles)[2]);
void fourier_close(fourier *f);
/* Sets `series` and its margins to 0. */
void fourier_clear(fourier *f);

/* The n samples that `series` holds before fourier_analyse, or after fourier_synthesize. */
static inline double (*fourier_samples(const fourier *f))[FOURIER_SERIES] {
  return (double(*)[FOURIER_SERIES])f->series;
}
/* series[k], k <= n / 2, becomes the sum over j of sample j exp(-2 pi i j k / n). */
void fourier_analyse(fourier *f);
/* Sample j becomes the real part of the sum over k <= n / 2 of series[k] exp(2 pi i j k / n). */
void fourier_synthesize(fourier *f);

#endif
