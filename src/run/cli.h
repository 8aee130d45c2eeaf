/* The command line. */
#ifndef STENCIL_CLI_H
#define STENCIL_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/error.h"
#include "config/config.h"

enum cli_action { CLI_RUN, CLI_HELP, CLI_VERSION, CLI_EXAMPLE };

/* A row of the table of options, which parsing and all forms of --help use. */
typedef struct cli_option {
  char letter;          /* 0: long form only */
  const char *name;     /* without the dashes */
  const char *argument; /* NULL: none; in brackets: optional */
  const char *help;
  enum cli_action action;
  size_t sets; /* offset in `cli` of its switch or argument; 0: none */
} cli_option;
extern const cli_option cli_options[];
extern const int cli_option_count;

typedef struct cli {
  enum cli_action action;
  enum help_form help;   /* CLI_HELP */
  enum equation example; /* CLI_EXAMPLE */
  bool dry_run, measure, verify;
  int64_t benchmark;       /* timed steps; 0: a normal run */
  const char *restart;     /* FILE or "auto"; NULL: from the start */
  const char *report_file; /* NULL: as configured; overrides come later and win */
  bool quiet, verbose;
  const char *config_file; /* points into argv, as do the overrides */
  int override_count;
  const char **overrides; /* points into argv, which is reordered */
} cli;

/* Fills *c from argv, which getopt_long reorders and which must outlive *c. Exit 1 for unknown, missing or malformed
 * arguments. Prints nothing. */
int cli_parse(cli *c, int argc, char **argv, error *e);
/* Prints options, config keys, usage and exit codes, as text or man page. BASH prints the completion of bash, MARKDOWN
 * the config keys alone (docs/CONFIG.md). */
void cli_help(FILE *to, enum help_form form);
/* Prints versions, backends, transports and kernels. */
void cli_version(FILE *to);

#endif
