/* Small tables of numbers that a user provides: positions, wavelets. */
#ifndef STENCIL_TABLE_H
#define STENCIL_TABLE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/error.h"
#include "io/hdf5/quantity.h"

/* Shapes that a table may have. */
typedef struct table_form {
  bool flat;   /* (n,) */
  int columns; /* (n, columns) */
  enum quantity quantity;
  /* so many columns have `quantity`; a flat table has none unless it has `columns` columns */
  int measured;
  bool narrow;   /* (n, 1), too */
  bool optional; /* a missing dataset gives a table without rows and columns */
  bool empty;    /* no rows, too */
  bool words;    /* reads table.dispersion and table.equation */
  bool parts;    /* a table_sink gets the values, which may be any number */
  bool gaps;     /* NaN is a value, too */
  int64_t most;  /* rows beyond these are not read; 0: all are */
} table_form;

enum { TABLE_WORD = 16 };
typedef struct table {
  double *values; /* rows x columns, owned: table_free; NULL with form.parts */
  int64_t rows;   /* >= 1; 0: form.optional or form.empty */
  int columns;    /* 1: shape (n,), too */
  /* form.words: attributes of these names, of the group that the table is in; "": none, or no such text */
  char dispersion[TABLE_WORD], equation[TABLE_WORD];
} table;

/* A block of a table, from this row and column on: values[i columns + k]. */
typedef struct table_part {
  int64_t row, column, rows, columns;
  const double *values; /* valid during the call */
} table_part;
/* Gets a table in parts, each number once. All ranks get the same parts, and know the shape of the table by then. The
 * sink may fail on single ranks. */
typedef struct table_sink {
  int (*take)(void *context, const table *t, const table_part *part, error *e);
  void *context;
} table_sink;

/* Reads dataset "FILE:/path", of any integer or float type, as float64 on rank 0 and passes it to all. Exit 2, naming
 * file, dataset, expected and found: a missing file or dataset, a wrong rank, shape or type, values that are not
 * plain numbers in SI, NaN, Inf or a missing value. `parts`: this rank's sink with form.parts; NULL: it wants no
 * values. Collective over `comm`, same error everywhere; after one, `t` is empty. */
int table_read(MPI_Comm comm, const char *dataset, table_form form, const table_sink *parts, table *t,
               error *e);

static inline void table_free(table *t) {
  free(t->values);
  *t = (table){0};
}

#endif
