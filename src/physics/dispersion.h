/* Exact time for series. The step of the wave equation is of second order in time: what it gives at frequency psi / dt
 * belongs to frequency (2 / dt) sin(psi / 2). The rule is the same everywhere, so signals of sources are transformed
 * before a run and traces after it, and the step stays as it is. */
#ifndef STENCIL_DISPERSION_H
#define STENCIL_DISPERSION_H

#include <stdbool.h>
#include "base/error.h"
#include "base/fourier.h"

/* Of the samples' highest frequency: from here on the transform fades out. */
#define DISPERSION_FADES 0.8

/* With K[i,j] = (1 / 2 pi) times the integral over |psi| < pi of cos(psi / 2k)^p exp(i phi i - i psi j) w(psi), where
 * phi = 2k sin(psi / 2k), samples are every k steps, and w fades out from DISPERSION_FADES on: */
enum dispersion_kind {
  DISPERSION_TRACE,  /* exact = K scheme, p = 1: the trace of a source whose signal was transformed */
  DISPERSION_SOURCE, /* injected = K^T s, p = 0, k = 1 */
  DISPERSION_REST /* exact = K scheme, p = 0, with cosines: the trace of an initial field at rest, without sources */
};

typedef struct dispersion dispersion;

/* Tables of transforms, kept for those that come after: they take as long as tens of series. Many threads may use them. */
typedef struct dispersion_tables dispersion_tables;
dispersion_tables *dispersion_tables_open(void); /* NULL: memory is short, and nothing is kept */
void dispersion_tables_close(dispersion_tables *all);

/* Prepares the transform of series of n samples, n >= 1; `kept`: NULL, or what must outlive it. OUT_OF_MEMORY.
 * dispersion_close it, also after a failure. */
int dispersion_open(dispersion **d, dispersion_tables *kept, enum dispersion_kind kind, int64_t n,
                    int64_t every, error *e);
void dispersion_close(dispersion **d);

/* Transforms x[sample][series] in place; `transposed`: by the transpose of its matrix. A series gets the same bits
 * whatever the others are. One thread at a time for each *d. */
void dispersion_apply(dispersion *d, bool transposed, double (*x)[FOURIER_SERIES]);

#endif
