/* Saving the complete state of a run in a checkpoint. Shots that write checkpoints step alone: a batch has one. */
#ifndef STENCIL_SAVE_CHECKPOINT_H
#define STENCIL_SAVE_CHECKPOINT_H

#include "io/checkpoint/checkpoint.h"
#include "batch.h"

/* Makes the run the owner of the checkpoints it will write, and of those of the run it continues. A run from the start
 * moves other checkpoints under its path aside and logs it. Call it directly before the steps. Collective. */
int save_checkpoint_begin(shot *s, error *e);

/* The estimated seconds for writing a checkpoint, before one was written. */
double save_checkpoint_seconds(const batch *b);

/* Saves a checkpoint of the present step, after save_field_check: beside the steps where that can be (save_queue.h). The
 * log names it, and b->saves.checkpoint_seconds is what it took, when it is written. Collective. */
int save_checkpoint(batch *b, error *e);

#endif
