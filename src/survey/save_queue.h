/* The saves of a batch: jobs of the writer (writer.h) that save copies (snapshot.h) while steps go on. A job that
 * cannot be queued is done at once, from the device. */
#ifndef STENCIL_SAVE_QUEUE_H
#define STENCIL_SAVE_QUEUE_H

#include <mpi.h>
#include "base/writer.h"
#include "propagator/snapshot.h"

typedef struct batch batch;

typedef struct save_queue {
  bool last;                 /* no steps follow the next save, so a copy would be useless */
  double io_seconds;         /* for which saving has kept the steps waiting since the loop began */
  double checkpoint_seconds; /* of the last checkpoint */

  bool open;
  MPI_Comm jobs;  /* the jobs' own communicator, of the computing ranks */
  writer *writer; /* NULL: every job is done at once */
  snapshot copies[WRITER_ROOM];
  int latest;            /* number of the copy that the latest job saves */
  size_t most;           /* floats of the largest copy that will be needed */
  bool logged;           /* the log has said that jobs were done at once */
  double waited_seconds; /* in which the steps waited for room in the writer's queue */
  writer_totals totals;  /* of jobs done without the writer; once the writer has ended, also of its jobs */
} save_queue;

/* Empties the queue for the next shots. Not collective. */
void save_queue_plan(save_queue *q);
/* Opens what serves one batch after another. Starts the writer if there are shots and two threads may use MPI.
 * Collective, agreed. */
int save_queue_open(batch *b, error *e);
/* Takes memory for copies of `floats` floats now, if there is enough. Later the steps would wait, since pinning 1 GiB
 * takes 0.3 s. */
void save_queue_prepare(batch *b, size_t floats);
/* Waits for the writer, and ends it. */
void save_queue_stop(save_queue *q);
void save_queue_close(save_queue *q);

/* Gives the next job a snapshot with room for `floats` floats, to be filled with the state after the steps enqueued so
 * far. STREAM_OUTPUT waits for these steps. *copy NULL: do the job at once. Waits for the writer. Fails if an earlier
 * job has failed. Collective, agreed. */
int save_queue_begin(batch *b, size_t floats, snapshot **copy, error *e);
/* Queues the job, or does it at once; `copy` is save_queue_begin's. The job's `done` frees it in any case. Collective,
 * agreed. */
int save_queue_submit(batch *b, const snapshot *copy, writer_job *job, error *e);
/* Waits until all is saved, and returns the error of a job that failed. Collective, agreed. */
int save_queue_finish(batch *b, error *e);

/* For a job: waits until its copy, which may be NULL, is complete. Collective over the ranks' jobs; agreed. */
int save_queue_wait(batch *b, const snapshot *copy, error *e);

/* Seconds by which stopping may take longer than writing one checkpoint: the writer's earlier jobs. */
double save_queue_backlog(const batch *b);

#endif
