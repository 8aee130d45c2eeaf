/* Shared by passes of all kinds: their begin and end, and the times of their phases. For the files of this module only.
 * A pass advances one step or several and exchanges ghosts once. */
#ifndef STENCIL_PASS_H
#define STENCIL_PASS_H

#include "step.h"

static inline int set_of(int64_t pass) {
  return (int)((pass + PASS_SETS) % PASS_SETS);
}

static inline device_event *event_of(const stepper *s, int64_t pass, enum pass_event event) {
  return s->events[set_of(pass)][event];
}

/* Records an event of this pass on a stream. */
int pass_record(const stepper *s, int stream, enum pass_event event, error *e);
/* Records `event` before kernels of this pass, if this pass or the one before is measured: the exposed time of a pass
 * ends where the next one's kernels begin. */
int pass_record_begin(const stepper *s, int stream, enum pass_event event, error *e);
/* Records `event` after kernels of this pass, if the pass is measured, and `done`, for which other streams wait. Waits
 * for the stream where nothing may overlap. */
int pass_record_end(const stepper *s, int stream, enum pass_event event, enum pass_event done, error *e);
/* Makes later work of a stream wait for an event of a pass. */
int pass_wait(const stepper *s, int stream, int64_t pass, enum pass_event event, error *e);

/* Launches `k`, with layers and sources, over planes `z`, from the newest field to the other one. Does nothing without
 * planes. */
int pass_launch(const stepper *s, int stream, const kernel *k, zrange z, error *e);

/* Begins a pass of `steps` steps. Waits until the pass before the last one is done, so that the host does not run far
 * ahead. Makes the streams wait for copies of what the pass overwrites. `name`: for profilers. */
int pass_begin(stepper *s, int steps, const char *name, error *e);
/* Exchanges the ghosts of the field just computed, which the next pass reads; then pass_end. */
int pass_finish(stepper *s, int steps, error *e);
/* Counts the steps, makes the field just computed the newest, and lets observers look. */
int pass_end(stepper *s, int steps, error *e);

/* Each function advances one pass, of at most `limit` steps: step_whole.c, persistent.c. */
int step_whole(stepper *s, error *e);
int step_wavefront(stepper *s, int64_t limit, error *e);
int step_persistent(stepper *s, int64_t limit, error *e);

/* --- phases.c --- */

/* Are the times of this pass measured? Not for the persistent schedule, which measures every batch. */
bool phases_measured(const stepper *s, int64_t pass);

/* Adds the times of the passes before `end`, which are done. */
int phases_take(stepper *s, int64_t end, error *e);

/* Computes s->phases from the times added. */
void phases_complete(stepper *s);

/* Forgets all times: the next pass is the first one. */
void phases_reset(stepper *s);

#endif
