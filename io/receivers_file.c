/* PATH.receivers.h5: rank 0 makes the file, the ranks' traces come to it a block of samples at a time, and it gives the file
 * its name. */
#include "receivers_file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "atomic_file.h"
#include "io_internal.h"

enum { RECEIVERS_BYTES = 32 << 20 /* of a block */ };

/* Rank 0's. */
typedef struct receivers_file {
  char path[FILE_NAME], temporary[FILE_NAME + TEMPORARY_ENDING];
  hid_t file, traces;
  bool created;
  disk_driver disk;
  hsize_t receivers;
} receivers_file;

static int receivers_failed(const receivers_file *f, error *e) {
  return FAIL(e, FILE_WRITE, f->path, f->disk.error ? strerror(f->disk.error) : HDF5_WHY);
}

static int receivers_names(receivers_file *f, const char *path, error *e) {
  int n = snprintf(f->path, sizeof f->path, "%s.receivers.h5", path);
  return n < FILE_NAME ? 0 : FAIL(e, FILE_WRITE, path, strerror(ENAMETOOLONG));
}

/* The axes of all datasets. */
static int receivers_put_axes(const receivers_file *f, const receivers_meta *m, error *e) {
  static const char *const xyz[] = {"x", "y", "z"};
  const axis axes[] = {{.name = "time",
                        .words = {"s", "time"},
                        .points = (hsize_t)m->samples,
                        .spacing = m->run.dt,
                        .every = m->every},
                       {.name = "receiver",
                        .words = {NULL, "number of the receiver"},
                        .points = f->receivers,
                        .spacing = 1,
                        .whole = true},
                       {.name = "source",
                        .words = {NULL, "number of the source, in the order of their sections"},
                        .points = (hsize_t)m->sources,
                        .spacing = 1,
                        .whole = true},
                       {.name = "xyz", .words = {NULL, "component"}, .points = 3, .labels = xyz}};
  for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) TRY(axis_create(f->path, f->file, &axes[i], e));
  return 0;
}

typedef struct receivers_places {
  const char *name, *of, *long_name;
  int count;
  const double (*positions)[3];
} receivers_places;

static int receivers_put_places(const receivers_file *f, receivers_places p, error *e) {
  const hsize_t shape[2] = {(hsize_t)p.count, 3};
  const char *const axes[2] = {p.of, "xyz"};
  hid_t dataset = dataset_create(f->file, p.name, H5T_IEEE_F64LE, 2, shape);
  if (dataset < 0 ||
      (p.count && H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, p.positions) < 0))
    receivers_failed(f, e);
  else if (!axes_attach(f->path, f->file, dataset, 2, axes, e))
    dataset_describe(f->path, dataset, (dataset_words){"m", p.long_name}, e);
  if (dataset >= 0) H5Dclose(dataset);
  return e->id;
}

static int receivers_put_traces(receivers_file *f, const receivers_meta *m, error *e) {
  static const char *const axes[2] = {"time", "receiver"};
  const hsize_t shape[2] = {(hsize_t)m->samples, f->receivers};
  f->traces = dataset_create(f->file, "u", H5T_IEEE_F32LE, 2, shape);
  if (f->traces < 0) return receivers_failed(f, e);
  TRY(axes_attach(f->path, f->file, f->traces, 2, axes, e));
  return field_describe(f->path, f->traces, &m->run, e);
}

static int receivers_put_all(receivers_file *f, const receivers_meta *m, error *e) {
  const receivers_places receivers = {"position", "receiver", "position of the receiver", m->receivers,
                                      m->positions},
                         sources = {"source_position", "source", "position of the source", m->sources,
                                    m->source_positions};
  TRY(attribute_run(f->path, f->file, &m->run, e));
  TRY(attribute_int64(f->path, f->file, "every", 0, &m->every, e));
  TRY(receivers_put_axes(f, m, e));
  TRY(receivers_put_places(f, receivers, e));
  TRY(receivers_put_places(f, sources, e));
  return receivers_put_traces(f, m, e);
}

/* Everything but the traces, whose space is taken. */
static int receivers_create(receivers_file *f, const char *path, const receivers_meta *m, error *e) {
  f->receivers = (hsize_t)m->receivers;
  TRY(receivers_names(f, path, e));
  temporary_begin(f->temporary, sizeof f->temporary, f->path);
  f->created = disk_driver_open(&f->disk);
  if (f->created) f->file = H5Fcreate(f->temporary, H5F_ACC_TRUNC, H5P_DEFAULT, f->disk.access);
  if (f->file < 0) return receivers_failed(f, e);
  TRY(receivers_put_all(f, m, e));
  if (H5Fflush(f->file, H5F_SCOPE_GLOBAL) < 0 || f->disk.error) return receivers_failed(f, e);
  return 0;
}

/* Samples [first, first + count) of all receivers. */
static int receivers_put(const receivers_file *f, int64_t first, int64_t count, const float *values,
                         error *e) {
  const hsize_t start[2] = {(hsize_t)first, 0}, block[2] = {(hsize_t)count, f->receivers};
  hid_t disk = H5Dget_space(f->traces), memory = H5Screate_simple(2, block, NULL);
  bool ok = disk >= 0 && memory >= 0 &&
            H5Sselect_hyperslab(disk, H5S_SELECT_SET, start, NULL, block, NULL) >= 0 &&
            H5Dwrite(f->traces, H5T_NATIVE_FLOAT, memory, disk, H5P_DEFAULT, values) >= 0;
  if (!ok || f->disk.error) receivers_failed(f, e);
  if (memory >= 0) H5Sclose(memory);
  if (disk >= 0) H5Sclose(disk);
  return e->id;
}

