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
  char path[FILE_NAME], temporary[FILE_NAME + TEMPORARY_ENDING]; /* temporary: "" before it may be there */
  new_hdf5 to;
  hid_t traces;
  hsize_t receivers;
} receivers_file;

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
  for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) TRY(axis_create(f->path, f->to.file, &axes[i], e));
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
  hid_t dataset = dataset_create(f->to.file, p.name, H5T_IEEE_F64LE, 2, shape, 0);
  if (dataset < 0 ||
      (p.count && H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, p.positions) < 0))
    new_hdf5_failed(&f->to, e);
  else if (!axes_attach(f->path, f->to.file, dataset, 2, axes, e))
    dataset_describe(f->path, dataset, (dataset_words){"m", p.long_name}, e);
  if (dataset >= 0) H5Dclose(dataset);
  return e->id;
}

static int receivers_put_traces(receivers_file *f, const receivers_meta *m, error *e) {
  static const char *const axes[2] = {"time", "receiver"};
  const hsize_t shape[2] = {(hsize_t)m->samples, f->receivers};
  f->traces = dataset_create(f->to.file, "u", H5T_IEEE_F32LE, 2, shape, 0);
  if (f->traces < 0) return new_hdf5_failed(&f->to, e);
  TRY(axes_attach(f->path, f->to.file, f->traces, 2, axes, e));
  return field_describe(f->path, f->traces, &m->run, e);
}

static int receivers_put_all(receivers_file *f, const receivers_meta *m, error *e) {
  const receivers_places receivers = {"position", "receiver", "position of the receiver", m->receivers,
                                      m->positions},
                         sources = {"source_position", "source", "position of the source", m->sources,
                                    m->source_positions};
  TRY(attribute_run(f->path, f->to.file, &m->run, e));
  TRY(attribute_int64(f->path, f->to.file, "every", 0, &m->every, e));
  TRY(attribute_text(f->path, f->to.file, "dispersion", m->exact_time ? "removed" : "kept", e));
  TRY(receivers_put_axes(f, m, e));
  TRY(receivers_put_places(f, receivers, e));
  TRY(receivers_put_places(f, sources, e));
  return receivers_put_traces(f, m, e);
}

/* Everything but the traces, whose space is taken. */
static int receivers_create(receivers_file *f, const char *path, const receivers_meta *m, error *e) {
  f->receivers = (hsize_t)m->receivers;
  f->to.name = f->path;
  if (snprintf(f->path, sizeof f->path, "%s" RECEIVERS_ENDING, path) >= FILE_NAME)
    return FAIL(e, FILE_WRITE, path, strerror(ENAMETOOLONG));
  temporary_name(f->temporary, sizeof f->temporary, f->path);
  if (!m->fresh) temporary_remove(f->path, NULL);
  TRY(new_hdf5_create(&f->to, f->temporary, 0, e));
  TRY(receivers_put_all(f, m, e));
  return H5Fflush(f->to.file, H5F_SCOPE_GLOBAL) < 0 || f->to.failure.id ? new_hdf5_failed(&f->to, e) : 0;
}

/* Samples [first, first + count) of all receivers. */
static int receivers_put(const receivers_file *f, int64_t first, int64_t count, const void *values,
                         error *e) {
  const hsize_t start[2] = {(hsize_t)first, 0}, block[2] = {(hsize_t)count, f->receivers};
  hid_t disk = H5Dget_space(f->traces), memory = H5Screate_simple(2, block, NULL);
  bool ok = disk >= 0 && memory >= 0 &&
            H5Sselect_hyperslab(disk, H5S_SELECT_SET, start, NULL, block, NULL) >= 0 &&
            H5Dwrite(f->traces, H5T_NATIVE_FLOAT, memory, disk, H5P_DEFAULT, values) >= 0;
  if (!ok || f->to.failure.id) new_hdf5_failed(&f->to, e);
  if (memory >= 0) H5Sclose(memory);
  if (disk >= 0) H5Sclose(disk);
  return e->id;
}

/* Gives the whole file its name, or removes it. */
static int receivers_close(receivers_file *f, const char *path, int replaces, error *e) {
  char replaced[FILE_NAME + 16];
  if (f->traces >= 0 && H5Dclose(f->traces) < 0) new_hdf5_failed(&f->to, e);
  new_hdf5_close(&f->to, e);
  TRY(atomic_file_commit(f->temporary, f->path, NULL, e));
  snprintf(replaced, sizeof replaced, "%s.old%d" RECEIVERS_ENDING, path, replaces);
  if (replaces && unlink(replaced) && errno != ENOENT) return FAIL(e, FILE_WRITE, replaced, strerror(errno));
  return 0;
}

/* --- gathering -------------------------------------------------------------------------------------------------- */

/* A block of samples of all receivers: `count` of each from `first` on. Every rank has all of it. */
typedef struct receivers_block {
  int64_t first, count;
  uint32_t *bits; /* of its floats; owned */
} receivers_block;

/* Puts this rank's traces where they belong, zeros elsewhere. */
static void receivers_fill(receivers_block *b, size_t receivers, const receivers_part *p) {
  memset(b->bits, 0, (size_t)b->count * receivers * sizeof *b->bits);
  for (int64_t i = 0; i < b->count; i++)
    for (int k = 0; k < p->count; k++)
      memcpy(&b->bits[(size_t)i * receivers + (size_t)p->index[k]],
             &p->traces[(size_t)(b->first + i) * (size_t)p->count + (size_t)k], sizeof *b->bits);
}

/* Brings block after block together on rank 0, which writes it, until all are written or it has failed. Each bit comes
 * from one rank: `or` with zeros keeps it. */
static int receivers_gather(MPI_Comm comm, receivers_file *f, receivers_block *b, const receivers_meta *m,
                            const receivers_part *p, error *e) {
  const int64_t most = b->count;
  int rank, stop = 0;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  for (b->first = 0; b->first < m->samples && !stop; b->first += b->count) {
    b->count = m->samples - b->first < most ? m->samples - b->first : most;
    receivers_fill(b, (size_t)m->receivers, p);
    MPI_TRY(e, MPI_Reduce(rank ? b->bits : MPI_IN_PLACE, b->bits, (int)(b->count * m->receivers),
                          MPI_UINT32_T, MPI_BOR, 0, comm));
    stop = rank == 0 && receivers_put(f, b->first, b->count, b->bits, e);
    MPI_TRY(e, MPI_Bcast(&stop, 1, MPI_INT, 0, comm));
  }
  return e->id;
}

int receivers_file_write(MPI_Comm comm, const char *path, const receivers_meta *meta,
                         const receivers_part *part, error *e) {
  const int64_t fit = RECEIVERS_BYTES / ((int64_t)meta->receivers * (int64_t)sizeof(float));
  receivers_block block = {.count = fit < 1 ? 1 : fit < meta->samples ? fit : meta->samples};
  const size_t bytes = (size_t)block.count * (size_t)meta->receivers * sizeof *block.bits;
  receivers_file file = {.to.file = H5I_INVALID_HID, .traces = H5I_INVALID_HID};
  int rank;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  if (!(block.bits = malloc(bytes + 1))) FAIL(e, OUT_OF_MEMORY, bytes, "the receivers");
  if (rank == 0 && !e->id) receivers_create(&file, path, meta, e);
  if (!error_agree(e, comm)) receivers_gather(comm, &file, &block, meta, part, e);
  error_agree(e, comm);
  if (rank == 0) receivers_close(&file, path, meta->replaces, e);
  free(block.bits);
  return error_agree(e, comm);
}
