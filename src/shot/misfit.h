/* Compares a shot's traces with observed ones. The residual, dJ/d(trace as written), is the adjoint's source. */
#ifndef STENCIL_MISFIT_H
#define STENCIL_MISFIT_H

#include "shot.h"

/* FILE:/NAME in the place of FILE:/path's last part. */
void misfit_beside(const char *dataset, const char *name, char beside[CONFIG_TEXT + 16]);

/* A caller's misfit, where there is no dataset: from the traces of a shot, which writes to this path, as they are written, samples x
 * receivers, dense, to *value, J, and dJ/d(trace). */
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
  bool given;                  /* that is the residual itself */
  const misfit_caller *caller; /* it is asked instead */
  double value;                /* J, after misfit_residual; NaN: nobody knows it */
  double unit; /* of the residual: a power of two, in which its greatest magnitude is from 1/2 to 1 */
  double most; /* greatest magnitude in the dataset */
  char dispersion[TABLE_WORD], equation[TABLE_WORD]; /* as in table */
  const char *weighed;   /* FILE:/path of the weights; "": all are 1; the caller's */
  scratch weights;       /* of this rank's traces, as they lie; owned */
  scratch held;          /* this rank's part, as the traces lie, extra steps too; owned: it is */
  const float *observed; /* until misfit_residual, NaN: no datum, */
  float *residual;       /* from then on; where it is given, from the start; NULL: not yet */
} misfit;

/* Reads FILE:/dataset, observed traces or, where `given`, dJ/d(trace as written): a row for each sample of planned
 * receivers, of which each rank keeps its own; with `dry` none: they are only checked. The datasets `time` and
 * `position` beside it must be theirs; with `given` they may be missing. Exit 2 where it is not so. Collective over
 * the shot's ranks, same error everywhere. misfit_close it, also after a failure. */
int misfit_open(misfit *m, const shot *s, const char *dataset, misfit_use use, error *e);
/* Exit 2 where the dataset `source_position` or the attributes `dispersion` and `equation` beside the traces are
 * another shot's. Missing ones do not count. Likewise. */
int misfit_check_origin(const misfit *m, const shot *s, error *e);
/* J = 1/2 (every dt) sum weight (d - d_obs)^2 over the traces as written, after propagator_extra_steps: the same bits for any
 * number of ranks. Likewise. */
int misfit_residual(misfit *m, const shot *s, error *e);
/* The weight of a float of this rank's traces, as they lie. */
double misfit_weight(const misfit *m, int64_t i);
/* The residual, to be filled: it takes the place of the observed traces. */
float *misfit_begin_residual(misfit *m);
void misfit_close(misfit *m);

#endif
