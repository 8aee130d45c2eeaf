/* PATH.receivers.h5: what the receivers have recorded. */
#ifndef STENCIL_RECEIVERS_FILE_H
#define STENCIL_RECEIVERS_FILE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "io/bytes/rows.h"
#include "io/bytes/run_meta.h"
#include "io/bytes/traces.h"

/* It owns nothing. */
typedef struct receivers_meta {
  run_meta run;
  int64_t samples; /* of each receiver: sample i is of time i every dt */
  int64_t every;   /* steps */
  int receivers, sources;
  bool exact_time; /* the dispersion of the time step is removed from the traces */
  int replaces;    /* PATH.old<replaces>.receivers.h5 is deleted when the file is whole; 0: nothing */
  const double (*positions)[3];        /* receivers: x y z, m */
  const double (*source_positions)[3]; /* sources, likewise */
} receivers_meta;

/* The traces of a rank; `index` has the numbers of its receivers among all, in any order. */
typedef struct receivers_part {
  const int *index;
  traces traces;
} receivers_part;

/* Creates PATH.receivers.h5 as *f, under a temporary name, with all but the traces. After a failure no file is left.
 * One process calls it alone, in any thread. */
int receivers_file_create(new_file *f, const char *path, const receivers_meta *meta, error *e);
/* Writes PATH.receivers.h5 with the traces of all ranks: /u (samples, receivers), float32; /position (receivers, 3) and
 * /source_position (sources, 3), float64; their axes /time, /receiver, /source and /xyz; attributes. The file is
 * written under a temporary name, synced and renamed. After a failure (exit 2) no file is left under either name.
 * `made`: the file, if it has been created before; else NULL. `meta` is the same on every rank. Collective over `comm`,
 * whose rank 0 uses the file; same error everywhere. */
int receivers_file_write(MPI_Comm comm, const char *path, const receivers_meta *meta,
                         const receivers_part *part, const new_file *made, error *e);

#endif
