/* What a shot's traces are compared with, and what that makes of them: the residual, dJ/d(trace as written), from which the way
 * back starts. */
#ifndef STENCIL_MISFIT_H
#define STENCIL_MISFIT_H

#include "shot/shot.h"

/* FILE:/NAME in the place of FILE:/path's last part. */
void misfit_beside(const char *dataset, const char *name, char beside[CONFIG_TEXT + 16]);

typedef struct misfit {
  const receivers *of; /* not owned */
  bool given;          /* the dataset is the residual itself */
  double value;        /* J, after misfit_residual; NaN: nobody knows it */
  double unit;         /* of the residual: a power of two, in which its greatest magnitude is from 1/2 to 1 */
  char dispersion[TABLE_WORD], equation[TABLE_WORD]; /* as in table */
  float *
      residual; /* before misfit_residual what the dataset says; as receivers.traces, extra steps too; owned */
} misfit;

/* Reads FILE:/dataset, observed traces or, where `given`, dJ/d(trace as written): a row for each sample of planned receivers. The
 * datasets `time` and `position` beside it must be theirs; with `given` they may be missing. Exit 2 where it is not so. Collective
 * over the shot's ranks, same error everywhere. misfit_close it, also after a failure. */
int misfit_open(misfit *m, const shot *s, const char *dataset, bool given, error *e);
/* Exit 2 where the dataset `source_position` or the attributes `dispersion` and `equation` beside the traces are
 * another shot's. Missing ones do not count. Likewise. */
int misfit_check_origin(const misfit *m, const shot *s, const char *dataset, error *e);
/* J = 1/2 (every dt) sum (d - d_obs)^2 over the traces as written, after shot_finish_traces: the same bits for any
 * number of ranks. Likewise. */
int misfit_residual(misfit *m, const shot *s, error *e);
void misfit_close(misfit *m);

#endif
