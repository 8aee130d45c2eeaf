/* Where a run goes on: finding the checkpoint that --restart names, and filling the run from it. */
#ifndef STENCIL_RESTART_H
#define STENCIL_RESTART_H

#include "io/checkpoint/checkpoint.h"
#include "batch.h"

typedef struct restart {
  const char *name; /* --restart's: a file, or "auto", the newest under `path`; NULL: the run begins */
  const char *path; /* of checkpoints */
  bool anew;        /* the run begins where all checkpoints are another run's */
  run_log *log;     /* tells of those passed over; not owned, nor is */
  const files *files;
  checkpoint from; /* open; its name is empty where the run begins */
  error refused;   /* `auto`: why the newest of another run was passed over, or 0 */
} restart;

/* Opens the checkpoint. Whether its arrays are intact, and this run's, is seen when they are read. Collective, agreed. */
int restart_open(restart *r, error *e);

/* With "auto", after `e` has told that the checkpoint is damaged or another run's: opens the next older one in its place,
 * clears `e` and returns true. Where none is left the run begins, unless one was another run's: then, but for `anew`, `e` is
 * about the newest such one, so that a mistyped key starts nothing afresh. Collective, agreed. */
bool restart_pass_over(restart *r, error *e);

void restart_close(restart *r);

/* Fills the fields, layers, traces and the series from the checkpoint of the batch's shot, in place of the initial field.
 * Ghosts are the caller's. Collective. */
int restart_fill(batch *b, error *e);

#endif
