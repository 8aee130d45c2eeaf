/* Writing a field, VTKHDF ImageData: rank 0 makes the file with all but the values, every rank puts its planes there,
 * rank 0 adds what they came to and gives the file its name. */
#include "io_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "atomic_file.h"
#include "gradient_file.h"
#include "space.h"

enum { WRITE_FIELDS = 8, WRITE_PARTS = 16 };

typedef struct field_writer {
  const field_io *io;
  const field_meta *meta;
  field_grid grid;
  const field_planes *parts; /* of its fields, or of their frequencies */
  const field_name *names;   /* of its fields */
  int fields;
  new_file file;               /* where it is compressed only rank 0 has it, */
  new_hdf5 to;                 /* through HDF5 */
  hid_t dataset[WRITE_FIELDS]; /* rank 0's */
} field_writer;

field_grid field_grid_of(const field_meta *m, const slab *s) {
  const int points[3] = {s->nx, s->ny, s->nz_global};
  field_grid g;
  for (int i = 0; i < 3; i++) {
    const config_cut *cut = &g.cut[i];
    g.cut[i] = m->cut[i].count ? m->cut[i] : (config_cut){0, points[i], 1};
    g.origin[i] = m->origin[i] + cut->first * m->spacing[i];
    g.spacing[i] = m->spacing[i] * cut->every;
  }
  return g;
}

/* --- all but the values ----------------------------------------------------------------------------------------- */

/* The dataset /histogram with its axis /bin, and the root attributes q01 and so on. */
static void write_histogram(new_hdf5 *f, const field_statistics *s) {
  char name[8];
  for (int i = 0; i < QUANTILES; i++) {
    quantile_name(i, name);
    attribute_double(f, f->file, name, 0, &s->quantiles[i]);
  }
  const double range[2] = {s->all.min, s->all.max}, width = (range[1] - range[0]) / s->bins;
  const axis bins = {.name = "bin",
                     .words = {FIELD_UNITS, "centre of the bin"},
                     .points = (hsize_t)s->bins,
                     .first = range[0] + width / 2,
                     .spacing = width};
  axis_create(f, &bins);
  hid_t counts = dataset_create(f, "histogram", H5T_STD_I64LE, 1, &bins.points, 0);
  dataset_put(f, counts, H5T_NATIVE_UINT64, s->histogram);
  axes_attach(f, counts, 1, &bins.name);
  dataset_describe(f, counts, (dataset_words){"1", "points in the bin"});
  attribute_double(f, counts, "range", 2, range);
  dataset_close(f, counts);
}

static void write_statistics(new_hdf5 *f, const field_statistics *s) {
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"min", s->all.min}, {"max", s->all.max}, {"sum", s->all.sum}, {"l2", statistics_l2(s)}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    attribute_double(f, f->file, numbers[i].name, 0, &numbers[i].value);
  if (s->bins) write_histogram(f, s);
}

