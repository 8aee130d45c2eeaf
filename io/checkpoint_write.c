/* Writing a checkpoint: under a temporary name, looked at, made durable, renamed; then the oldest are deleted. */
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "atomic_file.h"
#include "checkpoint_internal.h"
#include "space.h"

typedef struct writer {
  MPI_Comm comm;
  int rank;
  const checkpoint_place *place;
  char name[CHECKPOINT_NAME], temporary[CHECKPOINT_TEMPORARY];
  checkpoint_list before; /* rank 0: those that were there */
  int64_t generation;     /* rank 0 */
  hid_t file;             /* rank 0 */
  bool created;           /* rank 0: the temporary file may be there */
  disk_driver disk;       /* rank 0: of `file` */
} writer;

static int check_space(const writer *w, const checkpoint_array *arrays, int count, error *e) {
  if (w->place->compress > 0) return 0; /* who knows what is needed? A full disk will be seen all the same */
  return space_check(w->name, checkpoint_bytes(arrays, count), e);
}

/* Rank 0: everything up to the first array. */
static int begin(writer *w, const checkpoint_meta *m, const checkpoint_array *arrays, int count, error *e) {
  const char *path = w->place->path;
  TRY(checkpoint_file_name(w->name, path, m->step, e));
  temporary_name(w->temporary, sizeof w->temporary, w->name);
  temporary_remove(path, ".h5");
  TRY(checkpoint_list_files(&w->before, path, e));
  TRY(check_space(w, arrays, count, e));
  int64_t newest = w->before.count ? w->before.entries[0].generation : 0;
  w->generation = newest < 0 ? 1 : newest + 1;
  w->created = true;
  return checkpoint_create(w->name, w->temporary, m, &w->file, &w->disk, e);
}

/* Collective, and agreed. */
static int write_array(writer *w, const checkpoint_array *a, error *e) {
  stored_array s = {.dataset = H5I_INVALID_HID};
  exchange x;
  if (!exchange_open(&x, w->comm, a, w->place->block_bytes, e)) {
    if (w->rank == 0 && !exchange_covers(&x)) FAIL(e, CHECKPOINT_SHARES, a->name);
    if (w->rank == 0 && !e->id) stored_create(&s, w->name, w->file, a, w->place->compress, e);
    if (!error_agree(e, w->comm)) exchange_write(&x, &s, &w->disk.error, e);
  }
  if (stored_close(&s)) FAIL(e, FILE_WRITE, w->name, HDF5_WHY);
  exchange_close(&x);
  return error_agree(e, w->comm);
}

/* Rank 0: closes the file. That may write, and after a failure, too, so what the driver has seen is looked at last. */
static int close_file(writer *w, error *e) {
  if (w->file >= 0 && !e->id && H5Fflush(w->file, H5F_SCOPE_GLOBAL) < 0)
    FAIL(e, FILE_WRITE, w->name, HDF5_WHY);
  if (w->file >= 0 && H5Fclose(w->file) < 0) FAIL(e, FILE_WRITE, w->name, "HDF5 could not close it");
  disk_driver_close(&w->disk);
  return w->disk.error ? FAIL(e, FILE_WRITE, w->name, strerror(w->disk.error)) : e->id;
}

/* Rank 0: after a failure, only tidies up. */
static int finish(writer *w, const checkpoint_meta *m, const checkpoint_array *arrays, int count, error *e) {
  if (!close_file(w, e) && !checkpoint_write_seal(w->name, w->temporary, w->generation, w->disk.digest, e))
    checkpoint_look(w->name, w->temporary, arrays, count, e);
  if (e->id && w->created)
    unlink(w->temporary);
  else if (!e->id && !atomic_file_commit(w->temporary, w->name, e))
    checkpoint_rotate(&w->before, w->place->path, m->step, w->place->keep);
  checkpoint_list_free(&w->before);
  return e->id;
}

int checkpoint_write(MPI_Comm comm, const checkpoint_place *place, const checkpoint_meta *meta,
                     const checkpoint_array *arrays, int count, error *e) {
  writer w = {.comm = comm, .place = place, .file = H5I_INVALID_HID};
  MPI_TRY(e, MPI_Comm_rank(comm, &w.rank));
  if (w.rank == 0) begin(&w, meta, arrays, count, e);
  if (!error_agree(e, comm))
    for (int i = 0; i < count && !e->id; i++) write_array(&w, &arrays[i], e);
  if (w.rank == 0) finish(&w, meta, arrays, count, e);
  return error_agree(e, comm);
}
