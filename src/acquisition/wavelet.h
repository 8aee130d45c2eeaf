/* The time function of a source. */
#ifndef STENCIL_WAVELET_H
#define STENCIL_WAVELET_H

#include "config/config.h"
#include "io/files.h"

typedef struct wavelet {
  enum wavelet_kind kind;
  double f0, t0; /* Hz, s */
  double amplitude;
  /* WAVELET_FILE: its value at step i is values[i], for `rows` steps; not owned. */
  const double *values;
  int64_t rows;
  bool imposed; /* likewise: the value imposed on the field at the end of a step; NaN: none */
} wavelet;

/* Signals of a dataset: columns. Row i is the value of step i; or, where `timed`, of the time first + i apart. Between
 * rows lie the values of a band-limited signal. Zero-initialised it is empty. */
typedef struct wavelet_table {
  table rows; /* owned */
  bool timed;
  double first, apart; /* s */
} wavelet_table;

/* Reads and checks the dataset of a [source.N] wavelet: shape (n,), or (n, 2) with even times. Free t->rows by
 * table_free, also after a failure. Exit 2 where reading or checking fails. Collective over files->compute, same error
 * everywhere. */
int wavelet_read(const files *files, const char *dataset, wavelet_table *t, error *e);

/* The shape of [sources] signals, (n, columns) or (n, 1), with even times in a dataset `time` of the same group.
 * Without times at least `least` rows are needed and at most `most` are read. */
typedef struct signals_shape {
  int columns;
  int64_t least, most;
} signals_shape;

int wavelet_read_signals(const files *files, const char *dataset, signals_shape shape, wavelet_table *t,
                         error *e);

/* The interpolation of a table at a step: rows from `first` on and their weights. */
enum { WAVELET_POINTS = 16 };
typedef struct wavelet_place {
  int64_t first;
  int count; /* 0: outside; 1: on a row, or WAVELET_POINTS */
  double weight[WAVELET_POINTS];
} wavelet_place;

wavelet_place wavelet_find(const wavelet_table *t, double dt, int64_t step);
/* The value of a column at a place; `outside` where the place is outside the rows. */
double wavelet_sum(const wavelet_table *t, const wavelet_place *at, int column, double outside);

/* The wavelet of `s`; of a file: without its values. */
wavelet wavelet_of(const source_config *s);

/* s(step dt), rounded once. An imposed value is that of the next step; all others are 0 before step 0. With
 * a = (pi f0 (t - t0))^2:
 *   ricker     amplitude (1 - 2a) exp(-a)
 *   gaussian   amplitude exp(-a)
 *   a file     amplitude times its values */
float wavelet_value(const wavelet *w, double dt, int64_t step);
/* The value of wavelet_value before it is rounded. */
double wavelet_exact(const wavelet *w, double dt, int64_t step);

/* The steps of a run. */
typedef struct wavelet_steps {
  double dt; /* s */
  int64_t count;
  int64_t extra; /* steps after the run (exact_time.h) */
} wavelet_steps;

/* Little of a wavelet lies above the frequency from which on its amplitude spectrum is below this part of its largest
 * value: a Ricker wavelet's is there at 2.5 f0. */
#define WAVELET_LITTLE 0.0328

/* The study of a wavelet for a run. */
enum wavelet_rows { WAVELET_FORMULA, WAVELET_STEPS, WAVELET_TIMES };

typedef struct wavelet_use {
  enum wavelet_rows rows; /* of the table */
  bool silent;            /* all values of the table are 0 */
  int64_t begin,
      end;      /* the steps of the run for which the table has values; all of a formula's; none: equal */
  int64_t last; /* steps from 0 on for which the table has values, those after the run too */
  double start,
      stop; /* its size at the first and the last of them, relative to the greatest; of a formula: stop is 0 */
  double dominant; /* Hz: f0, or where the spectrum of a table is largest, at least highest / 2.5 */
  double highest;  /* Hz: little of the wavelet lies above (WAVELET_LITTLE) */
} wavelet_use;

/* Steps from 0 to the last one at which the wavelet is large enough to count: 1 to `most`. */
int64_t wavelet_length(const wavelet *w, double dt, int64_t most);
/* wavelet_length of a table, by its rows alone. */
int64_t wavelet_length_of(const wavelet_table *t, double dt, int64_t most);

/* With dispersion removed, the steps before step `end` depend on the signal's steps before this one: the highest
 * frequencies of step i are injected as early as step i / 8. */
static inline int64_t wavelet_reach(int64_t end) {
  return 8 * end + 1000;
}

/* Signals are transformed for the steps before this one, then for those before its double, and so on. So each step's
 * value is the same in every run, however long run and signal are. */
enum { WAVELET_FIRST_END = 1024 };

/* The end of the part that has the last of `steps` steps. */
static inline int64_t wavelet_end(int64_t steps) {
  int64_t end = WAVELET_FIRST_END;
  while (end < steps) end *= 2;
  return end;
}

/* The study of a formula. */
wavelet_use wavelet_study(const wavelet *w, wavelet_steps steps);
/* Studies `count` columns of a table, at most FOURIER_SERIES. Exit 4 where memory is short. */
int wavelet_study_columns(const wavelet_table *t, const int *columns, int count, wavelet_steps steps,
                          wavelet_use *uses, error *e);

#endif
