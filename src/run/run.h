/* A whole run: open, load, the step loop, save, report. */
#ifndef STENCIL_RUN_H
#define STENCIL_RUN_H

#include "config/config.h"
#include "io/files.h"
#include "cli.h"
#include "base/log.h"

/* Runs `c` on the computing ranks (or, with cli->benchmark, times it without files). `command` is the command
 * line for the saved files. Collective; the same error on every rank. */
int run(const config *c, const cli *options, const char *command, run_log *log, const files *files, error *e);

/* --dry-run: checks everything that `run` would need and prints it; runs no step and writes no file.
 * Collective. */
int dry_run(const config *c, const cli *options, const char *command, run_log *log, const files *files,
            error *e);

#endif
