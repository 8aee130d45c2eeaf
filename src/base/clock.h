/* The clock that only goes forward, and how a thread waits for a value that another thread or process will change. */
#ifndef STENCIL_CLOCK_H
#define STENCIL_CLOCK_H

#include <sched.h>
#include <time.h>

/* The time of a clock, s. */
static inline double clock_read(clockid_t clock) {
  struct timespec t = {0};
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds since some moment in the past. */
static inline double clock_seconds(void) {
  return clock_read(CLOCK_MONOTONIC);
}

/* One wait for a value. All loops that poll a value use pace_wait. Set its `begin` to clock_seconds() when the wait
 * begins. */
typedef struct pace {
  double begin; /* s */
  double eager; /* s in which the thread never sleeps; at least 0.1 ms. INFINITY: always */
  int spins;    /* number of first looks that keep the core */
} pace;

/* Call between two looks at the value. Keeps the core for the first looks, then yields it. Later it sleeps for a
 * sixteenth of the time waited so far, at most `longest` s. So a short wait ends promptly, and a long one costs
 * little. */
static inline void pace_wait(pace *p, double longest) {
  const double EAGER = 100e-6, SHORTEST = 20e-6; /* s */
  if (p->spins > 0) {
    p->spins--;
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
    return;
  }
  const double waited = clock_seconds() - p->begin;
  if (waited < EAGER || waited < p->eager) {
    sched_yield();
    return;
  }
  double nap = waited / 16;
  if (nap < SHORTEST) nap = SHORTEST;
  if (nap > longest) nap = longest;
  const struct timespec moment = {0, (long)(1e9 * nap)};
  nanosleep(&moment, NULL);
}

#endif
