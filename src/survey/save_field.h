/* Looking after the newest field of a batch: checking and saving it, for each of its shots. */
#ifndef STENCIL_SAVE_FIELD_H
#define STENCIL_SAVE_FIELD_H

#include "batch.h"

/* Moves aside what an earlier run has left under the shot's path of fields and this one does not write; its log tells. The
 * lists that it left are emptied: its fields are not this run's. With `dry` only tells. Collective, agreed. */
int save_field_clear(shot *s, bool dry, error *e);

/* With [output] replace, once a shot has finished: deletes files that an earlier run has left and this one does not
 * write; logs it. Collective, agreed. */
int save_field_replace(const shot *s, error *e);

/* Adds saved fields and checks to the batch's observers. */
void save_field_observe(batch *b);

/* Saves the newest field of each shot with its statistics and histogram, logs them, and lists the field in the shot's
 * series. Refuses NaN and Inf. Where it can (save_queue.h) it measures and saves while steps go on; an error then
 * appears at a later call. Collective. */
int save_field(batch *b, error *e);

/* The last field: saves it unless it is saved, or checks it where none is to be saved; then brings the lists of saved
 * fields up to date, as they are to be before the traces, with which a shot counts as done. Collective. */
int save_field_last(batch *b, error *e);

/* Brings the lists of saved fields up to date where they are behind, as they may be by a second or so while the run goes
 * on. Collective, agreed. */
int save_field_finish(batch *b, error *e);

/* Lists in the series those fields that the run before a restart saved at these steps and that are still there. `steps`
 * is the same on every rank. Collective, agreed. */
int save_field_list(batch *b, const int64_t *steps, int64_t count, error *e);

/* Measures the newest field (but for the histogram). ERROR_NONFINITE, naming the step and the first bad point, for a shot
 * whose values hold NaN or Inf. Collective. */
int save_field_check(batch *b, error *e);

#endif
