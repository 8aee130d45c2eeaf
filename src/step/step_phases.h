/* The events of a pass, and the account of its phases that the stepper keeps with them. For step.c. */
#ifndef STENCIL_STEP_PHASES_H
#define STENCIL_STEP_PHASES_H

#include "step.h"

/* Three sets of events: a pass waits for those of the one before it while filling its own, and what the one two passes
 * before exposed is known from its events and those after it. */
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
/* What a pass waits for is marked by events of its own, which carry no times. */
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

/* Are the events that carry times recorded in this pass? Not for the persistent schedule: its batches all have them. */
bool phases_measured(const stepper *s, int64_t pass);

/* Takes the times of the passes before `end`, which are done. */
int phases_take(stepper *s, int64_t end, error *e);

/* Completes s->phases, when the times of all passes are taken. */
void phases_complete(stepper *s);

/* Begins anew, from the pass to come. */
void phases_reset(stepper *s);

#endif
