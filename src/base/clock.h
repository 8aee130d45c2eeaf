/* The clock that only goes forward, for measuring. */
#ifndef STENCIL_CLOCK_H
#define STENCIL_CLOCK_H

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

#endif
