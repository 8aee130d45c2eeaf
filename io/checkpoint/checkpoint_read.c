/* Going on from a checkpoint. Rank 0 finds the file and compares what surrounds the arrays with the header. Each rank
 * then reads its rows of the arrays and compares them with their checksums. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "checkpoint_internal.h"

/* --- opening ---------------------------------------------------------------------------------------------------- */

void checkpoint_close(checkpoint *c) {
  if (c->fd >= 0) close(c->fd); /* it was only read: nothing can be lost */
  message_free(&c->held);
  *c = (checkpoint){.access = c->access, .fd = -1};
}

static int64_t read_sum_count(const checkpoint *c) {
  int64_t rows = 0;
  for (int i = 0; i < c->count; i++) rows += checkpoint_rows(&c->arrays[i]);
  return rows;
}

/* Reads the checksums, then the fingerprint. */
static int read_held(checkpoint *c, const checkpoint_header *s, error *e) {
  const row_file f = {.name = c->name, .fd = c->fd, .checkpoint = true};
  const size_t sums = (size_t)read_sum_count(c) * sizeof *c->sums, bytes = sums + s->keys_bytes + 1;
  char *held;
  TRY(ALLOC(e, held, bytes, "the sums of a checkpoint"));
  if (!row_file_get(&f, s->sums_at, held, sums, e) &&
      !row_file_get(&f, s->keys_at, held + sums, s->keys_bytes, e))
    message_array(&c->held, &held, bytes);
  free(held);
  return e->id;
}

/* Rank 0. Puts what the other ranks need of the arrays and the run into c->held. */
static int read_open_here(checkpoint *c, const char *file, error *e) {
  checkpoint_header s;
  if (strlen(file) >= sizeof c->name) return FAIL(e, FIELD_FILE, file, strerror(ENAMETOOLONG));
  TRY(checkpoint_read_header(file, &s, &c->fd, e));
  TRY(checkpoint_check_header(file, c->fd, &s, e));
  strcpy(c->name, file);
  c->mark = s.mark;
  c->step = s.step, c->time = s.time, c->dt = s.dt;
  c->count = s.count;
  memcpy(c->arrays, s.arrays, sizeof c->arrays);
  return read_held(c, &s, e);
}

