/* A request: what the ranks do together with files, in one struct. Every computing rank fills it alike and calls
 * files_perform; where there is a data server, one of them sends it the struct, and the server calls files_perform, too. */
#ifndef STENCIL_FILES_INTERNAL_H
#define STENCIL_FILES_INTERNAL_H

#include "files.h"
#include "message.h"

enum request_kind {
  REQUEST_END,
  REQUEST_FIELD_READ,
  REQUEST_FIELD_WRITE,
  REQUEST_TABLE_READ,
  REQUEST_RECEIVERS_WRITE,
  REQUEST_CHECKPOINT_BEGIN,
  REQUEST_CHECKPOINT_WRITE,
  REQUEST_CHECKPOINT_OPEN,
  REQUEST_CHECKPOINT_OPEN_NEWEST,
  REQUEST_CHECKPOINT_READ,
  REQUEST_CHECKPOINT_VERIFY,
  /* Rank 0 does these alone, and tells the others the answer: */
  REQUEST_FIELD_CHECK,
  REQUEST_FIELDS_EXIST,
  REQUEST_SERIES_WRITE,
  REQUEST_PATH_CHECK,
  REQUEST_SPACE,
};

/* What this rank brings along or gets. The server has its own: no planes, no rows, its open checkpoint. */
typedef struct request_own {
  const field_io *io;
  field_sink *sink;
  field_source *source;
  void *context; /* of the two */
  const receivers_part *part;
  table *table;
  checkpoint *opened;
  const checkpoint *from;
  checkpoint_search search;
  checkpoint_leg *leg;
  void *answer; /* answer_bytes; NULL: nobody here wants it */
} request_own;

/* Only what the kind needs is set; pointers may be NULL. */
typedef struct request {
  enum request_kind kind;
  const char *path, *ending; /* of files; of a dataset, FILE:/path */
  int shape[3];              /* nx ny nz */
  bool checkpoints, restarts;
  table_form form;
  space_steps which;
  int64_t before, count;
  const int64_t *steps;        /* count */
  const series_entry *entries; /* count */
  const field_meta *field;
  const receivers_meta *receivers;
  const checkpoint_place *place;
  const checkpoint_meta *checkpoint;
  const checkpoint_array *arrays; /* count; the server has no rows of them */
  size_t answer_bytes;
  error ended; /* what the run ended with */
  request_own own;
} request;

/* Collective over files.comm; agreed. */
int files_perform(const files *f, const request *r, error *e);

/* Puts the request into a message, or gets it out, all but `own`. */
void files_carry(message *m, request *r);

/* Tells the server where this rank is the one to do so, and performs the request. */
int files_do(const files *f, const request *r, error *e);

#endif
