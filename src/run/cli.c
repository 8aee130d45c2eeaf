#include "cli.h"
#include <getopt.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/nearest.h"
#include "config/config.h"
#include "config/decimal.h"

enum option_id {
  OPTION_HELP,
  OPTION_VERSION,
  OPTION_EXAMPLE,
  OPTION_DRY_RUN,
  OPTION_MEASURE,
  OPTION_RESTART,
  OPTION_BENCHMARK,
  OPTION_VERIFY,
  OPTION_REPORT,
  OPTION_QUIET,
  OPTION_VERBOSE,
  OPTION_COUNT
};

// clang-format off
const cli_option cli_options[] = {
  [OPTION_HELP] = {'h', "help", "[=FORM]", "print this; FORM: man, markdown (docs/CONFIG.md) or bash (completion)",
    .action = CLI_HELP},
  [OPTION_VERSION] = {'V', "version", NULL, "print versions, backends and kernels and exit", .action = CLI_VERSION},
  [OPTION_EXAMPLE] = {0, "example", "EQUATION", "print a config to start from and exit: jacobi, heat or wave", .action = CLI_EXAMPLE},
  [OPTION_DRY_RUN] = {'n', "dry-run", NULL,
                      "check everything, print the effective config, the partition and the memory, run no step",
    .sets = offsetof(cli, dry_run)},
  [OPTION_MEASURE] = {0, "measure", NULL, "with --dry-run: time some steps and estimate how long the run will take",
    .sets = offsetof(cli, measure)},
  [OPTION_RESTART] = {'r', "restart", "FILE|auto",
                      "continue from a checkpoint; auto: the newest intact one, or from the start",
    .sets = offsetof(cli, restart)},
  [OPTION_BENCHMARK] = {'b', "benchmark", "STEPS", "random field, no files: time STEPS steps after a warm-up", .action = CLI_RUN},
  [OPTION_VERIFY] = {0, "verify-gradient", NULL, "test the gradient of this configuration at full size; exit 3 if it is wrong",
    .sets = offsetof(cli, verify)},
  [OPTION_REPORT] = {0, "report", "FILE.json", "write the performance report as JSON; report.file=... after the config wins",
    .sets = offsetof(cli, report_file)},
  [OPTION_QUIET] = {'q', "quiet", NULL, "print errors only",
    .sets = offsetof(cli, quiet)},
  [OPTION_VERBOSE] = {'v', "verbose", NULL, "print more, rank by rank; errors say where they were found",
    .sets = offsetof(cli, verbose)},
};
// clang-format on
const int cli_option_count = OPTION_COUNT;
enum { LONG_FIRST = 256 }; /* getopt returns LONG_FIRST + i for option i, given by letter or by name */

/* --- parsing ----------------------------------------------------------------------------------- */

static int cli_refuse(error *e, const char *before, const char *what, const char *after) {
  char text[ERROR_TEXT];
  snprintf(text, sizeof text, "%s%.100s%s", before, what, after);
  return FAIL(e, USAGE_OPTION, text);
}

/* Refuses a long option that getopt does not know, or that abbreviates several. `given`: "--name" or "--name=value". */
static int cli_refuse_long(error *e, const char *given) {
  const char *names[OPTION_COUNT];
  char name[64], known[256] = "";
  size_t length = strcspn(given + 2, "=");
  snprintf(name, sizeof name, "%.*s", (int)length, given + 2);
  int begun = 0;
  for (int i = 0; i < OPTION_COUNT; i++) {
    names[i] = cli_options[i].name;
    if (strncmp(cli_options[i].name, name, length) != 0) continue;
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s--%s", begun++ ? " or " : "; ", cli_options[i].name);
  }
  if (begun > 1) return cli_refuse(e, "ambiguous option ", given, known);
  const char *nearest = nearest_name(name, names, OPTION_COUNT);
  char hint[96] = "";
  if (nearest) snprintf(hint, sizeof hint, ", did you mean --%s?", nearest);
  return cli_refuse(e, "unknown option ", given, hint);
}

/* Refuses an option for which getopt returned '?' or ':'. optopt: the option's value or letter; 0: an unknown name. */
static int cli_refuse_option(error *e, int answer, const char *given) {
  char name[64] = "";
  if (optopt >= LONG_FIRST) snprintf(name, sizeof name, "--%s", cli_options[optopt - LONG_FIRST].name);
  for (int i = 0; i < OPTION_COUNT; i++)
    if (optopt && optopt == cli_options[i].letter) snprintf(name, sizeof name, "--%s", cli_options[i].name);
  if (answer == ':') return cli_refuse(e, name, "", ": its argument is missing");
  if (optopt >= LONG_FIRST) return cli_refuse(e, name, "", ": takes no argument");
  if (optopt == 0) return cli_refuse_long(e, given);
  snprintf(name, sizeof name, "-%c", optopt);
  return cli_refuse(e, "unknown option ", name, "");
}

