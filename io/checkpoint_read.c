/* Going on from a checkpoint: rank 0 finds it and compares what surrounds its arrays with the seal; each rank then reads
 * its rows of the arrays, and compares those. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "checkpoint_internal.h"

_Static_assert((int)CHECKPOINT_NAME == (int)FILE_NAME, "both are the longest name of a file");

/* --- opening ---------------------------------------------------------------------------------------------------- */

void checkpoint_close(checkpoint *c) {
  if (c->file >= 0) H5Fclose(c->file); /* it was only read: nothing can be lost */
  if (c->fd >= 0) close(c->fd);
  free(c->sums);
  *c = (checkpoint){.way = c->way, .file = H5I_INVALID_HID, .fd = -1};
}

static int64_t sum_count(const checkpoint *c) {
  int64_t rows = 0;
  for (int i = 0; i < c->count; i++) rows += stored_rows(&c->arrays[i]);
  return rows;
}

static int checkpoint_read_take_sums(checkpoint *c, error *e) {
  const size_t bytes = ((size_t)sum_count(c) + 1) * sizeof *c->sums;
  c->sums = malloc(bytes);
  return c->sums ? 0 : FAIL(e, OUT_OF_MEMORY, bytes, "the sums of a checkpoint");
}

/* Rank 0. */
static int open_here(checkpoint *c, const char *file, error *e) {
  checkpoint_seal s;
  hid_t opened;
  if (strlen(file) >= sizeof c->name) return FAIL(e, FIELD_FILE, file, strerror(ENAMETOOLONG));
  TRY(checkpoint_read_seal(file, &s, &c->fd, e));
  TRY(checkpoint_check_seal(file, c->fd, &s, e));
  c->mark = s.mark;
  c->count = s.count;
  memcpy(c->arrays, s.arrays, sizeof c->arrays);
  TRY(checkpoint_read_take_sums(c, e));
  const row_file f = {.name = file, .fd = c->fd, .checkpoint = true};
  TRY(row_file_get(&f, s.sums_at, c->sums, (size_t)sum_count(c) * sizeof *c->sums, e));
  TRY(checkpoint_open_file(file, file, &opened, e));
  c->file = opened;
  TRY(checkpoint_get_meta(file, opened, &c->step, &c->time, &c->dt, e));
  strcpy(c->name, file);
  return 0;
}

static int open_newest_here(checkpoint *c, const char *path, int64_t before, checkpoint_skipped *skipped,
                            void *context, error *e) {
  checkpoint_list list;
  char file[CHECKPOINT_NAME];
  checkpoint_list_files(&list, path, e);
  /* Those whose age cannot be told stand last in the list but come first here: nobody can use them, but one may have
   * been the newest. */
  int unknown = list.count;
  while (unknown > 0 && list.entries[unknown - 1].mark.generation < 0) unknown--;
  for (int i = 0; i < list.count && !e->id; i++) {
    error why = {0};
    const checkpoint_entry *entry = &list.entries[(unknown + i) % list.count];
    if (before >= 0 && (entry->mark.generation < 0 || entry->mark.generation >= before)) continue;
    if (checkpoint_file_name(file, path, entry->step, e) || !open_here(c, file, &why)) break;
    checkpoint_close(c);
    if (skipped) skipped(context, file, why.text);
  }
  checkpoint_list_free(&list);
  return e->id;
}

/* Do all ranks have the file open? Else rank 0 reads for them. */
static int open_directly(checkpoint *c, error *e) {
  int all, mine;
  if (c->way->rank > 0 && c->way->together) c->fd = open(c->name, O_RDONLY | O_CLOEXEC);
  mine = c->fd >= 0;
  MPI_TRY(e, MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, c->way->comm));
  c->direct = all;
  return 0;
}

