/* The shots of a survey, in order: groups of ranks take the next one and report how it ended. The first rank keeps the
 * list, and the table PATH/survey.csv; a thread of it answers the other groups, so that no group waits for another's
 * steps. */
#ifndef STENCIL_SHOT_QUEUE_H
#define STENCIL_SHOT_QUEUE_H

#include <mpi.h>
#include "base/log.h"
#include "config/shots.h"
#include "io/files.h"
#include "io/bytes/message.h"
#include "shot/warnings.h"

typedef struct shot_queue shot_queue;

/* The arguments of the queue. It owns nothing; all must outlive the queue. Only the first rank reads members other than
 * `comm`, `ranks` and `config`. */
typedef struct shot_queue_setup {
  MPI_Comm comm;        /* the ranks that compute */
  int ranks;            /* of a group */
  const config *config; /* of the first shot, with [survey] */
  const char *path;     /* of the survey: [output] path */
  const shot_lines *lines;
  const config_given *given;
  const files *whole, *first; /* all ranks' files, which pass signals on; those of the first rank alone */
  space_steps saved;          /* the steps whose fields a shot saves */
  run_log *log;
  bool first_ends; /* the first shot that fails ends the survey, with its error */
} shot_queue_setup;

/* The end of a shot, sent with a group's request for the next one. */
typedef struct shot_report {
  int number; /* from 1; 0: none */
  bool asks;  /* for the next one */
  double seconds;
  int stopped; /* number of a signal that ended it, or that came meanwhile; -1: the wall time runs out; 0: neither */
  error failed; /* id 0: it is done; STOPPED: it is still to be done */
  warnings warns;
} shot_report;

/* The answer to a group's request. */
typedef struct shot_order {
  int number;            /* 0: there is nothing left to do */
  enum shot_found there; /* on disk */
  bool fresh;            /* the folder held no files of shots when the survey began */
  char fingerprint[DIGEST_TEXT];
  const config *config; /* of a single run; in the message that the order came in */
} shot_order;

/* The answer to a signal, for stop_say. */
const char *shot_queue_says(enum on_stop_kind kind);

/* Finds out what is done, and writes the table. *left: shots that are not. Collective over setup->comm, agreed.
 * shot_queue_close it, also after a failure. */
int shot_queue_open(shot_queue **opened, const shot_queue_setup *setup, int *left, error *e);
/* Registers the warnings that the log has of the first shot already, so that they are not repeated. On the first rank. */
int shot_queue_warned(shot_queue *q, const warnings *of, error *e);
/* Starts the thread: the first shot begins. Collective, agreed. */
int shot_queue_start(shot_queue *q, error *e);
/* For the first rank of a group: reports a shot, and gets the next one. `m`: empty; it holds the order for
 * message_to_all. */
int shot_queue_take(shot_queue *q, const shot_report *done, message *m, error *e);
/* Reads what the message holds. */
void shot_queue_read(message *m, shot_order *order);
/* Number of the signal, or -1, for which shots under way are to end; 0: none. For stop_watch.heard of the first rank of a
 * group; `context`: the queue. */
int shot_queue_stopped(void *context);

/* The totals of the shots, on the first rank. */
typedef struct shot_totals {
  int shots, done, failed, before; /* all; done by now; ... by an earlier run */
  double seconds;                  /* from the first shot to the last file */
} shot_totals;
/* Waits until every group knows that no shot is left, writes the table a last time, and ends the thread. The result is
 * the same on all ranks: exit 75 where shots are left, else the greatest exit code of a shot. */
int shot_queue_finish(shot_queue *q, shot_totals *totals, error *e);
void shot_queue_close(shot_queue *q);

#endif
