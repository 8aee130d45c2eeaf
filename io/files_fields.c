/* Fields, their series and paths: what the computing ranks call, and after each the server's twin. */
#include <stdlib.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "atomic_file.h"
#include "files_internal.h"

/* Does every rank see the folder of files PATH.*? Where none can be created, another check says so. */
static int see_folder(const files *f, const char *path, bool *seen, error *e) {
  char probe[PATH_PROBE] = "";
  int mine;
  if (f->way->rank == 0) path_probe_create(path, probe);
  MPI_TRY(e, MPI_Bcast(probe, sizeof probe, MPI_CHAR, 0, f->comm));
  mine = !probe[0] || access(probe, F_OK) == 0;
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_MIN, f->comm));
  if (f->way->rank == 0 && probe[0]) unlink(probe);
  *seen = *seen && mine;
  return 0;
}

int files_field_io(const files *f, field_io *io, const slab *slab, const config *c, error *e) {
  if (c->io == IO_AUTO) {
    TRY(see_folder(f, c->output_path, &f->way->together, e));
    TRY(see_folder(f, c->checkpoint_path, &f->way->together, e));
  }
  field_io_init(io, f->way, slab, c->io);
  return 0;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

int files_field_read(const files *f, const field_io *io, const char *dataset, field_sink *sink, void *context,
                     error *e) {
  message m = {0};
  if (files_tell(f)) message_put_text(&m, dataset);
  TRY(files_request(f, REQUEST_FIELD_READ, &m, e));
  return field_read(io, dataset, sink, context, e);
}

int serve_field_read(file_server *s, message *m, error *e) {
  return field_read(&s->io, message_get_text(m), NULL, NULL, e); /* no planes, no sink */
}

/* On the rank that uses files. */
static bool uses_files(const files *f) {
  int rank = -1;
  return MPI_Comm_rank(f->comm, &rank) == MPI_SUCCESS && rank == 0;
}

static int check_field(const files *f, const char *dataset, const int shape[3], error *e) {
  if (uses_files(f)) field_check(dataset, shape[0], shape[1], shape[2], e);
  return error_agree(e, f->comm);
}

int files_field_check(const files *f, const char *dataset, int nx, int ny, int nz, error *e) {
  message m = {0};
  const int shape[3] = {nx, ny, nz};
  if (files_tell(f)) message_put_text(&m, dataset), message_put(&m, shape, sizeof shape);
  TRY(files_request(f, REQUEST_FIELD_CHECK, &m, e));
  return check_field(f, dataset, shape, e);
}

int serve_field_check(file_server *s, message *m, error *e) {
  int shape[3];
  const char *dataset = message_get_text(m);
  message_get(m, shape, sizeof shape);
  return check_field(s->files, dataset, shape, e);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

static void fields_put_meta(message *m, const field_meta *meta) {
  const field_statistics *s = meta->measured ? NULL : meta->statistics; /* else the server is told later */
  message_put(m, meta, sizeof *meta);
  files_put_run(m, &meta->run);
  if (s) message_put(m, s, sizeof *s);
  if (s && s->bins) message_put(m, s->histogram, (size_t)s->bins * sizeof *s->histogram);
}

static void fields_get_meta(message *m, field_meta *meta, field_statistics *s) {
  message_get(m, meta, sizeof *meta);
  files_get_run(m, &meta->run);
  if (!meta->statistics || meta->measured) return;
  message_get(m, s, sizeof *s);
  if (s->bins) s->histogram = message_get_bytes(m, (size_t)s->bins * sizeof *s->histogram);
  meta->statistics = s;
}

int files_field_write(const files *f, field_io *io, const char *path, const field_meta *meta,
                      field_source *source, void *context, error *e) {
  message m = {0};
  MPI_Request request;
  if (files_tell(f)) message_put_text(&m, path), fields_put_meta(&m, meta);
  TRY(files_request_begin(f, REQUEST_FIELD_WRITE, &m, &request, e));
  field_write(io, path, meta, source, context, e);
  files_request_end(&m, &request, e);
  return e->id;
}

int serve_field_write(file_server *s, message *m, error *e) {
  field_meta meta;
  field_statistics statistics;
  const char *path = message_get_text(m);
  fields_get_meta(m, &meta, &statistics);
  return field_write(&s->io, path, &meta, NULL, NULL, e); /* no planes, no source */
}

/* --- the series ------------------------------------------------------------------------------------------------- */

static int find_fields(const files *f, const char *path, const int64_t *steps, int64_t count, bool *exist,
                       error *e) {
  enum { PIECE = 1 << 20 };
  if (uses_files(f))
    for (int64_t i = 0; i < count; i++) exist[i] = field_exists(path, steps[i]);
  for (int64_t i = 0; i < count; i += PIECE)
    TRY(files_broadcast(f, exist + i, (size_t)(count - i < PIECE ? count - i : PIECE) * sizeof *exist, e));
  return 0;
}

int files_fields_exist(const files *f, const char *path, const int64_t *steps, int64_t count, bool *exist,
                       error *e) {
  message m = {0};
  if (files_tell(f)) {
    message_put_text(&m, path);
    message_put(&m, &count, sizeof count);
    message_put(&m, steps, (size_t)count * sizeof *steps);
  }
  TRY(files_request(f, REQUEST_FIELDS_EXIST, &m, e));
  return find_fields(f, path, steps, count, exist, e);
}

int serve_fields_exist(file_server *s, message *m, error *e) {
  int64_t count;
  const char *path = message_get_text(m);
  message_get(m, &count, sizeof count);
  const int64_t *steps = message_get_bytes(m, (size_t)count * sizeof *steps);
  bool *exist = calloc((size_t)count + 1, sizeof *exist);
  if (!exist) {
    FAIL(e, OUT_OF_MEMORY, (size_t)count, "the list of saved fields");
    error_abort(e, s->files->comm);
  }
  find_fields(s->files, path, steps, count, exist, e);
  free(exist);
  return e->id;
}

static int write_series(const files *f, const char *path, const series_entry *entries, int count,
                        const slab *slab, const field_meta *meta, error *e) {
  if (uses_files(f)) series_write(path, entries, count, slab, meta, e);
  return error_agree(e, f->comm);
}

int files_series_write(const files *f, const char *path, const series_entry *entries, int count,
                       const slab *slab, const field_meta *meta, error *e) {
  message m = {0};
  if (files_tell(f)) {
    message_put_text(&m, path);
    fields_put_meta(&m, meta);
    message_put(&m, &count, sizeof count);
    message_put(&m, entries, (size_t)count * sizeof *entries);
  }
  TRY(files_request(f, REQUEST_SERIES_WRITE, &m, e));
  return write_series(f, path, entries, count, slab, meta, e);
}

int serve_series_write(file_server *s, message *m, error *e) {
  field_meta meta;
  field_statistics statistics;
  int count;
  const char *path = message_get_text(m);
  fields_get_meta(m, &meta, &statistics);
  message_get(m, &count, sizeof count);
  const series_entry *entries = message_get_bytes(m, (size_t)count * sizeof *entries);
  return write_series(s->files, path, entries, count, &s->slab, &meta, e);
}

static int check_path(const files *f, const char *path, bool checkpoints, error *e) {
  if (uses_files(f))
    checkpoints ? checkpoint_path_check(path, e)
                : path_check_writable((named_path){"[output] path", path}, e);
  return error_agree(e, f->comm);
}

int files_path_check(const files *f, const char *path, bool checkpoints, error *e) {
  message m = {0};
  if (files_tell(f)) {
    message_put_text(&m, path);
    message_put(&m, &checkpoints, sizeof checkpoints);
  }
  TRY(files_request(f, REQUEST_PATH_CHECK, &m, e));
  return check_path(f, path, checkpoints, e);
}

int serve_path_check(file_server *s, message *m, error *e) {
  bool checkpoints;
  const char *path = message_get_text(m);
  message_get(m, &checkpoints, sizeof checkpoints);
  return check_path(s->files, path, checkpoints, e);
}

static int look_at_space(const files *f, const char *path, const char *ending, const space_steps *which,
                         space_use *use, error *e) {
  *use = (space_use){.files = 0};
  if (uses_files(f) && !space_of(path, &use->space, e))
    use->taken = space_taken(path, ending, which, &use->files);
  TRY(error_agree(e, f->comm));
  return files_broadcast(f, use, sizeof *use, e);
}

int files_space(const files *f, const char *path, const char *ending, const space_steps *which,
                space_use *use, error *e) {
  message m = {0};
  if (files_tell(f)) {
    message_put_text(&m, path);
    message_put_text(&m, ending);
    message_put(&m, which, sizeof *which);
  }
  TRY(files_request(f, REQUEST_SPACE, &m, e));
  return look_at_space(f, path, ending, which, use, e);
}

int serve_space(file_server *s, message *m, error *e) {
  space_steps which;
  space_use use;
  const char *path = message_get_text(m), *ending = message_get_text(m);
  message_get(m, &which, sizeof which);
  return look_at_space(s->files, path, ending, &which, &use, e);
}
