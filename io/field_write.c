/* Writing a field: rank 0 makes the file with all but the values, then the ranks' sources fill it block by
 * block. */
#include "io_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include "../src/error_mpi.h"
#include "atomic_file.h"
#include "space.h"

enum { TAG_TURN = 7002 };
enum turn { TURN_STOP, TURN_SEND };

typedef struct writer {
  field_file f;
  field_source *source;
  void *context;
  char path[FILE_NAME], temporary[FILE_NAME];
  int disk_error; /* rank 0: what field_create's driver has seen */
} writer;

static int write_own(writer *w, error *e) {
  const slab *s = w->f.io->slab;
  for (int z = 0, planes; z < s->nz; z += planes) {
    planes = field_block(&w->f, z, s->nz);
    TRY(w->source(w->context, z, planes, w->f.buffer, e));
    TRY(field_transfer(&w->f, FIELD_WRITE, s->z0 + z, planes, e));
    TRY(field_disk_failed(&w->f, w->disk_error, e));
  }
  return 0;
}

/* Rank 0: writes the blocks of one other rank, asking for each. `*stop` becomes true once anything has
 * failed, here or there; then the rank is told to stop, unless it has said so itself. */
static int write_others(writer *w, int rank, bool *stop, error *e) {
  const field_io *io = w->f.io;
  int end = field_io_first_plane(io, rank + 1), planes;
  for (int z = field_io_first_plane(io, rank); z < end; z += planes) {
    const int turn = *stop ? TURN_STOP : TURN_SEND;
    MPI_TRY(e, MPI_Send(&turn, 1, MPI_INT, rank, TAG_TURN, io->comm));
    if (*stop) return 0;
    TRY(field_receive(&w->f, rank, &planes, e));
    if (planes) field_transfer(&w->f, FIELD_WRITE, z, planes, e);
    field_disk_failed(&w->f, w->disk_error, e);
    *stop = planes == 0 || e->id;
    if (planes == 0) return 0;
  }
  return e->id;
}

static int write_gathered(writer *w, error *e) {
  bool stop = write_own(w, e) != 0;
  for (int rank = 1; rank < field_io_ranks(w->f.io); rank++) write_others(w, rank, &stop, e);
  return e->id;
}

/* The other ranks: hand over one block for each turn rank 0 gives; an empty one says that the source has
 * failed. */
static int send_blocks(writer *w, error *e) {
  const slab *s = w->f.io->slab;
  for (int z = 0, planes; z < s->nz; z += planes) {
    int turn;
    MPI_Request request;
    MPI_TRY(e, MPI_Irecv(&turn, 1, MPI_INT, 0, TAG_TURN, w->f.io->comm, &request));
    MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
    if (turn == TURN_STOP) return 0; /* whoever has failed says why when the ranks agree */
    planes = field_block(&w->f, z, s->nz);
    if (w->source(w->context, z, planes, w->f.buffer, e)) planes = 0;
    TRY(field_send(&w->f, 0, planes, e));
    if (planes == 0) break;
  }
  return e->id;
}

/* Writes out and closes what this rank has open. The flush comes first because a failure of H5Fclose may go
 * untold; in parallel it also syncs every node's part of the file, and is for all ranks or none. */
static int finish(writer *w, error *e) {
  if (w->f.file >= 0 && !e->id && H5Fflush(w->f.file, H5F_SCOPE_GLOBAL) < 0)
    FAIL(e, FILE_WRITE, w->path, HDF5_WHY);
  if (field_file_close(&w->f)) FAIL(e, FILE_WRITE, w->path, "HDF5 could not close it");
  return field_disk_failed(&w->f, w->disk_error, e);
}

static int name_files(writer *w, const char *path, int64_t step, error *e) {
  int n = snprintf(w->path, sizeof w->path, "%s.%08" PRId64 ".hdf", path, step);
  int m = snprintf(w->temporary, sizeof w->temporary, "%.*s.tmp", FILE_NAME - 5, w->path);
  bool fits = n < FILE_NAME && m == n + 4;
  return fits ? 0 : FAIL(e, FILE_WRITE, path, strerror(ENAMETOOLONG));
}

bool field_exists(const char *path, int64_t step) {
  writer w;
  error ignored = {0};
  return !name_files(&w, path, step, &ignored) && access(w.path, R_OK) == 0;
}

/* As for checkpoints: what compressed values take nobody knows. */
static int check_space(const writer *w, const field_meta *meta, error *e) {
  const slab *s = w->f.io->slab;
  const uint64_t points = (uint64_t)s->nx * (uint64_t)s->ny * (uint64_t)s->nz_global;
  return meta->compress ? 0 : space_check(w->path, points * sizeof(float), e);
}

/* Creates the file on rank 0 and, to write collectively, opens it on all ranks. Agreed. */
static int open_output(writer *w, const field_meta *meta, bool collective, error *e) {
  const field_io *io = w->f.io;
  if (!e->id && field_io_rank(io) == 0) {
    if (!check_space(w, meta, e)) field_create(&w->f, w->temporary, meta, &w->disk_error, e);
    if (collective) finish(w, e);
  }
  TRY(error_agree(e, io->comm));
  return collective ? field_open_parallel(&w->f, w->temporary, "/u", H5F_ACC_RDWR, e) : 0;
}

int field_write(const field_io *io, const char *path, const field_meta *meta, field_source *source,
                void *context, error *e) {
  writer w = {.source = source, .context = context};
  /* Compressed chunks go through rank 0 in either mode. HDF5 writes them only in collective calls, which
   * crash in some versions (HDFGroup/hdf5 issue 265), and a rank that fails leaves such a call alone: on a
   * full disk the others would wait for ever. */
  bool collective = io->mode == IO_COLLECTIVE && meta->compress == 0;
  if (!field_file_init(&w.f, io, w.path, e)) name_files(&w, path, meta->step, e);
  if (!open_output(&w, meta, collective, e)) {
    if (collective)
      write_own(&w, e);
    else if (field_io_rank(io) == 0)
      write_gathered(&w, e);
    else
      send_blocks(&w, e);
    error_agree(e, io->comm);
  }
  finish(&w, e);
  field_file_free(&w.f);
  error_agree(e, io->comm);
  if (field_io_rank(io) == 0) {
    if (e->id)
      unlink(w.temporary);
    else
      atomic_file_commit(w.temporary, w.path, e);
  }
  return error_agree(e, io->comm);
}
