/* Writing a field: rank 0 makes the file with all but the values, then the ranks' sources fill it block by
 * block. */
#include "io_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/error_mpi.h"
#include "atomic_file.h"
#include "slots.h"
#include "space.h"

typedef struct writer {
  field_file f;
  field_source *source;
  void *context;
  char path[FILE_NAME], temporary[FILE_NAME + TEMPORARY_ENDING]; /* temporary: rank 0's */
  disk_driver disk;                                              /* rank 0: of the file while it is created */
} writer;

/* All ranks write their planes into the file that all of them have open. */
static int write_own(writer *w, error *e) {
  const slab *s = w->f.io->slab;
  for (int z = 0, planes; z < s->nz; z += planes) {
    planes = field_block(&w->f, z, s->nz);
    TRY(w->source(w->context, z, planes, w->f.buffer, e));
    TRY(field_put(&w->f, s->z0 + z, planes, w->f.buffer, e));
  }
  return 0;
}

/* A field_sink, on rank 0. */
static int write_planes(void *context, int z, int planes, const float *values, error *e) {
  const writer *w = context;
  TRY(field_put(&w->f, z, planes, values, e));
  return field_disk_failed(&w->f, &w->disk, e);
}

/* Writes out and closes what this rank has open. The flush comes first because a failure of H5Fclose may go
 * untold; in parallel it also syncs every node's part of the file, and is for all ranks or none. */
static int finish(writer *w, error *e) {
  if (w->f.file >= 0 && !e->id && H5Fflush(w->f.file, H5F_SCOPE_GLOBAL) < 0)
    FAIL(e, FILE_WRITE, w->path, HDF5_WHY);
  if (field_file_close(&w->f)) FAIL(e, FILE_WRITE, w->path, "HDF5 could not close it");
  disk_driver_close(&w->disk);
  return field_disk_failed(&w->f, &w->disk, e);
}

static int name_files(writer *w, const char *path, int64_t step, error *e) {
  int n = snprintf(w->path, sizeof w->path, "%s.%08" PRId64 ".hdf", path, step);
  return n < FILE_NAME ? 0 : FAIL(e, FILE_WRITE, path, strerror(ENAMETOOLONG));
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

/* On rank 0. Looking through a folder of many files takes longer than writing a small field. But what another machine's
 * process has left cannot be told at first. */
static void remove_abandoned(field_io *io, const char *path) {
  const double BETWEEN = 600; /* s */
  char series[FILE_NAME];
  const double now = clock_seconds();
  if (now < io->next_look) return;
  io->next_look = now + BETWEEN;
  temporary_remove(path, ".hdf");
  snprintf(series, sizeof series, "%s.xdmf", path);
  temporary_remove(series, NULL);
}

/* On rank 0. */
static int create(writer *w, const field_meta *meta, error *e) {
  TRY(check_space(w, meta, e));
  temporary_name(w->temporary, sizeof w->temporary, w->path);
  return field_create(&w->f, w->temporary, meta, &w->disk, e);
}

/* On rank 0: the file gets its name, or goes. */
static int settle(const writer *w, bool whole, error *e) {
  if (whole && !e->id) return atomic_file_commit(w->temporary, w->path, e);
  unlink(w->temporary);
  return e->id;
}

/* All ranks open the file that rank 0 has created. Agreed if that fails. */
static int open_together(writer *w, error *e) {
  MPI_TRY(e, MPI_Bcast(w->temporary, sizeof w->temporary, MPI_CHAR, 0, w->f.io->comm));
  return field_open_parallel(&w->f, w->temporary, "/u", H5F_ACC_RDWR, e);
}

/* Rank 0 creates the file, then all ranks open it. Agreed. */
static int write_together(writer *w, const field_meta *meta, error *e) {
  const field_io *io = w->f.io;
  field_file_buffer(&w->f, e);
  if (!e->id && field_io_rank(io) == 0) {
    create(w, meta, e);
    finish(w, e);
  }
  if (!error_agree(e, io->comm) && !open_together(w, e)) {
    write_own(w, e);
    error_agree(e, io->comm);
  }
  finish(w, e);
  error_agree(e, io->comm);
  if (field_io_rank(io) == 0) settle(w, true, e);
  return error_agree(e, io->comm);
}

/* Rank 0 alone has the file. The ranks agree once, at the end: until then what fails on one ends the passing of
 * planes, of which all take their part whatever happens. */
static int write_gathered(writer *w, const field_meta *meta, error *e) {
  const field_io *io = w->f.io;
  const slots_ends ends = {w->source, w->context, write_planes, w};
  const bool root = field_io_rank(io) == 0;
  slots own = {.count = 0};
  const slots *s = io->slots && io->slots->count ? io->slots : &own;
  bool whole = false;
  if (s == &own) slots_open(&own, io, false, e);
  if (!e->id || s != &own) {
    if (root && !e->id) create(w, meta, e);
    slots_pass(s, io, &ends, &whole, e);
  }
  if (root) {
    finish(w, e);
    settle(w, whole, e);
  }
  slots_close(&own);
  return error_agree(e, io->comm);
}

int field_write(field_io *io, const char *path, const field_meta *meta, field_source *source, void *context,
                error *e) {
  writer w = {.source = source, .context = context};
  /* Compressed chunks go through rank 0 in either mode. HDF5 writes them only in collective calls, which
   * crash in some versions (HDFGroup/hdf5 issue 265), and a rank that fails leaves such a call alone: on a
   * full disk the others would wait for ever. */
  const bool collective = io->mode == IO_COLLECTIVE && meta->compress == 0;
  field_file_init(&w.f, io, w.path);
  TRY(name_files(&w, path, meta->step, e)); /* alike on every rank */
  if (field_io_rank(io) == 0) remove_abandoned(io, path);
  if (collective)
    write_together(&w, meta, e);
  else
    write_gathered(&w, meta, e);
  field_file_free(&w.f);
  return e->id;
}
