/* The driver, for one or n shots. Ranks form groups; a group has one engine and does shot after shot, several at once
 * if memory allows. Shots come from the queue of a survey (shot_queue.h). Without [survey] shots there is one group of
 * all ranks, and one shot without a name. */
#ifndef STENCIL_SURVEY_H
#define STENCIL_SURVEY_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include "announce.h"
#include "config/shots.h"
#include "gradient.h"
#include "restart.h"
#include "shot_queue.h"

/* The lines of [survey] shots. Both are NULL except on rank 0 of a survey. */
typedef struct survey_lines {
  const config_given *given;
  const shot_lines *lines;
} survey_lines;

/* The job. It owns nothing. */
typedef struct survey_job {
  const config *config; /* of the first shot */
  const char *command;  /* the command line, for the saved files */
  run_log *log;
  const files *files;
  const char *restart; /* FILE or "auto": a single shot goes on from it; NULL: the shot begins at step 0 */
  bool profile;        /* phases are measured */
  bool samples;        /* the job only measures the time of steps, after the log has named the run */
  bool verifies;       /* the whole checkpoint is read, to check that it is intact */
  survey_lines lines;
  const misfit_caller *misfit; /* of a caller; NULL: there are datasets */
  bool first_ends;             /* as in shot_queue_setup */
} survey_job;

enum { SURVEY_FEW = 16 }; /* shots of a small batch, such as a group's last one */
enum slot_state { SURVEY_FREE, SURVEY_BEGINNING, SURVEY_STEPPING, SURVEY_WRITING };

/* A shot under way. */
typedef struct survey_shot {
  message message; /* owns the data of the order */
  shot_order order;
  restart restart;
  double begin; /* MPI_Wtime() */
  shot_report report;
  run_log silent; /* a log without output, whose warnings go into the report */
  error ready;    /* the error of survey_make_ready */
  shot shot;
  bool planned;
} survey_shot;

/* A batch, with its gradient and its threads. Shots of a survey have threads of their own: one shot is begun or written
 * while another steps, and waits of one shot's steps do not delay those of others. */
typedef struct survey_slot {
  struct survey *v;
  device *dev; /* the slot's device, owned; NULL: the engine's */
  batch batch;
  gradient gradient;
  enum slot_state state;
  survey_shot *shots;  /* survey.together of them, owned */
  int count;           /* under way */
  survey_shot **begun; /* shots that have begun, in the batch's order; owned */
  error failed;        /* what ended the batch */
  run_log silent;
  pthread_t thread;      /* begins and writes the shots, if the group is threaded */
  pthread_t step_thread; /* does the steps, if the group is threaded */
  sem_t stepped;         /* posted when the steps are done and their thread has ended */
  _Atomic bool done;     /* the work of this state is done: beginning, stepping or writing */
  _Atomic bool ending;   /* the last eighth of the steps is under way */
} survey_slot;

typedef struct survey {
  survey_job job;
  bool several;       /* the configuration has [survey] shots */
  files group;        /* the group's, of several shots; owned, as is `first` */
  files first;        /* files of rank 0 alone; `access` is NULL on other ranks */
  const files *files; /* of the group */
  MPI_Comm active;    /* the ranks of all groups; MPI_COMM_NULL: this rank belongs to none */
  files_parts parts;
  char path[CONFIG_TEXT]; /* [output] path of several shots */
  run_log silent, *log;   /* log: rank 0's, else the silent one */
  engine engine;
  shot_queue *queue;  /* the queue of several shots, once it is open */
  survey_shot one;    /* the first shot, planned */
  survey_slot *slots; /* owned */
  int slot_count, at_once, stepping;
  int together;               /* the most shots that step together in a batch; 1: each alone */
  int most;                   /* shots of a group, if all groups do equally many */
  int taken;                  /* shots that the group has taken */
  bool threaded;              /* threads begin, step and write shots */
  bool warm;                  /* a batch has begun, so the engine has chosen its kernels */
  sem_t news;                 /* posted when a thread has set `done` or `ending` of a slot */
  pthread_mutex_t restarting; /* held by survey_begin where only one shot may begin */
  bool over;                  /* no shot is left */
  error result;               /* of a single shot */
  int busy;                   /* number of batches that step or go back */
  double since;               /* clock when the first of these batches began */
  pthread_mutex_t counting;   /* guards busy, since and done.stepping */
  announce_shots done;
} survey;

/* Forms groups, and plans the engine and the first shot, without device memory. In a survey an error of the first shot
 * is not returned here, since the shot fails when it is taken. Collective over files->compute, same error everywhere,
 * as are the functions below. Call survey_close also after a failure. */
int survey_plan(survey *v, const survey_job *job, error *e);
/* Does this rank belong to a group? Only such ranks call the functions below. */
bool survey_active(const survey *v);
/* Takes the memory of the engine and of as many batches as fit, and logs the run. */
int survey_open(survey *v, error *e);
/* Prepares the first slot with the first shot, for tests and measurements in place of survey_run. */
int survey_batch(survey *v, survey_slot **slot, error *e);
/* Plans and opens, then does the shots that are not done, and reports the totals. */
int survey_run(survey *v, error *e);
/* Call it after survey_run of several shots. It does the shots that job.lines has now, as many as before. The media may
 * have other values, but must be no model (physics/model.h). Any thread may call it. */
int survey_again(survey *v, error *e);
void survey_close(survey *v);
/* The number of batches that share the memory of a rank: 2 if one can step while another goes back or is written; else
 * 1. */
int survey_memory_parts(const survey *v);

/* --- survey_slots.c --- */

/* Does shots until none is left. Collective over the group. It returns errors that end the job; the error of a shot
 * goes to the queue, or to v->result. */
int survey_shots(survey *v, error *e);
/* Plans the shot of t->order, which goes on from t->restart if that is open. Logs to `log`. CHECKPOINT_DIFFERS for
 * another run's checkpoint. */
int survey_plan_shot(const survey *v, survey_shot *t, run_log *log, error *e);
/* Makes `n` planned shots into the slot's batch. */
int survey_join(survey_slot *t, survey_shot *const *shots, int n, error *e);

#endif
