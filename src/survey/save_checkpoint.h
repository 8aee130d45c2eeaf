/* Saving the complete state of a run in a checkpoint. A shot that writes checkpoints is alone in its batch. */
#ifndef STENCIL_SAVE_CHECKPOINT_H
#define STENCIL_SAVE_CHECKPOINT_H

#include "io/checkpoint/checkpoint.h"
#include "batch.h"

/* Makes the run the owner of its future checkpoints, and of those of the run that it continues. A run from the start
 * moves other checkpoints under its path aside, and logs that. Call it directly before the steps. Collective. */
int save_checkpoint_begin(shot *s, error *e);

/* Estimates the seconds that a checkpoint takes, before one has been written. */
double save_checkpoint_seconds(const batch *b);

/* Does save_field_check, then saves a checkpoint of the present step, if possible while steps go on (save_queue.h).
 * Once it is written, the log names it, and b->saves.checkpoint_seconds is its time. Collective. */
int save_checkpoint(batch *b, error *e);

#endif
