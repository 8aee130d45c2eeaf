/* Files on disk: the requests that ranks and their data server perform together. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "base/clock.h"
#include "io/bytes/atomic_file.h"
#include "disk.h"
#include "io/hdf5/io_internal.h"
#include "io/bytes/message.h"

/* --- sending ---------------------------------------------------------------------------------------------------- */

static void disk_carry_run(message *m, run_meta *run) {
  const char **const texts[] = {&run->config_text, &run->command,   &run->backend, &run->fingerprint,
                                &run->kernel,      &run->transport, &run->equation};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) message_text(m, texts[i]);
}

static void disk_carry_field(message *m, request *r) {
  field_meta *meta = message_array(m, &r->field, sizeof *meta);
  disk_carry_run(m, &meta->run);
  message_text(m, &meta->ending);
  field_name *names = message_array(m, &meta->names, (size_t)meta->fields * sizeof *names);
  for (int i = 0; i < meta->fields; i++)
    message_text(m, &names[i].name), message_text(m, &names[i].units), message_text(m, &names[i].long_name);
  int frequencies = 0;
  for (int i = 0; i < meta->fields; i++) frequencies += names[i].frequencies;
  message_array(m, &meta->frequencies, (size_t)frequencies * sizeof *meta->frequencies);
  if (meta->gradient) gradient_carry(m, &meta->gradient);
  if (!meta->statistics || meta->measured) return; /* there are none, or the server receives them later */
  field_statistics *s = message_array(m, &meta->statistics, sizeof *s);
  message_array(m, &s->histogram, (size_t)s->bins * sizeof *s->histogram);
}

static void disk_carry_checkpoint(message *m, request *r) {
  checkpoint_place *place = message_array(m, &r->place, sizeof *place);
  checkpoint_meta *meta = message_array(m, &r->checkpoint, sizeof *meta);
  message_text(m, &place->path);
  disk_carry_run(m, &meta->run);
  message_text(m, &meta->keys);
}

static void disk_carry_arrays(message *m, request *r) {
  checkpoint_array *arrays = message_array(m, &r->arrays, (size_t)r->count * sizeof *arrays);
  for (int i = 0; m->reading && i < r->count; i++) arrays[i].first = arrays[i].count = 0;
}

static void disk_carry_receivers(message *m, request *r) {
  receivers_meta *meta = message_array(m, &r->receivers, sizeof *meta);
  disk_carry_run(m, &meta->run);
  message_array(m, &meta->positions, (size_t)meta->receivers * sizeof *meta->positions);
  message_array(m, &meta->source_positions, (size_t)meta->sources * sizeof *meta->source_positions);
}

/* Writes a request to a message, or reads it, except `own`. */
static void disk_carry(message *m, request *r) {
  message_value(m, r, sizeof *r);
  message_text(m, &r->path);
  message_text(m, &r->search.file);
  message_text(m, &r->search.path);
  message_text(m, &r->text);
  if (r->config) files_carry_config(m, &r->config);
  if (r->steps) message_array(m, &r->steps, (size_t)r->count * sizeof *r->steps);
  if (r->field) disk_carry_field(m, r);
  if (r->checkpoint) disk_carry_checkpoint(m, r);
  if (r->arrays) disk_carry_arrays(m, r);
  if (r->receivers) disk_carry_receivers(m, r);
}

/* --- performing ------------------------------------------------------------------------------------------------- */

/* Rank 0: answers a request that it performs alone. */
static int disk_answer(const request *r, void *answer, error *e) {
  enum series_found *found = answer;
  space_use *use = answer;
  switch (r->kind) {
  case FILES_FIND_FIELDS:
    for (int64_t i = 0; i < r->count; i++)
      found[i] = series_find(r->path, r->steps[i], r->own.io->slab, r->field);
    return 0;
  case FILES_WRITE_SERIES:
    return series_write(r->own.io->path, r->steps, r->count, r->own.io->slab, r->field, e);
  case FILES_CHECK_PATHS:
    return path_check_output(r->config, e);
  case FILES_MAKE_FOLDER:
    return path_make_folder(r->path, r->dry, answer, e);
  case FILES_FIND_SPACE:
    TRY(space_of(r->path, &use->space, e));
    return space_taken(r->path, r->text, &r->which, use, e);
  case FILES_MOVE_ASIDE:
    return space_move_aside(r->config, &r->which, r->dry, answer, e);
  case FILES_DIGEST:
    if (r->text) digest_text(r->text, answer);
    return r->text ? 0 : digest_dataset(r->path, answer, e);
  case FILES_FIND_SHOT:
    *(enum shot_found *)answer = shot_find(r->config, &r->which, r->text);
    return 0;
  case FILES_WRITE_TEXT:
    return text_write(r->path, r->text, e);
  case FILES_SUM_GRADIENTS:
    return gradient_sum(r->path, r->config, r->field, e);
  default:
    return 0;
  }
}

