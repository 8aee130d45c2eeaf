/* Writing a checkpoint: under a temporary name, made durable, renamed; then the oldest are deleted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "io/bytes/atomic_file.h"
#include "checkpoint_internal.h"
#include "io/output/space.h"

/* --- the start of a process ------------------------------------------------------------------------------------ */

/* A number that no other process has; not 0. */
static uint64_t checkpoint_write_number(void) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number || !number)
    number = mix64((uint64_t)getpid() ^ mix64((uint64_t)time(NULL))) | 1;
  return number;
}

/* Rank 0 moves all files of the list aside. They get one number, unless another run that begins at the same time has
 * taken it. */
static int checkpoint_write_move_all(const checkpoint_list *list, const char *path, checkpoint_start *start,
                                     error *e) {
  if (list->count && list->entries[0].mark.generation >= 0) start->newest = list->entries[0].step;
  /* The newest is moved last, so that after a kill on the way a restart still finds it. */
  for (int i = list->count - 1; i >= 0; i--) {
    TRY(checkpoint_move_aside(path, list->entries[i].step, &start->number, e));
    start->moved++;
  }
  return 0;
}

int checkpoint_begin(io_access *access, const char *path, const checkpoint *from, checkpoint_start *start,
                     error *e) {
  *start = (checkpoint_start){.newest = -1};
  if (access->rank == 0) {
    checkpoint_list list;
    start->self = from ? from->mark : (checkpoint_mark){.run = checkpoint_write_number()};
    start->self.process = checkpoint_write_number();
    /* removes files of killed runs, also if this run writes no checkpoint */
    temporary_remove(path, ".h5", NULL);
    checkpoint_list_files(&list, path, e);
    if (list.newest > start->self.generation) start->self.generation = list.newest;
    start->number = list.aside + 1;
    if (!e->id && !from) checkpoint_write_move_all(&list, path, start, e);
    for (int i = 0; from && i < list.count; i++)
      start->others += !checkpoint_owns(&start->self, &list.entries[i].mark);
    checkpoint_list_free(&list);
  }
  TRY(error_agree(e, access->comm));
  MPI_TRY(e, MPI_Bcast(start, (int)sizeof *start, MPI_BYTE, 0, access->comm));
  return 0;
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

typedef struct checkpoint_writer {
  io_access *access;
  const checkpoint_place *place;
  new_file file;
  row_part parts[CHECKPOINT_ARRAYS]; /* this rank's */
  checkpoint_header header;          /* complete on rank 0 */
  uint64_t *sums;                    /* of all rows, of which this rank fills its own; owned */
  int64_t rows;
  /* rank 0: */
  checkpoint_list before; /* the checkpoints that exist */
} checkpoint_writer;

/* The disk space for a checkpoint of these arrays. */
static uint64_t checkpoint_write_bytes(const checkpoint_array *arrays, int count) {
  uint64_t bytes = 1 << 18; /* attributes, HDF5's own records, and what lies between arrays */
  for (int i = 0; i < count; i++) {
    const checkpoint_array *a = &arrays[i];
    const uint64_t more[] = {checkpoint_bytes(a, a->shape[0]), 8 * (uint64_t)checkpoint_rows(a)};
    for (int k = 0; k < 2; k++)
      if (__builtin_add_overflow(bytes, more[k], &bytes)) return UINT64_MAX;
  }
  return bytes;
}

/* --- the HDF5 part: what surrounds the arrays ------------------------------------------------------------------ */

/* Space for the values of an array. */
static uint64_t checkpoint_write_place(new_hdf5 *f, const checkpoint_array *a, hid_t type) {
  new_dataset d = {.name = a->name, .type = type, .rank = a->axes};
  for (int i = 0; i < a->axes; i++) d.shape[i] = (hsize_t)a->shape[i];
  return dataset_write(f, &d);
}

typedef struct checkpoint_content {
  const checkpoint_meta *meta;
  checkpoint_header *header;
} checkpoint_content;

/* A new_file_content: writes all but the values of the arrays, their checksums and the header, for which it takes
 * space. Fills the header except its mark and bytes; the arrays are described there already. Nothing reads a
 * checkpoint through HDF5. */
static void checkpoint_write_content(new_hdf5 *to, new_file *f, const void *context) {
  const checkpoint_content *content = context;
  const char *keys = content->meta->keys;
  checkpoint_header *s = content->header;
  checkpoint_array sums = {.name = "checksums", .axes = 1};
  s->step = content->meta->run.step, s->time = content->meta->run.time, s->dt = content->meta->run.dt;
  s->keys_bytes = strlen(keys);
  attribute_run(to, &content->meta->run);
  hid_t text = text_type(to, s->keys_bytes + 1);
  s->keys_at = dataset_write(to, &(new_dataset){"fingerprint", text, .values = keys});
  if (text >= 0) H5Tclose(text);
  for (int i = 0; i < s->count; i++) {
    checkpoint_array *a = &s->arrays[i];
    f->plan.at[i] = a->at =
        checkpoint_write_place(to, a, a->type == CHECKPOINT_FLOAT ? H5T_IEEE_F32LE : H5T_STD_I64LE);
    sums.shape[0] += checkpoint_rows(a);
  }
  s->sums_at = checkpoint_write_place(to, &sums, H5T_STD_U64LE);
}

/* --- rows and their sums ---------------------------------------------------------------------------------------- */

/* This rank's rows of each array; none where rows have no values. */
static int checkpoint_write_parts(checkpoint_writer *w, error *e) {
  checkpoint_header *s = &w->header;
  for (int i = 0; i < s->count; i++) {
    const checkpoint_array *a = &s->arrays[i];
    w->parts[i] = (row_part){.array = a->name,
                             .row_bytes = checkpoint_bytes(a, 1),
                             .first = a->count ? a->first : 0,
                             .count = checkpoint_rows(a) ? a->count : 0,
                             .move = a->source,
                             .context = a->context};
    const row_part *p = &w->parts[i];
    if (p->first < 0 || p->count < 0 || p->first > a->shape[0] || p->count > a->shape[0] - p->first)
      FAIL(e, CHECKPOINT_PARTS, a->name);
    w->rows += checkpoint_rows(a);
  }
  TRY(ALLOC(e, w->sums, w->rows, "the sums of a checkpoint"));
  int64_t before = 0;
  for (int i = 0; i < s->count; before += checkpoint_rows(&s->arrays[i++]))
    w->parts[i].sums = w->sums + before + w->parts[i].first;
  return e->id;
}

/* Sums w->sums over the ranks, on rank 0. */
static int checkpoint_write_add(checkpoint_writer *w, error *e) {
  const void *from = w->access->rank ? w->sums : MPI_IN_PLACE;
  MPI_AWAIT(e, MPI_Ireduce(from, w->sums, (int)w->rows, MPI_UINT64_T, MPI_SUM, 0, w->access->comm, &request));
  return 0;
}

/* Checks that exactly one rank holds each row, and sets w->sums to zeros again. Agreed except for rank 0's errors. */
static int checkpoint_write_check(checkpoint_writer *w, error *e) {
  TRY(error_agree(e, w->access->comm));
  for (int i = 0; i < w->header.count; i++)
    for (int64_t row = 0; row < w->parts[i].count; row++) w->parts[i].sums[row] = 1;
  TRY(checkpoint_write_add(w, e));
  const uint64_t *held = w->sums;
  for (int i = 0; w->access->rank == 0 && i < w->header.count; i++)
    for (int64_t row = 0; row < checkpoint_rows(&w->header.arrays[i]); row++)
      if (*held++ != 1 && !e->id) FAIL(e, CHECKPOINT_PARTS, w->header.arrays[i].name);
  memset(w->sums, 0, (size_t)w->rows * sizeof *w->sums);
  return e->id;
}

/* --- the file --- */

/* Rank 0 does all that precedes the first row. */
static int checkpoint_write_begin(checkpoint_writer *w, const checkpoint_meta *m, error *e) {
  const char *path = w->place->path;
  const checkpoint_content content = {m, &w->header};
  temporary_remove(path, ".h5", NULL);
  TRY(checkpoint_list_files(&w->before, path, e));
  w->header.mark = w->place->self;
  if (w->before.newest > w->header.mark.generation) w->header.mark.generation = w->before.newest;
  w->header.mark.generation++;
  w->file.user_block = CHECKPOINT_HEADER;
  return new_file_create(&w->file, NULL, checkpoint_write_content, &content, e);
}

/* Rank 0: gives the file its name. Another run's file of that name is moved aside first. */
static int checkpoint_write_rename(const checkpoint_writer *w, int64_t step, error *e) {
  bool taken = true;
  const char *temporary = w->file.plan.temporary;
  for (int number = w->before.aside + 1; taken && !e->id;) {
    const checkpoint_mark there = checkpoint_read_mark(w->file.name);
    if (checkpoint_owns(&w->place->self, &there)) return atomic_file_commit(temporary, w->file.name, NULL, e);
    atomic_file_commit(temporary, w->file.name, &taken, e);
    if (taken && !e->id && checkpoint_move_aside(w->place->path, step, &number, e)) unlink(temporary);
  }
  return e->id;
}

/* Rank 0 writes the checksums and the header, and renames the file; after a failure it only removes the file. */
static int checkpoint_write_finish(checkpoint_writer *w, int64_t step, error *e) {
  const row_file f = {.name = w->file.name, .fd = w->file.fd};
  if (!e->id && !row_file_put(&f, w->header.sums_at, w->sums, (size_t)w->rows * sizeof *w->sums, e))
    checkpoint_write_header(w->file.name, w->file.fd, &w->header, e);
  rows_close_new(&w->file, false, e); /* the rename makes it durable */
  if (e->id)
    new_file_drop(&w->file, e);
  else if (!e->id && !checkpoint_write_rename(w, step, e))
    checkpoint_rotate(&w->before, w->place, step);
  return e->id;
}

/* All ranks write their rows into the file that rank 0 has created. Collective. */
static int checkpoint_write_rows(checkpoint_writer *w, error *e) {
  rows_open_new(w->access, &w->file, e);
  for (int i = 0; i < w->header.count; i++) w->parts[i].at = w->file.plan.at[i];
  TRY(error_agree(e, w->access->comm));
  const row_file f = {.name = w->file.name, .fd = w->file.fd, .write = true};
  return rows_move(w->access, &f, w->file.direct, w->parts, w->header.count, e);
}

int checkpoint_write(io_access *access, const checkpoint_place *place, const checkpoint_meta *meta,
                     const checkpoint_array *arrays, int count, error *e) {
  checkpoint_writer w = {.access = access, .place = place, .file.fd = -1, .header.count = count};
  memcpy(w.header.arrays, arrays, (size_t)count * sizeof *arrays);
  path_step_name(w.file.name, place->path, meta->run.step, ".h5", e);
  if (access->rank == 0 && !e->id) space_check(w.file.name, checkpoint_write_bytes(arrays, count), e);
  if (!e->id) checkpoint_write_parts(&w, e);
  checkpoint_write_check(&w, e);
  if (access->rank == 0 && !e->id) checkpoint_write_begin(&w, meta, e);
  if (!error_agree(e, access->comm)) {
    checkpoint_write_rows(&w, e);
    if (access->rank > 0) rows_close_new(&w.file, true, e);
    if (!error_agree(e, access->comm)) checkpoint_write_add(&w, e);
  }
  if (access->rank == 0) checkpoint_write_finish(&w, meta->run.step, e);
  error_agree(e, access->comm);
  checkpoint_list_free(&w.before);
  free(w.sums);
  return e->id;
}
