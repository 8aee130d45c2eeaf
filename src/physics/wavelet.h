/* The time function of a source. */
#ifndef STENCIL_WAVELET_H
#define STENCIL_WAVELET_H

#include "config/config.h"
#include "io/files.h"

typedef struct wavelet {
  enum wavelet_kind kind;
  double f0, t0; /* Hz, s */
  double amplitude;
  const table *table; /* WAVELET_FILE: the contents of its file; not owned */
} wavelet;

/* A file has shape (n,): sample i is s(i dt), and s is 0 after the last one; or (n, 2): ascending times in s and
 * values, between which s is linear, and 0 outside. */

/* Reads and checks the table of `s`, a source of WAVELET_FILE; table_free it. Exit 2 where that fails: then there
 * is nothing to free. Collective over files->compute, same error everywhere. */
int wavelet_read(const files *files, const source_config *s, table *t, error *e);
/* Does the same for the calling rank alone. */
int wavelet_load(const source_config *s, table *t, error *e);

/* The wavelet of `s`; `t`: its table, which must outlive the wavelet; NULL without a file. */
wavelet wavelet_of(const source_config *s, const table *t);

/* s(step dt), rounded once. With a = (pi f0 (t - t0))^2:
 *   ricker     amplitude (1 - 2a) exp(-a)
 *   gaussian   amplitude exp(-a)
 *   a file     amplitude times its values */
float wavelet_value(const wavelet *w, double dt, int64_t step);

#endif
