/* Signals of a dataset: of [sources], whose points are in another dataset, or of a [source.N] wavelet. */
#ifndef STENCIL_SOURCE_SET_H
#define STENCIL_SOURCE_SET_H

#include "physics/physics.h"
#include "wavelet.h"

/* Zero-initialised it is empty. */
typedef struct source_set {
  int count;             /* points of [sources]; 0: of a [source.N] */
  int columns;           /* signals: one for each point, or one for all */
  wavelet_table signals; /* as read; its rows are owned until source_set_close */
  int *same;             /* of each column: the first one that is equal to it; owned */
  /* of the columns that this rank needs, at `rows` steps from 0 on; else NULL; owned */
  double **values;
  int64_t rows; /* steps that have values: of the signals' own length those that count */
  uint64_t positions_digest;
  /* Digests of [sources], of the first so many rows of all signals; owned. With times [0] is of all rows. */
  uint64_t *digests;
  int64_t digested; /* rows that the digests go to */
  wavelet_use
      use; /* of the signal of the greatest value, but for `highest`: above that lies little of any signal */
  int highest_column; /* the signal with this frequency */
} source_set;

/* Reads and studies the signals for the steps of the run. own: of a file; NULL: [sources], whose points are counted.
 * Collective over files->compute, same error everywhere. Call source_set_free, also after a failure. */
int source_set_read(source_set *s, const problem *on, wavelet_steps steps, const source_config *own,
                    error *e);
/* Finds the values of these columns, on so many threads; values are `outside` beyond the rows or times of the
 * dataset. */
typedef struct source_columns {
  const int *list;
  int count, threads;
  double dt, outside;
} source_columns;

int source_set_find(source_set *s, const source_columns *columns, error *e);
/* Gives *w the values of a column. */
void source_set_take(const source_set *s, int column, wavelet *w);
/* source_set_close frees what was read, source_set_free_values the values, source_set_free all. */
void source_set_close(source_set *s);
void source_set_free_values(source_set *s);
void source_set_free(source_set *s);

/* A digest of the first `rows` of the signals; of signals with times, of all. */
uint64_t source_set_digest(const source_set *s, int64_t rows);
/* Says, in comments of a configuration, which shapes and values the datasets have; as snprintf. */
int source_set_describe(const source_set *s, char *text, size_t size);

#endif
