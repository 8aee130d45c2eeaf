/* The queue of a survey's shots: a group of ranks takes the next shot and reports its end. The first rank keeps the
 * list and the table PATH/survey.csv. A thread of this rank answers the other groups, so that no group waits for
 * another's steps. */
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
  const files *whole, *first; /* all ranks' files, which pass signals on; the files of the first rank alone */
  space_steps saved;          /* the steps whose fields a shot saves */
  run_log *log;
  bool first_ends; /* the first shot that fails ends the survey, with its error */
} shot_queue_setup;

/* How a shot ended, sent with a group's request for the next shot. */
typedef struct shot_report {
  int number; /* from 1; 0: none */
  bool asks;  /* the group asks for the next shot */
  double seconds;
  int stopped; /* number of a signal that ended the shot or came meanwhile; -1: the wall time runs out; 0: neither */
  error failed; /* id 0: the shot is done; STOPPED: it is still to be done */
  warnings warns;
} shot_report;

/* The answer to a group's request. */
typedef struct shot_order {
  int number;            /* 0: there is nothing left to do */
  enum shot_found there; /* the files of the shot on disk */
  bool fresh;            /* the folder PATH was missing when the survey began, so it holds no old files */
  char fingerprint[DIGEST_TEXT];
  const config *config; /* of a single run; in the memory of the order's message */
} shot_order;

/* Says what a signal does to the survey, for stop_say. */
const char *shot_queue_says(enum on_stop_kind kind);

/* Finds the shots that are done, and writes the table. *left: the number of other shots. Collective over setup->comm,
 * agreed. Call shot_queue_close also after a failure. */
int shot_queue_open(shot_queue **opened, const shot_queue_setup *setup, int *left, error *e);
/* Registers the first shot's warnings, which the log already has, so that they are not repeated. For the first rank. */
int shot_queue_warned(shot_queue *q, const warnings *of, error *e);
/* Starts the thread, so that shots can be taken. Collective, agreed. */
int shot_queue_start(shot_queue *q, error *e);
/* For the first rank of a group: reports a shot, and gets the order of the next one in `m`, an empty message, for
 * message_to_all. */
int shot_queue_take(shot_queue *q, const shot_report *done, message *m, error *e);
/* Reads the order from the message. */
void shot_queue_read(message *m, shot_order *order);
/* Returns the number of the signal, or -1 (wall time), for which shots under way must end; 0: none. It is
 * stop_watch.heard of the first rank of a group; `context`: the queue. */
int shot_queue_stopped(void *context);

/* The totals of the shots, on the first rank. */
typedef struct shot_totals {
  int shots, done, failed, before; /* all shots; done by now; failed; done by an earlier run */
  double seconds;                  /* from the first shot to the last file */
} shot_totals;
/* Waits until every group knows that no shot is left, writes the table a last time, and ends the thread. The result is
 * the same on all ranks: exit 75 where shots are left, else the greatest exit code of a shot. */
int shot_queue_finish(shot_queue *q, shot_totals *totals, error *e);
void shot_queue_close(shot_queue *q);

#endif