/* Tells everybody what rank 0 has opened. Collective, and agreed. */
static int share_opened(checkpoint *c, error *e) {
  const MPI_Comm comm = c->way->comm;
  checkpoint told = *c;
  if (error_agree(e, comm)) {
    checkpoint_close(c);
    return e->id;
  }
  MPI_TRY(e, MPI_Bcast(&told, sizeof told, MPI_BYTE, 0, comm));
  if (c->way->rank > 0) {
    told.way = c->way, told.file = H5I_INVALID_HID, told.fd = -1, told.sums = NULL;
    *c = told;
    if (c->name[0]) checkpoint_read_take_sums(c, e);
  }
  TRY(error_agree(e, comm));
  if (!c->name[0]) return 0;
  MPI_TRY(e, MPI_Bcast(c->sums, (int)sum_count(c), MPI_UINT64_T, 0, comm));
  return open_directly(c, e);
}

int checkpoint_open(checkpoint *c, io_way *way, const char *file, error *e) {
  *c = (checkpoint){.way = way, .file = H5I_INVALID_HID, .fd = -1};
  if (way->rank == 0) open_here(c, file, e);
  return share_opened(c, e);
}

int checkpoint_open_newest(checkpoint *c, io_way *way, const char *path, int64_t before,
                           checkpoint_skipped *skipped, void *context, error *e) {
  *c = (checkpoint){.way = way, .file = H5I_INVALID_HID, .fd = -1};
  if (way->rank == 0) open_newest_here(c, path, before, skipped, context, e);
  return share_opened(c, e);
}

/* --- the fingerprint -------------------------------------------------------------------------------------------- */

static int match_key(const checkpoint *c, hid_t group, const checkpoint_key *key, error *e) {
  const char *expected = key->value ? key->value : "";
  char *found;
  if (H5Aexists(group, key->key) == 0) return FAIL(e, CHECKPOINT_DIFFERS, c->name, key->key, expected, "");
  TRY(checkpoint_get_text(c->name, group, key->key, &found, e));
  if (strcmp(found, expected)) FAIL(e, CHECKPOINT_DIFFERS, c->name, key->key, expected, found);
  H5free_memory(found);
  return e->id;
}

/* Context of find_unexpected. */
typedef struct expected_keys {
  const checkpoint *c;
  const checkpoint_key *keys;
  int count;
  error *e;
} expected_keys;

/* For H5Aiterate2: a key that this run does not have. */
static herr_t find_unexpected(hid_t group, const char *name, const H5A_info_t *info, void *context) {
  const expected_keys *x = context;
  char *found;
  (void)info;
  for (int i = 0; i < x->count; i++)
    if (strcmp(x->keys[i].key, name) == 0) return 0;
  if (checkpoint_get_text(x->c->name, group, name, &found, x->e)) return -1;
  FAIL(x->e, CHECKPOINT_DIFFERS, x->c->name, name, "", found);
  H5free_memory(found);
  return 1;
}

/* Rank 0. */
static int match_here(const checkpoint *c, const checkpoint_key *keys, int count, error *e) {
  hid_t group = H5Gopen2(c->file, CHECKPOINT_KEYS, H5P_DEFAULT);
  if (group < 0) return FAIL(e, FIELD_DAMAGED, c->name, HDF5_WHY);
  for (int i = 0; i < count && !e->id; i++) match_key(c, group, &keys[i], e);
  expected_keys x = {c, keys, count, e};
  hsize_t at = 0;
  if (!e->id && H5Aiterate2(group, H5_INDEX_NAME, H5_ITER_INC, &at, find_unexpected, &x) < 0)
    FAIL(e, FIELD_DAMAGED, c->name, HDF5_WHY);
  H5Gclose(group);
  return e->id;
}

int checkpoint_match(const checkpoint *c, const checkpoint_key *keys, int count, error *e) {
  if (c->file >= 0) match_here(c, keys, count, e);
  return error_agree(e, c->way->comm);
}

/* --- arrays ----------------------------------------------------------------------------------------------------- */

