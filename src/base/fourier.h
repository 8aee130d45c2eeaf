/* Fourier transforms of several series at once, with the same bits everywhere. */
#ifndef STENCIL_FOURIER_H
#define STENCIL_FOURIER_H

#include <stdint.h>

enum { FOURIER_SERIES = 4 }; /* that are transformed at once */

/* A complex number of each of them. */
typedef struct fourier_number {
  double re[FOURIER_SERIES], im[FOURIER_SERIES];
} fourier_number;

typedef struct fourier {
  int64_t n;                        /* numbers of a series, a power of two */
  double (*turns)[2];               /* cos and sin of 2 pi k / n, k < n / 2; owned */
  fourier_number *series, *scratch; /* n each, owned; `series` is what fourier_transform works on */
} fourier;

/* Prepares transforms of the least power of two that is not below `least` numbers. 0, or -1 where memory is short.
 * fourier_close it, also after a failure. */
int fourier_open(fourier *f, int64_t least);
void fourier_close(fourier *f);

/* series[k] becomes the sum over j of series[j] exp(sign 2 pi i j k / n); sign: 1 or -1. */
void fourier_transform(fourier *f, int sign);

#endif