/* Attributes of group /VTKHDF. VTK asks for exactly these types, and for a Type of fixed length. */
static void write_image(new_hdf5 *f, hid_t group, const field_grid *g) {
  const config_cut *cut = g->cut;
  const int64_t version[2] = {1, 0},
                extent[6] = {0, cut[0].count - 1, 0, cut[1].count - 1, 0, cut[2].count - 1};
  const double direction[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  attribute_int64(f, group, "Version", 2, version);
  attribute_string(f, group, "Type", strlen("ImageData"), "ImageData");
  attribute_int64(f, group, "WholeExtent", 6, extent);
  attribute_double(f, group, "Origin", 3, g->origin);
  attribute_double(f, group, "Spacing", 3, g->spacing);
  attribute_double(f, group, "Direction", 9, direction);
}

/* The groups, /VTKHDF/PointData/u and its other name /u. Compressed, the ranks filter its planes themselves. */
static void write_datasets(field_writer *w) {
  new_hdf5 *f = &w->to;
  const config_cut *cut = w->grid.cut;
  const hsize_t shape[3] = {(hsize_t)cut[2].count, (hsize_t)cut[1].count, (hsize_t)cut[0].count};
  char name[80];
  if (f->failure.id) return;
  hid_t image = H5Gcreate2(f->file, "VTKHDF", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t points = image < 0 ? -1 : H5Gcreate2(image, "PointData", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (new_hdf5_check(f, points >= 0)) write_image(f, image, &w->grid);
  for (int i = 0; i < w->fields; i++) {
    const hsize_t pairs[5] = {(hsize_t)w->names[i].frequencies, shape[0], shape[1], shape[2], 2};
    if (pairs[0]) { /* no field that VTK knows */
      w->dataset[i] = dataset_create(f, w->names[i].name, H5T_IEEE_F32LE, 5, pairs, 0);
      continue;
    }
    snprintf(name, sizeof name, "VTKHDF/PointData/%s", w->names[i].name);
    w->dataset[i] = dataset_create(f, name, H5T_IEEE_F32LE, 3, shape, w->meta->compress);
    if (!f->failure.id)
      new_hdf5_check(f, H5Lcreate_hard(points, w->names[i].name, f->file, w->names[i].name, H5P_DEFAULT,
                                       H5P_DEFAULT) >= 0);
  }
  if (points >= 0) H5Gclose(points);
  if (image >= 0) H5Gclose(image);
}

/* The scalar /time, which is a coordinate of /u as well. */
static void write_time(field_writer *w) {
  new_hdf5 *f = &w->to;
  field_describe(f, w->dataset[0], &w->meta->run);
  hid_t time = dataset_create(f, "time", H5T_IEEE_F64LE, 0, NULL, 0);
  dataset_put(f, time, H5T_NATIVE_DOUBLE, &w->meta->run.time);
  dataset_describe(f, time, (dataset_words){"s", "time"});
  dataset_close(f, time);
  attribute_text(f, w->dataset[0], "coordinates", "time");
}

/* /dft: of frequencies, and of real and imaginary part. */
static void write_frequency_axes(field_writer *w, int i) {
  static const char *const names[] = {"frequency", "z", "y", "x", "part"}, *const parts[] = {"real",
                                                                                             "imaginary"};
  new_hdf5 *f = &w->to;
  const hsize_t count = (hsize_t)w->names[i].frequencies;
  axis_create(f, &(axis){.name = "frequency",
                         .words = {"Hz", "frequency"},
                         .points = count,
                         .values = w->meta->frequencies});
  axis_create(f, &(axis){.name = "part", .words = {"1", "part"}, .points = 2, .labels = parts});
  axes_attach(f, w->dataset[i], 5, names);
}

/* Its axes. */
static void write_axes(field_writer *w) {
  static const char *const names[] = {"z", "y", "x"};
  static const char *const long_names[] = {"position along z", "position along y", "position along x"};
  const field_meta *m = w->meta;
  new_hdf5 *f = &w->to;
  for (int i = 0; i < 3; i++)
    axis_create(f, &(axis){.name = names[i],
                           .words = {"m", long_names[i]},
                           .points = (hsize_t)w->grid.cut[2 - i].count,
                           .first = m->origin[2 - i],
                           .from = w->grid.cut[2 - i].first,
                           .every = w->grid.cut[2 - i].every,
                           .spacing = m->spacing[2 - i]});
  for (int i = 0; i < w->fields; i++) {
    if (w->names[i].frequencies)
      write_frequency_axes(w, i);
    else
      axes_attach(f, w->dataset[i], 3, names);
    if (m->ending)
      dataset_describe(f, w->dataset[i], (dataset_words){w->names[i].units, w->names[i].long_name});
  }
  if (m->counted.steps) {
    attribute_int64(f, f->file, "counted_steps", 0, &m->counted.steps);
    attribute_double(f, f->file, "counted_from", 0, &m->counted.from);
    attribute_double(f, f->file, "counted_until", 0, &m->counted.until);
  }
  if (m->gradient) gradient_describe(f, &m->run, m->gradient, w->file.plan.at + WRITE_PARTS);
  if (!m->ending) write_time(w);
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static uint64_t write_points(const field_writer *w) {
  const config_cut *cut = w->grid.cut;
  return (uint64_t)cut[0].count * (uint64_t)cut[1].count * (uint64_t)cut[2].count;
}

/* On rank 0, where HDF5 is this thread's. */
static void write_make(field_writer *w) {
  new_hdf5_create(&w->to, w->file.plan.temporary, 0);
  attribute_run(&w->to, &w->meta->run);
  write_datasets(w);
  write_axes(w);
  if (!w->to.failure.id) new_hdf5_check(&w->to, H5Fflush(w->to.file, H5F_SCOPE_GLOBAL) >= 0);
  for (int i = 0, part = 0; i < w->fields && !w->meta->compress && !w->to.failure.id; i++) {
    const uint64_t first = (uint64_t)H5Dget_offset(w->dataset[i]);
    const int frequencies = w->names[i].frequencies;
    for (int k = 0; k < larger(frequencies, 1); k++)
      w->file.plan.at[part++] = first + (uint64_t)k * 2 * write_points(w) * sizeof(float);
  }
}

/* On rank 0. What compressed values take nobody knows. */
static int write_create(field_writer *w, error *e) {
  uint64_t floats = 0;
  for (int i = 0; i < w->fields; i++) floats += (uint64_t)larger(2 * w->names[i].frequencies, 1);
  if (!w->meta->compress) TRY(space_check(w->file.name, floats * write_points(w) * sizeof(float), e));
  temporary_name(w->file.plan.temporary, sizeof w->file.plan.temporary, w->file.name);
  if (w->meta->compress && H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) return FAIL(e, FIELD_NO_GZIP);
  files_take_hdf5();
  field_io_start(); /* of this thread */
  write_make(w);
  files_give_hdf5();
  return new_hdf5_failed(&w->to, e);
}

/* A row_mover of one field. */
typedef struct field_rows {
  const field_writer *w;
  const field_planes *part;
} field_rows;

/* A plane of the file from one of the grid. */
static float *write_cut_plane(const config_cut cut[3], const float *plane, int nx, float *to) {
  for (int y = 0; y < cut[1].count; y++) {
    const float *from = plane + (size_t)(cut[1].first + y * cut[1].every) * (size_t)nx + cut[0].first;
    for (int x = 0; x < cut[0].count; x++) *to++ = from[(size_t)x * (size_t)cut[0].every];
  }
  return to;
}

static int write_put_planes(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const field_rows *r = context;
  const slab *s = r->w->io->slab;
  const config_cut *cut = r->w->grid.cut;
  const int z = cut[2].first + (int)row * cut[2].every - s->z0;
  float *to = values, *plane;
  if (cut[0].count == s->nx && cut[1].count == s->ny && cut[2].every == 1)
    return r->part->source(r->part->context, z, (int)rows, values, e);
  TRY(ALLOC(e, plane, (size_t)s->nx * (size_t)s->ny, "a plane of a field"));
  for (int i = 0; i < rows && !r->part->source(r->part->context, z + i * cut[2].every, 1, plane, e); i++)
    to = write_cut_plane(cut, plane, s->nx, to);
  free(plane);
  return e->id;
}

/* For row_file, on rank 0: a compressed plane, whose chunk is `at`. */
static int write_put_chunk(void *context, uint64_t at, void *from, size_t bytes, error *e) {
  field_writer *w = context;
  const hsize_t chunk[3] = {at, 0, 0};
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* where HDF5 is for many threads, each has its own error printing */
  new_hdf5_check(&w->to, H5Dwrite_chunk(w->dataset[0], H5P_DEFAULT, 0, chunk, bytes, from) >= 0);
  return new_hdf5_failed(&w->to, e);
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
  const config_cut planes = w->grid.cut[2];
  const int first = config_cut_below(planes, s->z0), count = config_cut_below(planes, s->z0 + s->nz) - first;
  const uint64_t plane = (uint64_t)w->grid.cut[0].count * (uint64_t)w->grid.cut[1].count * sizeof(float);
  field_rows rows[WRITE_PARTS];
  row_part own[WRITE_PARTS];
  int parts = 0;
  for (int i = 0; i < w->fields; i++)
    for (int k = 0; k < larger(w->names[i].frequencies, 1); k++, parts++) {
      rows[parts] = (field_rows){w, w->parts ? &w->parts[parts] : NULL}; /* a data server has no planes */
      own[parts] = (row_part){.array = w->names[i].name,
                              .at = w->file.plan.at[parts],
                              .row_bytes = w->names[i].frequencies ? 2 * plane : plane,
                              .first = first,
                              .count = count,
                              .move = write_put_planes,
                              .context = &rows[parts]};
    }
  rows_move(way, &f, w->file.direct, own, parts, e);
  if (w->meta->gradient && way->rank == 0 && !e->id)
    gradient_put(&f, w->meta->gradient, w->file.plan.at + WRITE_PARTS, e);
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
  const bool server = w->io->slab->rank < 0, told = server && m->measured && m->statistics;
  field_statistics there = {0};
  uint64_t *histogram = NULL; /* too much for the stack of a thread that writes */
  if (!m->statistics && !m->measured) return 0;
  if (told) ALLOC(e, histogram, HISTOGRAM_BINS, "the histogram of a field");
  if (m->measured && !server) m->measured(w->parts[0].context, e);
  if (!error_agree(e, w->io->way->comm) && m->measured && m->statistics)
    write_tell_statistics(w, &there, histogram, e);
  if (w->io->way->rank == 0 && m->statistics && !e->id) {
    files_take_hdf5();
    write_statistics(&w->to, told ? &there : m->statistics);
    files_give_hdf5();
  }
  free(histogram);
  return error_agree(e, w->io->way->comm);
}

/* On rank 0: HDF5 is done with the file. */
static int write_close(field_writer *w, error *e) {
  files_take_hdf5();
  for (int i = 0; i < w->fields; i++) dataset_close(&w->to, w->dataset[i]);
  new_hdf5_close(&w->to, e);
  files_give_hdf5();
  return e->id;
}

static int write_plan(field_writer *w, const field_io *io, const field_meta *meta, error *e) {
  static const field_name u = {.name = "u"};
  *w = (field_writer){.io = io, .meta = meta, .names = &u, .fields = 1, .file.fd = -1};
  if (meta->ending) w->names = meta->names, w->fields = meta->fields;
  w->to = (new_hdf5){.name = w->file.name, .file = H5I_INVALID_HID};
  w->grid = field_grid_of(meta, io->slab);
  for (int i = 0; i < WRITE_FIELDS; i++) w->dataset[i] = H5I_INVALID_HID;
  return meta->ending ? path_name(w->file.name, io->path, meta->ending, e)
                      : path_step_name(w->file.name, io->path, meta->run.step, ".hdf", e);
}

int field_create(new_file *f, const field_io *io, const field_meta *meta, error *e) {
  field_writer w;
  *f = (new_file){.fd = -1};
  TRY(write_plan(&w, io, meta, e));
  write_create(&w, e);
  write_close(&w, e);
  *f = w.file;
  return e->id ? new_file_drop(f, e) : 0;
}

int field_write(const field_io *io, const field_meta *meta, const field_planes *parts, const new_file *made,
                error *e) {
  const io_way *way = io->way;
  field_writer w;
  TRY(write_plan(&w, io, meta, e)); /* alike on every rank */
  w.parts = parts;
  if (made) w.file.plan = made->plan;
  if (way->rank == 0 && !made) write_create(&w, e);
  if (!error_agree(e, way->comm) && !write_planes(&w, e)) write_measure(&w, e);
  if (way->rank == 0) {
    write_close(&w, e);
    atomic_file_commit(w.file.plan.temporary, w.file.name, NULL, e);
  }
  return error_agree(e, way->comm);
}