static int read_open_newest(checkpoint *c, const checkpoint_search *search, message *skipped, error *e) {
  checkpoint_list list;
  char file[FILE_NAME];
  checkpoint_list_files(&list, search->path, e);
  /* Checkpoints of unknown age are last in the list but first here. They are unusable, but one may have been the
   * newest. */
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

/* Broadcasts what rank 0 has opened. Collective, and agreed. */
static int read_broadcast(checkpoint *c, error *e) {
  const MPI_Comm comm = c->access->comm;
  checkpoint copy = *c;
  if (error_agree(e, comm)) {
    checkpoint_close(c);
    return e->id;
  }
  MPI_TRY(e, MPI_Bcast(&copy, sizeof copy, MPI_BYTE, 0, comm));
  copy.access = c->access, copy.fd = c->fd, copy.held = c->held;
  *c = copy;
  if (!c->name[0]) return 0;
  if (message_to_all(&c->held, comm, e)) {
    checkpoint_close(c);
    return e->id;
  }
  message_array(&c->held, &c->sums, c->held.length);
  c->keys = (const char *)(c->sums + read_sum_count(c));
  if (c->access->rank > 0 && c->access->together) c->fd = open(c->name, O_RDONLY | O_CLOEXEC);
  return rows_all(c->access, c->fd >= 0, &c->direct, e); /* where a rank has no file, rank 0 reads for all */
}

/* Every rank reports the files that rank 0 has skipped. */
static int read_broadcast_skipped(const checkpoint_search *search, message *skipped, MPI_Comm comm,
                                  error *e) {
  const char *reason;
  TRY(message_to_all(skipped, comm, e));
  while (skipped->at < skipped->length) {
    message_text(skipped, &reason);
    if (search->skipped && reason) search->skipped(search->context, reason);
  }
  return 0;
}

int checkpoint_open(checkpoint *c, io_access *access, const checkpoint_search *search, error *e) {
  message skipped = {0};
  *c = (checkpoint){.access = access, .fd = -1};
  if (access->rank == 0 && search->file) read_open_here(c, search->file, e);
  if (access->rank == 0 && !search->file) read_open_newest(c, search, &skipped, e);
  if (!read_broadcast(c, e) && read_broadcast_skipped(search, &skipped, access->comm, e)) checkpoint_close(c);
  message_free(&skipped);
  return e->id;
}

/* --- the fingerprint -------------------------------------------------------------------------------------------- */

/* A line for a message, without its end. */
#define LINE(text) (int)strcspn((text), "\n"), (text)

static const char *read_next_line(const char *line) {
  line += strcspn(line, "\n");
  return line + (*line == '\n');
}

static bool read_same_line(const char *a, const char *b) {
  const size_t length = strcspn(a, "\n");
  return length == strcspn(b, "\n") && strncmp(a, b, length) == 0;
}

/* The value under a key, a line; NULL: there is none. */
static const char *read_find_key(const char *keys, const char *key) {
  while (*keys && !read_same_line(keys, key)) keys = read_next_line(read_next_line(keys));
  return *keys ? read_next_line(keys) : NULL;
}

bool checkpoint_has_key(const checkpoint *c, const char *key) {
  return read_find_key(c->keys, key);
}

int checkpoint_match(const checkpoint *c, const char *keys, error *e) {
  const char *key, *expected, *found;
  for (key = keys; *key; key = read_next_line(expected)) {
    expected = read_next_line(key), found = read_find_key(c->keys, key);
    if (!found || !read_same_line(expected, found))
      return FAIL(e, CHECKPOINT_DIFFERS, c->name, LINE(key), LINE(expected), LINE(found ? found : "none"));
  }
  for (key = c->keys; *key; key = read_next_line(found)) {
    found = read_next_line(key);
    if (!read_find_key(keys, key))
      return FAIL(e, CHECKPOINT_DIFFERS, c->name, LINE(key), LINE("none"), LINE(found));
  }
  return 0;
}

/* --- arrays ----------------------------------------------------------------------------------------------------- */

const checkpoint_array *checkpoint_find_array(const checkpoint *c, const char *name) {
  for (int i = 0; i < c->count; i++)
    if (strcmp(c->arrays[i].name, name) == 0) return &c->arrays[i];
  return NULL;
}

static int read_match_array(const checkpoint *c, const checkpoint_array *a, const checkpoint_array *s,
                            error *e) {
  char expected[SHAPE_TEXT], found[SHAPE_TEXT];
  hsize_t wanted[3], stored[3];
  if (!s) return FAIL(e, CHECKPOINT_NO_ARRAY, c->name, a->name);
  for (int i = 0; i < 3; i++) wanted[i] = (hsize_t)a->shape[i], stored[i] = (hsize_t)s->shape[i];
  shape_print(a->axes, wanted, expected);
  shape_print(s->axes, stored, found);
  if (strcmp(expected, found)) return FAIL(e, CHECKPOINT_ARRAY, c->name, s->name, "shape", expected, found);
  if (s->type != a->type)
    return FAIL(e, CHECKPOINT_ARRAY, c->name, s->name, "type", CHECKPOINT_TYPE_NAMES[a->type],
                CHECKPOINT_TYPE_NAMES[s->type]);
  const bool fits =
      a->first >= 0 && a->count >= 0 && a->first <= a->shape[0] && a->count <= a->shape[0] - a->first;
  return !a->count || fits ? 0 : FAIL(e, CHECKPOINT_PARTS, a->name);
}

/* Collective, and agreed. */
int checkpoint_read(const checkpoint *c, const checkpoint_array *arrays, int count, error *e) {
  const row_file f = {.name = c->name, .fd = c->fd, .checkpoint = true};
  row_part parts[CHECKPOINT_ARRAYS];
  for (int i = 0; i < count; i++) {
    const checkpoint_array *a = &arrays[i], *s = checkpoint_find_array(c, a->name);
    if (read_match_array(c, a, s, e)) break;
    parts[i] = (row_part){.array = s->name,
                          .at = s->at,
                          .row_bytes = checkpoint_bytes(s, 1),
                          .first = a->first,
                          .count = checkpoint_rows(s) ? a->count : 0,
                          .move = a->sink,
                          .context = a->context,
                          .sums = c->sums + a->first};
    for (const checkpoint_array *k = c->arrays; k < s; k++) parts[i].sums += checkpoint_rows(k);
  }
  TRY(error_agree(e, c->access->comm));
  rows_move(c->access, &f, c->direct, parts, count, e);
  return error_agree(e, c->access->comm);
}

int checkpoint_verify(const checkpoint *c, error *e) {
  checkpoint_array all[CHECKPOINT_ARRAYS];
  memcpy(all, c->arrays, sizeof all);
  for (int i = 0; i < c->count; i++) {
    const int64_t rows = all[i].shape[0];
    all[i].first = rows * c->access->rank / c->access->ranks;
    all[i].count = rows * (c->access->rank + 1) / c->access->ranks - all[i].first;
  }
  return checkpoint_read(c, all, c->count, e);
}
