/* Writes a field as VTKHDF ImageData. Rank 0 creates the file without values, every rank writes its planes, rank 0 adds
 * statistics and renames the file. */
#include "io/hdf5/io_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "io/bytes/atomic_file.h"
#include "gradient_file.h"
#include "space.h"

enum { WRITE_PARTS = 16 };

typedef struct field_writer {
  const field_io *io;
  const field_meta *meta;
  field_grid grid;
  const field_planes *parts; /* of the file's fields, or of their frequencies */
  const field_name *names;   /* of its fields */
  int fields;
  new_file file; /* a compressed file is open on rank 0 alone, by `to` */
  new_hdf5 to;   /* rank 0: the file through HDF5 */
  hid_t packed;  /* rank 0: the dataset of a compressed field */
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
    attribute_double(f, "/", name, 0, &s->quantiles[i]);
  }
  const double range[2] = {s->all.min, s->all.max}, width = (range[1] - range[0]) / s->bins;
  axis_write(f, &(axis){"bin",
                        {FIELD_UNITS, "centre of the bin"},
                        (hsize_t)s->bins,
                        .first = range[0] + width / 2,
                        .spacing = width});
  dataset_write(f, &(new_dataset){"histogram",
                                  H5T_STD_I64LE,
                                  1,
                                  {(hsize_t)s->bins},
                                  {"bin"},
                                  {"1", "points in the bin"},
                                  .values = s->histogram});
  attribute_double(f, "histogram", "range", 2, range);
}

static void write_statistics(new_hdf5 *f, const field_statistics *s) {
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"min", s->all.min}, {"max", s->all.max}, {"sum", s->all.sum}, {"l2", statistics_l2(s)}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    attribute_double(f, "/", numbers[i].name, 0, &numbers[i].value);
  if (s->bins) write_histogram(f, s);
}

