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
  /* WAVELET_SIGNAL: its value at step i is values[i stride], for `rows` steps; not owned. */
  const double *values;
  int64_t rows, stride;
  bool imposed; /* likewise: the field's value at the end of a step; NaN: the field is free */
} wavelet;

/* A file has shape (n,): sample i is s(i dt), and s is 0 after the last one; or (n, 2): ascending times in s and
 * values, through which s is a spline of degree 5, and 0 outside. */

/* Columns of a table that has been read: of values for each step; of time, value and coefficient. */
enum { WAVELET_STEPS = 1, WAVELET_SPLINE = 3 };

/* Reads and checks the table of `s`, a source of WAVELET_FILE, and fits its spline; table_free it. Exit 2 where that
 * fails: then there is nothing to free. Collective over files->compute, same error everywhere. */
int wavelet_read(const files *files, const source_config *s, table *t, error *e);

/* Reads [sources] signals of shape (n, columns) or (n, 1), and the times beside them, of which there may be none (rows 0).
 * Without times there are at least `least` rows, and at most `most` are read. As wavelet_read, for two tables. */
typedef struct signals_shape {
  int columns;
  int64_t least, most;
} signals_shape;

int wavelet_read_signals(const files *files, const char *dataset, signals_shape shape, table *signals,
                         table *times, error *e);

/* A column of them as a table of a wavelet: a value for each step, or a spline. table_free it. */
int wavelet_take_column(const table *signals, const table *times, int column, table *one, error *e);

/* Where samples of a column go: that at step i to values[i stride], for `rows` steps. */
typedef struct signal_rows {
  double *values;
  int64_t rows, stride;
  double dt; /* s */
} signal_rows;

/* Samples a column; `outside` the times or rows. */
int wavelet_sample_column(const table *signals, const table *times, int column, double outside,
                          const signal_rows *to, error *e);

/* The wavelet of `s`; `t`: its table, which must outlive the wavelet; NULL without a file. */
wavelet wavelet_of(const source_config *s, const table *t);

/* s(step dt), rounded once; of an imposed one at the next step, and before step 0 all others are 0. With a = (pi f0 (t - t0))^2:
 *   ricker     amplitude (1 - 2a) exp(-a)
 *   gaussian   amplitude exp(-a)
 *   a file, a signal   amplitude times its values */
float wavelet_value(const wavelet *w, double dt, int64_t step);
/* The same, before it is rounded. */
double wavelet_exact(const wavelet *w, double dt, int64_t step);

/* The steps of a run. */
typedef struct wavelet_steps {
  double dt; /* s */
  int64_t count;
} wavelet_steps;

/* Little of a wavelet lies above the frequency from which on its amplitude spectrum is below this part of its largest
 * value: a Ricker wavelet's is there at 2.5 f0. */
#define WAVELET_LITTLE 0.0328

/* What a run makes of a wavelet. */
typedef struct wavelet_use {
  int columns; /* of its table; 0: a formula */
  int64_t begin,
      end; /* the steps of the run for which the table has values; all of a formula's; none: equal */
  double start,
      stop; /* its size at the first and the last of them, relative to the greatest; of a formula: stop is 0 */
  double dominant; /* Hz: f0, or where the spectrum of a table is largest, at least highest / 2.5 */
  double highest;  /* Hz: little lies above (WAVELET_LITTLE) */
} wavelet_use;

/* Steps from 0 to the last at which it is not 0, or so little that it does not count: 1 to `most`. */
int64_t wavelet_length(const wavelet *w, double dt, int64_t most);
/* The same of times alone. */
int64_t wavelet_length_of_times(const table *times, double dt, int64_t most);

/* Removing dispersion, the steps before step `end` feel those of a signal before this one: what is meant at step i has its
 * highest frequencies as early as i / 8. */
static inline int64_t wavelet_reach(int64_t end) {
  return 8 * end + 1000;
}

/* Signals are transformed for the steps before this one, then for those before its double, and so on: each step's value is
 * then the same in every run, however long run and signal are. */
enum { WAVELET_FIRST_END = 1024 };

/* Of the parts, the end of the one that has the last of `steps` steps. */
static inline int64_t wavelet_end(int64_t steps) {
  int64_t end = WAVELET_FIRST_END;
  while (end < steps) end *= 2;
  return end;
}

/* Fills *use. Exit 4 where memory is short. */
int wavelet_study(const wavelet *w, wavelet_steps steps, wavelet_use *use, error *e);

#endif
