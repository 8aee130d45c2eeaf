/* Writing a field: rank 0 makes the file with all but the values, every rank puts its planes there, rank 0 adds what they
 * came to and gives the file its name. */
#include "io_internal.h"
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
  field_file f;  /* through HDF5 */
} field_writer;

bool field_exists(const char *path, int64_t step) {
  char name[FILE_NAME];
  error ignored = {0};
  return !path_step_name(name, path, step, ".hdf", &ignored) && access(name, R_OK) == 0;
}

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
  TRY(field_create(&w->f, w->file.plan.temporary, w->meta, e));
  if (!w->meta->compress) w->file.plan.at[0] = (uint64_t)H5Dget_offset(w->f.dataset);
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
  const bool put = H5Dwrite_chunk(w->f.dataset, H5P_DEFAULT, 0, chunk, bytes, from) >= 0;
  return put && !w->f.to.failure.id ? 0 : new_hdf5_failed(&w->f.to, e);
}

/* Collective, agreed. */
static int write_planes(field_writer *w, error *e) {
  io_way *way = w->io->way;
  const slab *s = w->io->slab;
  const int compress = w->meta->compress;
  const bool direct = way->together && !compress;
  if (!compress) rows_open_new(way, &w->file, e);
  TRY(error_agree(e, way->comm));
  const row_file f = {.name = w->file.name,
                      .fd = w->file.fd,
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
  rows_write(way, &f, direct, &own, 1, e);
  rows_close_new(&w->file, true, e);
  return error_agree(e, way->comm);
}

/* The data server hears of the statistics from the first computing rank. */
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
  const bool server = w->io->slab->rank < 0;
  uint64_t histogram[HISTOGRAM_BINS];
  field_statistics told;
  if (!m->statistics) return 0;
  if (m->measured) {
    if (!server) m->measured(w->context, e);
    TRY(error_agree(e, w->io->way->comm));
    write_tell_statistics(w, &told, histogram, e);
  }
  if (w->io->way->rank == 0 && !e->id)
    field_put_statistics(&w->f, m->measured && server ? &told : m->statistics, e);
  return error_agree(e, w->io->way->comm);
}

/* On rank 0: the file gets its name, or goes. */
static int write_settle(field_writer *w, error *e) {
  field_close(&w->f, e);
  if (!e->id) return atomic_file_commit(w->file.plan.temporary, w->file.name, e);
  if (w->file.plan.temporary[0]) unlink(w->file.plan.temporary);
  return e->id;
}

int field_write(const field_io *io, const field_meta *meta, field_source *source, void *context, error *e) {
  const io_way *way = io->way;
  field_writer w = {.io = io, .meta = meta, .source = source, .context = context, .file.fd = -1};
  w.f = (field_file){{.name = w.file.name, .file = H5I_INVALID_HID}, io->slab, H5I_INVALID_HID};
  TRY(path_step_name(w.file.name, io->path, meta->run.step, ".hdf", e)); /* alike on every rank */
  if (way->rank == 0) {
    write_remove_abandoned(io);
    write_create(&w, e);
  }
  if (!error_agree(e, way->comm) && !write_planes(&w, e)) write_measure(&w, e);
  if (way->rank == 0) write_settle(&w, e);
  return error_agree(e, way->comm);
}
