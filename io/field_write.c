/* Writing a field, VTKHDF ImageData: rank 0 makes the file with all but the values, every rank puts its planes there,
 * rank 0 adds what they came to and gives the file its name. */
#include "io_internal.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error_mpi.h"
#include "atomic_file.h"
#include "space.h"

typedef struct field_writer {
  const field_io *io;
  const field_meta *meta;
  field_source *source;
  void *context;
  new_file file; /* where it is compressed only rank 0 has it, */
  new_hdf5 to;   /* through HDF5 */
  hid_t dataset; /* rank 0's */
} field_writer;

/* --- all but the values ----------------------------------------------------------------------------------------- */

/* The dataset /histogram with its axis /bin, and the root attributes q01 and so on. */
static int write_histogram(const field_writer *w, const field_statistics *s, error *e) {
  char name[8];
  for (int i = 0; i < QUANTILES; i++) {
    quantile_name(i, name);
    TRY(attribute_double(w->to.name, w->to.file, name, 0, &s->quantiles[i], e));
  }
  const double range[2] = {s->all.min, s->all.max}, width = (range[1] - range[0]) / s->bins;
  const axis bins = {.name = "bin",
                     .words = {FIELD_UNITS, "centre of the bin"},
                     .points = (hsize_t)s->bins,
                     .first = range[0] + width / 2,
                     .spacing = width};
  TRY(axis_create(w->to.name, w->to.file, &bins, e));
  hid_t counts = dataset_create(w->to.file, "histogram", H5T_STD_I64LE, 1, &bins.points, 0);
  if (counts < 0 || H5Dwrite(counts, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, s->histogram) < 0)
    new_hdf5_failed(&w->to, e);
  else if (!axes_attach(w->to.name, w->to.file, counts, 1, &bins.name, e) &&
           !dataset_describe(w->to.name, counts, (dataset_words){"1", "points in the bin"}, e))
    attribute_double(w->to.name, counts, "range", 2, range, e);
  if (counts >= 0) H5Dclose(counts);
  return e->id;
}

static int write_statistics(const field_writer *w, const field_statistics *s, error *e) {
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"min", s->all.min}, {"max", s->all.max}, {"sum", s->all.sum}, {"l2", statistics_l2(s)}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    TRY(attribute_double(w->to.name, w->to.file, numbers[i].name, 0, &numbers[i].value, e));
  return s->bins ? write_histogram(w, s, e) : 0;
}

/* Attributes of group /VTKHDF. VTK asks for exactly these types, and for a Type of fixed length. */
static int write_image(const field_writer *w, hid_t group, const field_meta *m, error *e) {
  const slab *s = w->io->slab;
  const int64_t version[2] = {1, 0}, extent[6] = {0, s->nx - 1, 0, s->ny - 1, 0, s->nz_global - 1};
  const double direction[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  TRY(attribute_int64(w->to.name, group, "Version", 2, version, e));
  TRY(attribute_string(w->to.name, group, "Type", strlen("ImageData"), "ImageData", e));
  TRY(attribute_int64(w->to.name, group, "WholeExtent", 6, extent, e));
  TRY(attribute_double(w->to.name, group, "Origin", 3, m->origin, e));
  TRY(attribute_double(w->to.name, group, "Spacing", 3, m->spacing, e));
  return attribute_double(w->to.name, group, "Direction", 9, direction, e);
}

/* /VTKHDF/PointData/u and its other name /u. Compressed, the ranks filter its planes themselves. */
static int write_dataset(field_writer *w, hid_t group, int compress, error *e) {
  const slab *s = w->io->slab;
  const hsize_t shape[3] = {(hsize_t)s->nz_global, (hsize_t)s->ny, (hsize_t)s->nx};
  if (compress && H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) return FAIL(e, FIELD_NO_GZIP);
  w->dataset = dataset_create(group, "u", H5T_IEEE_F32LE, 3, shape, compress);
  if (w->dataset < 0 || H5Lcreate_hard(group, "u", w->to.file, "u", H5P_DEFAULT, H5P_DEFAULT) < 0)
    new_hdf5_failed(&w->to, e);
  return e->id;
}

/* The scalar /time, which is a coordinate of /u as well. */
static int write_time(const field_writer *w, const double *time, error *e) {
  hid_t dataset = dataset_create(w->to.file, "time", H5T_IEEE_F64LE, 0, NULL, 0);
  if (dataset < 0 || H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, time) < 0)
    new_hdf5_failed(&w->to, e);
  else
    dataset_describe(w->to.name, dataset, (dataset_words){"s", "time"}, e);
  if (dataset >= 0) H5Dclose(dataset);
  TRY(e->id);
  return attribute_text(w->to.name, w->dataset, "coordinates", "time", e);
}

