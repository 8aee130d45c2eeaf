/* Small tables of numbers that a user provides: positions, wavelets. */
#ifndef STENCIL_TABLE_H
#define STENCIL_TABLE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

/* Shapes that a table may have. */
typedef struct table_form {
  bool flat;   /* (n,) */
  int columns; /* (n, columns) */
} table_form;

typedef struct table {
  double *values; /* rows x columns, owned: table_free */
  int64_t rows;   /* >= 1 */
  int columns;    /* 1: shape (n,) */
} table;

/* Reads dataset "FILE:/path" (any integer or float type, converted to float64) on rank 0 and hands it to all. Missing
 * file or dataset, wrong rank, shape or type, NaN or Inf are exit 2 and name the file, the dataset, what was expected
 * and what was found. Collective over `comm`, same error everywhere; after one, `t` is empty. */
int table_read(MPI_Comm comm, const char *dataset, table_form form, table *t, error *e);

/* Likewise for the calling rank alone. */
int table_load(const char *dataset, table_form form, table *t, error *e);

void table_free(table *t);

#endif
