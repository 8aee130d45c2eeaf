/* Every request: how it is sent, how it is performed, and the functions of files.h that make it. */
#include <stdlib.h>
#include "base/error_mpi.h"
#include "atomic_file.h"
#include "files_internal.h"

/* --- sending ---------------------------------------------------------------------------------------------------- */

static void request_carry_run(message *m, run_meta *run) {
  const char **const texts[] = {&run->config_text, &run->command,   &run->backend,
                                &run->kernel,      &run->transport, &run->equation};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) message_text(m, texts[i]);
}

static void request_carry_field(message *m, request *r) {
  field_meta *meta = message_array(m, &r->field, sizeof *meta);
  request_carry_run(m, &meta->run);
  if (!meta->statistics || meta->measured) return; /* none, or the server is told later */
  field_statistics *s = message_array(m, &meta->statistics, sizeof *s);
  message_array(m, &s->histogram, (size_t)s->bins * sizeof *s->histogram);
}

static void request_carry_checkpoint(message *m, request *r) {
  checkpoint_place *place = message_array(m, &r->place, sizeof *place);
  checkpoint_meta *meta = message_array(m, &r->checkpoint, sizeof *meta);
  message_text(m, &place->path);
  request_carry_run(m, &meta->run);
  checkpoint_key *keys = message_array(m, &meta->keys, (size_t)meta->key_count * sizeof *keys);
  for (int i = 0; i < meta->key_count; i++) message_text(m, &keys[i].key), message_text(m, &keys[i].value);
}

static void request_carry_arrays(message *m, request *r) {
  checkpoint_array *arrays = message_array(m, &r->arrays, (size_t)r->count * sizeof *arrays);
  for (int i = 0; i < r->count; i++) {
    message_text(m, &arrays[i].name);
    if (m->reading) arrays[i].first = arrays[i].count = 0;
  }
}

static void request_carry_receivers(message *m, request *r) {
  receivers_meta *meta = message_array(m, &r->receivers, sizeof *meta);
  request_carry_run(m, &meta->run);
  message_array(m, &meta->positions, (size_t)meta->receivers * sizeof *meta->positions);
  message_array(m, &meta->source_positions, (size_t)meta->sources * sizeof *meta->source_positions);
}

void files_carry(message *m, request *r) {
  message_value(m, r, sizeof *r);
  message_text(m, &r->path);
  message_text(m, &r->ending);
  if (r->steps) message_array(m, &r->steps, (size_t)r->count * sizeof *r->steps);
  if (r->entries) message_array(m, &r->entries, (size_t)r->count * sizeof *r->entries);
  if (r->field) request_carry_field(m, r);
  if (r->checkpoint) request_carry_checkpoint(m, r);
  if (r->arrays) request_carry_arrays(m, r);
  if (r->receivers) request_carry_receivers(m, r);
}

/* --- performing ------------------------------------------------------------------------------------------------- */

/* Rank 0: the answer to one of the requests that are for it alone. */
static int request_answer(const request *r, void *answer, error *e) {
  bool *exist = answer;
  space_use *use = answer;
  switch (r->kind) {
  case REQUEST_FIELD_CHECK:
    return field_check(r->path, r->shape[0], r->shape[1], r->shape[2], e);
  case REQUEST_FIELDS_EXIST:
    for (int64_t i = 0; i < r->count; i++) exist[i] = field_exists(r->path, r->steps[i]);
    return 0;
  case REQUEST_SERIES_WRITE:
    return series_write(r->own.io->path, r->entries, (int)r->count, r->own.io->slab, r->field, e);
  case REQUEST_PATH_CHECK:
    return r->checkpoints ? path_check_writable((named_path){"[checkpoint] path", r->path}, e)
                          : path_check_output(r->path, e);
  case REQUEST_SPACE:
    TRY(space_of(r->path, &use->space, e));
    return space_taken(r->path, r->ending, &r->which, use, e);
  default:
    return 0;
  }
}

static int request_perform_alone(const files *f, const request *r, error *e) {
  message m = {0};
  void *answer = calloc(1, r->answer_bytes + 1);
  if (!answer) FAIL(e, OUT_OF_MEMORY, r->answer_bytes, "an answer about files");
  if (f->way->rank == 0 && !e->id && !request_answer(r, answer, e))
    message_array(&m, &answer, r->answer_bytes);
  if (!error_agree(e, f->comm) && !message_share(&m, f->comm, e) && r->own.answer)
    message_value(&m, r->own.answer, r->answer_bytes);
  free(answer);
  message_free(&m);
  return e->id;
}

int files_perform(const files *f, const request *r, error *e) {
  const request_own *own = &r->own;
  switch (r->kind) {
  case REQUEST_FIELD_READ:
    return field_read(own->io, r->path, own->sink, own->context, e);
  case REQUEST_FIELD_WRITE:
    return field_write(own->io, r->field, own->source, own->context, e);
  case REQUEST_TABLE_READ:
    return table_read(f->comm, r->path, r->form, own->table, e);
  case REQUEST_RECEIVERS_WRITE:
    return receivers_file_write(f->comm, r->path, r->receivers, own->part, e);
  case REQUEST_CHECKPOINT_BEGIN:
    return checkpoint_begin(f->way, r->path, r->restarts ? own->from : NULL, own->leg, e);
  case REQUEST_CHECKPOINT_WRITE:
    return checkpoint_write(f->way, r->place, r->checkpoint, r->arrays, (int)r->count, e);
  case REQUEST_CHECKPOINT_OPEN:
    return checkpoint_open(own->opened, f->way, r->path, e);
  case REQUEST_CHECKPOINT_OPEN_NEWEST:
    return checkpoint_open_newest(own->opened, f->way, &own->search, e);
  case REQUEST_CHECKPOINT_READ:
    return checkpoint_read(own->from, r->arrays, (int)r->count, e);
  case REQUEST_CHECKPOINT_VERIFY:
    return checkpoint_verify(own->from, e);
  default:
    return request_perform_alone(f, r, e);
  }
}

