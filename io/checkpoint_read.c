/* Going on from a checkpoint: rank 0 finds it, reads all of it once, and then deals out its arrays. */
#include <errno.h>
#include <string.h>
#include "base/error_mpi.h"
#include "checkpoint_internal.h"

_Static_assert((int)CHECKPOINT_NAME == (int)FILE_NAME, "both are the longest name of a file");

static int close_file(checkpoint *c) {
  herr_t rc = c->file >= 0 ? H5Fclose(c->file) : 0;
  c->file = H5I_INVALID_HID;
  c->name[0] = 0;
  return rc;
}

void checkpoint_close(checkpoint *c) {
  close_file(c); /* it was only read: nothing can be lost */
}

static int open_here(checkpoint *c, const char *file, error *e) {
  if (strlen(file) >= sizeof c->name) return FAIL(e, FIELD_FILE, file, strerror(ENAMETOOLONG));
  TRY(checkpoint_check_seal(file, e));
  hid_t opened;
  TRY(checkpoint_open_file(file, file, &opened, e));
  strcpy(c->name, file);
  c->file = opened;
  c->mark = checkpoint_read_mark(file);
  return checkpoint_get_meta(file, opened, &c->step, &c->time, &c->dt, e);
}

static int open_newest_here(checkpoint *c, const char *path, checkpoint_skipped *skipped, void *context,
                            error *e) {
  checkpoint_list list;
  char file[CHECKPOINT_NAME];
  checkpoint_list_files(&list, path, e);
  /* Those whose age cannot be told stand last in the list but come first here: nobody can use them, but one may have
   * been the newest. */
  int unknown = list.count;
  while (unknown > 0 && list.entries[unknown - 1].mark.generation < 0) unknown--;
  for (int i = 0; i < list.count && !e->id; i++) {
    error why = {0};
    const int64_t step = list.entries[(unknown + i) % list.count].step;
    if (checkpoint_file_name(file, path, step, e) || !open_here(c, file, &why)) break;
    close_file(c);
    if (skipped) skipped(context, file, why.text);
  }
  checkpoint_list_free(&list);
  return e->id;
}

/* Tells everybody what rank 0 has opened. Collective, and agreed. */
static int share_opened(checkpoint *c, error *e) {
  if (error_agree(e, c->comm)) {
    close_file(c);
    return e->id;
  }
  MPI_TRY(e, MPI_Bcast(c->name, sizeof c->name, MPI_CHAR, 0, c->comm));
  MPI_TRY(e, MPI_Bcast(&c->step, 1, MPI_INT64_T, 0, c->comm));
  MPI_TRY(e, MPI_Bcast(&c->time, 1, MPI_DOUBLE, 0, c->comm));
  MPI_TRY(e, MPI_Bcast(&c->dt, 1, MPI_DOUBLE, 0, c->comm));
  MPI_TRY(e, MPI_Bcast(&c->mark, (int)sizeof c->mark, MPI_BYTE, 0, c->comm));
  return 0;
}

static int begin(checkpoint *c, MPI_Comm comm, int *rank, error *e) {
  *c = (checkpoint){.comm = comm, .block_bytes = FILE_BLOCK, .file = H5I_INVALID_HID};
  MPI_TRY(e, MPI_Comm_rank(comm, rank));
  return 0;
}

int checkpoint_open(checkpoint *c, MPI_Comm comm, const char *file, error *e) {
  int rank;
  TRY(begin(c, comm, &rank, e));
  if (rank == 0) open_here(c, file, e);
  return share_opened(c, e);
}

int checkpoint_open_newest(checkpoint *c, MPI_Comm comm, const char *path, checkpoint_skipped *skipped,
                           void *context, error *e) {
  int rank;
  TRY(begin(c, comm, &rank, e));
  if (rank == 0) open_newest_here(c, path, skipped, context, e);
  return share_opened(c, e);
}

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
  return error_agree(e, c->comm);
}

int checkpoint_find_array(const checkpoint *c, const char *name, enum checkpoint_type *type, int *axes,
                          int64_t shape[3], error *e) {
  int64_t facts[5] = {0};
  if (c->file >= 0 && H5Lexists(c->file, name, H5P_DEFAULT) > 0) {
    stored_array s;
    if (!stored_open(&s, c->name, c->file, name, e)) {
      facts[0] = s.type, facts[1] = s.axes;
      for (int i = 0; i < 3; i++) facts[2 + i] = (int64_t)s.shape[i];
    }
    stored_close(&s);
  }
  TRY(error_agree(e, c->comm));
  MPI_TRY(e, MPI_Bcast(facts, 5, MPI_INT64_T, 0, c->comm));
  *type = (enum checkpoint_type)facts[0];
  *axes = (int)facts[1];
  for (int i = 0; i < 3; i++) shape[i] = facts[2 + i];
  return 0;
}

/* Rank 0: opens the array, which must be as `a` says. */
static int open_array(const checkpoint *c, const checkpoint_array *a, stored_array *s, error *e) {
  if (H5Lexists(c->file, a->name, H5P_DEFAULT) == 0) return FAIL(e, CHECKPOINT_NO_ARRAY, c->name, a->name);
  TRY(stored_open(s, c->name, c->file, a->name, e));
  return stored_matches(s, a, e);
}

int checkpoint_read(const checkpoint *c, const checkpoint_array *a, error *e) {
  stored_array s = {.dataset = H5I_INVALID_HID};
  exchange x = {0};
  if (c->file >= 0) open_array(c, a, &s, e);
  if (!error_agree(e, c->comm) && !exchange_open(&x, c->comm, a, c->block_bytes, e)) exchange_read(&x, &s, e);
  exchange_close(&x);
  stored_close(&s);
  return e->id;
}
