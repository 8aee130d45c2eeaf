/* What passes of every shape share: the events of a pass, how it begins and ends, and the account of its phases. For the
 * files of this room only. A pass advances one step or several and exchanges ghosts once. */
#ifndef STENCIL_PASS_H
#define STENCIL_PASS_H

#include "step.h"

/* Three sets of events: a pass waits for those of the pass before it while it fills its own, and the exposed time of a
 * pass is known from its events and the next one's. */
enum {
  BOUNDARY_BEGIN,
  BOUNDARY_END,
  TO_HOST,
  TO_DEVICE_BEGIN,
  TO_DEVICE,
  INTERIOR_BEGIN,
  INTERIOR_END,
  GHOSTS, /* a pass without a boundary may read its ghosts */
  EVENTS_A_PASS,
  SETS = 3
};
/* Passes wait for these events, which carry no times. */
enum { BOUNDARY_DONE = EVENT_ORDER, INTERIOR_DONE = BOUNDARY_DONE + SETS };
_Static_assert((int)SETS *(int)EVENTS_A_PASS <= (int)EVENT_ORDER, "they must not be others' events");
_Static_assert((int)INTERIOR_DONE + (int)SETS <= (int)EVENT_STEP_END, "nor these");

static inline int set_of(int64_t pass) {
  return (int)((pass + SETS) % SETS);
}

/* The device's event that is `event` of the pass. */
static inline int event_of(int64_t pass, int event) {
  return event >= EVENT_ORDER ? event + set_of(pass) : set_of(pass) * EVENTS_A_PASS + event;
}

/* Records an event of this pass on a stream. */
int pass_record(const stepper *s, int stream, int event, error *e);
/* Records `event` before kernels of this pass, where times of this pass or of the one before are measured: the exposed
 * time of a pass ends where the next one's kernels begin. */
int pass_record_begin(const stepper *s, int stream, int event, error *e);
/* Records `event` after kernels of this pass, where its times are measured, and `done`, for which others wait. Waits for
 * the stream where nothing may overlap. */
int pass_record_end(const stepper *s, int stream, int event, int done, error *e);
/* Makes later work of a stream wait for an event of a pass. */
int pass_wait(const stepper *s, int stream, int64_t pass, int event, error *e);

/* Launches `k`, with layers and sources, over planes `z` from the newest field to the other one. Nothing where there are
 * no planes. */
int pass_launch(const stepper *s, int stream, const kernel *k, zrange z, error *e);

/* Begins a pass of `steps` steps. Waits until the pass before the last is done, which bounds how far the host runs ahead,
 * and lets the streams wait for copies of what will be overwritten. `name`: for profilers. */
int pass_begin(stepper *s, int steps, const char *name, error *e);
/* Exchanges the ghosts of the field just computed, which are input of the next pass, then ends the pass. */
int pass_finish(stepper *s, int steps, error *e);
/* Counts the steps, makes the field just computed the newest, and samples the receivers. */
int pass_end(stepper *s, int steps, error *e);

/* One pass each; see the files. */
int step_whole(stepper *s, error *e);
int step_wavefront(stepper *s, int64_t limit, error *e);
int step_persistent(stepper *s, int64_t limit, error *e);

/* --- phases.c --- */

/* Are the events that carry times recorded in this pass? Not for the persistent schedule: its batches all have them. */
bool phases_measured(const stepper *s, int64_t pass);

/* Takes the times of the passes before `end`, which are done. */
int phases_take(stepper *s, int64_t end, error *e);

/* Completes s->phases, when the times of all passes are taken. */
void phases_complete(stepper *s);

/* Begins anew, from the pass to come. */
void phases_reset(stepper *s);

#endif
