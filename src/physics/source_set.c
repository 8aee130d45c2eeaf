#include "source_set.h"
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

/* What the columns' spectra tell, found by threads together. */
typedef struct column_study {
  const source_set *s;
  wavelet_steps steps;
  double *highest; /* of each column, Hz */
  const double *peaks;
  double least;
  int first, apart; /* the columns of this rank */
  atomic_int next;
  atomic_bool failed;
} column_study;

static int source_set_study_one(const column_study *k, int column, wavelet_use *use, error *e) {
  table curve;
  TRY(wavelet_take_column(&k->s->signals, &k->s->times, column, &curve, e));
  wavelet_study_curve(&curve, k->steps, use, e);
  table_free(&curve);
  return e->id;
}

static void *source_set_study_main(void *context) {
  column_study *k = context;
  error lack = {0}; /* of memory */
  for (int64_t i; (i = k->first + (int64_t)k->apart * atomic_fetch_add(&k->next, 1)) < k->s->columns;) {
    wavelet_use use = {0};
    if (k->peaks[i] < k->least || k->peaks[i] == 0) continue;
    if (source_set_study_one(k, (int)i, &use, &lack)) atomic_store(&k->failed, true);
    k->highest[i] = use.highest;
  }
  return NULL;
}

static int source_set_unite(double *highest, int columns, MPI_Comm comm, error *e) {
  MPI_AWAIT(e, MPI_Iallreduce(MPI_IN_PLACE, highest, columns, MPI_DOUBLE, MPI_MAX, comm, &request));
  return 0;
}

/* Begin, end and jumps are those of the column of the greatest value; little of any column lies above use.highest. */
static int source_set_study(source_set *s, const files *files, wavelet_steps steps, error *e) {
  const table *t = &s->signals;
  double *peaks, *highest;
  int strongest = 0;
  column_study k = {.s = s, .steps = steps};
  MPI_TRY(e, MPI_Comm_rank(files->compute, &k.first));
  MPI_TRY(e, MPI_Comm_size(files->compute, &k.apart));
  ALLOC(e, peaks, t->columns, "the sources");
  ALLOC(e, highest, t->columns, "the sources");
  for (int64_t i = 0; i < t->rows * t->columns && !e->id; i++)
    peaks[i % t->columns] = fmax(peaks[i % t->columns], fabs(t->values[i]));
  for (int i = 1; i < t->columns && !e->id; i++)
    if (peaks[i] > peaks[strongest]) strongest = i;
  if (!e->id && !source_set_study_one(&k, strongest, &s->use, e) && t->columns > 1) {
    k.peaks = peaks, k.highest = highest, k.least = NEGLIGIBLE * peaks[strongest];
    thread_share(smaller(files->way->compressors, t->columns), source_set_study_main, &k);
    if (k.failed) FAIL(e, OUT_OF_MEMORY, (size_t)t->rows * sizeof *t->values, "the spectrum of a wavelet");
  }
  if (!error_agree(e, files->compute) && k.apart > 1)
    source_set_unite(highest, t->columns, files->compute, e);
  for (int i = 0; i < t->columns && t->columns > 1 && !e->id; i++)
    if (i == 0 || highest[i] > s->use.highest) s->use.highest = highest[i], s->highest_column = i;
  free(peaks);
  free(highest);
  return e->id;
}

static int source_set_digest_rows(source_set *s, error *e) {
  const table *t = &s->signals;
  const size_t rows = (size_t)t->rows, columns = (size_t)t->columns;
  s->digested = s->timed ? 0 : s->rows;
  TRY(ALLOC(e, s->digests, s->digested + 1, "the sources"));
  if (s->timed)
    s->digests[0] = mix64(numbers_digest(t->values, rows * columns) ^ numbers_digest(s->times.values, rows));
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
    wavelet_read(on->files, dataset, &s->signals, &s->times, e);
  else
    wavelet_read_signals(on->files, dataset,
                         (signals_shape){s->count, on->config->timed ? 1 : steps.count, most}, &s->signals,
                         &s->times, e);
  if (e->id) return e->id;
  s->columns = s->signals.columns;
  s->timed = s->times.rows > 0;
  s->rows = s->timed ? wavelet_length_of_times(&s->times, steps.dt, most) : smaller64(s->signals.rows, most);
  if (!ALLOC(e, s->values, s->columns, "the sources") && !own) source_set_digest_rows(s, e);
  TRY(error_agree(e, on->files->compute));
  return source_set_study(s, on->files, steps, e);
}

int source_set_take(source_set *s, int column, double dt, double outside, wavelet *w, error *e) {
  double *v = s->values[column];
  table curve;
  if (!v) {
    TRY(ALLOC(e, v, s->rows, "the sources"));
    s->values[column] = v;
    TRY(wavelet_take_column(&s->signals, &s->times, column, &curve, e));
    for (int64_t i = 0; i < s->rows; i++) v[i] = wavelet_curve(&curve, dt, i, outside);
    table_free(&curve);
  }
  w->values = v, w->rows = s->rows;
  return 0;
}

void source_set_close(source_set *s) {
  table_free(&s->signals);
  table_free(&s->times);
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
  *s = (source_set){0};
}

/* --- what is said of it ----------------------------------------------------------------------------------------- */

uint64_t source_set_digest(const source_set *s, int64_t rows) {
  return s->digests[smaller64(rows, s->digested)];
}

int source_set_describe(const source_set *s, char *text, size_t size) {
  return snprintf(text, size,
                  "; [sources] positions: shape (%d, 3), digest %016" PRIx64
                  "; signals: %d column%s%s, digest of the run's rows %016" PRIx64 "\n",
                  s->count, s->positions_digest, s->columns, s->columns > 1 ? "s" : "",
                  s->timed ? " with times" : "", source_set_digest(s, s->rows));
}
