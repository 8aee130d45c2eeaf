/* PATH.receivers.h5: rank 0 makes the file, the ranks' traces come to it a block of samples at a time, and it gives the file
 * its name. */
#include "receivers_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "atomic_file.h"
#include "io_internal.h"

enum { RECEIVERS_BYTES = 32 << 20 /* of a block */ };

/* The axes of all datasets. */
static void receivers_put_axes(new_hdf5 *f, const receivers_meta *m) {
  static const char *const xyz[] = {"x", "y", "z"};
  const axis axes[] = {{.name = "time",
                        .words = {"s", "time"},
                        .points = (hsize_t)m->samples,
                        .spacing = m->run.dt,
                        .every = m->every},
                       {.name = "receiver",
                        .words = {NULL, "number of the receiver"},
                        .points = (hsize_t)m->receivers,
                        .spacing = 1,
                        .whole = true},
                       {.name = "source",
                        .words = {NULL, "number of the source, in the order of their sections"},
                        .points = (hsize_t)m->sources,
                        .spacing = 1,
                        .whole = true},
                       {.name = "xyz", .words = {NULL, "component"}, .points = 3, .labels = xyz}};
  for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) axis_create(f, &axes[i]);
}

typedef struct receivers_places {
  const char *name, *of, *long_name;
  int count;
  const double (*positions)[3];
} receivers_places;

static void receivers_put_places(new_hdf5 *f, receivers_places p) {
  const hsize_t shape[2] = {(hsize_t)p.count, 3};
  hid_t dataset = dataset_create(f, p.name, H5T_IEEE_F64LE, 2, shape, 0);
  if (p.count) dataset_put(f, dataset, H5T_NATIVE_DOUBLE, p.positions);
  axes_attach(f, dataset, 2, (const char *const[]){p.of, "xyz"});
  dataset_describe(f, dataset, (dataset_words){"m", p.long_name});
  dataset_close(f, dataset);
}

/* Everything but the values of the traces, whose space is taken. */
static void receivers_put_all(new_hdf5 *to, new_file *f, const receivers_meta *m) {
  const hsize_t shape[2] = {(hsize_t)m->samples, (hsize_t)m->receivers};
  attribute_run(to, &m->run);
  attribute_int64(to, to->file, "every", 0, &m->every);
  attribute_text(to, to->file, "dispersion", m->exact_time ? "removed" : "kept");
  receivers_put_axes(to, m);
  receivers_put_places(
      to, (receivers_places){"position", "receiver", "position of the receiver", m->receivers, m->positions});
  receivers_put_places(to, (receivers_places){"source_position", "source", "position of the source",
                                              m->sources, m->source_positions});
  hid_t traces = dataset_create(to, "u", H5T_IEEE_F32LE, 2, shape, 0);
  axes_attach(to, traces, 2, (const char *const[]){"time", "receiver"});
  field_describe(to, traces, &m->run);
  if (!to->failure.id) f->plan.at[0] = (uint64_t)H5Dget_offset(traces);
  dataset_close(to, traces);
}

int receivers_file_create(new_file *f, const char *path, const receivers_meta *m, error *e) {
  new_hdf5 to = {.name = f->name, .file = H5I_INVALID_HID};
  *f = (new_file){.fd = -1};
  TRY(path_name(f->name, path, RECEIVERS_ENDING, e));
  temporary_name(f->plan.temporary, sizeof f->plan.temporary, f->name);
  files_take_hdf5();
  field_io_start(); /* of this thread */
  new_hdf5_create(&to, f->plan.temporary, 0);
  receivers_put_all(&to, f, m);
  new_hdf5_close(&to, e);
  files_give_hdf5();
  return e->id ? new_file_drop(f, e) : 0;
}

/* Gives the whole file its name, or removes it. */
static int receivers_close(new_file *f, const char *path, int replaces, error *e) {
  char replaced[FILE_NAME + 16];
  rows_close_new(f, false, e);
  TRY(atomic_file_commit(f->plan.temporary, f->name, NULL, e));
  snprintf(replaced, sizeof replaced, "%s.old%d" RECEIVERS_ENDING, path, replaces);
  if (replaces && unlink(replaced) && errno != ENOENT) return FAIL(e, FILE_WRITE, replaced, strerror(errno));
  return 0;
}

