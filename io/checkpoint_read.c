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
  if (c->fd >= 0) close(c->fd); /* it was only read: nothing can be lost */
  message_free(&c->held);
  *c = (checkpoint){.way = c->way, .fd = -1};
}

static int64_t read_sum_count(const checkpoint *c) {
  int64_t rows = 0;
  for (int i = 0; i < c->count; i++) rows += stored_rows(&c->arrays[i]);
  return rows;
}

/* Adds a key of the fingerprint to the message, for H5Aiterate2. */
static herr_t read_key(hid_t group, const char *name, const H5A_info_t *info, void *context) {
  checkpoint *c = context;
  char *found;
  error why = {0};
  (void)info;
  if (checkpoint_get_text(c->name, group, name, &found, &why)) return -1;
  const char *value = found;
  message_text(&c->held, &name);
  message_text(&c->held, &value);
  H5free_memory(found);
  c->key_count++;
  return 0;
}

static int read_keys(checkpoint *c, hid_t file, error *e) {
  hid_t group = H5Gopen2(file, CHECKPOINT_KEYS, H5P_DEFAULT);
  hsize_t at = 0;
  if (group < 0 || H5Aiterate2(group, H5_INDEX_NAME, H5_ITER_INC, &at, read_key, c) < 0)
    FAIL(e, FIELD_DAMAGED, c->name, HDF5_WHY);
  if (group >= 0) H5Gclose(group);
  return e->id;
}

/* What HDF5 knows of it. */
static int read_file(checkpoint *c, error *e) {
  hid_t file;
  TRY(checkpoint_open_file(c->name, c->name, &file, e));
  if (!checkpoint_get_meta(c->name, file, &c->step, &c->time, &c->dt, e)) read_keys(c, file, e);
  H5Fclose(file);
  return e->id;
}

static int read_sums(checkpoint *c, uint64_t at, error *e) {
  const row_file f = {.name = c->name, .fd = c->fd, .checkpoint = true};
  const size_t bytes = (size_t)read_sum_count(c) * sizeof *c->sums;
  uint64_t *sums = malloc(bytes + 1);
  if (!sums) return FAIL(e, OUT_OF_MEMORY, bytes, "the sums of a checkpoint");
  if (!row_file_get(&f, at, sums, bytes, e)) message_array(&c->held, &sums, bytes);
  free(sums);
  return e->id;
}

/* Rank 0. What the others are to know goes into c->held: the sums, then the keys. */
static int read_open_here(checkpoint *c, const char *file, error *e) {
  checkpoint_seal s;
  if (strlen(file) >= sizeof c->name) return FAIL(e, FIELD_FILE, file, strerror(ENAMETOOLONG));
  TRY(checkpoint_read_seal(file, &s, &c->fd, e));
  TRY(checkpoint_check_seal(file, c->fd, &s, e));
  strcpy(c->name, file);
  c->mark = s.mark;
  c->count = s.count;
  memcpy(c->arrays, s.arrays, sizeof c->arrays);
  TRY(read_sums(c, s.sums_at, e));
  return read_file(c, e);
}

static int read_open_newest(checkpoint *c, const checkpoint_search *search, message *skipped, error *e) {
  checkpoint_list list;
  char file[CHECKPOINT_NAME];
  checkpoint_list_files(&list, search->path, e);
  /* Those whose age cannot be told stand last in the list but come first here: nobody can use them, but one may have
   * been the newest. */
  int unknown = list.count;
  while (unknown > 0 && list.entries[unknown - 1].mark.generation < 0) unknown--;
  for (int i = 0; i < list.count && !e->id; i++) {
    error why = {0};
    const char *reason = why.text;
    const checkpoint_entry *entry = &list.entries[(unknown + i) % list.count];
    if (search->before >= 0 && (entry->mark.generation < 0 || entry->mark.generation >= search->before))
      continue;
    if (path_step_name(file, search->path, entry->step, ".h5", e) || !read_open_here(c, file, &why)) break;
    checkpoint_close(c);
    message_text(skipped, &reason);
  }
  checkpoint_list_free(&list);
  return e->id;
}

/* Do all ranks have the file open? Else rank 0 reads for them. */
static int read_open_directly(checkpoint *c, error *e) {
  int all, mine;
  if (c->way->rank > 0 && c->way->together) c->fd = open(c->name, O_RDONLY | O_CLOEXEC);
  mine = c->fd >= 0;
  MPI_TRY(e, MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, c->way->comm));
  c->direct = all;
  return 0;
}

/* Tells everybody what rank 0 has opened. Collective, and agreed. */
static int read_share(checkpoint *c, error *e) {
  const MPI_Comm comm = c->way->comm;
  checkpoint told = *c;
  if (error_agree(e, comm)) {
    checkpoint_close(c);
    return e->id;
  }
  MPI_TRY(e, MPI_Bcast(&told, sizeof told, MPI_BYTE, 0, comm));
  told.way = c->way, told.fd = c->fd, told.held = c->held;
  *c = told;
  if (!c->name[0]) return 0;
  if (message_share(&c->held, comm, e)) {
    checkpoint_close(c);
    return e->id;
  }
  message_array(&c->held, &c->sums, (size_t)read_sum_count(c) * sizeof *c->sums);
  return read_open_directly(c, e);
}

