/* Saving beside the steps: jobs of output (output.h) that save copies (snapshot.h) of a simulation's state. Where that
 * cannot be, a job is done at once, from the state itself. */
#ifndef STENCIL_SAVING_H
#define STENCIL_SAVING_H

#include <mpi.h>
#include "writer.h"
#include "snapshot.h"
#include "survey.h"

struct simulation;

/* Part of a simulation. */
typedef struct saving {
  bool open;
  MPI_Comm comm;  /* the jobs' own, of the computing ranks */
  output *writer; /* NULL: every job is done at once */
  snapshot copies[OUTPUT_ROOM];
  survey survey;         /* of copies, by the writer's thread; open where fields are saved on the way */
  int latest;            /* the one that the job pushed last saves */
  int local_ranks;       /* of this node */
  size_t most;           /* floats of the largest copy that will be needed: taken at once */
  bool told;             /* the log knows of jobs that had to be done at once */
  bool last;             /* no steps follow what is saved now: a copy would be of no use */
  double waited_seconds; /* for the writer to have room */
  output_totals at_once; /* jobs done without the writer */
} saving;

/* Starts the writer where MPI can be used by two threads. Collective, agreed. */
int saving_open(struct simulation *s, error *e);
/* Takes memory for the copies of a job of so many floats now, where there is enough: it takes time. */
void saving_prepare(struct simulation *s, size_t floats);
/* Waits for the writer. */
void saving_close(struct simulation *s);

/* The snapshot to fill, with room for so many floats, for the next job: with the state after the steps enqueued so far,
 * for which STREAM_OUTPUT waits. NULL: do it at once. Waits for the writer.
 * Fails if an earlier job has failed. Collective, agreed. */
int saving_begin(struct simulation *s, size_t floats, snapshot **copy, error *e);
/* Does the job: `copy` is saving_begin's. Collective; agreed. The job is freed by its `done` in any case. */
int saving_submit(struct simulation *s, const snapshot *copy, output_job *job, error *e);
/* Waits until all is saved, and takes over the error of a job that failed. Collective, agreed. */
int saving_finish(struct simulation *s, error *e);

/* For a job: makes the writer's thread ready to use files and waits until its copy, which may be NULL, is complete.
 * Collective over the ranks' jobs; agreed. */
int saving_wait(struct simulation *s, const snapshot *copy, error *e);

/* What stopping may take longer than writing one checkpoint, s: what the writer may have to do before. */
double saving_backlog(const struct simulation *s);
output_totals saving_totals(const struct simulation *s);

#endif