/* Group /VTKHDF. VTK requires exactly these types, and a Type of fixed length. */
static void write_image(new_hdf5 *f, const field_grid *g) {
  static const char *const groups[] = {"VTKHDF", "VTKHDF/PointData"};
  const config_cut *cut = g->cut;
  const int64_t version[2] = {1, 0},
                extent[6] = {0, cut[0].count - 1, 0, cut[1].count - 1, 0, cut[2].count - 1};
  const double direction[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  for (int i = 0; i < 2 && !f->failure.id; i++) {
    hid_t group = H5Gcreate2(f->file, groups[i], H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (new_hdf5_check(f, group >= 0)) H5Gclose(group);
  }
  attribute_int64(f, groups[0], "Version", 2, version);
  attribute_string(f, groups[0], "Type", strlen("ImageData"), "ImageData");
  attribute_int64(f, groups[0], "WholeExtent", 6, extent);
  attribute_double(f, groups[0], "Origin", 3, g->origin);
  attribute_double(f, groups[0], "Spacing", 3, g->spacing);
  attribute_double(f, groups[0], "Direction", 9, direction);
}

static void write_axes(new_hdf5 *f, const field_writer *w) {
  static const char *const names[] = {"z", "y", "x"};
  static const char *const long_names[] = {"position along z", "position along y", "position along x"};
  for (int i = 0; i < 3; i++) {
    const config_cut *cut = &w->grid.cut[2 - i];
    axis_write(f, &(axis){names[i],
                          {"m", long_names[i]},
                          (hsize_t)cut->count,
                          w->meta->origin[2 - i],
                          .from = cut->first,
                          .every = cut->every,
                          .spacing = w->meta->spacing[2 - i]});
  }
}

/* The axes of /dft: frequency, and real and imaginary part. */
static void write_frequency_axes(new_hdf5 *f, const field_writer *w, int count) {
  static const char *const parts[] = {"real", "imaginary"};
  axis_write(f, &(axis){"frequency", {"Hz", "frequency"}, (hsize_t)count, .values = w->meta->frequencies});
  axis_write(f, &(axis){"part", {"1", "part"}, 2, .labels = parts});
}

/* Creates /VTKHDF/PointData/NAME and its other name /NAME. A field of frequencies has the latter alone, since VTK has
 * no such axis. The ranks compress planes themselves. Returns the place of its values in the file. */
static uint64_t write_field(new_hdf5 *f, const field_writer *w, const field_name *n) {
  const config_cut *cut = w->grid.cut;
  const hsize_t nz = (hsize_t)cut[2].count, ny = (hsize_t)cut[1].count, nx = (hsize_t)cut[0].count;
  const new_dataset pairs = {.rank = 5,
                             .shape = {(hsize_t)n->frequencies, nz, ny, nx, 2},
                             .axes = {"frequency", "z", "y", "x", "part"}},
                    plain = {.rank = 3,
                             .shape = {nz, ny, nx},
                             .axes = {"z", "y", "x"},
                             .deflate = w->meta->compress};
  new_dataset d = n->frequencies ? pairs : plain;
  char name[80];
  snprintf(name, sizeof name, "%s%s", n->frequencies ? "" : "VTKHDF/PointData/", n->name);
  d.name = name, d.type = H5T_IEEE_F32LE;
  d.words = w->meta->ending ? (dataset_words){n->units, n->long_name} : field_words(&w->meta->run);
  if (n->frequencies) write_frequency_axes(f, w, n->frequencies);
  const uint64_t at = dataset_write(f, &d);
  if (!n->frequencies && !f->failure.id)
    new_hdf5_check(f, H5Lcreate_hard(f->file, name, f->file, n->name, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  return at;
}

/* The scalar /time, which is a coordinate of /u as well. */
static void write_time(new_hdf5 *f, const double *time) {
  dataset_write(f, &(new_dataset){"time", H5T_IEEE_F64LE, .words = {"s", "time"}, .values = time});
  attribute_text(f, "u", "coordinates", "time");
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static uint64_t write_points(const field_writer *w) {
  const config_cut *cut = w->grid.cut;
  return (uint64_t)cut[0].count * (uint64_t)cut[1].count * (uint64_t)cut[2].count;
}

/* A new_file_content. */
static void write_content(new_hdf5 *to, new_file *file, const void *context) {
  const field_writer *w = context;
  const field_meta *m = w->meta;
  attribute_run(to, &m->run);
  write_image(to, &w->grid);
  write_axes(to, w);
  for (int i = 0, part = 0; i < w->fields; i++) {
    const uint64_t first = write_field(to, w, &w->names[i]);
    for (int k = 0; k < larger(w->names[i].frequencies, 1); k++)
      file->plan.at[part++] = first + (uint64_t)k * 2 * write_points(w) * sizeof(float);
  }
  if (m->counted.steps) {
    attribute_int64(to, "/", "counted_steps", 0, &m->counted.steps);
    attribute_double(to, "/", "counted_from", 0, &m->counted.from);
    attribute_double(to, "/", "counted_until", 0, &m->counted.until);
  }
  if (m->gradient) gradient_describe(to, &m->run, m->gradient, file->plan.at + WRITE_PARTS);
  if (!m->ending) write_time(to, &m->run.time);
}

/* On rank 0, which holds the HDF5 lock. The size of compressed values is unknown beforehand; HDF5 writes these, and
 * `at` is 0. */
static int write_create(field_writer *w, new_hdf5 *to, error *e) {
  uint64_t floats = 0;
  for (int i = 0; i < w->fields; i++) floats += (uint64_t)larger(2 * w->names[i].frequencies, 1);
  if (!w->meta->compress) TRY(space_check(w->file.name, floats * write_points(w) * sizeof(float), e));
  if (w->meta->compress && H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) return FAIL(e, FIELD_NO_GZIP);
  TRY(new_file_create(&w->file, to, write_content, w, e));
  if (w->meta->compress) w->packed = H5Dopen2(to->file, w->names[0].name, H5P_DEFAULT);
  return 0;
}

/* A row_mover of one field. */
typedef struct field_rows {
  const field_writer *w;
  const field_planes *part;
} field_rows;

/* Cuts a plane of the file out of one of the grid. */
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

/* The `move` of a row_file, on rank 0: writes a compressed plane as chunk `at`. */
static int write_put_chunk(void *context, uint64_t at, void *from, size_t bytes, error *e) {
  field_writer *w = context;
  const hsize_t chunk[3] = {at, 0, 0};
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* in a thread-safe HDF5 each thread has its own error printing */
  new_hdf5_check(&w->to, H5Dwrite_chunk(w->packed, H5P_DEFAULT, 0, chunk, bytes, from) >= 0);
  return new_hdf5_failed(&w->to, e);
}

/* Collective, agreed. */
static int write_planes(field_writer *w, error *e) {
  io_access *access = w->io->access;
  const slab *s = w->io->slab;
  const int compress = w->meta->compress;
  if (!compress) rows_open_new(access, &w->file, e);
  TRY(error_agree(e, access->comm));
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
  rows_move(access, &f, w->file.direct, own, parts, e);
  if (w->meta->gradient && access->rank == 0 && !e->id)
    gradient_put(&f, w->meta->gradient, w->file.plan.at + WRITE_PARTS, e);
  rows_close_new(&w->file, true, e);
  return error_agree(e, access->comm);
}

/* Sends the statistics from the first computing rank to the data server; `histogram`: the server's memory for it. */
static int write_tell_statistics(const field_writer *w, field_statistics *s, uint64_t *histogram, error *e) {
  enum { TAG_STATISTICS = 7002, SERVER = 0, FIRST = 1 };
  const io_access *access = w->io->access;
  const field_statistics *known = w->meta->statistics;
  if (w->io->mode != IO_SERVER || access->rank > FIRST) return 0;
  if (access->rank == FIRST) {
    MPI_TRY(e, MPI_Send(known, sizeof *known, MPI_BYTE, SERVER, TAG_STATISTICS, access->comm));
    MPI_TRY(e, MPI_Send(known->histogram, known->bins, MPI_UINT64_T, SERVER, TAG_STATISTICS, access->comm));
    return 0;
  }
  MPI_TRY(e, MPI_Recv(s, sizeof *s, MPI_BYTE, FIRST, TAG_STATISTICS, access->comm, MPI_STATUS_IGNORE));
  MPI_TRY(e,
          MPI_Recv(histogram, s->bins, MPI_UINT64_T, FIRST, TAG_STATISTICS, access->comm, MPI_STATUS_IGNORE));
  s->histogram = histogram;
  return 0;
}

/* Computes the statistics of the planes; rank 0 then has them too. Collective, agreed. */
static int write_measure(field_writer *w, error *e) {
  const field_meta *m = w->meta;
  const bool server = w->io->slab->rank < 0, received = server && m->measured && m->statistics;
  field_statistics there = {0};
  uint64_t *histogram = NULL; /* too much for the stack of a thread that writes */
  if (!m->statistics && !m->measured) return 0;
  if (received) ALLOC(e, histogram, HISTOGRAM_BINS, "the histogram of a field");
  if (m->measured && !server) m->measured(w->parts[0].context, e);
  if (!error_agree(e, w->io->access->comm) && m->measured && m->statistics)
    write_tell_statistics(w, &there, histogram, e);
  if (w->io->access->rank == 0 && m->statistics && !e->id) {
    hdf5_take();
    write_statistics(&w->to, received ? &there : m->statistics);
    hdf5_give();
  }
  free(histogram);
  return error_agree(e, w->io->access->comm);
}

/* On rank 0: closes the HDF5 file and renames it. */
static int write_close(field_writer *w, error *e) {
  hdf5_take();
  if (w->packed >= 0) new_hdf5_check(&w->to, H5Dclose(w->packed) >= 0);
  new_hdf5_close(&w->to, e);
  hdf5_give();
  return atomic_file_commit(w->file.plan.temporary, w->file.name, NULL, e);
}

static int write_plan(field_writer *w, const field_io *io, const field_meta *meta, error *e) {
  static const field_name u = {.name = "u"};
  *w = (field_writer){
      .io = io, .meta = meta, .names = &u, .fields = 1, .file.fd = -1, .packed = H5I_INVALID_HID};
  if (meta->ending) w->names = meta->names, w->fields = meta->fields;
  w->to = (new_hdf5){.file = H5I_INVALID_HID};
  w->grid = field_grid_of(meta, io->slab);
  return meta->ending ? path_name(w->file.name, io->path, meta->ending, e)
                      : path_step_name(w->file.name, io->path, meta->run.step, ".hdf", e);
}

/* Reserves space for values, where the file system can: they are then written three times as fast. */
static void write_reserve(const field_writer *w) {
  const off_t bytes = (off_t)(write_points(w) * sizeof(float));
  const int fd = open(w->file.plan.temporary, O_RDWR | O_CLOEXEC);
  for (int i = 0; i < w->fields && fd >= 0; i++) (void)fallocate(fd, 0, (off_t)w->file.plan.at[i], bytes);
  if (fd >= 0) close(fd);
}

int field_create(new_file *f, const field_io *io, const field_meta *meta, error *e) {
  field_writer w;
  *f = (new_file){.fd = -1};
  TRY(write_plan(&w, io, meta, e));
  TRY(write_create(&w, NULL, e));
  write_reserve(&w);
  *f = w.file;
  return 0;
}

int field_write(const field_io *io, const field_meta *meta, const field_planes *parts, const new_file *made,
                error *e) {
  const io_access *access = io->access;
  field_writer w;
  TRY(write_plan(&w, io, meta, e)); /* equal on every rank */
  w.parts = parts;
  if (made) w.file.plan = made->plan;
  if (access->rank == 0 && !made) write_create(&w, &w.to, e);
  if (!error_agree(e, access->comm) && !write_planes(&w, e)) write_measure(&w, e);
  if (access->rank == 0) write_close(&w, e);
  return error_agree(e, access->comm);
}
