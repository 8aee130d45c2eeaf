/* The saves of a batch: jobs of the writer (writer.h) that save copies (snapshot.h) while steps go on. A job that
 * cannot be queued is done at once, from the device. */
#ifndef STENCIL_SAVE_QUEUE_H
#define STENCIL_SAVE_QUEUE_H

#include <mpi.h>
#include "base/writer.h"
#include "propagator/snapshot.h"

typedef struct batch batch;

typedef struct save_queue {
  bool last;                 /* no steps follow what is saved now, so a copy would be of no use */
  double io_seconds;         /* that saving has kept the steps waiting since the loop began */
  double checkpoint_seconds; /* that the last checkpoint took */

  bool open;
  MPI_Comm jobs;  /* the jobs' own communicator, of the computing ranks */
  writer *writer; /* NULL: every job is done at once */
  snapshot copies[WRITER_ROOM];
  int latest;            /* the copy that the job pushed last saves */
  size_t most;           /* floats of the largest copy that will be needed: taken at once */
  bool logged;           /* the log has said that jobs were done at once */
  double waited_seconds; /* for the writer to have room */
  writer_totals totals;  /* jobs done without the writer, and, once it has ended, by it */
} save_queue;

/* Empties it for the next shots. Not collective. */
void save_queue_plan(save_queue *q);
/* Takes what one batch after another uses, and starts the writer where there are shots and MPI can be used by two
 * threads. Collective, agreed. */
int save_queue_open(batch *b, error *e);
/* Takes memory for the copies of jobs of so many floats now, where there is enough: pinning 1 GiB takes 0.3 s, which the
 * steps would wait for. */
void save_queue_prepare(batch *b, size_t floats);
/* Waits for the writer, and ends it. */
void save_queue_stop(save_queue *q);
void save_queue_close(save_queue *q);

/* The snapshot to fill, with room for so many floats, for the next job: with the state after the steps enqueued so far,
 * for which STREAM_OUTPUT waits. NULL: do it at once. Waits for the writer.
 * Fails if an earlier job has failed. Collective, agreed. */
int save_queue_begin(batch *b, size_t floats, snapshot **copy, error *e);
/* Does the job: `copy` is save_queue_begin's. Collective; agreed. The job is freed by its `done` in any case. */
int save_queue_submit(batch *b, const snapshot *copy, writer_job *job, error *e);
/* Waits until all is saved, and takes over the error of a job that failed. Collective, agreed. */
int save_queue_finish(batch *b, error *e);

/* For a job: makes the writer's thread ready to use files and waits until its copy, which may be NULL, is complete.
 * Collective over the ranks' jobs; agreed. */
int save_queue_wait(batch *b, const snapshot *copy, error *e);

/* Seconds by which stopping may take longer than writing one checkpoint: the writer's earlier jobs. */
double save_queue_backlog(const batch *b);

#endif
