/* Restarts: finds the checkpoint that --restart names, and fills the run from it. */
#ifndef STENCIL_RESTART_H
#define STENCIL_RESTART_H

#include "io/checkpoint/checkpoint.h"
#include "batch.h"

typedef struct restart {
  const char *name; /* a file, or "auto": the newest under `path`; NULL: the run begins at step 0 */
  const char *path; /* of checkpoints */
  bool anew;        /* the run begins at step 0 where all checkpoints are another run's */
  run_log *log;     /* logs checkpoints that are passed over; not owned, as is `files` */
  const files *files;
  checkpoint from; /* the open checkpoint; its name is empty where the run begins at step 0 */
  error refused;   /* `auto`: why another run's newest checkpoint was passed over; id 0: none was */
} restart;

/* Opens the checkpoint. Later, reading its arrays checks that they are intact. Collective, agreed. */
int restart_open(restart *r, error *e);

/* For "auto", where `e` says that the checkpoint is damaged or another run's: opens the next older one, clears `e` and
 * returns true. Where none is left, the run starts from step 0. But if one was another run's, and `anew` is false, `e`
 * names the newest such checkpoint: a mistyped key must not restart the run. Collective, agreed. */
bool restart_pass_over(restart *r, error *e);

void restart_close(restart *r);

/* Fills the fields, layers, traces and the series from the checkpoint of the batch's shot, in place of the initial
 * field. The caller fills ghosts. Collective. */
int restart_fill(batch *b, error *e);

#endif
