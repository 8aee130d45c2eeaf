/* The command line: one table of options from which parsing and --help come. */
#ifndef STENCIL_CLI_H
#define STENCIL_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/error.h"

enum cli_action { CLI_RUN, CLI_HELP, CLI_VERSION };

typedef struct cli {
  enum cli_action action;
  bool dry_run;
  int64_t benchmark;       /* timed steps; 0: a normal run */
  const char *restart;     /* FILE or "auto"; NULL: from the start */
  const char *report_file; /* NULL: as configured */
  bool quiet, verbose;
  const char *config_file; /* points into argv, as do the overrides */
  int override_count;
  const char **overrides; /* points into argv's (reordered) array */
} cli;

/* Parses argv (which getopt_long reorders). Exit 1 for anything unknown, missing or not available yet. Prints
 * nothing. */
int cli_parse(cli *c, int argc, char **argv, error *e);
void cli_help(FILE *to);
void cli_version(FILE *to);

#endif
