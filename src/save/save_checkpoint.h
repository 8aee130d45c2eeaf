/* The complete state of a run: to a checkpoint and back. */
#ifndef STENCIL_SAVE_CHECKPOINT_H
#define STENCIL_SAVE_CHECKPOINT_H

#include "io/checkpoint.h"
#include "save_queue.h"

/* Makes the run the owner of the checkpoints it will write, and of those of the run it goes on from. One from the start moves
 * aside all that is under its path; the log tells. Nothing but the steps may come between this and the run's end.
 * Collective. */
int state_begin(saving *s, error *e);

/* What writing a checkpoint will probably take, s: before one was written. */
double state_seconds(const saving *s);

/* Saves a checkpoint of the present step, after save_field_check: beside the steps where that can be (save_queue.h). The
 * log names it, and s->checkpoint_seconds is what it took, when it is written. Collective. */
int state_save(saving *s, error *e);

/* Opens what --restart names: a file, or "auto", the newest checkpoint under the configured path, telling the log of those
 * passed over. c->name is empty where auto finds none. Whether its arrays are intact is seen when they are read.
 * Collective. */
int state_open(checkpoint *c, const char *restart, const config *cfg, run_log *log, const files *files,
               error *e);

/* With "auto", after `e` has come from an array that is damaged: opens the next older checkpoint, or none, in place of `c`,
 * clears `e` and returns true. Collective. */
bool state_pass_over(checkpoint *c, const char *restart, const config *cfg, run_log *log, const files *files,
                     error *e);

/* Refuses a checkpoint of another run, naming what differs; then fills the fields, layers, traces and the series from
 * it, in place of the initial field. Ghosts are the caller's. Collective. */
int state_restore(saving *s, const checkpoint *c, error *e);

#endif
