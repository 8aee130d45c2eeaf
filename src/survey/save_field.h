/* Looking after the newest field: checking and saving it. */
#ifndef STENCIL_SAVE_FIELD_H
#define STENCIL_SAVE_FIELD_H

#include "shot/shot.h"

/* Moves aside what an earlier run has left under the path of fields and this one does not write; the log tells. The lists
 * that it left are emptied: its fields are not this run's. With `dry` only tells. Collective, agreed. */
int save_field_begin(shot *s, bool dry, error *e);

/* With [output] replace, once a shot has finished: deletes files that an earlier run has left and this one does not
 * write; logs it. Collective, agreed. */
int save_field_replace(shot *s, error *e);

/* Saves the newest field with its statistics and histogram, unless it holds NaN or Inf; logs them, and lists the
 * field in the series: beside the steps where that can be (save_queue.h), measuring included, and then what fails does so
 * at a later call. Collective. */
int save_field(shot *s, error *e);

/* Brings the lists of saved fields up to date where they are behind, as they may be by a second or so while the run goes on. After a failure,
 * `e`, too, which stays what it is unless the run was only stopped. Collective, agreed. */
int save_field_finish(shot *s, error *e);

/* Lists in the series those fields that the run before a restart saved at these steps and that are still there. `steps`
 * is the same on every rank. Collective, agreed. */
int save_field_list(shot *s, const int64_t *steps, int64_t count, error *e);

/* Adds saved fields and checks to the shot's observers. */
void save_field_observe(shot *s);

/* Measures the newest field (but for the histogram). ERROR_NONFINITE, naming the step and the first bad
 * point, if it holds NaN or Inf. Collective. */
int save_field_check(shot *s, error *e);

#endif
