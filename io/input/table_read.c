#include "table.h"
#include <math.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "input.h"
#include "io/bytes/message.h"

static const uint64_t VALUES_MOST = (uint64_t)1 << 27; /* 1 GiB */

static int table_check_shape(const input *in, table_form form, table *t, error *e) {
  const int rank = in->rank;
  const bool narrow = form.narrow && rank == 2 && in->shape[1] == 1,
             flat = (form.flat && rank == 1) || narrow,
             wide = rank == 2 && in->shape[1] == (hsize_t)form.columns;
  uint64_t rows = rank ? in->shape[0] : 0;
  if ((!flat && !wide) || (rows == 0 && !form.empty))
    return FAIL(e, TABLE_SHAPE, in->name,
                form.narrow ? "(n,), (n, 1) or "
                : form.flat ? "(n,) or "
                            : "",
                form.columns, in->found);
  if (form.most && rows > (uint64_t)form.most) rows = (uint64_t)form.most;
  t->columns = flat ? 1 : form.columns;
  if (!form.parts && rows > VALUES_MOST / (uint64_t)t->columns)
    return FAIL(e, TABLE_HUGE, in->name, rows, t->columns, VALUES_MOST);
  t->rows = (int64_t)rows;
  return 0;
}

/* How rank 0 reads a table: in parts of so many rows and columns. A part is at least a chunk of the file, so that no
 * chunk is decompressed twice. */
typedef struct table_source {
  input in;
  int64_t rows, columns;
  bool gaps;
} table_source;

static void table_plan_parts(table_source *s, const table *t) {
  enum { PART = 1 << 20 /* numbers */ };
  hsize_t chunk[H5S_MAX_RANK] = {1, 1};
  const hid_t list = H5Dget_create_plist(s->in.dataset);
  int axes = 0;
  if (list >= 0 && H5Pget_layout(list) == H5D_CHUNKED) axes = H5Pget_chunk(list, H5S_MAX_RANK, chunk);
  if (list >= 0) H5Pclose(list);
  const int64_t rows = smaller64((int64_t)chunk[0], t->rows),
                columns = axes == 2 ? smaller64((int64_t)chunk[1], t->columns) : t->columns;
  s->columns = smaller64(larger64(PART / rows / columns, 1) * columns, t->columns);
  s->rows = smaller64(larger64(PART / rows / s->columns, 1) * rows, t->rows);
}

static int table_open(table_source *s, const char *dataset, table_form form, table *t, error *e) {
  const dataset_kind kind = {form.flat ? 1 : 2, 2, form.flat ? "1D or 2D" : "2D"};
  TRY(input_open(&s->in, dataset, kind, false, e));
  TRY(table_check_shape(&s->in, form, t, e));
  if (form.words) input_read_word(&s->in, "dispersion", t->dispersion, TABLE_WORD);
  if (form.words) input_read_word(&s->in, "equation", t->equation, TABLE_WORD);
  if (t->rows == 0) return 0;
  table_plan_parts(s, t);
  const bool measured = t->columns == form.columns && form.measured;
  return input_check_plain(&s->in, measured ? form.quantity : QUANTITY_NONE, e);
}

static int table_read_part(const table_source *s, const table_part *p, double *values, error *e) {
  const input_block block = {
      H5T_NATIVE_DOUBLE, 2, {(hsize_t)p->row, (hsize_t)p->column}, {(hsize_t)p->rows, (hsize_t)p->columns}};
  const char *name = s->in.name;
  char found[MISSING_TEXT];
  TRY(input_get(&s->in, &block, values, e));
  for (int64_t i = 0; i < p->rows * p->columns; i++) {
    const double v = values[i];
    const int64_t row = p->row + i / p->columns;
    if (s->gaps && isnan(v)) continue;
    const missing_range *r = missing_find(&s->in.missing, (float)v);
    if (r) return FAIL(e, TABLE_MISSING, name, missing_text(r, (float)v, found), row, s->in.file);
    if (!isfinite(v)) return FAIL(e, TABLE_NO_VALUE, name, isnan(v) ? "NaN" : "Inf", row);
  }
  return 0;
}

/* The sink of a table that is kept. */
static int table_keep(void *context, const table *t, const table_part *p, error *e) {
  double *values = context;
  (void)e;
  for (int64_t i = 0; i < p->rows; i++)
    memcpy(values + (p->row + i) * t->columns + p->column, p->values + i * p->columns,
           (size_t)p->columns * sizeof *values);
  return 0;
}

/* Rank 0 broadcasts part after part, until one of the ranks has failed. */
static int table_broadcast(MPI_Comm comm, const table_source *s, const table_sink *sink, const table *t,
                           error *e) {
  int64_t most[2] = {s->rows, s->columns};
  double *values = NULL;
  int rank = 0;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  TRY(message_broadcast(most, sizeof most, comm, e));
  ALLOC(e, values, most[0] * most[1], "a table");
  for (table_part p = {.values = values}; p.row < t->rows;) {
    p.rows = smaller64(most[0], t->rows - p.row), p.columns = smaller64(most[1], t->columns - p.column);
    if (rank == 0 && !e->id) table_read_part(s, &p, values, e);
    if (error_agree(e, comm)) break;
    message_broadcast(values, (size_t)(p.rows * p.columns) * sizeof *values, comm, e);
    if (!e->id && sink) sink->take(sink->context, t, &p, e);
    p.column += p.columns;
    if (p.column == t->columns) p.column = 0, p.row += p.rows;
  }
  free(values);
  return error_agree(e, comm);
}

/* Broadcasts the table that rank 0 has opened, unless that failed. */
static int table_take(MPI_Comm comm, const table_source *s, table_form form, const table_sink *parts,
                      table *t, error *e) {
  TRY(error_agree(e, comm));
  TRY(message_broadcast(t, sizeof *t, comm, e));
  if (t->rows == 0) return 0;
  if (!form.parts) ALLOC(e, t->values, t->rows * t->columns, "a table");
  TRY(error_agree(e, comm));
  const table_sink keep = {table_keep, t->values};
  return table_broadcast(comm, s, form.parts ? parts : &keep, t, e);
}

int table_read(MPI_Comm comm, const char *dataset, table_form form, const table_sink *parts, table *t,
               error *e) {
  table_source s = {.gaps = form.gaps, .in = {.opened = H5I_INVALID_HID, .dataset = H5I_INVALID_HID}};
  int rank = 0;
  *t = (table){0};
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  if (rank == 0 && table_open(&s, dataset, form, t, e) == ERROR_FIELD_NO_DATASET && form.optional)
    *e = (error){0};
  table_take(comm, &s, form, parts, t, e);
  if (rank == 0) input_close(&s.in);
  if (e->id) table_free(t);
  return e->id;
}
