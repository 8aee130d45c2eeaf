/* What the two sides of the data server share: each function of files.h that uses a file has a twin here, which the
 * server runs; what the one puts into the request the other gets out of it. */
#ifndef STENCIL_FILES_INTERNAL_H
#define STENCIL_FILES_INTERNAL_H

#include "files.h"
#include "message.h"

/* Every request, in words of its own, and the twin that serves it. */
#define REQUESTS(X)                                                                                          \
  X(FIELD_READ, serve_field_read)                                                                            \
  X(FIELD_CHECK, serve_field_check)                                                                          \
  X(FIELD_WRITE, serve_field_write)                                                                          \
  X(FIELDS_EXIST, serve_fields_exist)                                                                        \
  X(SERIES_WRITE, serve_series_write)                                                                        \
  X(PATH_CHECK, serve_path_check)                                                                            \
  X(SPACE, serve_space)                                                                                      \
  X(TABLE_READ, serve_table_read)                                                                            \
  X(RECEIVERS_WRITE, serve_receivers_write)                                                                  \
  X(CHECKPOINT_BEGIN, serve_checkpoint_begin)                                                                \
  X(CHECKPOINT_WRITE, serve_checkpoint_write)                                                                \
  X(CHECKPOINT_OPEN, serve_checkpoint_open)                                                                  \
  X(CHECKPOINT_OPEN_NEWEST, serve_checkpoint_open_newest)                                                    \
  X(CHECKPOINT_MATCH, serve_checkpoint_match)                                                                \
  X(CHECKPOINT_READ, serve_checkpoint_read)                                                                  \
  X(CHECKPOINT_VERIFY, serve_checkpoint_verify)                                                              \
  X(CHECKPOINT_CLOSE, serve_checkpoint_close)

enum request {
  REQUEST_END,
#define X(name, twin) REQUEST_##name,
  REQUESTS(X)
#undef X
};

enum { TAG_REQUEST = 7201, TAG_SIGNAL = 7202 };

/* The server's side. */
typedef struct file_server {
  const files *files;
  slab slab; /* of the partition, with no planes */
  field_io io;
  checkpoint from; /* open, or not */
} file_server;

/* A twin: the server's part of a request. It agrees with the computing ranks on what has failed, so what it returns is
 * known to them. */
#define X(name, twin) int twin(file_server *s, message *m, error *e);
REQUESTS(X)
#undef X

/* Does this rank tell the server? The others have nothing to put into the message. */
static inline bool files_tell(const files *f) {
  int rank = -1;
  return f->served && !f->server && MPI_Comm_rank(f->comm, &rank) == MPI_SUCCESS && rank == 1;
}
/* Sends the request, where this rank is the one to tell the server, and frees the message. In two parts: the message
 * stays as it is between them. */
int files_request_begin(const files *f, enum request what, message *m, MPI_Request *request, error *e);
int files_request_end(message *m, MPI_Request *request, error *e);
int files_request(const files *f, enum request what, message *m, error *e);

/* The texts of *r, which itself travels in the struct around it. They stay in the message that they are got from. */
void files_put_run(message *m, const run_meta *r);
void files_get_run(message *m, run_meta *r);

/* Tells every rank a few bytes of files.comm's rank 0. */
int files_broadcast(const files *f, void *bytes, size_t count, error *e);

#endif
