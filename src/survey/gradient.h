/* The gradients of a batch: what [gradient] asks for, from the budget of memory to PATH.gradient.h5 of each shot. */
#ifndef STENCIL_GRADIENT_H
#define STENCIL_GRADIENT_H

#include "batch.h"
#include "shot/misfit.h"

typedef struct gradient {
  batch *b;    /* not owned */
  bool tests;  /* --verify-gradient: allows observed traces of another shot, with a warning, */
  bool warned; /* which has been given */
  bool dry;    /* --dry-run: observed traces are only checked */
  const misfit_caller *caller; /* of the job; NULL: there are datasets */
  int parts;                   /* of the memory, one of which it takes; 0: all */
  plan plan;
  misfit *misfits; /* of each shot, `most` of them; owned */
  new_file *made;  /* their files, once created; owned */
  int most;
  scratch file;    /* of the plan's states; owned */
  adjoint adjoint; /* its memory serves one batch after another */
} gradient;

/* Plans how a planned batch goes back, within g->parts; GRADIENT_MEMORY where the budgets do not allow it. Does nothing
 * where there is no gradient. Zero-initialise it before the first batch. Collective, same error everywhere, as are the
 * functions below. gradient_close it, also after a failure. */
int gradient_plan(gradient *g, batch *b, error *e);
/* Logs the plan. Not collective. */
void gradient_announce(const gradient *g, run_log *log);
/* Into how many parts at most `most` the memory for a batch like this can be divided, so that while one goes back, or
 * is written, another one can begin, and hardly more steps are done again. 1 where there is no gradient. */
int gradient_memory_parts(const batch *b, int most, int *parts, error *e);
/* Reads what the traces of shot i are compared with. Exit 2 where these are another shot's (misfit.h). */
int gradient_check(gradient *g, int i, error *e);
/* Creates the file that gradient_write writes, and removes it unless that has; another thread may do so while the batch
 * steps. The first does nothing but on rank 0. Not collective. */
int gradient_make_file(gradient *g, int i, error *e);
void gradient_drop_file(gradient *g, int i);
/* Takes what memory is missing, and lets the steps of the open batch, which are still to come, be kept. */
int gradient_open(gradient *g, error *e);
/* After the forward steps, in this order: the misfit and residual of shot i; the adjoint steps of all shots; the chain
 * rule from the steps' media to the user's; the file. verified: the text of verify.h, or NULL. Threads may call these
 * for different shots at once, except gradient_back. */
int gradient_residual(gradient *g, int i, error *e);
int gradient_back(gradient *g, error *e);
int gradient_chain(gradient *g, int i, error *e);
int gradient_write(gradient *g, int i, const char *verified, error *e);
void gradient_close(gradient *g);

/* Sets c->dt to that of the observed traces, where it is auto and they say it. Collective over files->compute, same error
 * everywhere. */
int gradient_time(config *c, const files *files, run_log *log, error *e);

#endif
