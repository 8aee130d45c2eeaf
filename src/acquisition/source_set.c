#include "source_set.h"
#include "dispersion.h"
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"

/* Columns that are far smaller than the greatest do not count: they may be what rounding left. */
static const double NEGLIGIBLE = 1e-3;

/* --- equal columns ---------------------------------------------------------------------------------------------- */

typedef struct column_mark {
  uint64_t digest;
  int column;
} column_mark;

static int source_set_by_digest(const void *a, const void *b) {
  const column_mark *p = a, *q = b;
  if (p->digest != q->digest) return p->digest < q->digest ? -1 : 1;
  return p->column - q->column;
}

/* Finds equal columns row by row, as they lie in memory. A column that is equal in its digest alone counts as
 * different. */
static int source_set_find_equal(source_set *s, error *e) {
  const table *t = &s->signals.rows;
  column_mark *marks;
  ALLOC(e, s->same, t->columns, "the sources");
  TRY(ALLOC(e, marks, t->columns, "the sources"));
  for (int i = 0; i < t->columns; i++) marks[i].column = i;
  for (int64_t r = 0; r < t->rows; r++)
    for (int i = 0; i < t->columns; i++) {
      uint64_t bits;
      memcpy(&bits, t->values + r * t->columns + i, sizeof bits);
      marks[i].digest = mix64(marks[i].digest ^ bits);
    }
  qsort(marks, (size_t)t->columns, sizeof *marks, source_set_by_digest);
  for (int i = 0; i < t->columns; i++)
    s->same[marks[i].column] =
        i && marks[i].digest == marks[i - 1].digest ? s->same[marks[i - 1].column] : marks[i].column;
  free(marks);
  for (int64_t r = 0; r < t->rows; r++) {
    const double *row = t->values + r * t->columns;
    for (int i = 0; i < t->columns; i++)
      if (row[i] != row[s->same[i]]) s->same[i] = i;
  }
  return 0;
}

/* --- what they tell --------------------------------------------------------------------------------------------- */

/* The spectra of the columns, computed by several threads. */
typedef struct column_study {
  const source_set *s;
  wavelet_steps steps;
  double *highest; /* of each column, Hz */
  const int *list; /* the columns to be studied, */
  int count;
  int first, apart; /* this rank's, in batches of FOURIER_SERIES: the first batch, and from one to the next */
  atomic_int next;
  atomic_bool failed;
} column_study;

static void *source_set_study_main(void *context) {
  column_study *k = context;
  error lack = {0}; /* of memory */
  for (int64_t i;
       (i = FOURIER_SERIES * (k->first + (int64_t)k->apart * atomic_fetch_add(&k->next, 1))) < k->count;) {
    wavelet_use uses[FOURIER_SERIES] = {{0}};
    const int count = (int)smaller64(FOURIER_SERIES, k->count - i);
    if (wavelet_study_columns(&k->s->signals, k->list + i, count, k->steps, uses, &lack))
      atomic_store(&k->failed, true);
    for (int j = 0; j < count; j++) k->highest[k->list[i + j]] = uses[j].highest;
  }
  return NULL;
}

/* Sets the greatest size of each column; returns the column of the greatest of all. */
static int source_set_find_peaks(const table *t, double *peaks) {
  int strongest = 0;
  for (int64_t r = 0; r < t->rows; r++)
    for (int i = 0; i < t->columns; i++) {
      const double size = fabs(t->values[r * t->columns + i]);
      peaks[i] = size > peaks[i] ? size : peaks[i];
    }
  for (int i = 1; i < t->columns; i++)
    if (peaks[i] > peaks[strongest]) strongest = i;
  return strongest;
}

/* Lists the first of equal columns, without those far smaller than the greatest. */
static int source_set_list(const source_set *s, const double *peaks, double least, int *list) {
  int count = 0;
  for (int i = 0; i < s->columns; i++)
    if (s->same[i] == i && peaks[i] >= least && peaks[i] > 0) list[count++] = i;
  return count;
}

static int source_set_unite(double *highest, int columns, MPI_Comm comm, error *e) {
  MPI_AWAIT(e, MPI_Iallreduce(MPI_IN_PLACE, highest, columns, MPI_DOUBLE, MPI_MAX, comm, &request));
  return 0;
}

/* Begin, end and jumps are those of the column of the greatest value; little of any column lies above use.highest. */
static int source_set_study(source_set *s, const files *files, wavelet_steps steps, error *e) {
  const table *t = &s->signals.rows;
  double *peaks, *highest;
  int *list;
  column_study k = {.s = s, .steps = steps};
  MPI_TRY(e, MPI_Comm_rank(files->compute, &k.first));
  MPI_TRY(e, MPI_Comm_size(files->compute, &k.apart));
  ALLOC(e, peaks, t->columns, "the sources");
  ALLOC(e, highest, t->columns, "the sources");
  ALLOC(e, list, t->columns, "the sources");
  const int strongest = e->id ? 0 : source_set_find_peaks(t, peaks);
  if (!e->id && !wavelet_study_columns(&s->signals, &strongest, 1, steps, &s->use, e) && t->columns > 1) {
    k.highest = highest, k.list = list;
    k.count = source_set_list(s, peaks, NEGLIGIBLE * peaks[strongest], list);
    thread_run(smaller(files->access->compressors, t->columns), source_set_study_main, &k);
    if (k.failed) FAIL(e, OUT_OF_MEMORY, (size_t)t->rows * sizeof *t->values, "the spectrum of a wavelet");
  }
  if (!error_agree(e, files->compute) && k.apart > 1)
    source_set_unite(highest, t->columns, files->compute, e);
  for (int i = 0; i < t->columns && t->columns > 1 && !e->id; i++)
    if (i == 0 || highest[i] > s->use.highest) s->use.highest = highest[i], s->highest_column = i;
  free(peaks);
  free(highest);
  free(list);
  return e->id;
}