static int write_axes(const field_writer *w, const field_meta *m, error *e) {
  static const char *const names[] = {"z", "y", "x"};
  static const char *const long_names[] = {"position along z", "position along y", "position along x"};
  const int points[] = {w->io->slab->nz_global, w->io->slab->ny, w->io->slab->nx};
  for (int i = 0; i < 3; i++) {
    const axis a = {.name = names[i],
                    .words = {"m", long_names[i]},
                    .points = (hsize_t)points[i],
                    .first = m->origin[2 - i],
                    .spacing = m->spacing[2 - i]};
    TRY(axis_create(w->to.name, w->to.file, &a, e));
  }
  TRY(axes_attach(w->to.name, w->to.file, w->dataset, 3, names, e));
  TRY(field_describe(w->to.name, w->dataset, &m->run, e));
  return write_time(w, &m->run.time, e);
}

static int write_groups(field_writer *w, const field_meta *m, error *e) {
  hid_t image = H5Gcreate2(w->to.file, "VTKHDF", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t points = image < 0 ? -1 : H5Gcreate2(image, "PointData", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (points < 0)
    new_hdf5_failed(&w->to, e);
  else if (!write_image(w, image, m, e))
    write_dataset(w, points, m->compress, e);
  if (points >= 0) H5Gclose(points);
  if (image >= 0) H5Gclose(image);
  return e->id;
}

/* All that describes the field but its statistics. */
static int write_header(field_writer *w, error *e) {
  const field_meta *m = w->meta;
  TRY(new_hdf5_create(&w->to, w->file.plan.temporary, 0, e));
  TRY(attribute_run(w->to.name, w->to.file, &m->run, e));
  TRY(write_groups(w, m, e));
  TRY(write_axes(w, m, e));
  return H5Fflush(w->to.file, H5F_SCOPE_GLOBAL) < 0 || w->to.failure.id ? new_hdf5_failed(&w->to, e) : 0;
}

/* --- the file --------------------------------------------------------------------------------------------------- */

/* On rank 0. Looking through a folder of many files takes longer than writing a small field. But what another machine's
 * process has left cannot be told at first. */
static void write_remove_abandoned(const field_io *io) {
  const double BETWEEN = 600; /* s */
  static const char *const lists[] = {SERIES_XDMF, SERIES_PARAVIEW};
  char series[FILE_NAME];
  const double now = clock_seconds();
  if (now < io->way->next_look) return;
  io->way->next_look = now + BETWEEN;
  temporary_remove(io->path, ".hdf");
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    snprintf(series, sizeof series, "%s%s", io->path, lists[i]);
    temporary_remove(series, NULL);
  }
}

/* On rank 0. What compressed values take nobody knows. */
static int write_create(field_writer *w, error *e) {
  const slab *s = w->io->slab;
  const uint64_t points = (uint64_t)s->nx * (uint64_t)s->ny * (uint64_t)s->nz_global;
  if (!w->meta->compress) TRY(space_check(w->file.name, points * sizeof(float), e));
  temporary_name(w->file.plan.temporary, sizeof w->file.plan.temporary, w->file.name);
  TRY(write_header(w, e));
  if (!w->meta->compress) w->file.plan.at[0] = (uint64_t)H5Dget_offset(w->dataset);
  return 0;
}

/* A row_mover. */
static int write_put_planes(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const field_writer *w = context;
  return w->source(w->context, (int)(row - w->io->slab->z0), (int)rows, values, e);
}

/* For row_file, on rank 0: a compressed plane, whose chunk is `at`. */
static int write_put_chunk(void *context, uint64_t at, void *from, size_t bytes, error *e) {
  const field_writer *w = context;
  const hsize_t chunk[3] = {at, 0, 0};
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* where HDF5 is for many threads, each has its own error printing */
  const bool put = H5Dwrite_chunk(w->dataset, H5P_DEFAULT, 0, chunk, bytes, from) >= 0;
  return put && !w->to.failure.id ? 0 : new_hdf5_failed(&w->to, e);
}

/* Collective, agreed. */
static int write_planes(field_writer *w, error *e) {
  io_way *way = w->io->way;
  const slab *s = w->io->slab;
  const int compress = w->meta->compress;
  if (!compress) rows_open_new(way, &w->file, e);
  TRY(error_agree(e, way->comm));
  const row_file f = {.name = w->file.name,
                      .fd = w->file.fd,
                      .write = true,
                      .move = compress ? write_put_chunk : NULL,
                      .context = w,
                      .deflate = compress};
  row_part own = {.array = "u",
                  .at = w->file.plan.at[0],
                  .row_bytes = (uint64_t)s->ny * (uint64_t)s->nx * sizeof(float),
                  .first = s->z0,
                  .count = s->nz,
                  .move = write_put_planes,
                  .context = w};
  rows_move(way, &f, w->file.direct, &own, 1, e);
  rows_close_new(&w->file, true, e);
  return error_agree(e, way->comm);
}

/* The data server hears of the statistics from the first computing rank; `histogram`: its memory for that part. */
static int write_tell_statistics(const field_writer *w, field_statistics *s, uint64_t *histogram, error *e) {
  enum { TAG_STATISTICS = 7002, SERVER = 0, FIRST = 1 };
  const io_way *way = w->io->way;
  const field_statistics *known = w->meta->statistics;
  if (w->io->mode != IO_SERVER || way->rank > FIRST) return 0;
  if (way->rank == FIRST) {
    MPI_TRY(e, MPI_Send(known, sizeof *known, MPI_BYTE, SERVER, TAG_STATISTICS, way->comm));
    MPI_TRY(e, MPI_Send(known->histogram, known->bins, MPI_UINT64_T, SERVER, TAG_STATISTICS, way->comm));
    return 0;
  }
  MPI_TRY(e, MPI_Recv(s, sizeof *s, MPI_BYTE, FIRST, TAG_STATISTICS, way->comm, MPI_STATUS_IGNORE));
  MPI_TRY(e, MPI_Recv(histogram, s->bins, MPI_UINT64_T, FIRST, TAG_STATISTICS, way->comm, MPI_STATUS_IGNORE));
  s->histogram = histogram;
  return 0;
}

/* What the planes have come to; then rank 0 knows it, too. Collective, agreed. */
static int write_measure(field_writer *w, error *e) {
  const field_meta *m = w->meta;
  const bool server = w->io->slab->rank < 0, told = server && m->measured;
  const size_t bytes = HISTOGRAM_BINS * sizeof(uint64_t); /* too much for the stack of a thread that writes */
  field_statistics there = {0};
  if (!m->statistics) return 0;
  uint64_t *histogram = told ? malloc(bytes) : NULL;
  if (told && !histogram) FAIL(e, OUT_OF_MEMORY, bytes, "the histogram of a field");
  if (m->measured && !server) m->measured(w->context, e);
  if (!error_agree(e, w->io->way->comm) && m->measured) write_tell_statistics(w, &there, histogram, e);
  if (w->io->way->rank == 0 && !e->id) write_statistics(w, told ? &there : m->statistics, e);
  free(histogram);
  return error_agree(e, w->io->way->comm);
}

/* On rank 0: the file gets its name, or goes. */
static int write_settle(field_writer *w, error *e) {
  if (w->dataset >= 0 && H5Dclose(w->dataset) < 0) new_hdf5_failed(&w->to, e);
  new_hdf5_close(&w->to, e);
  return atomic_file_commit(w->file.plan.temporary, w->file.name, NULL, e);
}

int field_write(const field_io *io, const field_meta *meta, field_source *source, void *context, error *e) {
  const io_way *way = io->way;
  field_writer w = {.io = io, .meta = meta, .source = source, .context = context, .file.fd = -1};
  w.to = (new_hdf5){.name = w.file.name, .file = H5I_INVALID_HID};
  w.dataset = H5I_INVALID_HID;
  TRY(path_step_name(w.file.name, io->path, meta->run.step, ".hdf", e)); /* alike on every rank */
  if (way->rank == 0) {
    write_remove_abandoned(io);
    write_create(&w, e);
  }
  if (!error_agree(e, way->comm) && !write_planes(&w, e)) write_measure(&w, e);
  if (way->rank == 0) write_settle(&w, e);
  return error_agree(e, way->comm);
}