typedef struct cli_word {
  const char *name;
  int value;
} cli_word;
static const cli_word cli_help_forms[] = {
    {"text", HELP_TEXT}, {"man", HELP_MAN}, {"markdown", HELP_MARKDOWN}, {"bash", HELP_BASH}, {NULL, 0}};
static const cli_word cli_equations[] = {
#define EQUATION(constant, name, ...) {#name, EQUATION_##constant},
#include "kernels/equations.def"
    {NULL, 0}};

/* Sets *value to the word's value, or refuses the word and names all words. */
static int cli_take_word(int id, const char *argument, const cli_word *words, int *value, error *e) {
  char known[64] = "";
  for (; words->name; words++) {
    if (strcmp(words->name, argument) == 0) return *value = words->value, 0;
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", used ? words[1].name ? ", " : " or " : "",
             words->name);
  }
  char before[96];
  snprintf(before, sizeof before, "--%s: expected %s, got '", cli_options[id].name, known);
  return cli_refuse(e, before, argument, "'");
}

static int cli_take_option(cli *c, int id, const char *argument, error *e) {
  const cli_option *o = &cli_options[id];
  char *field = (char *)c + o->sets;
  bool beyond = false;
  c->action = o->action;
  if (id == OPTION_HELP)
    return cli_take_word(id, argument ? argument : "text", cli_help_forms, (int *)&c->help, e);
  if (id == OPTION_EXAMPLE) return cli_take_word(id, argument, cli_equations, (int *)&c->example, e);
  if (id == OPTION_BENCHMARK &&
      (!decimal_integer(argument, &c->benchmark, &beyond) || beyond || c->benchmark < 1))
    return FAIL(e, USAGE_BENCHMARK, argument);
  if (o->sets && o->argument)
    *(const char **)field = argument;
  else if (o->sets)
    *(bool *)field = true;
  return 0;
}

/* Checks options that exclude or need each other. */
static int cli_check_together(const cli *c, error *e) {
  if (c->benchmark && c->restart) return cli_refuse(e, "--benchmark and --restart", "", ": only one of them");
  if (c->quiet && c->verbose) return cli_refuse(e, "--quiet and --verbose", "", ": only one of them");
  if (c->verify && (c->restart || c->benchmark || c->dry_run))
    return cli_refuse(e, "--verify-gradient", "", ": not with --restart, --benchmark or --dry-run");
  if (c->measure && !c->dry_run) return cli_refuse(e, "--measure", "", ": only with --dry-run");
  return 0;
}

static int cli_argument_of(int id) {
  const char *argument = cli_options[id].argument;
  return !argument ? no_argument : *argument == '[' ? optional_argument : required_argument;
}

/* Makes both tables of getopt_long from CLI_OPTIONS. */
static void cli_getopt_tables(char letters[2 * OPTION_COUNT + 2], struct option names[OPTION_COUNT + 1]) {
  *letters++ = ':'; /* tell a missing argument from an unknown option */
  memset(names, 0, sizeof names[0] * (OPTION_COUNT + 1));
  for (int i = 0; i < OPTION_COUNT; i++) {
    names[i] = (struct option){cli_options[i].name, cli_argument_of(i), NULL, LONG_FIRST + i};
    if (!cli_options[i].letter) continue;
    *letters++ = cli_options[i].letter;
    if (cli_argument_of(i) == required_argument) *letters++ = ':'; /* -h takes none */
  }
  *letters = '\0';
}

static int cli_option_of(int answer) {
  if (answer >= LONG_FIRST) return answer - LONG_FIRST;
  int i = 0;
  while (cli_options[i].letter != answer) i++;
  return i;
}

int cli_parse(cli *c, int argc, char **argv, error *e) {
  char letters[2 * OPTION_COUNT + 2];
  struct option names[OPTION_COUNT + 1];
  int answer;
  cli_getopt_tables(letters, names);
  *c = (cli){.action = CLI_RUN};
  opterr = 0;
  optind = 0; /* restarts getopt, which may have been used before */
  while ((answer = getopt_long(argc, argv, letters, names, NULL)) != -1) {
    if (answer == '?' || answer == ':') return cli_refuse_option(e, answer, argv[optind - 1]);
    const int id = cli_option_of(answer);
    if (optarg && !*optarg) return cli_refuse(e, "--", cli_options[id].name, ": its argument is empty");
    TRY(cli_take_option(c, id, optarg, e));
    if (c->action != CLI_RUN) return 0;
  }
  TRY(cli_check_together(c, e));
  if (optind >= argc) return FAIL(e, USAGE_NO_CONFIG);
  c->config_file = argv[optind++];
  c->override_count = argc - optind;
  c->overrides = (const char **)&argv[optind];
  for (int i = 0; i < c->override_count; i++) TRY(config_check_override(c->overrides[i], e));
  return 0;
}
