/* The gradients of a batch, as [gradient] asks: from the budget of memory to the file PATH.gradient.h5 of each shot. */
#ifndef STENCIL_GRADIENT_H
#define STENCIL_GRADIENT_H

#include "batch.h"
#include "shot/misfit.h"

typedef struct gradient {
  batch *b;                    /* not owned */
  bool tests;                  /* --verify-gradient: allows observed traces of another shot, with a warning */
  bool warned;                 /* that warning has been given */
  bool dry;                    /* --dry-run: observed traces are only checked */
  const misfit_caller *caller; /* of the job; NULL: there are datasets */
  int parts; /* the memory is divided into so many parts, and one is taken; 0: all is taken */
  plan plan;
  misfit *misfits; /* one for each shot, room for `most`; owned */
  new_file *made;  /* the shots' files, once created; owned */
  int most;
  scratch file;    /* of the plan's states; owned */
  adjoint adjoint; /* its memory serves one batch after another */
} gradient;

/* Plans the adjoint of a planned batch, within a part of the memory (g->parts). GRADIENT_MEMORY where the budgets are
 * too small. Does nothing without a gradient. Zero-initialise *g before the first batch. Collective, same error
 * everywhere, as are the functions below. Call gradient_close also after a failure. */
int gradient_plan(gradient *g, batch *b, error *e);
/* Logs the plan. Not collective. */
void gradient_announce(const gradient *g, run_log *log);
/* Finds into how many parts, at most `most`, the memory for such a batch can be divided without repeating many more
 * steps. With two parts a batch can begin while another goes back or is written. 1 without a gradient. */
int gradient_memory_parts(const batch *b, int most, int *parts, error *e);
/* Reads the observed traces of shot i, or its residual. Exit 2 where they are another shot's (misfit.h). */
int gradient_check(gradient *g, int i, error *e);
/* The first creates the file that gradient_write will write, on rank 0 only. The second removes a file that was not
 * written. Another thread may call them while the batch steps. Not collective. */
int gradient_make_file(gradient *g, int i, error *e);
void gradient_drop_file(gradient *g, int i);
/* Takes the memory that is missing, and makes the open batch keep what the adjoint needs. Call it before the steps. */
int gradient_open(gradient *g, error *e);
/* After the forward steps, in this order: the misfit and residual of shot i; the adjoint steps of all shots; the chain
 * rule from the steps' media to the user's; the file. `verified`: the result of verify_gradient as text, or NULL.
 * Except for gradient_back, threads may call these functions for different shots at once. */
int gradient_residual(gradient *g, int i, error *e);
int gradient_back(gradient *g, error *e);
int gradient_chain(gradient *g, int i, error *e);
int gradient_write(gradient *g, int i, const char *verified, error *e);
void gradient_close(gradient *g);

/* Sets c->dt, if auto, to the time step of the observed traces, if their file has times. Collective over
 * files->compute, same error everywhere. */
int gradient_time(config *c, const files *files, run_log *log, error *e);

#endif
