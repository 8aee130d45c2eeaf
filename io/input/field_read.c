/* Reading a field: every rank reads its planes. Plain values, contiguous float32 of this byte order, are bytes at a
 * place of a file. All other values are read through HDF5. */
#include "input.h"
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* Opens dataset `name` for reading and checks all but its attributes and values; as input_open. Rank 0 alone checks
 * the storage, before the others open the dataset, since the check reads all compressed chunks. */
static int read_open(const char *name, const field_io *io, input *in, error *e) {
  TRY(input_open(in, name, (dataset_kind){3, 3, "3D"}, io->access->rank > 0, e));
  return input_check_shape(in, io->slab, e);
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* What rank 0 broadcasts about the dataset. */
typedef struct field_place {
  bool plain;
  uint64_t at; /* the first byte of plain values in `file` */
  missing_values missing;
  char warning[128];    /* a warning, for the log */
  char file[FILE_NAME]; /* the file of the dataset, links followed */
} field_place;

typedef struct field_reader {
  const field_io *io;
  const char *name; /* FILE:/path */
  field_sink *sink;
  void *context;
  input in; /* open on ranks that read through HDF5, and on rank 0 */
  int fd;   /* open on ranks that read plain values */
  field_place place;
} field_reader;

static size_t read_plane_floats(const slab *s) {
  return (size_t)s->ny * (size_t)s->nx;
}

/* Returns 0 for a subnormal number, as all of the program does, so that saved fields hold none. */
static float read_flush(float v) {
  return fabsf(v) < FLT_MIN ? copysignf(0, v) : v;
}

/* Refuses number i of the planes from `row` on, which is no value. */
static int read_refuse(const field_reader *r, int64_t row, size_t i, float number, error *e) {
  const slab *s = r->io->slab;
  const size_t plane = read_plane_floats(s), nx = (size_t)s->nx;
  const missing_range *missing = missing_find(&r->place.missing, number);
  const int z = (int)row + (int)(i / plane), y = (int)(i % plane / nx), x = (int)(i % plane % nx);
  char found[MISSING_TEXT];
  if (missing)
    return FAIL(e, FIELD_MISSING, r->name, missing_text(missing, number, found), z, y, x, r->place.file);
  return FAIL(e, FIELD_NO_VALUE, r->name, isnan(number) ? "NaN" : "Inf, or a value beyond float32,", z, y, x);
}

/* A row_mover: checks planes and passes them on. */
static int read_deliver(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const field_reader *r = context;
  const slab *s = r->io->slab;
  const size_t count = read_plane_floats(s) * (size_t)rows;
  float *v = values;
  for (size_t i = 0; i < count; i++) {
    if (!isfinite(v[i]) || missing_find(&r->place.missing, v[i])) return read_refuse(r, row, i, v[i], e);
    v[i] = read_flush(v[i]);
  }
  return r->sink(r->context, (int)(row - s->z0), (int)rows, values, e);
}

/* The `move` of a row_file: reads planes through HDF5. `at` counts bytes as if planes of float32 lay one after
 * another. */
static int read_get_planes(void *context, uint64_t at, void *to, size_t bytes, error *e) {
  const field_reader *r = context;
  const slab *s = r->io->slab;
  const size_t plane = read_plane_floats(s) * sizeof(float);
  const input_block b = {H5T_NATIVE_FLOAT, 3, {at / plane}, {bytes / plane, (hsize_t)s->ny, (hsize_t)s->nx}};
  return input_get(&r->in, &b, to, e);
}

/* Rank 0: are the values plain? */
static void read_find_place(field_reader *r) {
  field_place *p = &r->place;
  p->missing = r->in.missing;
  const ssize_t length = H5Fget_name(r->in.dataset, p->file, sizeof p->file);
  p->plain = input_is_bytes(&r->in, &p->at) && length > 0 && length < (ssize_t)sizeof p->file;
  if (p->plain) r->fd = open(p->file, O_RDONLY | O_CLOEXEC);
  p->plain = r->fd >= 0;
  if (!p->plain) p->at = 0;
}

/* *direct: do all ranks have the values open? Else rank 0 reads for them. Agreed except for rank 0's errors. */
static int read_open_all(field_reader *r, bool *direct, error *e) {
  const io_access *access = r->io->access;
  error unseen = {0};
  MPI_TRY(e, MPI_Bcast(&r->place, sizeof r->place, MPI_BYTE, 0, access->comm));
  const bool other = access->together && access->rank > 0;
  if (other && r->place.plain) r->fd = open(r->place.file, O_RDONLY | O_CLOEXEC);
  if (other && !r->place.plain) read_open(r->name, r->io, &r->in, &unseen);
  return rows_all(access, r->place.plain ? r->fd >= 0 : r->in.dataset >= 0 && !unseen.id, direct, e);
}

static int read_planes(field_reader *r, error *e) {
  const slab *s = r->io->slab;
  bool direct = false;
  TRY(read_open_all(r, &direct, e));
  io_access_log(r->io->access, r->name, r->place.warning);
  const row_file f = {
      .name = r->name, .fd = r->fd, .move = r->place.plain ? NULL : read_get_planes, .context = r};
  row_part own = {.array = r->name,
                  .at = r->place.at,
                  .row_bytes = read_plane_floats(s) * sizeof(float),
                  .first = s->z0,
                  .count = s->nz,
                  .move = read_deliver,
                  .context = r};
  rows_move(r->io->access, &f, direct, &own, 1, e);
  return error_agree(e, r->io->access->comm);
}

/* Warns where the dataset's spacing is not the grid's: with as many points it would be a model of another place. */
static int read_compare_spacing(field_reader *r, error *e) {
  const slab *s = r->io->slab;
  const int points[3] = {s->nx, s->ny, s->nz_global};
  const double *grid = r->io->spacing;
  double said[3];
  bool other = false;
  TRY(input_read_spacing(&r->in, said, e));
  for (int i = 0; i < 3; i++)
    other = other || (said[i] > 0 && grid[i] > 0 && points[i] > 1 && fabs(said[i] / grid[i] - 1) > 1e-4);
  if (other)
    snprintf(r->place.warning, sizeof r->place.warning,
             "warning: its spacing is %g %g %g m, the grid's %g %g %g", said[0], said[1], said[2], grid[0],
             grid[1], grid[2]);
  return 0;
}

int field_read(const field_io *io, const char *dataset, enum quantity quantity, field_sink *sink,
               void *context, error *e) {
  field_reader r = {.io = io, .name = dataset, .sink = sink, .context = context, .fd = -1};
  r.in.opened = r.in.dataset = H5I_INVALID_HID;
  if (io->access->rank == 0 && !read_open(dataset, io, &r.in, e) && !input_check_plain(&r.in, quantity, e) &&
      !read_compare_spacing(&r, e))
    read_find_place(&r);
  if (!error_agree(e, io->access->comm)) read_planes(&r, e);
  if (r.fd >= 0) close(r.fd);
  input_close(&r.in);
  return e->id;
}
