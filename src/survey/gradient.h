/* The gradient of a shot: what [gradient] asks for, from the budget of memory to PATH.gradient.h5. */
#ifndef STENCIL_GRADIENT_H
#define STENCIL_GRADIENT_H

#include "propagator/adjoint.h"
#include "shot/misfit.h"

typedef struct gradient {
  shot *shot;  /* not owned; of a stack the lead */
  bool tests;  /* --verify-gradient: allows observed traces of another shot, with a warning, */
  bool warned; /* which has been given */
  bool dry;    /* --dry-run: observed traces are only checked */
  int shares;  /* of the memory, one of which it takes; 0: all */
  plan plan;
  misfit *misfits; /* of the shot, or of each one of a stack; owned; as many as `most` */
  new_file *made;  /* their files, as far as they have been created; owned */
  int most;
  adjoint way; /* its memory serves one shot of the struct `shot` after another */
} gradient;

/* Plans how a planned shot, or the lead of a stack, goes back, within g->shares; GRADIENT_MEMORY where the budgets do not allow it.
 * Does nothing where there is no gradient. Zero-initialise it before the first shot. Collective, same error everywhere, as are the
 * functions below. gradient_close it, also after a failure. */
int gradient_plan(gradient *g, shot *s, error *e);
/* Logs the plan. Not collective. */
void gradient_announce(const gradient *g);
/* Into how many shares at most `most` the memory for a shot like this can be divided, so that while one goes back, or is written,
 * another one can begin, and hardly more steps are done again. 1 where there is no gradient. */
int gradient_share(const shot *s, int most, int *shares, error *e);
/* Reads what the traces of a planned shot are compared with. `row`: the shot's in a stack, now or later; else 0. Exit 2
 * where these are another shot's (misfit.h). */
int gradient_check(gradient *g, int row, const shot *s, error *e);
/* Creates the file that gradient_write writes, and removes it unless that has; another thread may do so while the shot, or the stack
 * that it is in, steps. The first does nothing where more than one process uses files. Not collective. */
int gradient_make_file(gradient *g, int row, error *e);
void gradient_drop_file(gradient *g, int row);
/* Takes what memory is missing, and lets the steps of the open shot, which are still to come, be kept. */
int gradient_open(gradient *g, error *e);
/* Goes back, after shot_finish_traces, and writes PATH.gradient.h5. */
int gradient_finish(gradient *g, error *e);
/* Its parts: the misfit of a row after its shot_finish_traces, and its residual; the way back of all; the file of a
 * row, with what tests have found (verify.h), or NULL. Threads may call the first and the last, and gradient_check, for
 * different rows at once. */
int gradient_residual(gradient *g, int row, error *e);
int gradient_back(gradient *g, error *e);
int gradient_write(gradient *g, int row, const char *verified, error *e);
void gradient_close(gradient *g);

/* Sets c->dt to that of the observed traces, where it is auto and they say it. Collective over files->compute, same error
 * everywhere. */
int gradient_time(config *c, const files *files, run_log *log, error *e);

#endif
