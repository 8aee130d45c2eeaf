/* How to wait for what has to be looked at again and again. */
#ifndef STENCIL_PACE_H
#define STENCIL_PACE_H

#include <sched.h>
#include "clock.h"

/* A wait began when it was filled: {.begin = clock_seconds()}. */
typedef struct pace {
  double begin; /* s */
  double eager; /* s in which it does not sleep, at least; the first 0.1 ms it never does */
} pace;

/* Call between two looks. Leaves the core to others, but looks again soon at first: most of what is waited for comes
 * within a moment. Then it sleeps for a sixteenth of the time waited so far, at most `longest` s. */
static inline void pace_wait(const pace *p, double longest) {
  const double EAGER = 100e-6, SHORTEST = 20e-6; /* s */
  const double waited = clock_seconds() - p->begin;
  double nap = waited / 16;
  if (waited < EAGER || waited < p->eager) {
    sched_yield();
    return;
  }
  if (nap < SHORTEST) nap = SHORTEST;
  if (nap > longest) nap = longest;
  const struct timespec moment = {0, (long)(1e9 * nap)};
  nanosleep(&moment, NULL);
}

#endif
