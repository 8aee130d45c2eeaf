/* Restarts: finds the checkpoint that --restart names, and fills the run from it. */
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

/* Opens the checkpoint. Reading the arrays checks that they are intact and this run's. Collective, agreed. */
int restart_open(restart *r, error *e);

/* For "auto", after `e` says that the checkpoint is damaged or another run's: opens the next older one, clears `e` and
 * returns true. Where none is left, the run starts from step 0. But if one was another run's, and not `anew`, `e` names
 * the newest such one, so that a mistyped key does not restart the run. Collective, agreed. */
bool restart_pass_over(restart *r, error *e);

void restart_close(restart *r);

/* Fills the fields, layers, traces and the series from the checkpoint of the batch's shot, in place of the initial field.
 * Ghosts are the caller's. Collective. */
int restart_fill(batch *b, error *e);

#endif