static int disk_perform_alone(const files *f, const request *r, error *e) {
  message m = {0};
  char *answer;
  ALLOC(e, answer, r->answer_bytes, "an answer about files");
  if (f->access->rank == 0 && !e->id && !disk_answer(r, answer, e))
    message_array(&m, &answer, r->answer_bytes);
  if (!error_agree(e, f->comm) && !message_to_all(&m, f->comm, e) && r->own.answer)
    message_value(&m, r->own.answer, r->answer_bytes);
  free(answer);
  message_free(&m);
  return e->id;
}

/* Collective over files.comm; agreed. */
static int disk_perform(const files *f, const request *r, error *e) {
  const request_own *own = &r->own;
  switch (r->kind) {
  case FILES_READ_FIELD:
    return field_read(own->io, r->path, r->quantity, own->sink, own->context, e);
  case FILES_WRITE_FIELD:
    return field_write(own->io, r->field, own->planes, own->made, e);
  case FILES_CREATE_FIELD:
    return field_create(own->creates, own->io, r->field, e);
  case FILES_CREATE_RECEIVERS:
    return receivers_file_create(own->creates, r->path, r->receivers, e);
  case FILES_READ_TABLE:
    return table_read(f->comm, r->path, r->form, own->parts, own->table, e);
  case FILES_WRITE_RECEIVERS:
    return receivers_file_write(f->comm, r->path, r->receivers, own->part, own->made, e);
  case FILES_BEGIN_CHECKPOINTS:
    return checkpoint_begin(f->access, r->path, r->restarts ? own->from : NULL, own->start, e);
  case FILES_WRITE_CHECKPOINT:
    return checkpoint_write(f->access, r->place, r->checkpoint, r->arrays, (int)r->count, e);
  case FILES_OPEN_CHECKPOINT:
    return checkpoint_open(own->opened, f->access, &r->search, e);
  case FILES_READ_CHECKPOINT:
    return checkpoint_read(own->from, r->arrays, (int)r->count, e);
  case FILES_VERIFY_CHECKPOINT:
    return checkpoint_verify(own->from, e);
  case FILES_SPLIT:
    return files_open_parts(f, r->parts, own->answer, e);
  default:
    return disk_perform_alone(f, r, e);
  }
}

/* --- requests --------------------------------------------------------------------------------------------------- */

enum { TAG_REQUEST = 7201, TAG_SIGNAL = 7202 };

/* Is this the rank that sends requests to the server? */
static bool disk_tell(const files *f) {
  return f->served && f->access->rank == 1;
}

/* Sends a request to the server. The message must not change until `sent` is complete. */
static int disk_send(const files *f, const request *r, message *m, MPI_Request *sent, error *e) {
  request copy = *r;
  disk_carry(m, &copy);
  /* The server waits for the request, and the other ranks wait for the server. */
  if (m->failed || m->length > INT_MAX) {
    FAIL(e, OUT_OF_MEMORY, m->length, "a request to the data server");
    error_abort(e, f->comm);
  }
  MPI_TRY(e, MPI_Isend(m->bytes, (int)m->length, MPI_BYTE, 0, TAG_REQUEST, f->comm, sent));
  return 0;
}

/* Does this rank hold the HDF5 lock during a request? Shots of a rank and the thread of their table share HDF5, which
 * is for one thread. Only the writers of traces and fields take the lock themselves: most of their time is fsync. */
static bool disk_use_one(const files *f, const request *r) {
  const bool creates = r->kind == FILES_CREATE_FIELD || r->kind == FILES_CREATE_RECEIVERS,
             itself = creates || r->kind == FILES_WRITE_RECEIVERS ||
                      (r->kind == FILES_WRITE_FIELD && !r->field->compress);
  return f->access && (f->served ? f->access->ranks == 2 : !itself);
}