int checkpoint_open(checkpoint *c, io_way *way, const char *file, error *e) {
  *c = (checkpoint){.way = way, .fd = -1};
  if (way->rank == 0) read_open_here(c, file, e);
  return read_share(c, e);
}

/* Every rank tells of the files that rank 0 has passed over. */
static int read_share_skipped(const checkpoint_search *search, message *skipped, MPI_Comm comm, error *e) {
  const char *reason;
  TRY(message_share(skipped, comm, e));
  while (skipped->at < skipped->length) {
    message_text(skipped, &reason);
    if (search->skipped && reason) search->skipped(search->context, reason);
  }
  return 0;
}

int checkpoint_open_newest(checkpoint *c, io_way *way, const checkpoint_search *search, error *e) {
  message skipped = {0};
  *c = (checkpoint){.way = way, .fd = -1};
  if (way->rank == 0) read_open_newest(c, search, &skipped, e);
  if (!read_share(c, e) && read_share_skipped(search, &skipped, way->comm, e)) checkpoint_close(c);
  message_free(&skipped);
  return e->id;
}

/* --- the fingerprint -------------------------------------------------------------------------------------------- */

static const char *read_value_of(const checkpoint_key *keys, int count, const char *key) {
  for (int i = 0; i < count; i++)
    if (strcmp(keys[i].key, key) == 0) return keys[i].value ? keys[i].value : "";
  return NULL;
}

/* Those of the file, which follow the sums in c->held. To be freed. */
static checkpoint_key *read_fingerprint(const checkpoint *c, error *e) {
  checkpoint_key *keys = calloc((size_t)c->key_count + 1, sizeof *keys);
  message m = c->held; /* read anew each time */
  if (!keys) FAIL(e, OUT_OF_MEMORY, (size_t)c->key_count * sizeof *keys, "the fingerprint of the run");
  for (int i = 0; keys && i < c->key_count; i++)
    message_text(&m, &keys[i].key), message_text(&m, &keys[i].value);
  return keys;
}

int checkpoint_match(const checkpoint *c, const checkpoint_key *keys, int count, error *e) {
  checkpoint_key *there = read_fingerprint(c, e);
  for (int i = 0; i < count && !e->id; i++) {
    const char *expected = keys[i].value ? keys[i].value : "";
    const char *found = read_value_of(there, c->key_count, keys[i].key);
    if (!found || strcmp(found, expected))
      FAIL(e, CHECKPOINT_DIFFERS, c->name, keys[i].key, expected, found ? found : "");
  }
  for (int i = 0; i < c->key_count && !e->id; i++)
    if (!read_value_of(keys, count, there[i].key))
      FAIL(e, CHECKPOINT_DIFFERS, c->name, there[i].key, "", there[i].value);
  free(there);
  return e->id;
}

/* --- arrays ----------------------------------------------------------------------------------------------------- */

const stored_array *checkpoint_find_array(const checkpoint *c, const char *name) {
  for (int i = 0; i < c->count; i++)
    if (strcmp(c->arrays[i].name, name) == 0) return &c->arrays[i];
  return NULL;
}

/* (2, 3, 4) */
static void read_shape_text(int axes, const int64_t shape[3], char text[SHAPE_TEXT]) {
  int used = snprintf(text, SHAPE_TEXT, "(");
  for (int i = 0; i < axes; i++)
    used += snprintf(text + used, (size_t)(SHAPE_TEXT - used), "%" PRId64 "%s", shape[i],
                     i < axes - 1 ? ", "
                     : axes == 1  ? ",)"
                                  : ")");
}

static int read_match_array(const checkpoint *c, const checkpoint_array *a, const stored_array *s, error *e) {
  static const char *const types[] = {"float32", "float64", "int64"};
  char expected[SHAPE_TEXT], found[SHAPE_TEXT];
  if (!s) return FAIL(e, CHECKPOINT_NO_ARRAY, c->name, a->name);
  read_shape_text(a->axes, a->shape, expected);
  read_shape_text(s->axes, s->shape, found);
  if (strcmp(expected, found)) return FAIL(e, CHECKPOINT_ARRAY, c->name, s->name, "shape", expected, found);
  if (s->type != a->type)
    return FAIL(e, CHECKPOINT_ARRAY, c->name, s->name, "type", types[a->type], types[s->type]);
  const bool fits =
      a->first >= 0 && a->count >= 0 && a->first <= a->shape[0] && a->count <= a->shape[0] - a->first;
  return !a->count || fits ? 0 : FAIL(e, CHECKPOINT_SHARES, a->name);
}

/* Rows of an array that is there. */
static row_part read_part_of(const checkpoint *c, const stored_array *s, int64_t first, int64_t count) {
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
    const stored_array *s = checkpoint_find_array(c, a->name);
    if (read_match_array(c, a, s, e)) break;
    parts[i] = read_part_of(c, s, a->first, a->count);
    parts[i].move = a->sink;
    parts[i].context = a->context;
  }
  return read_parts(c, parts, count, e);
}

int checkpoint_verify(const checkpoint *c, error *e) {
  row_part parts[CHECKPOINT_ARRAYS];
  for (int i = 0; i < c->count; i++) {
    const int64_t rows = c->arrays[i].shape[0], first = rows * c->way->rank / c->way->ranks;
    parts[i] = read_part_of(c, &c->arrays[i], first, rows * (c->way->rank + 1) / c->way->ranks - first);
  }
  return read_parts(c, parts, c->count, e);
}
