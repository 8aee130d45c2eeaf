/* Checks and saves the newest field of a batch, for each of its shots. */
#ifndef STENCIL_SAVE_FIELD_H
#define STENCIL_SAVE_FIELD_H

#include "batch.h"

/* Moves aside files that an earlier run left under the shot's output path and this run does not write, and logs them.
 * It empties the lists of the earlier run, whose fields are not this run's. With `dry` it only logs. Collective,
 * agreed. */
int save_field_clear(shot *s, bool dry, error *e);

/* With [output] replace, after a shot: deletes and logs files that an earlier run left and this run does not write.
 * Collective, agreed. */
int save_field_replace(const shot *s, error *e);

/* Adds saved fields and checks to the batch's observers. */
void save_field_observe(batch *b);

/* Saves the newest field of each shot with its statistics and histogram, logs them, and lists the field in the shot's
 * series. Refuses NaN and Inf. If possible (save_queue.h), it measures and saves while steps go on; a later call then
 * reports an error. Collective. */
int save_field(batch *b, error *e);

/* Saves the last field, unless it is saved; where it need not be saved, checks it. Then brings the lists of saved
 * fields up to date: they must be complete before the traces, with which a shot may count as done. Collective. */
int save_field_last(batch *b, error *e);

/* Brings the lists of saved fields up to date. During the run they may lag by about a second. Collective, agreed. */
int save_field_finish(batch *b, error *e);

/* Lists in the series the fields of these steps that the run before a restart saved and that still exist. `steps` is
 * the same on every rank. Collective, agreed. */
int save_field_list(batch *b, const int64_t *steps, int64_t count, error *e);

/* Measures the newest field, without the histogram. A shot with NaN or Inf fails: ERROR_NONFINITE names the step and
 * the first bad point. Collective. */
int save_field_check(batch *b, error *e);

#endif
