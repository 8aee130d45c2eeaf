/* Tables, receivers and checkpoints: what the computing ranks call, and after each the server's twin. */
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "files_internal.h"

int files_table_read(const files *f, const char *dataset, table_form form, table *t, error *e) {
  message m = {0};
  if (files_tell(f)) message_put_text(&m, dataset), message_put(&m, &form, sizeof form);
  TRY(files_request(f, REQUEST_TABLE_READ, &m, e));
  return table_read(f->comm, dataset, form, t, e);
}

int serve_table_read(file_server *s, message *m, error *e) {
  table t;
  table_form form;
  const char *dataset = message_get_text(m);
  message_get(m, &form, sizeof form);
  if (!table_read(s->files->comm, dataset, form, &t, e)) table_free(&t);
  return e->id;
}

int files_receivers_write(const files *f, const char *path, const receivers_meta *meta,
                          const receivers_part *part, error *e) {
  message m = {0};
  if (files_tell(f)) {
    message_put_text(&m, path);
    message_put(&m, meta, sizeof *meta);
    files_put_run(&m, &meta->run);
    message_put(&m, meta->positions, (size_t)meta->receivers * sizeof *meta->positions);
    message_put(&m, meta->source_positions, (size_t)meta->sources * sizeof *meta->source_positions);
  }
  TRY(files_request(f, REQUEST_RECEIVERS_WRITE, &m, e));
  return receivers_file_write(f->comm, path, meta, part, e);
}

int serve_receivers_write(file_server *s, message *m, error *e) {
  receivers_meta meta;
  const receivers_part none = {0};
  const char *path = message_get_text(m);
  message_get(m, &meta, sizeof meta);
  files_get_run(m, &meta.run);
  meta.positions = message_get_bytes(m, (size_t)meta.receivers * sizeof *meta.positions);
  meta.source_positions = message_get_bytes(m, (size_t)meta.sources * sizeof *meta.source_positions);
  return receivers_file_write(s->files->comm, path, &meta, &none, e);
}

/* --- writing checkpoints ---------------------------------------------------------------------------------------- */

static void state_put_keys(message *m, const checkpoint_key *keys, int count) {
  message_put(m, &count, sizeof count);
  for (int i = 0; i < count; i++) message_put_text(m, keys[i].key), message_put_text(m, keys[i].value);
}

/* NULL after a failure; to be freed. */
static checkpoint_key *get_keys(message *m, int *count) {
  message_get(m, count, sizeof *count);
  checkpoint_key *keys = calloc((size_t)*count + 1, sizeof *keys);
  for (int i = 0; keys && i < *count; i++)
    keys[i].key = message_get_text(m), keys[i].value = message_get_text(m);
  return keys;
}

static void state_put_arrays(message *m, const checkpoint_array *arrays, int count) {
  message_put(m, &count, sizeof count);
  for (int i = 0; i < count; i++)
    message_put(m, &arrays[i], sizeof arrays[i]), message_put_text(m, arrays[i].name);
}

/* Of which the server holds nothing. Likewise. */
static checkpoint_array *get_arrays(message *m, int *count) {
  message_get(m, count, sizeof *count);
  checkpoint_array *arrays = calloc((size_t)*count + 1, sizeof *arrays);
  for (int i = 0; arrays && i < *count; i++) {
    checkpoint_array *a = &arrays[i];
    message_get(m, a, sizeof *a);
    a->name = message_get_text(m);
    a->first = a->count = 0;
    a->source = a->sink = NULL, a->context = NULL;
  }
  return arrays;
}

int files_checkpoint_begin(const files *f, const char *path, const checkpoint *from, checkpoint_leg *leg,
                           error *e) {
  message m = {0};
  const bool restarts = from != NULL;
  if (files_tell(f)) message_put_text(&m, path), message_put(&m, &restarts, sizeof restarts);
  TRY(files_request(f, REQUEST_CHECKPOINT_BEGIN, &m, e));
  return checkpoint_begin(f->way, path, from, leg, e);
}

int serve_checkpoint_begin(file_server *s, message *m, error *e) {
  checkpoint_leg leg;
  bool restarts;
  const char *path = message_get_text(m);
  message_get(m, &restarts, sizeof restarts);
  return checkpoint_begin(s->files->way, path, restarts ? &s->from : NULL, &leg, e);
}

static void state_put_meta(message *m, const checkpoint_meta *meta) {
  message_put(m, meta, sizeof *meta);
  files_put_run(m, &meta->run);
}

static void state_get_meta(message *m, checkpoint_meta *meta) {
  message_get(m, meta, sizeof *meta);
  files_get_run(m, &meta->run);
}

int files_checkpoint_write(const files *f, const checkpoint_place *place, const checkpoint_meta *meta,
                           const checkpoint_array *arrays, int count, error *e) {
  message m = {0};
  if (files_tell(f)) {
    message_put(&m, place, sizeof *place);
    message_put_text(&m, place->path);
    state_put_meta(&m, meta);
    state_put_keys(&m, meta->keys, meta->key_count);
    state_put_arrays(&m, arrays, count);
  }
  TRY(files_request(f, REQUEST_CHECKPOINT_WRITE, &m, e));
  return checkpoint_write(f->way, place, meta, arrays, count, e);
}