static int disk_do_together(const files *f, const request *r, error *e) {
  message m = {0};
  MPI_Request sent = MPI_REQUEST_NULL;
  hdf5_take();
  field_io_start(); /* in a thread-safe HDF5 each thread has its own error printing */
  hdf5_give();
  /* No lock is taken from here on: its holder may be waiting for the server, which may be performing this request. */
  if (disk_tell(f)) TRY(disk_send(f, r, &m, &sent, e));
  disk_perform(f, r, e);
  const int rc = sent == MPI_REQUEST_NULL ? MPI_SUCCESS : mpi_wait(&sent, MPI_STATUS_IGNORE);
  message_free(&m);
  return e->id ? e->id : error_from_mpi(e, rc, "MPI_Isend");
}

/* Does this rank create files before other ranks have a part in them? Rank 0 does, without a server. */
static bool disk_creates(const files *f) {
  return f->access && f->access->rank == 0 && !f->served;
}

static int disk_do(const files *f, const request *r, error *e) {
  const bool one = disk_use_one(f, r),
             creates = r->kind == FILES_CREATE_FIELD || r->kind == FILES_CREATE_RECEIVERS;
  if (creates && !disk_creates(f)) return 0;
  if (one) hdf5_take();
  disk_do_together(f, r, e);
  if (one) hdf5_give();
  return e->id;
}

void files_dismiss(const files *f, const error *e) {
  message m = {0};
  MPI_Request sent;
  error ignored = {0};
  if (!disk_tell(f)) return;
  if (!disk_send(f, &(request){.kind = FILES_END, .ended = *e}, &m, &sent, &ignored))
    mpi_wait(&sent, MPI_STATUS_IGNORE);
  message_free(&m);
}

static int disk_heard(const files *f) {
  int there = 0, number = 0;
  if (!disk_tell(f) || MPI_Iprobe(0, TAG_SIGNAL, f->comm, &there, MPI_STATUS_IGNORE) || !there) return 0;
  MPI_Recv(&number, 1, MPI_INT, 0, TAG_SIGNAL, f->comm, MPI_STATUS_IGNORE);
  return number;
}

/* --- the folders ------------------------------------------------------------------------------------------------ */

/* Does every rank see the folder of files PATH.*? Where no file can be created, another check reports the error. */
static int disk_see_folder(const files *f, const named_path *p, bool *seen, error *e) {
  char probe[PATH_PROBE] = "";
  error ignored = {0};
  int mine;
  if (f->access->rank == 0 && path_probe(*p, probe, &ignored)) probe[0] = 0;
  MPI_TRY(e, MPI_Bcast(probe, sizeof probe, MPI_CHAR, 0, f->comm));
  mine = !probe[0] || access(probe, F_OK) == 0;
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_MIN, f->comm));
  if (f->access->rank == 0 && probe[0]) unlink(probe);
  *seen = *seen && mine;
  return 0;
}

static int disk_see(const files *f, const config *c, bool *seen, error *e) {
  const bool of_shot = c->survey_file[0];
  const named_path output = {"", c->output_path, of_shot}, checkpoints = {"", c->checkpoint_path, of_shot};
  TRY(disk_see_folder(f, &output, seen, e));
  return config_has_checkpoints(c) ? disk_see_folder(f, &checkpoints, seen, e) : 0;
}

const files_kind files_on_disk = {disk_do, disk_heard, disk_see};

/* --- the server ------------------------------------------------------------------------------------------------- */

/* What the server needs for requests of all ranks or of a group. */
typedef struct disk_server {
  const files *files;
  slab slab; /* without planes */
  field_io io;
  checkpoint from; /* the open checkpoint, if any */
} disk_server;

static int disk_server_open(disk_server *s, const files *f, const config *c, error *e) {
  *s = (disk_server){.files = f, .from = {.access = f->access, .fd = -1}};
  s->slab = (slab){.nx = c->nx, .ny = c->ny, .nz_global = c->nz, .rank = -1, .ranks = f->access->ranks - 1};
  s->slab.lower = s->slab.upper = SLAB_NO_RANK;
  return files_field_io(f, &s->io, &s->slab, c, e);
}

