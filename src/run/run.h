/* A whole run: open, load, the step loop, save, report. */
#ifndef STENCIL_RUN_H
#define STENCIL_RUN_H

#include "cli.h"
#include "config/shots.h"
#include "shot/shot.h"

/* The [survey] shots of a job. Both are NULL but on rank 0. */
typedef struct survey_lines {
  const config_given *given;
  const shot_lines *lines;
} survey_lines;

/* What the user asked for. It owns nothing. */
typedef struct job {
  const config *config;
  const cli *options;
  const char *command; /* the command line, for the saved files */
  run_log *log;
  const files *files;
  MPI_Comm beside;     /* all ranks that compute at the same time, files->compute among them */
  int stack;           /* as in engine_setup */
  int shares;          /* of the memory of gradients, at most; 0: 1 */
  survey_lines survey; /* for a dry run; `config` is its first shot */
} job;

/* Plans the engine, and on it the shot: all that needs no memory of the device. `from`, which must outlive it: where the
 * run continues; NULL: it begins. `profile`: phases are measured. Collective, same error everywhere. Close both, also
 * after a failure. */
int run_plan(const job *j, engine *g, shot *s, const checkpoint *from, bool profile, error *e);

/* Runs the job, or with options->benchmark times it without writing files. STOPPED where a signal or the wall time
 * ended it after a checkpoint. Collective over files->compute, same error everywhere. */
int run(const job *j, error *e);

/* Does the shots that are not done. Collective over files->compute, same error everywhere. */
int run_survey(const job *j, survey_lines s, error *e);
/* --dry-run of it. */
int dry_run_survey(const job *j, survey_lines s, error *e);

/* Times some steps of the configuration and logs how long `steps` of them will take, without what saving keeps them
 * waiting: *seconds, unless that is NULL. Uses the memory of a run; writes no file but the cache of measurements. Collective over files->compute, same
 * error everywhere. */
int run_estimate(const job *j, int64_t steps, double *seconds, error *e);

/* --dry-run: checks all that `run` needs and prints it; runs no step, but with --measure those of run_estimate, and
 * writes no file itself. *seconds, unless that is NULL: of run_estimate. Collective over files->compute, same error everywhere. */
int dry_run(const job *j, double *seconds, error *e);

#endif
