/* Writing a checkpoint: under a temporary name, made durable, renamed; then the oldest are deleted. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "atomic_file.h"
#include "checkpoint_internal.h"
#include "space.h"

/* --- the beginning of a leg ------------------------------------------------------------------------------------- */

/* A number that no other leg has; not 0. */
static uint64_t new_number(void) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number || !number)
    number = mix64((uint64_t)getpid() ^ mix64((uint64_t)time(NULL))) | 1;
  return number;
}

/* Rank 0: all files of the list get one number, unless another run that begins at the same time has taken it. */
static int checkpoint_write_move_all(const checkpoint_list *list, const char *path, checkpoint_leg *leg,
                                     error *e) {
  leg->number = list->aside + 1;
  if (list->count && list->entries[0].mark.generation >= 0) leg->newest = list->entries[0].step;
  /* The newest last: a kill on the way leaves it where it is looked for. */
  for (int i = list->count - 1; i >= 0; i--) {
    TRY(checkpoint_move_aside(path, list->entries[i].step, &leg->number, e));
    leg->moved++;
  }
  return 0;
}

int checkpoint_begin(io_way *way, const char *path, const checkpoint *from, checkpoint_leg *leg, error *e) {
  *leg = (checkpoint_leg){.newest = -1};
  if (way->rank == 0) {
    checkpoint_list list;
    leg->self = from ? from->mark : (checkpoint_mark){.run = new_number()};
    leg->self.leg = new_number();
    checkpoint_list_files(&list, path, e);
    const int64_t newest = checkpoint_list_newest(&list);
    if (newest > leg->self.generation) leg->self.generation = newest;
    if (!e->id && !from) checkpoint_write_move_all(&list, path, leg, e);
    checkpoint_list_free(&list);
  }
  TRY(error_agree(e, way->comm));
  MPI_TRY(e, MPI_Bcast(leg, (int)sizeof *leg, MPI_BYTE, 0, way->comm));
  return 0;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* What rank 0 tells the others of the file it has created. */
typedef struct plan {
  char temporary[CHECKPOINT_TEMPORARY];
  uint64_t at[CHECKPOINT_ARRAYS];
} plan;

typedef struct writer {
  io_way *way;
  const checkpoint_place *place;
  const checkpoint_array *arrays;
  int count;
  char name[CHECKPOINT_NAME];
  plan plan;
  int fd;                            /* of the ranks that use files */
  row_part parts[CHECKPOINT_ARRAYS]; /* this rank's, and */
  uint64_t *sums;                    /* their sums; owned */
  /* rank 0: */
  checkpoint_list before; /* those that were there */
  checkpoint_seal seal;
  int64_t *shares;    /* of all arrays, of every rank: first row and rows; owned, as are */
  uint64_t *all_sums; /* of all rows */
  bool created;       /* the temporary file may be there */
} writer;

/* An array as it will be in the file. */
static stored_array checkpoint_write_describe(const checkpoint_array *a) {
  stored_array s = {.type = a->type, .axes = a->axes};
  snprintf(s.name, sizeof s.name, "%s", a->name);
  for (int i = 0; i < a->axes; i++) s.shape[i] = a->shape[i];
  return s;
}

uint64_t checkpoint_bytes(const checkpoint_array *arrays, int count) {
  uint64_t bytes = 1 << 18; /* attributes, HDF5's own records, and what lies between arrays */
  for (int i = 0; i < count; i++) {
    const stored_array s = checkpoint_write_describe(&arrays[i]);
    const uint64_t more[] = {stored_bytes(&s, s.shape[0]), 8 * (uint64_t)stored_rows(&s)};
    for (int k = 0; k < 2; k++)
      if (__builtin_add_overflow(bytes, more[k], &bytes)) return UINT64_MAX;
  }
  return bytes;
}

/* This rank's rows of an array; none where rows have no values. */
static row_part own_rows(const checkpoint_array *a) {
  const stored_array s = checkpoint_write_describe(a);
  const int64_t count = stored_rows(&s) ? a->count : 0;
  return (row_part){.array = a->name,
                    .row_bytes = stored_bytes(&s, 1),
                    .first = a->first,
                    .count = count,
                    .move = a->source,
                    .context = a->context};
}

/* Where this rank's sums go. */
static int checkpoint_write_take_sums(writer *w, error *e) {
  int64_t rows = 0;
  for (int i = 0; i < w->count; i++) rows += w->parts[i].count;
  w->sums = malloc(((size_t)rows + 1) * sizeof *w->sums);
  if (!w->sums) return FAIL(e, OUT_OF_MEMORY, (size_t)rows * sizeof *w->sums, "the sums of a checkpoint");
  rows = 0;
  for (int i = 0; i < w->count; rows += w->parts[i++].count) w->parts[i].sums = w->sums + rows;
  return 0;
}

/* --- who has what --- */

/* Rank 0 learns everybody's rows. Agreed. */
static int gather_shares(writer *w, error *e) {
  const int each = 2 * w->count;
  MPI_Request request;
  int64_t mine[2 * CHECKPOINT_ARRAYS] = {0};
  for (int i = 0; i < w->count; i++) mine[2 * i] = w->parts[i].first, mine[2 * i + 1] = w->parts[i].count;
  if (w->way->rank == 0 && !(w->shares = calloc((size_t)(w->way->ranks * each) + 1, sizeof *w->shares)))
    FAIL(e, OUT_OF_MEMORY, (size_t)(w->way->ranks * each) * sizeof *w->shares, "a checkpoint");
  TRY(error_agree(e, w->way->comm));
  MPI_TRY(e, MPI_Igather(mine, each, MPI_INT64_T, w->shares, each, MPI_INT64_T, 0, w->way->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

/* Rank 0: is every row held by one rank, in order? */
static int check_shares(const writer *w, error *e) {
  for (int i = 0; i < w->count; i++) {
    int64_t next = 0;
    for (int r = 0; r < w->way->ranks; r++) {
      const int64_t *share = &w->shares[2 * (r * w->count + i)];
      if (share[1] && share[0] != next) return FAIL(e, CHECKPOINT_SHARES, w->arrays[i].name);
      next += share[1];
    }
    if (next != stored_rows(&w->seal.arrays[i])) return FAIL(e, CHECKPOINT_SHARES, w->arrays[i].name);
  }
  return 0;
}

/* Rank 0 gets the sums of an array, whose rows the ranks hold in order. */
static int gather_array(const writer *w, int i, int *counts, uint64_t *to, error *e) {
  const io_way *way = w->way;
  MPI_Request request;
  int *firsts = counts ? counts + way->ranks : NULL;
  for (int r = 0, first = 0; counts && r < way->ranks; first += counts[r++]) {
    counts[r] = (int)w->shares[2 * (r * w->count + i) + 1];
    firsts[r] = first;
  }
  MPI_TRY(e, MPI_Igatherv(w->parts[i].sums, (int)w->parts[i].count, MPI_UINT64_T, to, counts, firsts,
                          MPI_UINT64_T, 0, way->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

/* Agreed but for MPI's own errors. */
static int gather_sums(writer *w, int64_t rows, error *e) {
  const io_way *way = w->way;
  int *counts = NULL;
  if (way->rank == 0) {
    counts = calloc(2 * (size_t)way->ranks, sizeof *counts);
    w->all_sums = malloc(((size_t)rows + 1) * sizeof *w->all_sums);
    if (!counts || !w->all_sums)
      FAIL(e, OUT_OF_MEMORY, (size_t)rows * sizeof *w->all_sums, "the sums of a checkpoint");
  }
  uint64_t *to = w->all_sums;
  error_agree(e, way->comm);
  for (int i = 0; i < w->count && !e->id; i++) {
    gather_array(w, i, counts, to, e);
    if (to) to += stored_rows(&w->seal.arrays[i]);
  }
  free(counts);
  return e->id;
}

/* --- the file --- */

/* Rank 0: everything up to the first row. */
static int checkpoint_write_begin(writer *w, const checkpoint_meta *m, error *e) {
  const char *path = w->place->path;
  w->seal.count = w->count;
  for (int i = 0; i < w->count; i++) w->seal.arrays[i] = checkpoint_write_describe(&w->arrays[i]);
  TRY(check_shares(w, e));
  temporary_name(w->plan.temporary, sizeof w->plan.temporary, w->name);
  temporary_remove(path, ".h5");
  TRY(checkpoint_list_files(&w->before, path, e));
  TRY(space_check(w->name, checkpoint_bytes(w->arrays, w->count), e));
  w->seal.mark = w->place->self;
  const int64_t newest = checkpoint_list_newest(&w->before);
  w->seal.mark.generation = (newest > w->seal.mark.generation ? newest : w->seal.mark.generation) + 1;
  w->created = true;
  TRY(checkpoint_create(w->name, w->plan.temporary, m, &w->seal, e));
  for (int i = 0; i < w->count; i++) w->plan.at[i] = w->seal.arrays[i].at;
  return 0;
}

/* The ranks that use files open the one that rank 0 has created. */
static int checkpoint_write_open(writer *w, error *e) {
  MPI_Request request;
  MPI_TRY(e, MPI_Ibcast(&w->plan, sizeof w->plan, MPI_BYTE, 0, w->way->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  for (int i = 0; i < w->count; i++) w->parts[i].at = w->plan.at[i];
  if (w->way->rank > 0 && !w->way->together) return 0;
  w->fd = open(w->plan.temporary, O_RDWR | O_CLOEXEC);
  return w->fd < 0 ? FAIL(e, FILE_WRITE, w->name, strerror(errno)) : 0;
}

/* Each rank makes durable what it has written: on a network's file system another one cannot. */
static int close_file(writer *w, bool sync, error *e) {
  if (w->fd < 0) return e->id;
  if (sync && !e->id && fsync(w->fd)) FAIL(e, FILE_WRITE, w->name, strerror(errno));
  if (close(w->fd)) FAIL(e, FILE_WRITE, w->name, strerror(errno));
  w->fd = -1;
  return e->id;
}

/* Rank 0: gives the file its name. Another run's file of that name is moved aside first. */
static int take_name(const writer *w, int64_t step, error *e) {
  bool taken = true;
  const char *temporary = w->plan.temporary;
  for (int number = w->before.aside + 1; taken && !e->id;) {
    const checkpoint_mark there = checkpoint_read_mark(w->name);
    if (checkpoint_owns(&w->place->self, &there)) return atomic_file_commit(temporary, w->name, e);
    atomic_file_add(temporary, w->name, &taken, e);
    if (taken && !e->id && checkpoint_move_aside(w->place->path, step, &number, e)) unlink(temporary);
  }
  return e->id;
}

/* Rank 0: the sums and the seal; after a failure, only tidies up. */
static int checkpoint_write_finish(writer *w, int64_t step, int64_t rows, error *e) {
  const row_file f = {.name = w->name, .fd = w->fd};
  if (!e->id && !row_file_put(&f, w->seal.sums_at, w->all_sums, (size_t)rows * sizeof *w->all_sums, e))
    checkpoint_write_seal(w->name, w->fd, &w->seal, e);
  close_file(w, false, e); /* taking the name makes it durable */
  if (e->id && w->created)
    unlink(w->plan.temporary);
  else if (!e->id && !take_name(w, step, e))
    checkpoint_rotate(&w->before, w->place, step);
  return e->id;
}

/* Rank 0 has begun. Collective. */
static int write_rows(writer *w, error *e) {
  checkpoint_write_take_sums(w, e);
  checkpoint_write_open(w, e);
  if (w->way->together ? e->id : error_agree(e, w->way->comm)) return e->id;
  const row_file f = {.name = w->name, .fd = w->fd};
  return rows_write(w->way, &f, w->way->together, w->parts, w->count, e);
}

int checkpoint_write(io_way *way, const checkpoint_place *place, const checkpoint_meta *meta,
                     const checkpoint_array *arrays, int count, error *e) {
  writer w = {.way = way, .place = place, .arrays = arrays, .count = count, .fd = -1};
  int64_t rows = 0;
  for (int i = 0; i < count; i++) w.parts[i] = own_rows(&arrays[i]);
  checkpoint_file_name(w.name, place->path, meta->run.step, e);
  if (!gather_shares(&w, e)) {
    if (way->rank == 0) checkpoint_write_begin(&w, meta, e);
    for (int i = 0; i < w.seal.count; i++) rows += stored_rows(&w.seal.arrays[i]);
    if (!error_agree(e, way->comm)) {
      write_rows(&w, e);
      if (way->rank > 0) close_file(&w, true, e);
      gather_sums(&w, rows, e);
    }
    if (way->rank == 0) checkpoint_write_finish(&w, meta->run.step, rows, e);
    error_agree(e, way->comm);
  }
  checkpoint_list_free(&w.before);
  free(w.sums);
  free(w.all_sums);
  free(w.shares);
  return e->id;
}
