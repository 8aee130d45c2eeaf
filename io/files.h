/* All file operations of a run. Each is a request, which all ranks perform together: on files on disk (disk.h), or on a
 * caller's arrays (library/arrays.h). All functions are collective over files.comm and return the same error on every
 * rank, unless they say otherwise. One thread of a rank at a time may call them. */
#ifndef STENCIL_FILES_H
#define STENCIL_FILES_H

#include "io/checkpoint/checkpoint.h"
#include "io/input/digest.h"
#include "io/hdf5/field_io.h"
#include "io/output/gradient_file.h"
#include "io/output/receivers_file.h"
#include "io/output/space.h"
#include "io/output/shot_files.h"
#include "io/input/table.h"

struct files;
struct request;
/* What performs requests. */
typedef struct files_kind {
  int (*perform)(const struct files *f, const struct request *r, error *e); /* files_do */
  int (*heard)(const struct files *f); /* files_signal; NULL: no signals come */
  /* Sets *seen to false where not every rank sees the folders that the run writes into. NULL: there are none. */
  int (*see)(const struct files *f, const config *c, bool *seen, error *e);
} files_kind;

typedef struct files {
  const files_kind *kind;
  void *context;     /* of a caller's arrays */
  MPI_Comm compute;  /* the computing ranks, in slab order; the server has none */
  MPI_Comm comm;     /* the server, if there is one, then the computing ranks; rank 0 uses the files */
  bool served;       /* there is a data server */
  bool server;       /* this rank is the data server */
  int started;       /* number of ranks in the run */
  io_access *access; /* of comm; owned */
} files;

/* Divides the ranks of `all`. With IO_SERVER the last rank becomes the data server; a single rank is then exit 1.
 * Collective over `all`. */
int files_open(files *f, MPI_Comm all, enum io_kind mode, const files_kind *kind, error *e);
void files_close(files *f);

/* Number of a signal that came elsewhere since the last call, or 0. Not collective; `context` is the files. */
static inline int files_signal(void *context) {
  const files *f = context;
  return f->kind->heard ? f->kind->heard(f) : 0;
}

/* Prepares the I/O of fields for this slab. For the mode `auto` it finds whether every rank sees the folders that the
 * run writes into. */
int files_field_io(const files *f, field_io *io, const slab *slab, const config *c, error *e);

/* Divides the computing ranks, in order, into `count` groups of `ranks` each. Ranks that are left over belong to no
 * group. */
typedef struct files_parts {
  int count, ranks;
} files_parts;
/* Gives each group its own files, which a data server serves too. *group: the group's files; `access` is NULL on
 * ranks of no group. *first: files of the first rank alone. Close both with files_close. Collective over the
 * computing ranks of `f`, agreed. */
int files_split(const files *f, files_parts parts, files *group, files *first, error *e);
/* Performs FILES_SPLIT. The server joins all groups in order, so `opened` has an element for each group and one more.
 * On any other rank it has two: for its group's files, and for files of the first rank alone. */
int files_open_parts(const files *f, files_parts parts, files *opened, error *e);

/* The kinds of requests: the function that performs each, and the members that it needs. */
enum request_kind {
  FILES_READ_FIELD,  /* field_read: path, quantity; own: io, sink, context */
  FILES_WRITE_FIELD, /* field_write: field, path; own: io, planes */
  /* Rank 0 alone performs the next two, in any thread. Other ranks, and runs with a server, do nothing. */
  FILES_CREATE_FIELD,      /* field_create: field; own: io, creates */
  FILES_CREATE_RECEIVERS,  /* receivers_file_create: path, receivers; own: creates */
  FILES_READ_TABLE,        /* table_read: path, form; own: table, parts */
  FILES_WRITE_RECEIVERS,   /* receivers_file_write: path, receivers; own: part */
  FILES_BEGIN_CHECKPOINTS, /* checkpoint_begin: path, restarts; own: from, start */
  FILES_WRITE_CHECKPOINT,  /* checkpoint_write: place, checkpoint, arrays, count */
  FILES_OPEN_CHECKPOINT,   /* checkpoint_open: search; own: opened */
  FILES_READ_CHECKPOINT,   /* checkpoint_read: arrays, count; own: from */
  FILES_VERIFY_CHECKPOINT, /* checkpoint_verify; own: from */
  /* Rank 0 does these alone and broadcasts the answer: */
  FILES_WRITE_SERIES,  /* series_write: field, path; the first computing rank's steps and count; own: io */
  FILES_FIND_FIELDS,   /* series_find of each of `count` steps: path, field, steps, count; own: io, answer */
  FILES_CHECK_PATHS,   /* path_check_output: config */
  FILES_MAKE_FOLDER,   /* path_make_folder: path, dry; own: answer, a bool */
  FILES_FIND_SPACE,    /* space_of, space_taken: path, text, which; own: answer, a space_use */
  FILES_MOVE_ASIDE,    /* space_move_aside: config, which, dry; own: answer, a space_aside */
  FILES_DIGEST,        /* digest_dataset: path, or digest_text: text; own: answer, DIGEST_TEXT */
  FILES_FIND_SHOT,     /* shot_find: config, which, text; own: answer, an enum shot_found */
  FILES_WRITE_TEXT,    /* text_write: path, text */
  FILES_SUM_GRADIENTS, /* gradient_sum: path, config, field */
  FILES_SPLIT,         /* files_split: parts; own: answer, two files */
  FILES_END,           /* files_dismiss */
};

/* Arguments that differ between ranks. The server has no planes and no rows, but its own open checkpoint. */
typedef struct request_own {
  const field_io *io;
  field_sink *sink;
  void *context; /* of the sink */
  /* If not NULL, takes all own planes at once in place of the sink, from memory of the run's CUDA device. The values
   * are normal numbers from range[0] > 0 to range[1]. *taken stays false where it cannot. */
  int (*take_device)(void *context, const float *values, const float range[2], bool *taken, error *e);
  const field_planes *planes; /* of each field to be written */
  const receivers_part *part;
  const new_file *made; /* the file of receivers or a field, if it was created before; else NULL */
  new_file *creates;    /* receives a file that is created now */
  table *table;
  const table_sink *parts; /* of the table */
  checkpoint *opened;
  const checkpoint *from;
  checkpoint_start *start;
  void *answer; /* answer_bytes */
} request_own;

/* Equal on all computing ranks except `own`. */
typedef struct request {
  enum request_kind kind;
  const char *path, *text; /* path: of files; of a dataset, FILE:/path */
  bool restarts, dry;
  table_form form;
  enum quantity quantity;
  space_steps which;
  checkpoint_search search;
  int64_t count;
  const int64_t *steps; /* count */
  const field_meta *field;
  const config *config;
  files_parts parts;
  const receivers_meta *receivers;
  const checkpoint_place *place;
  const checkpoint_meta *checkpoint;
  const checkpoint_array *arrays; /* count; the server has no rows of the arrays */
  size_t answer_bytes;
  error ended; /* the run's result */
  request_own own;
} request;

struct message;
/* Carries a configuration in a message (message.h). */
void files_carry_config(struct message *m, const config **c);

/* Collective over the computing ranks. */
static inline int files_do(const files *f, const request *r, error *e) {
  return f->kind->perform(f, r, e);
}

#endif
