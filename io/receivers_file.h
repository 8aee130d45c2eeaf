/* PATH.receivers.h5: what the receivers have recorded. */
#ifndef STENCIL_RECEIVERS_FILE_H
#define STENCIL_RECEIVERS_FILE_H

#include <mpi.h>
#include <stdint.h>
#include "base/error.h"
#include "run_meta.h"

typedef struct receivers_file receivers_file;

/* It owns nothing. */
typedef struct receivers_meta {
  run_meta run;
  int64_t samples; /* of each receiver: sample i is of time i every dt */
  int64_t every;   /* steps */
  int receivers, sources;
  const double (*positions)[3];        /* receivers: x y z, m */
  const double (*source_positions)[3]; /* sources, likewise */
} receivers_meta;

/* One process alone, not collective: creates PATH.receivers.h5 under a temporary name, with /position (receivers, 3)
 * and /source_position (sources, 3), float64, attributes, and /u (samples, receivers), float32, to be filled; their axes
 * are /time, /receiver, /source and /xyz. Its space is reserved where the file system can, so that a full disk is seen
 * here (exit 2). receivers_file_close it, also after a failure.
 */
int receivers_file_create(receivers_file **f, const char *path, const receivers_meta *m, error *e);

/* Writes samples [first, first + count) of all receivers: `values` is count x receivers. */
int receivers_file_put(receivers_file *f, int64_t first, int64_t count, const float *values, error *e);

/* Gives the whole file its name, durably; after a failure (`e` says so already, or this fails) no file is left under
 * either name. Frees `f`, which may be NULL. */
int receivers_file_close(receivers_file *f, error *e);

/* What a rank has recorded: `index` says which of all receivers its own are, in any order; sample i of them begins at
 * traces[i count]. */
typedef struct receivers_part {
  int count;
  const int *index;
  const float *traces;
} receivers_part;

/* Writes PATH.receivers.h5 with what all ranks have recorded; `meta` is the same on every rank. Collective over `comm`,
 * whose rank 0 uses the file; same error everywhere. */
int receivers_file_write(MPI_Comm comm, const char *path, const receivers_meta *meta,
                         const receivers_part *part, error *e);

#endif
