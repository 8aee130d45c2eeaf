/* The writer: a thread that does jobs of output one after another, beside the steps. It knows nothing of what a job is;
 * where ranks do one together, each of them pushes the same jobs in the same order.
 *
 * All functions are for the one thread that opened it. */
#ifndef STENCIL_WRITER_H
#define STENCIL_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

enum { OUTPUT_ROOM = 2 /* jobs that may be unfinished */ };

/* The beginning of a struct that holds all the job needs. */
typedef struct output_job output_job;
struct output_job {
  /* On the writer's thread. */
  int (*write)(output_job *job, error *e);
  /* On the thread that pushed it, in order, after `write` or, with `written` false, in place of it: tells and frees. */
  void (*done)(output_job *job, bool written);
  uint64_t bytes; /* that it is about */
  double seconds; /* that `write` took */
};

typedef struct output_totals {
  double seconds; /* the writer's, in jobs */
  uint64_t bytes; /* of jobs that were written */
  double longest; /* s that a job has taken */
} output_totals;

typedef struct output output;

int output_open(output **opened, error *e);
/* Waits for the jobs, then ends the thread. NULL is allowed. */
void output_close(output *o);

/* Calls `done` of the jobs that are finished, and waits until fewer than OUTPUT_ROOM are not. Returns how many are
 * not. */
int output_make_room(output *o);
/* Calls `done` of the jobs that are finished. */
void output_collect(output *o);
/* Queues a job; output_make_room must have made room. After a job that failed no other is written. */
void output_push(output *o, output_job *job);
/* Waits until all jobs are finished. Fails as the first job that failed did, now and every later time. */
int output_drain(output *o, error *e);

/* Has a job failed? */
bool output_failed(output *o);
output_totals output_sum(output *o);

#endif
