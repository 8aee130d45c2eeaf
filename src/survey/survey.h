/* A group of ranks of a survey, with one engine, and the shots that it has under way: for run_survey.c, which makes groups
 * and has the whole done, and survey_shots.c, which does shot after shot (shot_queue.h). Where one rank does a shot,
 * several can be under way: some step, each in a thread of its own, while others begin or are written. Those of a 2D
 * survey step together, as a stack (shot_stack). */
#ifndef STENCIL_SURVEY_H
#define STENCIL_SURVEY_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include "announce.h"
#include "gradient.h"
#include "run/run.h"
#include "restart.h"
#include "shot_queue.h"

enum { SURVEY_FEW = 16 }; /* shots of a small stack */
enum slot_state { SURVEY_FREE, SURVEY_BEGINNING, SURVEY_STEPPING, SURVEY_WRITING };

/* A shot under way. */
typedef struct survey_shot {
  message message; /* what the order came in */
  shot_order order;
  shot_of_survey of;
  restart from;
  double begin; /* MPI_Wtime() */
  shot_report report;
  run_log silent; /* its warnings come into the report */
  error ready;    /* survey_make_ready */
  shot row;       /* of a stack: what it is there, */
  int place;      /* and where; -1: it could not begin */
} survey_shot;

/* What steps: a shot, or a stack of them. */
typedef struct survey_slot {
  struct survey_group *v;
  device *dev; /* of its own, owned; NULL: the engine's */
  shot shot;   /* of a stack: the lead */
  gradient back;
  enum slot_state state;
  survey_shot *shots; /* group.stack of them, owned */
  int count;          /* under way */
  shot **rows;        /* those of a stack that have begun; room for all, owned */
  shot_of_survey of;  /* of a stack, as is the next one */
  error stacked;      /* what ended it */
  atomic_int next;    /* of its shots that survey_share does something to: */
  int (*each)(struct survey_slot *t, survey_shot *one, error *e);
  run_log silent;
  pthread_t thread;    /* that does all but the steps, where the group is threaded */
  pthread_t stepper;   /* that does the steps there */
  sem_t stepped;       /* the steps are done, and their thread has ended */
  _Atomic bool worked; /* what the slot's state says is done */
  _Atomic bool ending; /* the last of the steps are under way */
} survey_slot;

typedef struct survey_group {
  const job *job;
  survey_lines lines;
  files group, first; /* first: rank 0's */
  MPI_Comm active;    /* the ranks of all groups; MPI_COMM_NULL: this rank belongs to none */
  files_parts parts;
  char path[CONFIG_TEXT]; /* [output] path */
  run_log silent, *log;   /* log: rank 0's, else the silent one */
  engine engine;
  shot_queue *queue;
  survey_slot *slots; /* owned */
  int slot_count, at_once, stepping;
  int stack;                  /* shots that step together; 1: none */
  int most;                   /* shots that a group does, if all do as many */
  int taken;                  /* that it has taken */
  bool threaded;              /* threads begin shots, step and write them */
  sem_t news;                 /* such a thread has something to tell */
  pthread_mutex_t restarting; /* survey_begin_shot */
  config quiet; /* of a shot without sources and receivers; what it points to is the first shot's */
  bool over;    /* no shot is left */
  int busy;     /* shots that step or go back */
  double since; /* clock: when the first of these began */
  pthread_mutex_t counting; /* guards these two */
  announce_shots done;
} survey_group;

/* Does shots that the queue gives until none is left. Collective over the group. An error is one that ends the job; what
 * fails a shot the queue is told. */
int survey_shots(survey_group *v, error *e);

#endif
