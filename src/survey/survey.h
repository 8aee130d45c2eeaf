/* The driver, for one or n shots. Ranks form groups; a group has one engine and does shot after shot, several at once
 * where there is memory for it. Shots come from the queue of a survey (shot_queue.h); without [survey] shots there is one
 * group of all ranks and one shot, which has no name. */
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

/* The [survey] shots. Both are NULL but on rank 0 of a survey. */
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
  const char *restart; /* FILE or "auto", where a single shot goes on; NULL: it begins */
  bool profile;        /* phases are measured */
  bool samples;        /* it only measures the time of steps; the log has said what runs */
  bool verifies;       /* the checkpoint is read as a whole, to see whether it is intact */
  survey_lines lines;
  const misfit_caller *misfit; /* of a caller; NULL: there are datasets */
  bool first_ends;             /* as in shot_queue_setup */
} survey_job;

enum { SURVEY_FEW = 16 }; /* shots of a small batch */
enum slot_state { SURVEY_FREE, SURVEY_BEGINNING, SURVEY_STEPPING, SURVEY_WRITING };

/* A shot under way. */
typedef struct survey_shot {
  message message; /* owns the data of the order */
  shot_order order;
  restart restart;
  double begin; /* MPI_Wtime() */
  shot_report report;
  run_log silent; /* its warnings come into the report */
  error ready;    /* survey_make_ready */
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
  survey_shot **begun; /* the shots that began, in the batch's order; room for all, owned */
  error failed;        /* what ended the batch */
  run_log silent;
  pthread_t thread;      /* begins and writes the shots, where the group is threaded */
  pthread_t step_thread; /* does the steps there */
  sem_t stepped;         /* the steps are done, and their thread has ended */
  _Atomic bool done;     /* the work of this state: it has begun, stepped, or been written */
  _Atomic bool ending;   /* the last of the steps are under way */
} survey_slot;

typedef struct survey {
  survey_job job;
  bool several;       /* there is [survey] shots */
  files group;        /* of several shots; owned, as is the next one */
  files first;        /* of rank 0 alone; its `access` is NULL elsewhere */
  const files *files; /* of the group */
  MPI_Comm active;    /* the ranks of all groups; MPI_COMM_NULL: this rank belongs to none */
  files_parts parts;
  char path[CONFIG_TEXT]; /* [output] path, of several */
  run_log silent, *log;   /* log: rank 0's, else the silent one */
  engine engine;
  shot_queue *queue;  /* of several, once it is open */
  survey_shot one;    /* the first shot, planned */
  survey_slot *slots; /* owned */
  int slot_count, at_once, stepping;
  int together;               /* shots that step together, at most; 1: each alone */
  int most;                   /* shots that a group does, if all do as many */
  int taken;                  /* that it has taken */
  bool threaded;              /* threads begin shots, step and write them */
  bool warm;                  /* a batch has begun: the engine has chosen its kernels */
  sem_t news;                 /* posted when a thread has changed a slot's state */
  pthread_mutex_t restarting; /* survey_begin */
  bool over;                  /* no shot is left */
  error result;               /* of a single shot */
  int busy;                   /* batches that step or go back */
  double since;               /* clock: when the first of these began */
  pthread_mutex_t counting;   /* guards busy, since and done.stepping */
  announce_shots done;
} survey;

/* Forms groups, plans the engine, and the first shot on it: all that needs no memory of the device. In a survey, an
 * error of the first shot is not returned here: the shot fails when it is taken. Collective over files->compute, same
 * error everywhere, as are the functions below. survey_close it, also after a failure. */
int survey_plan(survey *v, const survey_job *job, error *e);
/* Does this rank belong to a group? Only those that do call the functions below. */
bool survey_active(const survey *v);
/* Takes the memory of the engine and of as many batches as fit, and logs the run. */
int survey_open(survey *v, error *e);
/* The first slot with the first shot, for tests and measurements in place of survey_run. */
int survey_batch(survey *v, survey_slot **slot, error *e);
/* Plans and opens, then does the shots that are not done, and reports the totals. */
int survey_run(survey *v, error *e);
/* After survey_run of several shots: does those that job.lines has now, as many as before, on media that have other values
 * but are no model (physics/model.h). Any thread may call it. */
int survey_again(survey *v, error *e);
void survey_close(survey *v);
/* Batches that share the memory of a rank: 2 if one can be written, or go back, while another steps; else 1. */
int survey_memory_parts(const survey *v);

/* --- survey_slots.c --- */

/* Does shots until none is left. Collective over the group. An error is one that ends the job; what fails a shot the
 * queue receives, or v->result. */
int survey_shots(survey *v, error *e);
/* Plans the shot of t->order, which goes on from t->restart, if that is open, and logs to `log`. CHECKPOINT_DIFFERS. */
int survey_plan_shot(const survey *v, survey_shot *t, run_log *log, error *e);
/* Makes `n` planned shots the slot's batch. */
int survey_join(survey_slot *t, survey_shot *const *shots, int n, error *e);

#endif