/* Gives the whole file its name, or removes it. */
static int receivers_close(receivers_file *f, error *e) {
  if (f->traces >= 0 && H5Dclose(f->traces) < 0) receivers_failed(f, e);
  if (f->file >= 0 && H5Fclose(f->file) < 0) receivers_failed(f, e);
  disk_driver_close(&f->disk);
  if (f->disk.error) receivers_failed(f, e);
  if (!e->id) return atomic_file_commit(f->temporary, f->path, e);
  if (f->created) unlink(f->temporary);
  return e->id;
}

/* --- gathering -------------------------------------------------------------------------------------------------- */

typedef struct receivers_gathering {
  MPI_Comm comm;
  int rank, ranks;
  const receivers_meta *meta;
  const receivers_part *part;
  receivers_file file; /* rank 0, as is what follows */
  int *counts,
      *firsts; /* of each rank: receivers, and how many those before it have; then both for a block */
  int *index;  /* of all receivers, rank after rank */
  float *blocks, *rows; /* as they come, rank after rank; in the user's order */
  int64_t block_rows;
} receivers_gathering;

static void *receivers_gather_take(size_t count, size_t size, error *e) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) FAIL(e, OUT_OF_MEMORY, count * size, "the receivers");
  return memory;
}

/* Rank 0. */
static int receivers_gather_begin(receivers_gathering *g, const char *path, error *e) {
  const size_t ranks = (size_t)g->ranks, receivers = (size_t)g->meta->receivers;
  g->counts = receivers_gather_take(2 * ranks, sizeof *g->counts, e);
  g->firsts = receivers_gather_take(2 * ranks, sizeof *g->firsts, e);
  g->index = receivers_gather_take(receivers, sizeof *g->index, e);
  g->blocks = receivers_gather_take((size_t)g->block_rows * receivers, sizeof *g->blocks, e);
  g->rows = receivers_gather_take((size_t)g->block_rows * receivers, sizeof *g->rows, e);
  return e->id ? e->id : receivers_create(&g->file, path, g->meta, e);
}

static void receivers_gather_end(receivers_gathering *g, error *e) {
  receivers_close(&g->file, e);
  free(g->counts);
  free(g->firsts);
  free(g->index);
  free(g->blocks);
  free(g->rows);
}

static int receivers_gather_index(receivers_gathering *g, error *e) {
  const receivers_part *p = g->part;
  MPI_TRY(e, MPI_Gather(&p->count, 1, MPI_INT, g->counts, 1, MPI_INT, 0, g->comm));
  for (int i = 1; g->counts && i < g->ranks; i++) g->firsts[i] = g->firsts[i - 1] + g->counts[i - 1];
  MPI_TRY(e, MPI_Gatherv(p->index, p->count, MPI_INT, g->index, g->counts, g->firsts, MPI_INT, 0, g->comm));
  return 0;
}

/* Rank 0: sorts a gathered block into the user's order and writes it. */
static int receivers_gather_write_block(const receivers_gathering *g, int64_t first, int64_t rows, error *e) {
  const size_t receivers = (size_t)g->meta->receivers;
  for (int rank = 0; rank < g->ranks; rank++) {
    const float *from = g->blocks + (size_t)g->firsts[rank] * (size_t)rows;
    const int *index = g->index + g->firsts[rank];
    for (int64_t row = 0; row < rows; row++, from += g->counts[rank])
      for (int i = 0; i < g->counts[rank]; i++) g->rows[(size_t)row * receivers + (size_t)index[i]] = from[i];
  }
  return receivers_put(&g->file, first, rows, g->rows, e);
}

/* Gathers blocks of rows until all are written or rank 0 has failed. */
static int receivers_gather_rows(const receivers_gathering *g, error *e) {
  const bool root = g->rank == 0;
  const receivers_part *p = g->part;
  int *counts = root ? g->counts + g->ranks : NULL, *firsts = root ? g->firsts + g->ranks : NULL, stop = 0;
  for (int64_t row = 0, rows; row < g->meta->samples && !stop; row += rows) {
    rows = g->meta->samples - row < g->block_rows ? g->meta->samples - row : g->block_rows;
    for (int i = 0; root && i < g->ranks; i++)
      counts[i] = g->counts[i] * (int)rows, firsts[i] = g->firsts[i] * (int)rows;
    const float *mine = p->count ? p->traces + (size_t)row * (size_t)p->count : NULL;
    MPI_TRY(e, MPI_Gatherv(mine, p->count * (int)rows, MPI_FLOAT, g->blocks, counts, firsts, MPI_FLOAT, 0,
                           g->comm));
    if (root) stop = receivers_gather_write_block(g, row, rows, e) != 0;
    MPI_TRY(e, MPI_Bcast(&stop, 1, MPI_INT, 0, g->comm));
  }
  return e->id;
}

int receivers_file_write(MPI_Comm comm, const char *path, const receivers_meta *meta,
                         const receivers_part *part, error *e) {
  receivers_gathering g = {.comm = comm, .meta = meta, .part = part};
  g.file.file = g.file.traces = H5I_INVALID_HID;
  MPI_TRY(e, MPI_Comm_rank(comm, &g.rank));
  MPI_TRY(e, MPI_Comm_size(comm, &g.ranks));
  const int64_t fit = RECEIVERS_BYTES / ((int64_t)meta->receivers * (int64_t)sizeof(float));
  g.block_rows = fit < 1 ? 1 : fit < meta->samples ? fit : meta->samples;
  if (g.rank == 0 && !e->id) receivers_gather_begin(&g, path, e);
  if (!error_agree(e, comm) && !receivers_gather_index(&g, e)) receivers_gather_rows(&g, e);
  error_agree(e, comm);
  if (g.rank == 0) receivers_gather_end(&g, e);
  return error_agree(e, comm);
}
