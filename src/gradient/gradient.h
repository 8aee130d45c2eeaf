/* The gradient of a shot: what [gradient] asks for, from the budget of memory to PATH.gradient.h5. */
#ifndef STENCIL_GRADIENT_H
#define STENCIL_GRADIENT_H

#include "adjoint.h"
#include "misfit.h"

typedef struct gradient {
  shot *shot; /* not owned */
  plan plan;
  misfit misfit;
  adjoint way; /* its memory serves one shot of the struct `shot` after another */
} gradient;

/* Plans how a planned shot goes back, and logs that; GRADIENT_MEMORY where the budgets do not allow it. Does nothing where there is
 * no gradient. Zero-initialise it before the first shot. Collective, same error everywhere, as are the functions below.
 * gradient_close it, also after a failure. */
int gradient_plan(gradient *g, shot *s, error *e);
/* Reads what the traces are compared with. */
int gradient_check(gradient *g, error *e);
/* Takes what memory is missing, and lets the steps of the open shot, which are still to come, be kept. */
int gradient_open(gradient *g, error *e);
/* Goes back, after shot_finish, and writes PATH.gradient.h5. */
int gradient_finish(gradient *g, error *e);
/* Its parts: from the misfit's residual back; the file, with what tests have found (verify.h), or NULL. */
int gradient_back(gradient *g, error *e);
int gradient_write(gradient *g, const char *verified, error *e);
void gradient_close(gradient *g);

/* Sets c->dt to that of the observed traces, where it is auto and they say it. Collective over files->compute, same error
 * everywhere. */
int gradient_time(config *c, const files *files, run_log *log, error *e);

#endif
