/* Writing a checkpoint: under a temporary name, looked at, made durable, renamed; then the oldest are deleted. */
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "base/mix.h"
#include "atomic_file.h"
#include "checkpoint_internal.h"
#include "space.h"

typedef struct writer {
  MPI_Comm comm;
  int rank;
  const checkpoint_place *place;
  char name[CHECKPOINT_NAME], temporary[CHECKPOINT_TEMPORARY];
  checkpoint_list before; /* rank 0: those that were there */
  checkpoint_mark mark;   /* rank 0 */
  hid_t file;             /* rank 0 */
  bool created;           /* rank 0: the temporary file may be there */
  disk_driver disk;       /* rank 0: of `file` */
} writer;

/* --- the beginning of a leg ------------------------------------------------------------------------------------- */

/* A number that no other leg has; not 0. */
static uint64_t new_number(void) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number || !number)
    number = mix64((uint64_t)getpid() ^ mix64((uint64_t)time(NULL))) | 1;
  return number;
}

/* Rank 0: all files of the list get one number, unless another run that begins at the same time has taken it. */
static int move_all(const checkpoint_list *list, const char *path, checkpoint_leg *leg, error *e) {
  leg->number = list->aside + 1;
  if (list->count && list->entries[0].mark.generation >= 0) leg->newest = list->entries[0].step;
  /* The newest last: a kill on the way leaves it where it is looked for. */
  for (int i = list->count - 1; i >= 0; i--) {
    TRY(checkpoint_move_aside(path, list->entries[i].step, &leg->number, e));
    leg->moved++;
  }
  return 0;
}

int checkpoint_begin(MPI_Comm comm, const char *path, const checkpoint *from, checkpoint_leg *leg, error *e) {
  int rank;
  *leg = (checkpoint_leg){.newest = -1};
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  if (rank == 0) {
    checkpoint_list list;
    leg->self = from ? from->mark : (checkpoint_mark){.run = new_number()};
    leg->self.leg = new_number();
    checkpoint_list_files(&list, path, e);
    const int64_t newest = checkpoint_list_newest(&list);
    if (newest > leg->self.generation) leg->self.generation = newest;
    if (!e->id && !from) move_all(&list, path, leg, e);
    checkpoint_list_free(&list);
  }
  TRY(error_agree(e, comm));
  MPI_TRY(e, MPI_Bcast(leg, (int)sizeof *leg, MPI_BYTE, 0, comm));
  return 0;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

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
  w->mark = w->place->self;
  const int64_t newest = checkpoint_list_newest(&w->before);
  w->mark.generation = (newest > w->mark.generation ? newest : w->mark.generation) + 1;
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

/* Rank 0: gives the file its name. Another run's file of that name is moved aside first. */
static int take_name(const writer *w, int64_t step, error *e) {
  bool taken = true;
  for (int number = w->before.aside + 1; taken && !e->id;) {
    const checkpoint_mark there = checkpoint_read_mark(w->name);
    if (checkpoint_owns(&w->place->self, &there)) return atomic_file_commit(w->temporary, w->name, e);
    atomic_file_add(w->temporary, w->name, &taken, e);
    if (taken && !e->id && checkpoint_move_aside(w->place->path, step, &number, e)) unlink(w->temporary);
  }
  return e->id;
}

/* Rank 0: after a failure, only tidies up. */
static int finish(writer *w, const checkpoint_meta *m, const checkpoint_array *arrays, int count, error *e) {
  if (!close_file(w, e) && !checkpoint_write_seal(w->name, w->temporary, &w->mark, w->disk.digest, e))
    checkpoint_look(w->name, w->temporary, arrays, count, e);
  if (e->id && w->created)
    unlink(w->temporary);
  else if (!e->id && !take_name(w, m->step, e))
    checkpoint_rotate(&w->before, w->place, m->step);
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
