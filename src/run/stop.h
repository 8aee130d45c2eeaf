/* When a run must stop early, or write a checkpoint by the clock: signals and wall time, on which all ranks agree, so
 * that none is a step ahead of the others. */
#ifndef STENCIL_STOP_H
#define STENCIL_STOP_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

enum stop_reason { STOP_NOT, STOP_SIGNAL, STOP_WALL_TIME, STOP_TROUBLE };

/* Ranks put what they know into a reduction that runs while they compute, and take its result a few steps later, all
 * at the same step: nobody waits for anybody, and all know the same. */
typedef struct stop_watch {
  MPI_Comm comm;           /* not owned */
  double limit;            /* s since stop_begin; INFINITY: none */
  double checkpoint_every; /* s; 0: never */
  double checkpointed;     /* s since stop_begin: when a checkpoint was last asked for */
  double reserve;          /* s that writing a checkpoint may take */
  double mine[3],
      all[3]; /* number of the signal or 0; s since stop_begin; trouble. The greatest of all ranks counts */
  int (*heard)(void *context); /* NULL, or: the number of a signal that came to somebody else, or 0 */
  void *context;               /* of `heard` */
  bool trouble; /* set it where this rank knows of a reason to end: all ranks will soon hear STOP_TROUBLE */
  MPI_Request request;
  bool asked;
  int64_t ask_at, take_at; /* steps */
  int lag;                 /* steps between the two */
  int64_t known_step;      /* when `known` was the time */
  double known;
  int signal; /* that stopped the run; 0: none did */
} stop_watch;

/* From now on SIGTERM, SIGINT and SIGUSR1 are remembered instead of ending the program; a second one, a quarter of a
 * second later or more, ends it at once. Begins the clock. Call once, before MPI_Init and its threads. */
void stop_begin(void);
/* From now on the first signal that this process gets is answered at once with a line on `descriptor`, which says what
 * will happen; so is one that has come already. The main thread's, like all of these. */
void stop_answer(int descriptor);
/* Whether a signal has been answered; from now on none will be. For a signal that another rank has got. */
bool stop_answered(void);
/* Name of a signal that is remembered, as "SIGTERM". */
const char *stop_signal_name(int number);
/* The signal that was remembered, or 0. */
int stop_signal(void);
/* Seconds since stop_begin. */
double stop_clock(void);
/* Puts back what signals did before. */
void stop_end(void);

/* max_seconds: wall time the program may take, 0: no limit; where SLURM_JOB_END_TIME is set, that counts too.
 * checkpoint_every: s, 0: never. reserve: s that writing a checkpoint may take. All of them the same on every rank but
 * for the environment, of which the earliest end counts. Collective. */
int stop_open(stop_watch *w, MPI_Comm comm, double max_seconds, double checkpoint_every, double reserve,
              int64_t step, error *e);

/* Call after every pass, on all ranks with the same steps. *reason and *checkpoint (write one now) are the same on
 * every rank. */
int stop_poll(stop_watch *w, int64_t step, enum stop_reason *reason, bool *checkpoint, error *e);

/* A checkpoint took so long, s, on this rank. Collective. */
int stop_checkpointed(stop_watch *w, double seconds, error *e);

/* Takes a reduction that is still under way. Collective: call it where a run ends without stopping, which a signal does
 * not change any more. */
int stop_close(stop_watch *w, error *e);

#endif
