/* Decides when a signal or the wall time stops a run early, and when a checkpoint is due by the clock. All ranks agree
 * on the step. */
#ifndef STENCIL_STOP_H
#define STENCIL_STOP_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "error.h"

enum stop_reason { STOP_NOT, STOP_SIGNAL, STOP_WALL_TIME, STOP_TROUBLE };

/* Ranks begin a reduction of their signals and times, and read its result a few steps later, all at the same step. So
 * all know the same, and none waits for another. */
typedef struct stop_watch {
  MPI_Comm comm;           /* not owned */
  double limit;            /* s since stop_begin; INFINITY: none */
  double checkpoint_every; /* s; 0: never */
  double checkpointed;     /* s since stop_begin: when a checkpoint was last requested */
  double reserve;          /* s that writing a checkpoint may take */
  /* Number of the signal or 0; s since stop_begin; trouble. `all`: the greatest values of all ranks. */
  double mine[3], all[3];
  /* Returns the number of a signal that came to another process, or 0 for none. May be NULL. */
  int (*heard)(void *context);
  void *context;
  bool deaf;    /* as in stop_times */
  bool trouble; /* set it where this rank has a reason to end: all ranks soon get STOP_TROUBLE */
  MPI_Request request;
  bool reducing;
  int64_t reduce_at, take_at; /* when to begin a reduction, and when to take its result, in steps */
  int lag;                    /* steps from a reduction to its result */
  int64_t known_step;         /* the step at time `known` */
  double known;
  int signal; /* the signal that stopped the run; 0: none */
} stop_watch;

/* From now on SIGTERM, SIGINT and SIGUSR1 are remembered instead of ending the program. A second signal, a quarter of a
 * second later or more, ends the program at once. Also starts the clock. Call it once, before MPI_Init and its
 * threads. */
void stop_begin(void);
/* From now on a line on `descriptor` answers the first signal at once, also one that has already come. The line says
 * what will happen. Call all functions of this header in the main thread. */
void stop_answer(int descriptor);
/* Has a signal been answered? From now on no signal will be: another rank received it, or the run has ended. */
bool stop_answered(void);
/* The name of a signal, such as "SIGTERM"; "a signal" for those that are not remembered. Static. */
const char *stop_signal_name(int number);
/* The signal that was remembered, or 0. */
int stop_signal(void);
/* Replaces the answer to a signal by `text`, which must be static. */
void stop_say(const char *text);
/* When the run ends by `most` or SLURM_JOB_END_TIME, s since stop_begin; INFINITY: never. A SLURM_JOB_END_TIME before
 * stop_begin is that of another job, or was prolonged: it does not count. */
double stop_ends(double most);
/* Had SLURM_JOB_END_TIME passed at stop_begin? */
bool stop_stale(void);
/* "the wall time runs out" and by which limit: `most` or SLURM_JOB_END_TIME. Static. */
const char *stop_wall_time(double most);
/* Seconds since stop_begin. */
double stop_clock(void);
/* From now on the first signal, also one that has already come, ends the program: nothing is saved (a benchmark, a dry
 * run). The program says so in one line on `descriptor`; -1: it is silent. */
void stop_at_once(int descriptor);

/* Times in seconds, the same on every rank. */
typedef struct stop_times {
  double most;             /* wall time that the program may take; 0: no limit */
  double checkpoint_every; /* 0: never */
  double reserve;          /* that writing a checkpoint may take */
  bool deaf;               /* neither a signal nor the wall time ends the run */
} stop_times;

/* Begins to watch, after `step` steps. The run ends by times.most or by SLURM_JOB_END_TIME, whichever is earlier on any
 * rank. `comm` must outlive `w`. Collective; an error of MPI is not agreed. */
int stop_open(stop_watch *w, MPI_Comm comm, stop_times times, int64_t step, error *e);

/* Call it after every pass, on all ranks at the same steps. *reason: why the run must end now, or STOP_NOT;
 * *checkpoint: write one now. Both are the same on every rank. */
int stop_poll(stop_watch *w, int64_t step, enum stop_reason *reason, bool *checkpoint, error *e);

/* Says how many seconds a checkpoint took on this rank; the slowest rank counts. Collective. */
int stop_checkpointed(stop_watch *w, double seconds, error *e);

/* Completes a reduction that is under way. Call it where all steps are done: a signal no longer stops the run.
 * Collective. */
int stop_close(stop_watch *w, error *e);

#endif