/* The server's states: one for all ranks and, after a split, one for each part. */
typedef struct disk_serving {
  disk_server whole, *parts; /* owned */
  files *files;              /* the parts', owned */
  int count, passed;         /* number of parts; the signal that was passed on */
} disk_serving;

static disk_server *disk_server_of(disk_serving *s, int i) {
  return i ? &s->parts[i - 1] : &s->whole;
}

/* Waits for a request without keeping a core busy, and receives it. Returns the state of the part that sent it, NULL
 * after an error. Meanwhile passes the first signal on to the computing ranks. */
static disk_server *disk_receive(disk_serving *s, int (*signalled)(void), message *m, error *e) {
  const double LONGEST = 2e-3; /* s */
  pace p = {.begin = clock_seconds()};
  MPI_Message found;
  MPI_Status status;
  MPI_Request request;
  int there = 0, bytes = 0, i = 0, rc;
  while (!(rc = MPI_Improbe(1, TAG_REQUEST, disk_server_of(s, i)->files->comm, &there, &found, &status)) &&
         !there) {
    i = (i + 1) % (s->count + 1);
    if (i) continue;
    int number = signalled();
    if (number && !s->passed) {
      s->passed = number;
      if ((rc = MPI_Send(&number, 1, MPI_INT, 1, TAG_SIGNAL, s->whole.files->comm))) break;
    }
    pace_wait(&p, LONGEST);
  }
  if (!rc) rc = MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (!rc && ALLOC(e, m->bytes, bytes, "a request to the data server")) return NULL;
  m->length = m->capacity = (size_t)bytes;
  if (!rc) rc = MPI_Imrecv(m->bytes, bytes, MPI_BYTE, &found, &request);
  if (!rc) rc = mpi_wait(&request, MPI_STATUS_IGNORE);
  m->reading = true;
  return error_from_mpi(e, rc, "receiving a request") ? NULL : disk_server_of(s, i);
}

/* Performs the server's part of a request. It returns no error, since the computing ranks have the same one. */
static void disk_server_perform(disk_server *s, request *r) {
  const receivers_part none = {0};
  checkpoint_start start;
  table table = {0};
  error known = {0};
  r->own = (request_own){.io = &s->io, .part = &none, .table = &table, .from = &s->from, .start = &start};
  r->own.opened = &s->from;
  if (r->field) s->io.path = r->path;
  r->search.skipped = NULL;
  if (r->kind == FILES_OPEN_CHECKPOINT) checkpoint_close(&s->from);
  disk_perform(s->files, r, &known);
  table_free(&table);
}

/* Opens the states of the parts after a split. */
static int disk_server_split(disk_serving *s, files_parts p, const config *c, error *e) {
  TRY(ALLOC(e, s->files, p.count + 1, "the groups of ranks"));
  TRY(ALLOC(e, s->parts, p.count + 1, "the groups of ranks"));
  TRY(files_open_parts(s->whole.files, p, s->files, e));
  for (s->count = 0; s->count <= p.count; s->count++)
    TRY(disk_server_open(&s->parts[s->count], &s->files[s->count], c, e));
  return 0;
}

static void disk_serve_close(disk_serving *s) {
  for (int i = 0; i <= s->count; i++) checkpoint_close(&disk_server_of(s, i)->from);
  for (int i = 0; i < s->count; i++) files_close(&s->files[i]);
  free(s->parts);
  free(s->files);
}

int files_serve(const files *f, const config *c, int (*signalled)(void), error *e) {
  disk_serving s = {.count = 0};
  TRY(disk_server_open(&s.whole, f, c, e));
  for (int over = 0; !over;) {
    message m = {0};
    request r;
    error mine = {0};
    disk_server *asked = disk_receive(&s, signalled, &m, &mine);
    if (!asked) error_abort(&mine, f->comm);
    disk_carry(&m, &r);
    over = r.kind == FILES_END;
    if (over)
      *e = r.ended;
    else if (r.kind == FILES_SPLIT)
      disk_server_split(&s, r.parts, c, &mine);
    else
      disk_server_perform(asked, &r);
    if (mine.id) error_abort(&mine, f->comm);
    message_free(&m);
  }
  disk_serve_close(&s);
  return e->id;
}