/* --- gathering -------------------------------------------------------------------------------------------------- */

/* A block of samples of all receivers: `count` of each from `first` on. Every rank has all of it. */
typedef struct receivers_block {
  int64_t first, count, most; /* most: that it has room for */
  uint32_t *bits;             /* of its floats; owned */
} receivers_block;

/* Puts this rank's traces where they belong, zeros elsewhere. */
static void receivers_fill(receivers_block *b, size_t receivers, const receivers_part *p) {
  memset(b->bits, 0, (size_t)b->count * receivers * sizeof *b->bits);
  for (int64_t row = 0; row < b->count; row++)
    for (int64_t i = 0, end; i < p->traces.count; i = end) {
      float *from;
      for (end = i + traces_piece(&p->traces, b->first + row, i, &from); i < end; i++)
        memcpy(&b->bits[(size_t)row * receivers + (size_t)p->index[i]], from++, sizeof *b->bits);
    }
}

/* What all parts of the writing need. */
typedef struct receivers_writing {
  MPI_Comm comm;
  const receivers_meta *meta;
  new_file file; /* rank 0's */
  receivers_block block;
} receivers_writing;

/* Brings the samples together on rank 0, block after block, which writes them, until all are written or it has
 * failed. Each bit comes from one rank: `or` with zeros keeps it. */
static int receivers_gather(receivers_writing *t, const receivers_part *p, error *e) {
  receivers_block *b = &t->block;
  const int64_t receivers = t->meta->receivers, end = t->meta->samples;
  int rank, ranks, stop = 0;
  MPI_TRY(e, MPI_Comm_rank(t->comm, &rank));
  MPI_TRY(e, MPI_Comm_size(t->comm, &ranks)); /* a single one may be here in several threads */
  for (b->first = 0; b->first < end && !stop; b->first += b->count) {
    b->count = smaller64(end - b->first, b->most);
    receivers_fill(b, (size_t)receivers, p);
    if (ranks > 1)
      MPI_TRY(e, MPI_Reduce(rank ? b->bits : MPI_IN_PLACE, b->bits, (int)(b->count * receivers), MPI_UINT32_T,
                            MPI_BOR, 0, t->comm));
    const uint64_t row = (uint64_t)receivers * sizeof *b->bits,
                   at = t->file.plan.at[0] + (uint64_t)b->first * row;
    const row_file to = {.name = t->file.name, .fd = t->file.fd};
    stop = rank == 0 && row_file_put(&to, at, b->bits, (size_t)b->count * row, e);
    if (ranks > 1) MPI_TRY(e, MPI_Bcast(&stop, 1, MPI_INT, 0, t->comm));
  }
  return e->id;
}

int receivers_file_write(MPI_Comm comm, const char *path, const receivers_meta *meta,
                         const receivers_part *part, const new_file *made, error *e) {
  const int64_t fit = RECEIVERS_BYTES / ((int64_t)meta->receivers * (int64_t)sizeof(float));
  receivers_writing t = {.comm = comm, .meta = meta, .file.fd = -1};
  t.block.most = fit < 1 ? 1 : smaller64(fit, meta->samples);
  int rank;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  ALLOC(e, t.block.bits, (size_t)t.block.most * (size_t)meta->receivers, "the receivers");
  if (made) t.file = *made;
  if (rank == 0 && !e->id && !made) receivers_file_create(&t.file, path, meta, e);
  if (rank == 0 && !e->id && (t.file.fd = open(t.file.plan.temporary, O_WRONLY | O_CLOEXEC)) < 0)
    FAIL(e, FILE_WRITE, t.file.name, strerror(errno));
  if (!error_agree(e, comm)) receivers_gather(&t, part, e);
  error_agree(e, comm);
  if (rank == 0) receivers_close(&t.file, path, meta->replaces, e);
  free(t.block.bits);
  return error_agree(e, comm);
}
