/* The writer: a thread that does output jobs one after another while steps go on. It does not know what jobs do. Where
 * ranks do jobs together, each pushes the same jobs in the same order. All functions are for the thread that opened
 * it. */
#ifndef STENCIL_WRITER_H
#define STENCIL_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include "error.h"

enum { WRITER_ROOM = 2 /* jobs that may be unfinished */ };

/* The beginning of a struct that holds all the job needs. */
typedef struct writer_job writer_job;
struct writer_job {
  /* Called on the writer's thread. */
  int (*write)(writer_job *job, error *e);
  /* Called on the thread that pushed the job, in order: logs and frees. `written` false: `write` failed or was left
   * out. */
  void (*done)(writer_job *job, bool written);
  uint64_t bytes; /* bytes that the job writes */
  double seconds; /* s that `write` took */
};

typedef struct writer_totals {
  double seconds; /* s that the writer has spent in jobs */
  uint64_t bytes; /* bytes of jobs that were written */
  double longest; /* s that a job has taken */
} writer_totals;

typedef struct writer writer;

int writer_open(writer **opened, error *e);
/* Waits for the jobs, then ends the thread. NULL is allowed. */
void writer_close(writer *w);

/* Calls `done` of finished jobs, and waits until fewer than WRITER_ROOM jobs are unfinished. Returns how many are
 * unfinished. */
int writer_await_place(writer *w);
/* Calls `done` of finished jobs. */
void writer_collect(writer *w);
/* Queues a job; call writer_await_place first. After a failed job no other is written. */
void writer_push(writer *w, writer_job *job);
/* Waits until all jobs are finished. Returns the error of the first job that failed, at this call and every later
 * one. */
int writer_drain(writer *w, error *e);

/* Has a job failed? */
bool writer_failed(writer *w);
writer_totals writer_sum(writer *w);

#endif
