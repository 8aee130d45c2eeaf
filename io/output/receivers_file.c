/* PATH.receivers.h5. Rank 0 creates the file, receives the ranks' traces a block of samples at a time, and renames
 * the file. */
#include "receivers_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "io/bytes/atomic_file.h"
#include "io/hdf5/io_internal.h"

enum { RECEIVERS_BYTES = 32 << 20 /* of a block */ };

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

/* Puts `count` samples of this rank's traces, from `first` on, at their places among all receivers. Other places are
 * 0. */
static void receivers_fill(uint32_t *bits, size_t receivers, int64_t first, int64_t count,
                           const receivers_part *p) {
  memset(bits, 0, (size_t)count * receivers * sizeof *bits);
  for (int64_t row = 0; row < count; row++)
    for (int64_t i = 0, end; i < p->traces.count; i = end) {
      float *from;
      for (end = i + traces_piece(&p->traces, first + row, i, &from); i < end; i++)
        memcpy(&bits[(size_t)row * receivers + (size_t)p->index[i]], from++, sizeof *bits);
    }
}

/* Collects the samples on rank 0, some at a time. Rank 0 writes them, until it fails. Each bit comes from one rank:
 * `or` with zeros keeps it. */
static int receivers_gather(MPI_Comm comm, const new_file *f, const receivers_meta *m,
                            const receivers_part *p, error *e) {
  const int64_t receivers = m->receivers, row = receivers * (int64_t)sizeof(float),
                most = larger64(smaller64(RECEIVERS_BYTES / row, m->samples), 1);
  const row_file to = {.name = f->name, .fd = f->fd};
  uint32_t *bits;
  int rank, ranks, stop = 0;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  MPI_TRY(e, MPI_Comm_size(comm, &ranks)); /* several threads of a single rank may be here */
  ALLOC(e, bits, most * receivers, "the receivers");
  error_agree(e, comm);
  for (int64_t first = 0, count; first < m->samples && !stop && !e->id; first += count) {
    count = smaller64(m->samples - first, most);
    receivers_fill(bits, (size_t)receivers, first, count, p);
    if (ranks > 1)
      MPI_TRY(e, MPI_Reduce(rank ? bits : MPI_IN_PLACE, bits, (int)(count * receivers), MPI_UINT32_T, MPI_BOR,
                            0, comm));
    stop = rank == 0 &&
           row_file_put(&to, f->plan.at[0] + (uint64_t)(first * row), bits, (size_t)(count * row), e);
    if (ranks > 1) MPI_TRY(e, MPI_Bcast(&stop, 1, MPI_INT, 0, comm));
  }
  free(bits);
  return error_agree(e, comm);
}

int receivers_file_write(MPI_Comm comm, const char *path, const receivers_meta *meta,
                         const receivers_part *part, const new_file *made, error *e) {
  new_file f = {.fd = -1};
  int rank;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  if (made) f = *made;
  if (rank == 0 && !made) receivers_file_create(&f, path, meta, e);
  if (rank == 0 && !e->id && (f.fd = open(f.plan.temporary, O_WRONLY | O_CLOEXEC)) < 0)
    FAIL(e, FILE_WRITE, f.name, strerror(errno));
  if (!error_agree(e, comm)) receivers_gather(comm, &f, meta, part, e);
  if (rank == 0) receivers_close(&f, path, meta->replaces, e);
  return error_agree(e, comm);
}
