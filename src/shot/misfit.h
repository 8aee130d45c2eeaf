/* Compares a shot's traces with observed ones. The residual, dJ/d(trace as written), is the adjoint's source. */
#ifndef STENCIL_MISFIT_H
#define STENCIL_MISFIT_H

#include "shot.h"

/* Makes the name of a dataset beside FILE:/path: `name` replaces the last part of the path. */
void misfit_beside(const char *dataset, const char *name, char beside[CONFIG_TEXT + 16]);

/* A caller's misfit, in place of a dataset. It gets the shot's output path and its traces as written, samples x
 * receivers, dense. It sets *value to J, and `derivative` to dJ/d(trace). */
typedef struct misfit_caller {
  int (*find)(void *context, const char *path, const float *traces, const int64_t shape[2], double *value,
              float *derivative, error *e);
  void *context;
} misfit_caller;

typedef struct misfit_use {
  bool given, dry;
  const misfit_caller *caller; /* NULL: there is a dataset */
} misfit_use;

typedef struct misfit {
  const receivers *of;         /* not owned */
  const char *dataset;         /* FILE:/path; the caller's */
  bool given;                  /* the dataset is the residual itself */
  const misfit_caller *caller; /* finds the misfit instead of a dataset */
  double value;                /* J, after misfit_residual; NaN: unknown */
  double unit; /* the residual's: a power of two; in it the greatest magnitude is from 1/2 to 1 */
  double most; /* greatest magnitude in the dataset */
  char dispersion[TABLE_WORD], equation[TABLE_WORD]; /* as in `table` */
  const char *weighed; /* FILE:/path of the weights; "": all are 1; the caller's */
  scratch weights;     /* of this rank's traces, laid out alike; owned */
  scratch held;        /* this rank's part of the next two, laid out as the traces, extra steps too; owned */
  const float *observed; /* the observed traces, until misfit_residual; NaN: no datum */
  float *residual;       /* after misfit_residual; a given residual from the start; NULL: not yet */
} misfit;

/* Reads FILE:/dataset, observed traces or, where `given`, dJ/d(trace as written): a row for each sample of planned
 * receivers, of which each rank keeps its own; with `dry` none: they are only checked. The datasets `time` and
 * `position` beside it must match the receivers, exit 2; with `given` they may be missing. Collective over the shot's
 * ranks, same error everywhere. Call misfit_close also after a failure. */
int misfit_open(misfit *m, const shot *s, const char *dataset, misfit_use use, error *e);
/* Exit 2 where the dataset `source_position` beside the traces, or their attributes `dispersion` and `equation`, belong
 * to another shot. Missing ones are ignored. Collective as misfit_open. */
int misfit_check_origin(const misfit *m, const shot *s, error *e);
/* J = 1/2 (every dt) sum weight (d - d_obs)^2 over the traces as written, after propagator_extra_steps. The bits do not
 * depend on the number of ranks. Collective as misfit_open. */
int misfit_residual(misfit *m, const shot *s, error *e);
/* The weight of float i of this rank's traces, in their layout. */
double misfit_weight(const misfit *m, int64_t i);
/* Returns the residual, to be filled, in the memory of the observed traces. */
float *misfit_begin_residual(misfit *m);
void misfit_close(misfit *m);

#endif
