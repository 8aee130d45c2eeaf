/* What is saved of a run, and when: jobs of the writer (writer.h) that save copies (snapshot.h) beside the steps. Where
 * that cannot be, a job is done at once, from the device. */
#ifndef STENCIL_SAVE_QUEUE_H
#define STENCIL_SAVE_QUEUE_H

#include <mpi.h>
#include "io/files.h"
#include "propagator/measure.h"
#include "propagator/snapshot.h"
#include "base/writer.h"

typedef struct shot shot;

/* The files that a run has completed. */
typedef struct written_files {
  int fields;
  int64_t first, last; /* steps of the fields */
  int64_t checkpoint;  /* step of the newest one; -1: none */
  bool receivers, maps, gradient, report;
} written_files;

/* The fields saved so far or given to the writer. */
typedef struct saved_series {
  int64_t *steps; /* owned; rank 0 only, as are the counts */
  int count;
  int whole;      /* the first ones, whose files are complete */
  double told;    /* stop_watch.known when a list was last given to the writer, s */
  bool behind;    /* its lists (series_write) do not name all of them; known on every rank, as is `told` */
  int64_t newest; /* step of the last one, likewise; -1: none */
} saved_series;

typedef struct save_queue {
  bool last;                   /* no steps follow what is saved now, so a copy would be of no use */
  char *config_text;           /* the effective config, owned */
  measure measure;             /* of fields on the device */
  field_statistics statistics; /* of the field when it was last measured there */
  int64_t checked_step; /* whose field is known to be finite, or the writer will know before it saves more */
  double io_seconds;    /* that saving has kept the steps waiting since the loop began */
  double checkpoint_seconds; /* that the last checkpoint took */
  checkpoint_mark self;      /* whose the checkpoints are that this run writes */
  saved_series series;
  written_files written;

  bool open;
  MPI_Comm jobs;  /* the jobs' own communicator, of the computing ranks */
  writer *writer; /* NULL: every job is done at once */
  snapshot copies[WRITER_ROOM];
  measure copy_measure;  /* of copies, by the writer's thread; open where fields are saved on the way */
  int latest;            /* the copy that the job pushed last saves */
  size_t most;           /* floats of the largest copy that will be needed: taken at once */
  bool told;             /* the log knows of jobs that had to be done at once */
  double waited_seconds; /* for the writer to have room */
  writer_totals at_once; /* jobs done without the writer */
} save_queue;

/* Empties it for the next shot, and prints that one's configuration. Not collective. */
int save_queue_plan(shot *s, error *e);
/* Adds to that what datasets of sources hold, in comments. Collective, agreed. */
int save_queue_describe(shot *s, error *e);
/* Takes what one shot after another uses. Collective, agreed. */
int save_queue_open(shot *s, error *e);
/* Starts the writer where MPI can be used by two threads. Collective, agreed. */
int save_queue_start(shot *s, error *e);
/* Takes memory for the copies of jobs of so many floats now, where there is enough: pinning 1 GiB takes 0.3 s, which the
 * steps would wait for. */
void save_queue_prepare(shot *s, size_t floats);
/* Waits for the writer, and ends it. */
void save_queue_stop(shot *s);
void save_queue_close(shot *s);

/* The snapshot to fill, with room for so many floats, for the next job: with the state after the steps enqueued so far,
 * for which STREAM_OUTPUT waits. NULL: do it at once. Waits for the writer.
 * Fails if an earlier job has failed. Collective, agreed. */
int save_queue_begin(shot *s, size_t floats, snapshot **copy, error *e);
/* Does the job: `copy` is save_queue_begin's. Collective; agreed. The job is freed by its `done` in any case. */
int save_queue_submit(shot *s, const snapshot *copy, writer_job *job, error *e);
/* Queues a job that saves nothing of the device; done at once where there is no writer or no steps follow. Waits until the
 * jobs before it are done. Likewise. */
int save_queue_push(shot *s, writer_job *job, error *e);
/* Waits until all is saved, and takes over the error of a job that failed. Collective, agreed. */
int save_queue_finish(shot *s, error *e);

/* For a job: makes the writer's thread ready to use files and waits until its copy, which may be NULL, is complete.
 * Collective over the ranks' jobs; agreed. */
int save_queue_wait(shot *s, const snapshot *copy, error *e);

/* What a file says of this run that is saved after a step. */
run_meta save_queue_run(const shot *s, int64_t step);

/* What stopping may take longer than writing one checkpoint, s: what the writer may have to do before. */
double save_queue_backlog(const shot *s);
writer_totals save_queue_totals(const shot *s);

#endif