/* --- fields ----------------------------------------------------------------------------------------------------- */

int files_field_read(const files *f, const field_io *io, const char *dataset, field_sink *sink, void *context,
                     error *e) {
  const request_own own = {.io = io, .sink = sink, .context = context};
  return files_do(f, &(request){.kind = REQUEST_FIELD_READ, .path = dataset, .own = own}, e);
}

int files_field_check(const files *f, const char *dataset, int nx, int ny, int nz, error *e) {
  return files_do(f, &(request){.kind = REQUEST_FIELD_CHECK, .path = dataset, .shape = {nx, ny, nz}}, e);
}

int files_field_write(const files *f, const field_io *io, const field_meta *meta, field_source *source,
                      void *context, error *e) {
  const request_own own = {.io = io, .source = source, .context = context};
  return files_do(f, &(request){.kind = REQUEST_FIELD_WRITE, .field = meta, .own = own}, e);
}

int files_fields_exist(const files *f, const char *path, const int64_t *steps, int64_t count, bool *exist,
                       error *e) {
  const request r = {.kind = REQUEST_FIELDS_EXIST,
                     .path = path,
                     .count = count,
                     .steps = steps,
                     .answer_bytes = (size_t)count * sizeof *exist,
                     .own.answer = exist};
  return files_do(f, &r, e);
}

int files_series_write(const files *f, const field_io *io, const series_entry *entries, int count,
                       const field_meta *meta, error *e) {
  const request r = {
      .kind = REQUEST_SERIES_WRITE, .count = count, .entries = entries, .field = meta, .own.io = io};
  return files_do(f, &r, e);
}

int files_path_check(const files *f, const char *path, bool checkpoints, error *e) {
  return files_do(f, &(request){.kind = REQUEST_PATH_CHECK, .path = path, .checkpoints = checkpoints}, e);
}

int files_space(const files *f, const char *path, const char *ending, const space_steps *which,
                space_use *use, error *e) {
  const request r = {.kind = REQUEST_SPACE,
                     .path = path,
                     .ending = ending,
                     .which = *which,
                     .answer_bytes = sizeof *use,
                     .own.answer = use};
  return files_do(f, &r, e);
}

/* --- tables and receivers --------------------------------------------------------------------------------------- */

int files_table_read(const files *f, const char *dataset, table_form form, table *t, error *e) {
  return files_do(f, &(request){.kind = REQUEST_TABLE_READ, .path = dataset, .form = form, .own.table = t},
                  e);
}

int files_receivers_write(const files *f, const char *path, const receivers_meta *meta,
                          const receivers_part *part, error *e) {
  const request r = {.kind = REQUEST_RECEIVERS_WRITE, .path = path, .receivers = meta, .own.part = part};
  return files_do(f, &r, e);
}

/* --- checkpoints ------------------------------------------------------------------------------------------------ */

int files_checkpoint_begin(const files *f, const char *path, const checkpoint *from, checkpoint_leg *leg,
                           error *e) {
  const request_own own = {.from = from, .leg = leg};
  return files_do(f, &(request){.kind = REQUEST_CHECKPOINT_BEGIN, .path = path, .restarts = from, .own = own},
                  e);
}

int files_checkpoint_write(const files *f, const checkpoint_place *place, const checkpoint_meta *meta,
                           const checkpoint_array *arrays, int count, error *e) {
  const request r = {
      .kind = REQUEST_CHECKPOINT_WRITE, .place = place, .checkpoint = meta, .arrays = arrays, .count = count};
  return files_do(f, &r, e);
}

int files_checkpoint_open(const files *f, checkpoint *c, const char *file, error *e) {
  return files_do(f, &(request){.kind = REQUEST_CHECKPOINT_OPEN, .path = file, .own.opened = c}, e);
}

int files_checkpoint_open_newest(const files *f, checkpoint *c, const checkpoint_search *search, error *e) {
  const request r = {.kind = REQUEST_CHECKPOINT_OPEN_NEWEST,
                     .path = search->path,
                     .before = search->before,
                     .own.opened = c,
                     .own.search = *search};
  return files_do(f, &r, e);
}

int files_checkpoint_read(const files *f, const checkpoint *c, const checkpoint_array *arrays, int count,
                          error *e) {
  const request r = {.kind = REQUEST_CHECKPOINT_READ, .arrays = arrays, .count = count, .own.from = c};
  return files_do(f, &r, e);
}

int files_checkpoint_verify(const files *f, const checkpoint *c, error *e) {
  return files_do(f, &(request){.kind = REQUEST_CHECKPOINT_VERIFY, .own.from = c}, e);
}
