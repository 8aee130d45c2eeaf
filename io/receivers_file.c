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
  axis_write(f, &(axis){"time", {"s", "time"}, (hsize_t)m->samples, .spacing = m->run.dt, .every = m->every});
  axis_write(
      f,
      &(axis){
          "receiver", {NULL, "number of the receiver"}, (hsize_t)m->receivers, .spacing = 1, .whole = true});
  axis_write(f, &(axis){"source",
                        {NULL, "number of the source, in the order of their sections"},
                        (hsize_t)m->sources,
                        .spacing = 1,
                        .whole = true});
  axis_write(f, &(axis){"xyz", {NULL, "component"}, 3, .labels = xyz});
}

/* A new_file_content: everything but the values of the traces, whose space is taken. */
static void receivers_put_all(new_hdf5 *to, new_file *f, const void *context) {
  const receivers_meta *m = context;
  attribute_run(to, &m->run);
  attribute_int64(to, "/", "every", 0, &m->every);
  attribute_text(to, "/", "dispersion", m->exact_time ? "removed" : "kept");
  receivers_put_axes(to, m);
  dataset_write(to, &(new_dataset){"position",
                                   H5T_IEEE_F64LE,
                                   2,
                                   {(hsize_t)m->receivers, 3},
                                   {"receiver", "xyz"},
                                   {"m", "position of the receiver"},
                                   .values = m->positions});
  dataset_write(to, &(new_dataset){"source_position",
                                   H5T_IEEE_F64LE,
                                   2,
                                   {(hsize_t)m->sources, 3},
                                   {"source", "xyz"},
                                   {"m", "position of the source"},
                                   .values = m->source_positions});
  f->plan.at[0] = dataset_write(to, &(new_dataset){"u",
                                                   H5T_IEEE_F32LE,
                                                   2,
                                                   {(hsize_t)m->samples, (hsize_t)m->receivers},
                                                   {"time", "receiver"},
                                                   .words = field_words(&m->run)});
}

int receivers_file_create(new_file *f, const char *path, const receivers_meta *m, error *e) {
  *f = (new_file){.fd = -1};
  TRY(path_name(f->name, path, RECEIVERS_ENDING, e));
  return new_file_create(f, NULL, receivers_put_all, m, e);
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
