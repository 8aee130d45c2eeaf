/* The jobs of the command line: a run or a survey, a benchmark, tests of a gradient, a dry run. */
#ifndef STENCIL_RUN_H
#define STENCIL_RUN_H

#include "cli.h"
#include "survey/survey.h"

/* The user's job. It owns nothing. */
typedef struct job {
  const config *config;
  const cli *options;
  const char *command; /* the command line, for the saved files */
  run_log *log;
  const files *files;
  survey_lines survey;
} job;

/* The driver's part of a job, for the configuration c. */
survey_job run_job(const job *j, const config *c);

/* Does the shots that are not done. With options->benchmark it times steps without writing files; with options->verify
 * it tests the gradient. STOPPED where a signal or the wall time ended it. Collective over files->compute, same error
 * everywhere. */
int run(const job *j, error *e);

/* Times some steps of the configuration, and logs *seconds: the estimate for `steps` steps without waits for saving.
 * Uses the memory of a run; writes only the cache of measurements. `v` must be planned. Collective over its groups,
 * same error everywhere. */
int run_estimate(const job *j, const survey *v, int64_t steps, double *seconds, error *e);

/* --dry-run: checks all that `run` needs and prints it. It writes no file itself, and runs no step, except
 * run_estimate's with --measure. Collective over files->compute, same error everywhere. */
int dry_run(const job *j, error *e);

#endif
