/* Removes the dispersion of the time step from series. The step is of second order in time: its result at frequency psi
 * / dt belongs to frequency (2 / dt) sin(psi / 2). That rule is the same everywhere. So signals of sources are
 * transformed before a run and traces after it, and the step is unchanged. */
#ifndef STENCIL_DISPERSION_H
#define STENCIL_DISPERSION_H

#include <stdbool.h>
#include "base/error.h"
#include "base/fourier.h"

/* Fractions of the samples' highest frequency from which on the transform fades out. */
#define DISPERSION_FADES 0.8

/* With K[i,j] = (1 / 2 pi) times the integral over |psi| < pi of cos(psi / 2k)^p exp(i phi i - i psi j) w(psi), where
 * phi = 2k sin(psi / 2k), samples are every k steps, and w fades out from DISPERSION_FADES on. The cosine, d phi / d
 * psi, belongs to signals. So a tone in the field has the amplitude of the intended tone. */
enum dispersion_kind {
  DISPERSION_TRACE,  /* exact = K scheme, p = 0: the trace of a source whose signal was transformed */
  DISPERSION_SOURCE, /* injected = K^T s, p = 1, k = 1 */
  DISPERSION_REST /* exact = K scheme, p = 0, with cosines: the trace of an initial field at rest, without sources */
};

/* Tables of transforms, kept for later transforms: making them takes as long as tens of series. Many threads may use
 * them. */
typedef struct dispersion_tables dispersion_tables;
dispersion_tables *dispersion_tables_open(void); /* NULL: memory is short, and nothing is kept */
void dispersion_tables_close(dispersion_tables *all);

/* `count` series of n samples, or of length(i) where `length` is not NULL; length 0 leaves series i out. get and put
 * move samples to and from x[sample][lane]; one thread moves a series. */
typedef struct dispersion_series {
  enum dispersion_kind kind;
  bool transposed; /* by the transpose of its matrix */
  int64_t every, count, n;
  dispersion_tables *kept; /* may be NULL; must outlive this struct */
  void *context;
  int64_t (*length)(void *context, int64_t i);
  void (*get)(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]);
  void (*put)(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]);
} dispersion_series;

/* Transforms the series on at most `threads` threads. The bits of a series do not depend on other series.
 * OUT_OF_MEMORY. */
int dispersion_transform(const dispersion_series *s, int threads, error *e);

#endif
