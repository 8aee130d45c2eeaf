/* A whole run: open, load, the step loop, save, report. */
#ifndef STENCIL_RUN_H
#define STENCIL_RUN_H

#include "config/config.h"
#include "io/files.h"
#include "cli.h"
#include "base/log.h"

/* What the user asked for. Nothing of it is owned. */
typedef struct job {
  const config *config;
  const cli *options;
  const char *command; /* the command line, for the saved files */
  run_log *log;
  const files *files;
} job;

/* Runs the job on the computing ranks, or with options->benchmark times it without files. Collective over
 * files->compute; the same error on every rank. */
int run(const job *j, error *e);

/* --dry-run: checks everything that `run` would need and prints it; runs no step and writes no file. Collective over
 * files->compute; the same error on every rank. */
int dry_run(const job *j, error *e);

#endif
