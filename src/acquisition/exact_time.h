/* Where a run removes the dispersion of its steps from traces ([time] dispersion): it transforms the signals of sources
 * before, and traces after the steps (dispersion.h). */
#ifndef STENCIL_EXACT_TIME_H
#define STENCIL_EXACT_TIME_H

#include "config/config.h"
#include "dispersion.h"
#include "io/bytes/traces.h"

typedef struct exact_time {
  bool removed;
  enum dispersion_kind kind;     /* of traces */
  int64_t every;                 /* steps from sample to sample */
  int64_t extra;                 /* steps after the last one of the run, which its traces' ends need */
  int threads;                   /* threads that transform traces, at most */
  dispersion_tables *transforms; /* the engine's */
  char why[200]; /* why dispersion is kept; empty: it is removed, or there is nothing to say */
} exact_time;

/* The arguments of the decision besides the configuration. */
typedef struct exact_time_of {
  double dt, bound;   /* s; bound: the largest stable dt */
  double highest;     /* Hz: little of any source's signal lies above */
  const char *column; /* the column with this frequency (sources_highest) */
  bool continues;     /* the run continues one that kept dispersion */
  int64_t steps;      /* of the run */
  int threads;
} exact_time_of;

/* The part of its time at which fields of steps of dt have a wave of frequency f; 1 where they carry no such
 * frequency. */
double exact_time_part(double f, double dt);
/* exact_time.extra of a run of so many steps, if the run removes dispersion; 0 where it cannot. */
int64_t exact_time_extra(const config *c, int64_t steps);

/* Decides whether dispersion is removed. The answer is the same on every rank. */
void exact_time_choose(exact_time *t, const config *c, const exact_time_of *of);

/* Transforms traces, with the samples of the extra steps, in place, if exact_time_choose says so; `transposed`: by the
 * transpose of the matrix. Samples of the extra steps then mean nothing. The bits of a trace do not depend on other
 * traces. Not collective. OUT_OF_MEMORY. */
int exact_time_traces(const exact_time *t, const traces *all, bool transposed, error *e);

#endif