static const stored_array *find_array(const checkpoint *c, const char *name) {
  for (int i = 0; i < c->count; i++)
    if (strcmp(c->arrays[i].name, name) == 0) return &c->arrays[i];
  return NULL;
}

void checkpoint_find_array(const checkpoint *c, const char *name, enum checkpoint_type *type, int *axes,
                           int64_t shape[3]) {
  const stored_array *s = find_array(c, name);
  *axes = s ? s->axes : 0;
  *type = s ? s->type : CHECKPOINT_FLOAT;
  for (int i = 0; i < 3; i++) shape[i] = s ? s->shape[i] : 0;
}

/* (2, 3, 4) */
static void shape_text(int axes, const int64_t shape[3], char text[SHAPE_TEXT]) {
  int used = snprintf(text, SHAPE_TEXT, "(");
  for (int i = 0; i < axes; i++)
    used += snprintf(text + used, (size_t)(SHAPE_TEXT - used), "%" PRId64 "%s", shape[i],
                     i < axes - 1 ? ", "
                     : axes == 1  ? ",)"
                                  : ")");
}

static int match_array(const checkpoint *c, const checkpoint_array *a, const stored_array *s, error *e) {
  static const char *const types[] = {"float32", "float64", "int64"};
  char expected[SHAPE_TEXT], found[SHAPE_TEXT];
  if (!s) return FAIL(e, CHECKPOINT_NO_ARRAY, c->name, a->name);
  shape_text(a->axes, a->shape, expected);
  shape_text(s->axes, s->shape, found);
  if (strcmp(expected, found)) return FAIL(e, CHECKPOINT_ARRAY, c->name, s->name, "shape", expected, found);
  if (s->type != a->type)
    return FAIL(e, CHECKPOINT_ARRAY, c->name, s->name, "type", types[a->type], types[s->type]);
  const bool fits =
      a->first >= 0 && a->count >= 0 && a->first <= a->shape[0] && a->count <= a->shape[0] - a->first;
  return !a->count || fits ? 0 : FAIL(e, CHECKPOINT_SHARES, a->name);
}

/* Rows of an array that is there. */
static row_part part_of(const checkpoint *c, const stored_array *s, int64_t first, int64_t count) {
  row_part p = {.array = s->name, .at = s->at, .row_bytes = stored_bytes(s, 1), .first = first};
  p.count = stored_rows(s) ? count : 0;
  p.sums = c->sums + first;
  for (const stored_array *before = c->arrays; before < s; before++) p.sums += stored_rows(before);
  return p;
}

/* Collective, and agreed. */
static int read_parts(const checkpoint *c, row_part *parts, int count, error *e) {
  const row_file f = {.name = c->name, .fd = c->fd, .checkpoint = true};
  TRY(error_agree(e, c->way->comm));
  rows_read(c->way, &f, c->direct, parts, count, e);
  return error_agree(e, c->way->comm);
}

int checkpoint_read(const checkpoint *c, const checkpoint_array *arrays, int count, error *e) {
  row_part parts[CHECKPOINT_ARRAYS];
  for (int i = 0; i < count; i++) {
    const checkpoint_array *a = &arrays[i];
    const stored_array *s = find_array(c, a->name);
    if (match_array(c, a, s, e)) break;
    parts[i] = part_of(c, s, a->first, a->count);
    parts[i].move = a->sink;
    parts[i].context = a->context;
  }
  return read_parts(c, parts, count, e);
}

int checkpoint_verify(const checkpoint *c, error *e) {
  row_part parts[CHECKPOINT_ARRAYS];
  for (int i = 0; i < c->count; i++) {
    const int64_t rows = c->arrays[i].shape[0], first = rows * c->way->rank / c->way->ranks;
    parts[i] = part_of(c, &c->arrays[i], first, rows * (c->way->rank + 1) / c->way->ranks - first);
  }
  return read_parts(c, parts, c->count, e);
}