/* The other ranks are waiting for the server. */
static void need(const file_server *s, const void *memory) {
  error e = {0};
  if (memory) return;
  FAIL(&e, OUT_OF_MEMORY, sizeof(checkpoint_array), "the data server");
  error_abort(&e, s->files->comm);
}

int serve_checkpoint_write(file_server *s, message *m, error *e) {
  checkpoint_place place;
  checkpoint_meta meta;
  int count;
  message_get(m, &place, sizeof place);
  place.path = message_get_text(m);
  state_get_meta(m, &meta);
  checkpoint_key *keys = get_keys(m, &meta.key_count);
  checkpoint_array *arrays = get_arrays(m, &count);
  need(s, keys);
  need(s, arrays);
  meta.keys = keys;
  checkpoint_write(s->files->way, &place, &meta, arrays, count, e);
  free(arrays);
  free(keys);
  return e->id;
}

/* --- reading checkpoints ---------------------------------------------------------------------------------------- */

int files_checkpoint_open(const files *f, checkpoint *c, const char *file, error *e) {
  message m = {0};
  if (files_tell(f)) message_put_text(&m, file);
  TRY(files_request(f, REQUEST_CHECKPOINT_OPEN, &m, e));
  return checkpoint_open(c, f->way, file, e);
}

int serve_checkpoint_open(file_server *s, message *m, error *e) {
  return checkpoint_open(&s->from, s->files->way, message_get_text(m), e);
}

/* A checkpoint_skipped that keeps what it is told; `context` is a message. */
static void keep_skipped(void *context, const char *file, const char *reason) {
  message_put_text(context, file);
  message_put_text(context, reason);
}

/* Every rank learns of the files that the server has passed over. */
static int share_skipped(const files *f, message *m, error *e) {
  TRY(files_broadcast(f, &m->length, sizeof m->length, e));
  if (!f->server && m->length) m->bytes = calloc(1, m->length);
  if (m->length && !m->bytes) {
    FAIL(e, OUT_OF_MEMORY, m->length, "a request to the data server");
    error_abort(e, f->comm);
  }
  return m->length ? files_broadcast(f, m->bytes, m->length, e) : 0;
}

int files_checkpoint_open_newest(const files *f, checkpoint *c, const char *path, int64_t before,
                                 checkpoint_skipped *skipped, void *context, error *e) {
  message m = {0};
  if (files_tell(f)) message_put_text(&m, path), message_put(&m, &before, sizeof before);
  TRY(files_request(f, REQUEST_CHECKPOINT_OPEN_NEWEST, &m, e));
  TRY(checkpoint_open_newest(c, f->way, path, before, skipped, context, e));
  if (f->served) TRY(share_skipped(f, &m, e));
  while (m.at < m.length) {
    const char *file = message_get_text(&m), *reason = message_get_text(&m);
    if (skipped && file && reason) skipped(context, file, reason);
  }
  message_free(&m);
  return 0;
}

int serve_checkpoint_open_newest(file_server *s, message *m, error *e) {
  message told = {0};
  int64_t before;
  const char *path = message_get_text(m);
  message_get(m, &before, sizeof before);
  TRY(checkpoint_open_newest(&s->from, s->files->way, path, before, keep_skipped, &told, e));
  share_skipped(s->files, &told, e);
  message_free(&told);
  return e->id;
}

int files_checkpoint_match(const files *f, const checkpoint *c, const checkpoint_key *keys, int count,
                           error *e) {
  message m = {0};
  if (files_tell(f)) state_put_keys(&m, keys, count);
  TRY(files_request(f, REQUEST_CHECKPOINT_MATCH, &m, e));
  return checkpoint_match(c, keys, count, e);
}

int serve_checkpoint_match(file_server *s, message *m, error *e) {
  int count;
  checkpoint_key *keys = get_keys(m, &count);
  need(s, keys);
  checkpoint_match(&s->from, keys, count, e);
  free(keys);
  return e->id;
}

int files_checkpoint_read(const files *f, const checkpoint *c, const checkpoint_array *arrays, int count,
                          error *e) {
  message m = {0};
  TRY(files_request(f, REQUEST_CHECKPOINT_READ, &m, e));
  return checkpoint_read(c, arrays, count, e);
}

int serve_checkpoint_read(file_server *s, message *m, error *e) {
  (void)m;
  return checkpoint_read(&s->from, NULL, 0, e);
}

int files_checkpoint_verify(const files *f, const checkpoint *c, error *e) {
  message m = {0};
  TRY(files_request(f, REQUEST_CHECKPOINT_VERIFY, &m, e));
  return checkpoint_verify(c, e);
}

int serve_checkpoint_verify(file_server *s, message *m, error *e) {
  (void)m;
  return checkpoint_verify(&s->from, e);
}

void files_checkpoint_close(const files *f, checkpoint *c) {
  message m = {0};
  error ignored = {0};
  files_request(f, REQUEST_CHECKPOINT_CLOSE, &m, &ignored);
  checkpoint_close(c);
}

int serve_checkpoint_close(file_server *s, message *m, error *e) {
  (void)m;
  checkpoint_close(&s->from);
  return e->id;
}
