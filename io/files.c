/* The ranks of a run and their data server: who is who, and how they talk. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/clock.h"
#include "files_internal.h"

int files_open(files *f, MPI_Comm all, enum io_kind mode, error *e) {
  int rank;
  *f = (files){.compute = MPI_COMM_NULL, .comm = MPI_COMM_NULL, .served = mode == IO_SERVER};
  MPI_TRY(e, MPI_Comm_rank(all, &rank));
  MPI_TRY(e, MPI_Comm_size(all, &f->started));
  if (f->served && f->started == 1) {
    f->served = false;
    return FAIL(e, IO_NO_SERVER);
  }
  f->way = calloc(1, sizeof *f->way);
  if (!f->way) FAIL(e, OUT_OF_MEMORY, sizeof *f->way, "the way to files");
  TRY(error_agree(e, all));
  f->server = f->served && rank == f->started - 1;
  MPI_TRY(e, MPI_Comm_split(all, f->server ? MPI_UNDEFINED : 0, rank, &f->compute));
  MPI_TRY(e, MPI_Comm_split(all, 0, f->server ? -1 : rank, &f->comm));
  return io_way_open(f->way, f->comm, mode == IO_AUTO || mode == IO_COLLECTIVE, e);
}

void files_close(files *f) {
  if (f->way) io_way_close(f->way);
  free(f->way);
  if (f->compute != MPI_COMM_NULL) MPI_Comm_free(&f->compute);
  if (f->comm != MPI_COMM_NULL) MPI_Comm_free(&f->comm);
}

int files_request_begin(const files *f, enum request what, message *m, MPI_Request *request, error *e) {
  const int kind = (int)what;
  *request = MPI_REQUEST_NULL;
  if (!files_tell(f)) return 0;
  message_put(m, &kind, sizeof kind);
  /* The server waits for this, and the other ranks for the server. */
  if (m->failed || m->length > INT_MAX) {
    FAIL(e, OUT_OF_MEMORY, m->length, "a request to the data server");
    error_abort(e, f->comm);
  }
  MPI_TRY(e, MPI_Isend(m->bytes, (int)m->length, MPI_BYTE, 0, TAG_REQUEST, f->comm, request));
  return 0;
}

int files_request_end(message *m, MPI_Request *request, error *e) {
  const int rc = *request == MPI_REQUEST_NULL ? MPI_SUCCESS : mpi_wait(request, MPI_STATUS_IGNORE);
  message_free(m);
  return error_from_mpi(e, rc, "MPI_Isend");
}

int files_request(const files *f, enum request what, message *m, error *e) {
  MPI_Request request;
  TRY(files_request_begin(f, what, m, &request, e));
  return files_request_end(m, &request, e);
}

int files_broadcast(const files *f, void *bytes, size_t count, error *e) {
  MPI_Request request;
  MPI_TRY(e, MPI_Ibcast(bytes, (int)count, MPI_BYTE, 0, f->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

void files_put_run(message *m, const run_meta *r) {
  run_meta same = *r;
  const char **texts[RUN_TEXTS];
  run_meta_texts(&same, texts);
  for (int i = 0; i < RUN_TEXTS; i++) message_put_text(m, *texts[i]);
}

void files_get_run(message *m, run_meta *r) {
  const char **texts[RUN_TEXTS];
  run_meta_texts(r, texts);
  for (int i = 0; i < RUN_TEXTS; i++) *texts[i] = message_get_text(m);
}

void files_dismiss(const files *f, const error *e) {
  message m = {0};
  error ignored = {0};
  if (files_tell(f)) message_put(&m, e, sizeof *e);
  files_request(f, REQUEST_END, &m, &ignored);
}

int files_signal(void *context) {
  const files *f = context;
  int there = 0, number = 0;
  if (!files_tell(f) || MPI_Iprobe(0, TAG_SIGNAL, f->comm, &there, MPI_STATUS_IGNORE) || !there) return 0;
  MPI_Recv(&number, 1, MPI_INT, 0, TAG_SIGNAL, f->comm, MPI_STATUS_IGNORE);
  return number;
}

/* --- the server ------------------------------------------------------------------------------------------------- */

/* Waits for a request without keeping a core busy, and takes it. A signal is passed on once. */
static int next_request(const files *f, int (*signalled)(void), int *told, message *m, error *e) {
  const double LONGEST = 2e-3; /* s */
  pace p = {.begin = clock_seconds()};
  MPI_Message found;
  MPI_Status status;
  MPI_Request request;
  int there = 0, bytes;
  for (;;) {
    MPI_TRY(e, MPI_Improbe(1, TAG_REQUEST, f->comm, &there, &found, &status));
    if (there) break;
    int number = signalled();
    if (number && !*told) {
      *told = number;
      MPI_TRY(e, MPI_Send(&number, 1, MPI_INT, 1, TAG_SIGNAL, f->comm));
    }
    pace_wait(&p, LONGEST);
  }
  MPI_TRY(e, MPI_Get_count(&status, MPI_BYTE, &bytes));
  m->bytes = calloc(1, (size_t)bytes + 1);
  if (!m->bytes) return FAIL(e, OUT_OF_MEMORY, (size_t)bytes, "a request to the data server");
  m->length = m->room = (size_t)bytes;
  MPI_TRY(e, MPI_Imrecv(m->bytes, bytes, MPI_BYTE, &found, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

/* What was put last, the kind of the request. */
static enum request files_kind_of(message *m) {
  int kind;
  m->length -= sizeof(int64_t);
  memcpy(&kind, m->bytes + m->length, sizeof kind);
  return (enum request)kind;
}

int files_serve(const files *f, const config *c, int (*signalled)(void), error *e) {
  static int (*const twins[])(file_server *, message *, error *) = {NULL,
#define X(name, twin) twin,
                                                                    REQUESTS(X)
#undef X
  };
  file_server s = {.files = f, .from = {.way = f->way, .file = -1, .fd = -1}};
  s.slab = (slab){.nx = c->nx, .ny = c->ny, .nz_global = c->nz, .rank = -1, .ranks = f->started - 1};
  s.slab.upper_reflects = config_reflects(c, FACE_Z_HI);
  s.slab.lower = s.slab.upper = SLAB_NO_RANK;
  TRY(files_field_io(f, &s.io, &s.slab, c, e));
  for (int told = 0, over = 0; !over;) {
    message m = {0};
    error mine = {0}, known = {0};
    if (next_request(f, signalled, &told, &m, &mine)) error_abort(&mine, f->comm);
    const enum request kind = files_kind_of(&m);
    over = kind == REQUEST_END;
    if (over)
      message_get(&m, e, sizeof *e);
    else
      twins[kind](&s, &m, &known);
    message_free(&m);
  }
  checkpoint_close(&s.from);
  return e->id;
}
