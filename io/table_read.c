#include "table.h"
#include <math.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "input.h"
#include "message.h"

static const uint64_t VALUES_MOST = (uint64_t)1 << 27; /* 1 GiB */

static int table_check_shape(const input *in, table_form form, table *t, error *e) {
  const char *name = in->name;
  hsize_t shape[H5S_MAX_RANK];
  char found[SHAPE_TEXT];
  int rank;
  TRY(dataset_shape(name, in->dataset, shape, &rank, found, e));
  const bool narrow = form.narrow && rank == 2 && shape[1] == 1;
  const bool flat = (form.flat && rank == 1) || narrow, wide = rank == 2 && shape[1] == (hsize_t)form.columns;
  if ((!flat && !wide) || (shape[0] == 0 && !form.empty))
    return FAIL(e, TABLE_SHAPE, name,
                form.narrow ? "(n,), (n, 1) or "
                : form.flat ? "(n,) or "
                            : "",
                form.columns, found);
  if (form.most && shape[0] > (hsize_t)form.most) shape[0] = (hsize_t)form.most;
  t->columns = flat ? 1 : form.columns;
  if (shape[0] > VALUES_MOST / (uint64_t)t->columns)
    return FAIL(e, TABLE_HUGE, name, (uint64_t)shape[0], t->columns, VALUES_MOST);
  t->rows = (int64_t)shape[0];
  return 0;
}

static int table_read_values(const input *in, table_form form, table *t, error *e) {
  const char *name = in->name;
  const int measured = t->columns == form.columns ? form.measured : 0;
  const dataset_block first = {H5T_NATIVE_DOUBLE, 2, .count = {(hsize_t)t->rows, (hsize_t)t->columns}};
  char found[MISSING_TEXT], why[HDF5_TEXT];
  missing_values missing;
  TRY(input_check_plain(in, measured ? form.quantity : QUANTITY_NONE, &missing, e));
  TRY(ALLOC(e, t->values, t->rows * t->columns, "a table"));
  if (dataset_read(in->dataset, &first, t->values, why)) return FAIL(e, FIELD_DAMAGED, name, why);
  for (int64_t i = 0; i < t->rows * t->columns; i++) {
    const double v = t->values[i];
    const missing_range *r = missing_find(&missing, (float)v);
    if (r) return FAIL(e, TABLE_MISSING, name, missing_text(r, (float)v, found), i / t->columns, in->file);
    if (!isfinite(v)) return FAIL(e, TABLE_NO_VALUE, name, isnan(v) ? "NaN" : "Inf", i / t->columns);
  }
  return 0;
}

static int table_load(const char *dataset, table_form form, table *t, error *e) {
  const dataset_kind kind = {form.flat ? 1 : 2, 2, form.flat ? "1D or 2D" : "2D"};
  input in;
  *t = (table){0};
  if (!dataset_open(dataset, kind, false, &in, e) && !table_check_shape(&in, form, t, e)) {
    if (form.words) input_read_word(&in, "dispersion", t->dispersion, TABLE_WORD);
    if (form.words) input_read_word(&in, "equation", t->equation, TABLE_WORD);
    if (t->rows) table_read_values(&in, form, t, e);
  }
  input_close(&in);
  if (e->id) table_free(t);
  if (e->id == ERROR_FIELD_NO_DATASET && form.optional) *e = (error){0};
  return e->id;
}

int table_read(MPI_Comm comm, const char *dataset, table_form form, table *t, error *e) {
  int rank = 0;
  *t = (table){0};
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  if (rank == 0) table_load(dataset, form, t, e);
  TRY(error_agree(e, comm));
  table first = *t;
  TRY(message_broadcast(&first, sizeof first, comm, e));
  first.values = t->values;
  *t = first;
  if (rank != 0 && t->rows > 0) ALLOC(e, t->values, t->rows * t->columns, "a table");
  if (!error_agree(e, comm) && t->rows > 0)
    message_broadcast(t->values, (size_t)(t->rows * t->columns) * sizeof *t->values, comm, e);
  if (e->id) table_free(t);
  return e->id;
}

void table_free(table *t) {
  free(t->values);
  *t = (table){0};
}
