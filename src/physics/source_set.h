/* The sources that [sources] positions and signals name: points and their signals, from datasets. */
#ifndef STENCIL_SOURCE_SET_H
#define STENCIL_SOURCE_SET_H

#include "physics.h"
#include "wavelet.h"

/* Zero-initialised it is none. */
typedef struct source_set {
  int count, columns;   /* points; signals: as many, or one for all */
  bool timed;           /* signals have times of their own */
  table signals, times; /* as read; owned until source_set_keep */
  double *values;       /* of the signals that this rank needs: rows x kept; owned */
  int64_t rows;         /* steps that have values: of the signals' own length those that count */
  int kept;
  uint64_t positions_digest, timed_digest; /* the latter of signals with their times */
  uint64_t *row_digests;                   /* else: of each row of all signals; `rows` of them, owned */
  wavelet_use
      use; /* of the signal of the greatest value, but for `highest`: above that lies little of any signal */
  int highest_column; /* the signal that has it */
} source_set;

/* Appends the points to *positions, which holds `before` others. Exit 2 where one is outside the grid, naming its row.
 * Collective over files->compute, same error everywhere, as is the next one. source_set_free it, also after a failure. */
int source_set_place(source_set *s, const problem *on, double (**positions)[3], int before, error *e);
/* Reads and studies the signals for the steps of the run. Does nothing where there are no points. */
int source_set_read(source_set *s, const problem *on, wavelet_steps steps, error *e);
/* Keeps `count` signals, of these columns, and frees the others. */
int source_set_keep(source_set *s, const config *c, wavelet_steps steps, const int *columns, int count,
                    error *e);
/* Signal number i of those kept. */
wavelet source_set_wavelet(const source_set *s, const config *c, int i, double amplitude);
void source_set_free(source_set *s);

/* A digest of the first `rows` of the signals; of signals with times, of all. */
uint64_t source_set_digest(const source_set *s, int64_t rows);
/* Says, in comments of a configuration, which shapes and values the datasets have; as snprintf. */
int source_set_describe(const source_set *s, char *text, size_t size);

#endif
