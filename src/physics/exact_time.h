/* Where a run removes the dispersion of its steps from traces ([time] dispersion): it transforms the signals of sources
 * before, and traces after the steps (dispersion.h). */
#ifndef STENCIL_EXACT_TIME_H
#define STENCIL_EXACT_TIME_H

#include "config/config.h"
#include "dispersion.h"

typedef struct exact_time {
  bool removed;
  enum dispersion_kind kind; /* of traces */
  int64_t every;             /* steps from sample to sample */
  int threads;               /* that transform traces, at most */
  char why[200];             /* why it is kept; empty: it is removed, or there is nothing to say */
} exact_time;

/* What the decision depends on besides the configuration. */
typedef struct exact_time_of {
  double dt, bound; /* s; bound: the largest stable dt */
  double highest;   /* Hz: little of any source's signal lies above */
  bool continues;   /* a run that kept it */
  int threads;
} exact_time_of;

/* The same answer on every rank. */
void exact_time_choose(exact_time *t, const config *c, const exact_time_of *of);

/* Transforms in place what exact_time_choose says of `series` traces of n samples each, x[sample * series + trace].
 * A trace gets the same bits whatever the others are. Not collective. OUT_OF_MEMORY. */
int exact_time_traces(const exact_time *t, float *x, int64_t n, int64_t series, error *e);

#endif
