/* Who uses files, and everything that the run does with them. Without a data server the first computing rank does (or,
 * collectively, all of them); with one, it alone: the computing ranks tell it what they are about to do, and it
 * takes its part in that. Either way the functions below do what their namesakes in field_io.h, table.h,
 * receivers_file.h and checkpoint.h do.
 *
 * All of them are collective over files.comm and return the same error on every rank; one thread of a rank at a time
 * may be in one of them. */
#ifndef STENCIL_FILES_H
#define STENCIL_FILES_H

#include "checkpoint.h"
#include "field_io.h"
#include "receivers_file.h"
#include "space.h"
#include "table.h"

typedef struct files {
  MPI_Comm compute; /* the computing ranks, in slab order; the server has none */
  MPI_Comm comm;    /* the same, with the server, if there is one, before them: its rank 0 uses the files */
  bool served;      /* there is a data server */
  bool server;      /* this rank is it */
  int started;      /* all ranks of the run */
  io_way *way;      /* of comm; owned */
} files;

/* Shares out the ranks of `all`: with IO_SERVER the last one becomes the data server; a single rank is then exit 1.
 * Collective over `all`. */
int files_open(files *f, MPI_Comm all, enum io_kind mode, error *e);
void files_close(files *f);

/* The data server: does what it is asked for until files_dismiss, and takes over the error that the run ended with.
 * `signalled` tells which signal this rank has got, or 0; the computing ranks hear of it (files_signal). */
int files_serve(const files *f, const config *c, int (*signalled)(void), error *e);
/* Lets the server go, with the error, or 0, that all computing ranks end with. */
void files_dismiss(const files *f, const error *e);
/* Number of a signal that the server has got since the last call, or 0. Not collective; `context` is the files. */
int files_signal(void *context);

/* The way to fields for this slab. Where the mode is `auto`, finds out whether every rank sees the folders that the run
 * writes into. */
int files_field_io(const files *f, field_io *io, const slab *slab, const config *c, error *e);
int files_field_read(const files *f, const field_io *io, const char *dataset, field_sink *sink, void *context,
                     error *e);
int files_field_check(const files *f, const char *dataset, int nx, int ny, int nz, error *e);
int files_field_write(const files *f, const field_io *io, const field_meta *meta, field_source *source,
                      void *context, error *e);
/* Which of the fields of `count` steps are there under PATH. `steps` is the same on every rank. */
int files_fields_exist(const files *f, const char *path, const int64_t *steps, int64_t count, bool *exist,
                       error *e);
/* The entries are those of the first computing rank. */
int files_series_write(const files *f, const field_io *io, const series_entry *entries, int count,
                       const field_meta *meta, error *e);
/* Can fields (or, `checkpoints`, checkpoints) be saved under PATH? */
int files_path_check(const files *f, const char *path, bool checkpoints, error *e);
int files_space(const files *f, const char *path, const char *ending, const space_steps *which,
                space_use *use, error *e);

int files_table_read(const files *f, const char *dataset, table_form form, table *t, error *e);
int files_receivers_write(const files *f, const char *path, const receivers_meta *m,
                          const receivers_part *part, error *e);

int files_checkpoint_begin(const files *f, const char *path, const checkpoint *from, checkpoint_leg *leg,
                           error *e);
int files_checkpoint_write(const files *f, const checkpoint_place *place, const checkpoint_meta *meta,
                           const checkpoint_array *arrays, int count, error *e);
int files_checkpoint_open(const files *f, checkpoint *c, const char *file, error *e);
int files_checkpoint_open_newest(const files *f, checkpoint *c, const checkpoint_search *search, error *e);
int files_checkpoint_read(const files *f, const checkpoint *c, const checkpoint_array *arrays, int count,
                          error *e);
int files_checkpoint_verify(const files *f, const checkpoint *c, error *e);

#endif
