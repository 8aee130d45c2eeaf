/* Fields on disk.
 *
 * A field is a dataset of shape (nz, ny, nx), x fastest. Each rank owns a z-slab, and reads and writes its planes
 * itself, on several threads (rows.h). Where only rank 0 sees the folder, planes pass through rank 0 (IO_GATHER). A
 * data server (IO_SERVER, files.h) is a rank 0 of its own, without a slab. The file is the same in any case.
 *
 * All functions that take an io_access or a field_io are collective, and return the same error on every rank. */
#ifndef STENCIL_FIELD_IO_H
#define STENCIL_FIELD_IO_H

#include "config/config.h"
#include "kernels/operations/statistics.h"
#include "halo/slab.h"
#include "quantity.h"
#include "io/bytes/rows.h"
#include "io/bytes/run_meta.h"

typedef struct field_io {
  /* Of the computing ranks, in slab order, after the data server if there is one; not owned. */
  io_access *access;
  const slab *slab;  /* this rank's; on the data server of rank -1, without planes; not owned */
  enum io_kind mode; /* not IO_AUTO after field_io_init */
  const char *path;  /* of saved fields, PATH.*; the caller's, and not owned */
  double spacing[3]; /* of the grid, x y z, m; 0: not known */
} field_io;

/* IO_AUTO becomes collective where every rank sees the folders, else gather. */
static inline void field_io_init(field_io *io, io_access *access, const slab *slab, enum io_kind mode) {
  if (mode == IO_AUTO) mode = access->together ? IO_COLLECTIVE : IO_GATHER;
  *io = (field_io){.access = access, .slab = slab, .mode = mode};
}

/* Takes `planes` planes that were read: ny x nx values each, dense, own planes z .. z + planes - 1. It may overwrite
 * `values`. Returns 0 or an error id with `e` filled. Any thread may call it, several at a time, in any order. */
typedef int field_sink(void *context, int z, int planes, float *values, error *e);
/* Puts `planes` planes of ny x nx values, dense, into `values`, to be written; likewise. */
typedef int field_source(void *context, int z, int planes, float *values, error *e);
/* Called when all planes of all ranks were put: may refuse them, and completes meta->statistics, if there are any.
 * Collective over the computing ranks, agreed. */
typedef int field_measured(void *context, error *e);

/* Reads dataset "FILE:/path", of any integer or float type and this quantity, as float32, and passes each rank its
 * planes in order. Exit 2, naming file, dataset, expected and found: a missing or truncated file, a missing dataset, a
 * wrong rank, shape, type or unit, a NaN, Inf (also a float64 beyond float32) or fill value. */
int field_read(const field_io *io, const char *dataset, enum quantity quantity, field_sink *sink,
               void *context, error *e);

/* One of several fields of a file: /NAME. */
typedef struct field_name {
  const char *name, *units, *long_name;
  int frequencies; /* 0: shape (nz, ny, nx); else so many, shape (frequency, nz, ny, nx, 2) */
} field_name;

/* Where the planes of a field, or of one of its frequencies, come from. */
typedef struct field_planes {
  field_source *source;
  void *context;
} field_planes;

/* The steps that a field is made of; times in s. */
typedef struct field_window {
  int64_t steps;      /* 0: the field is of one step */
  double from, until; /* times of the first step, and of the step after the last */
} field_window;

struct gradient_meta;

/* The metadata of a saved field. */
typedef struct field_meta {
  run_meta run;
  double origin[3];                   /* m, x y z: of the grid */
  double spacing[3];                  /* m, x y z */
  config_cut cut[3];                  /* x y z: which points are in the file; all 0: the whole grid */
  int compress;                       /* gzip level, with shuffle; 0: contiguous */
  const field_statistics *statistics; /* of the field; NULL: none are written */
  field_measured *measured;           /* NULL: the statistics are known already */
  /* Of a file that is no saved field: */
  const char *ending;                   /* the file is PATH and this */
  int fields;                           /* number of fields, never compressed */
  const field_name *names;              /* of its fields */
  const double *frequencies;            /* Hz, of the field that has some */
  field_window counted;                 /* the steps that its fields are of */
  const struct gradient_meta *gradient; /* of a gradient, more metadata (gradient_file.h) */
} field_meta;

/* Writes PATH.SSSSSSSS.hdf, of io->path: VTKHDF ImageData with PointData/u, /u a hard link to it, its axes /z, /y and
 * /x, /time, attributes. /histogram, if any, has int64 counts of equal bins over [min, max], with the axis /bin. The
 * file is written under a temporary name in the same folder, synced and renamed. After a failure (exit 2) no file is
 * left under either name. `parts`: planes of the field, or, with meta->ending, of all fields and their frequencies.
 * `made`: the file, if it has been created before; else NULL. */
int field_write(const field_io *io, const field_meta *meta, const field_planes *parts, const new_file *made,
                error *e);
/* Creates the file of field_write as *f, under a temporary name, with space for the values. After a failure no file
 * is left. Use it neither for compressed fields nor for those with statistics. One process calls it alone, in any
 * thread. */
int field_create(new_file *f, const field_io *io, const field_meta *meta, error *e);

/* Rank 0 only. Is there a saved field of this step? SAME: of the points that this run saves; OTHER: of others. */
enum series_found { SERIES_ABSENT, SERIES_SAME, SERIES_OTHER };
enum series_found series_find(const char *path, int64_t step, const slab *slab, const field_meta *meta);

/* Rank 0 only: writes the list of saved steps with their times, twice: PATH.xdmf for readers of XDMF and
 * PATH.hdf.series for ParaView, each atomically. */
int series_write(const char *path, const int64_t *steps, int64_t count, const slab *slab,
                 const field_meta *meta, error *e);
/* Rank 0 only: rewrites the list that was moved aside, as PATH.oldN and its ending, with its fields' new names. */
int series_move_aside(const char *path, const char *ending, int number, error *e);

/* "1.10.8 (parallel)": the HDF5 in use, at most 64 bytes. */
void field_io_version(char text[64]);
/* Call once at start, before HDF5 is used. Turns off HDF5's error printing for this thread, and file locks. A file
 * beyond the limit of `ulimit -f` becomes an error of the write instead of the signal SIGXFSZ. */
void field_io_start(void);

#endif