static int source_set_digest_rows(source_set *s, error *e) {
  const table *t = &s->signals.rows;
  const size_t rows = (size_t)t->rows, columns = (size_t)t->columns;
  const double times[2] = {s->signals.first, s->signals.apart};
  s->digested = s->signals.timed ? 0 : s->rows;
  TRY(ALLOC(e, s->digests, s->digested + 1, "the sources"));
  if (s->signals.timed)
    s->digests[0] = mix64(numbers_digest(t->values, rows * columns) ^ numbers_digest(times, 2));
  for (int64_t i = 0; i < s->digested; i++)
    s->digests[i + 1] = mix64(s->digests[i] ^ numbers_digest(t->values + (size_t)i * columns, columns));
  return 0;
}

/* How many rows count, if there are so many. Imposed ones: also that of the last step. */
static int64_t source_set_most(const config *c, wavelet_steps steps) {
  const bool whole = c->dispersion == DISPERSION_REMOVED && c->receivers != RECEIVERS_NONE &&
                     c->sources_mode != SOURCES_IMPOSE;
  return whole ? wavelet_reach(wavelet_end(steps.count + steps.extra)) : steps.count + 1;
}

int source_set_read(source_set *s, const problem *on, wavelet_steps steps, const source_config *own,
                    error *e) {
  const char *dataset = own ? own->wavelet_file : on->config->sources_signals_file;
  const int64_t most = source_set_most(on->config, steps);
  if (own)
    wavelet_read(on->files, dataset, &s->signals, e);
  else
    wavelet_read_signals(on->files, dataset,
                         (signals_shape){s->count, on->config->timed ? 1 : steps.count, most}, &s->signals,
                         e);
  if (e->id) return e->id;
  s->columns = s->signals.rows.columns;
  s->rows = wavelet_length_of(&s->signals, steps.dt, most);
  if (!ALLOC(e, s->values, s->columns, "the sources") && !source_set_find_equal(s, e))
    source_set_digest_rows(s, e);
  TRY(error_agree(e, on->files->compute));
  return source_set_study(s, on->files, steps, e);
}

/* --- their values ----------------------------------------------------------------------------------------------- */

enum { VALUES_TOGETHER = 512 /* steps whose places among the rows a thread finds for all columns */ };

typedef struct column_values {
  source_set *s;
  const source_columns *of;
  int *list, count; /* of equal columns the first */
  atomic_llong next;
} column_values;

static void *source_set_find_main(void *context) {
  column_values *k = context;
  for (int64_t first; (first = VALUES_TOGETHER * atomic_fetch_add(&k->next, 1)) < k->s->rows;)
    for (int64_t i = first; i < smaller64(first + VALUES_TOGETHER, k->s->rows); i++) {
      const wavelet_place at = wavelet_find(&k->s->signals, k->of->dt, i);
      for (int c = 0; c < k->count; c++)
        k->s->values[k->list[c]][i] = wavelet_sum(&k->s->signals, &at, k->list[c], k->of->outside);
    }
  return NULL;
}

int source_set_find(source_set *s, const source_columns *columns, error *e) {
  column_values k = {.s = s, .of = columns};
  bool *listed;
  ALLOC(e, k.list, s->columns, "the sources");
  ALLOC(e, listed, s->columns, "the sources");
  for (int i = 0; i < columns->count && !e->id; i++) {
    const int first = s->same[columns->list[i]];
    if (!listed[first] && !ALLOC(e, s->values[first], s->rows, "the sources")) k.list[k.count++] = first;
    listed[first] = true;
  }
  if (k.count && !e->id) thread_run(columns->threads, source_set_find_main, &k);
  free(k.list);
  free(listed);
  return e->id;
}

void source_set_take(const source_set *s, int column, wavelet *w) {
  w->values = s->values[s->same[column]], w->rows = s->rows;
}

void source_set_close(source_set *s) {
  table_free(&s->signals.rows);
}

void source_set_free_values(source_set *s) {
  for (int i = 0; s->values && i < s->columns; i++) free(s->values[i]);
  free(s->values);
  s->values = NULL;
}

void source_set_free(source_set *s) {
  source_set_close(s);
  source_set_free_values(s);
  free(s->digests);
  free(s->same);
  *s = (source_set){0};
}

/* --- the log ---------------------------------------------------------------------------------------------------- */

uint64_t source_set_digest(const source_set *s, int64_t rows) {
  return s->digests[smaller64(rows, s->digested)];
}

int source_set_describe(const source_set *s, char *text, size_t size) {
  return snprintf(text, size,
                  "; [sources] positions: shape (%d, 3), digest %016" PRIx64
                  "; signals: %d column%s%s, digest of the run's rows %016" PRIx64 "\n",
                  s->count, s->positions_digest, s->columns, s->columns > 1 ? "s" : "",
                  s->signals.timed ? " with times" : "", source_set_digest(s, s->rows));
}
