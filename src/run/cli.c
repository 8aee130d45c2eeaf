#include "cli.h"
#include <getopt.h>
#include <mpi.h> /* for MPI_Get_library_version alone, which may be called before MPI_Init */
#include <stdlib.h>
#include <string.h>
#include "config/config.h"
#include "config/decimal.h"
#include "io/field_io.h"
#include "device/device.h"
#include "halo/halo.h"
#include "base/nearest.h"
#include "version.h"

enum option_id {
  OPTION_HELP,
  OPTION_VERSION,
  OPTION_DRY_RUN,
  OPTION_RESTART,
  OPTION_BENCHMARK,
  OPTION_REPORT,
  OPTION_QUIET,
  OPTION_VERBOSE,
  OPTION_COUNT
};

/* The options. A letter of 0: long form only. */
static const struct row {
  char letter;
  const char *name, *argument, *help;
} rows[OPTION_COUNT] = {
    [OPTION_HELP] = {'h', "help", NULL, "print this and exit"},
    [OPTION_VERSION] = {'V', "version", NULL, "print versions, backends and kernels and exit"},
    [OPTION_DRY_RUN] =
        {'n', "dry-run", NULL,
         "check everything, print the effective config, the partition and the memory, run no step"},
    [OPTION_RESTART] = {'r', "restart", "FILE|auto",
                        "continue from a checkpoint; auto: the newest intact one, or from the start"},
    [OPTION_BENCHMARK] = {'b', "benchmark", "STEPS",
                          "random field, no files: time STEPS steps after a warm-up"},
    [OPTION_REPORT] = {0, "report", "FILE.json", "write the performance report as JSON"},
    [OPTION_QUIET] = {'q', "quiet", NULL, "print errors only"},
    [OPTION_VERBOSE] = {'v', "verbose", NULL, "print more, rank by rank"},
};
enum {
  LONG_FIRST = 256
}; /* getopt's value of option i is LONG_FIRST + i, whether its letter or its name was given */

/* --- parsing ----------------------------------------------------------------------------------- */

static int refuse(error *e, const char *before, const char *what, const char *after) {
  char text[ERROR_TEXT];
  snprintf(text, sizeof text, "%s%s%s", before, what, after);
  return FAIL(e, USAGE_OPTION, text);
}

/* A long option that getopt does not know, or that begins several names. `given` is "--name" or
 * "--name=value". */
static int refuse_long(error *e, const char *given) {
  const char *names[OPTION_COUNT];
  char name[64], known[256] = "";
  size_t length = strcspn(given + 2, "=");
  snprintf(name, sizeof name, "%.*s", (int)length, given + 2);
  int begun = 0;
  for (int i = 0; i < OPTION_COUNT; i++) {
    names[i] = rows[i].name;
    if (strncmp(rows[i].name, name, length) != 0) continue;
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s--%s", begun++ ? " or " : "; ", rows[i].name);
  }
  if (begun > 1) return refuse(e, "ambiguous option ", given, known);
  const char *nearest = nearest_name(name, names, OPTION_COUNT);
  char hint[96] = "";
  if (nearest) snprintf(hint, sizeof hint, ", did you mean --%s?", nearest);
  return refuse(e, "unknown option ", given, hint);
}

/* What getopt answered '?' or ':' to. optopt is the option's value or letter, 0 for an unknown name. */
static int refuse_option(error *e, int answer, const char *given) {
  char name[64] = "";
  if (optopt >= LONG_FIRST) snprintf(name, sizeof name, "--%s", rows[optopt - LONG_FIRST].name);
  for (int i = 0; i < OPTION_COUNT; i++)
    if (optopt && optopt == rows[i].letter) snprintf(name, sizeof name, "--%s", rows[i].name);
  if (answer == ':') return refuse(e, name, "", ": its argument is missing");
  if (optopt >= LONG_FIRST) return refuse(e, name, "", ": takes no argument");
  if (optopt == 0) return refuse_long(e, given);
  snprintf(name, sizeof name, "-%c", optopt);
  return refuse(e, "unknown option ", name, "");
}

static int take_option(cli *c, int id, const char *argument, error *e) {
  bool beyond = false;
  if (rows[id].argument && !*argument) return refuse(e, "--", rows[id].name, ": its argument is empty");
  switch ((enum option_id)id) {
  case OPTION_HELP:
    c->action = CLI_HELP;
    break;
  case OPTION_VERSION:
    c->action = CLI_VERSION;
    break;
  case OPTION_DRY_RUN:
    c->dry_run = true;
    break;
  case OPTION_RESTART:
    c->restart = argument;
    break;
  case OPTION_BENCHMARK:
    if (!decimal_integer(argument, &c->benchmark, &beyond) || beyond || c->benchmark < 1)
      return FAIL(e, USAGE_BENCHMARK, argument);
    break;
  case OPTION_REPORT:
    c->report_file = argument;
    break;
  case OPTION_QUIET:
    c->quiet = true;
    break;
  case OPTION_VERBOSE:
    c->verbose = true;
    break;
  case OPTION_COUNT:
    break;
  }
  if (c->benchmark && c->restart) return refuse(e, "--benchmark and --restart", "", ": only one of them");
  if (c->quiet && c->verbose) return refuse(e, "--quiet and --verbose", "", ": only one of them");
  return 0;
}

/* Both forms that getopt_long wants, from the table. */
static void make_options(char letters[2 * OPTION_COUNT + 2], struct option names[OPTION_COUNT + 1]) {
  *letters++ = ':'; /* tell a missing argument from an unknown option */
  memset(names, 0, sizeof names[0] * (OPTION_COUNT + 1));
  for (int i = 0; i < OPTION_COUNT; i++) {
    names[i] = (struct option){rows[i].name, rows[i].argument ? required_argument : no_argument, NULL,
                               LONG_FIRST + i};
    if (!rows[i].letter) continue;
    *letters++ = rows[i].letter;
    if (rows[i].argument) *letters++ = ':';
  }
  *letters = '\0';
}

static int option_of(int answer) {
  if (answer >= LONG_FIRST) return answer - LONG_FIRST;
  int i = 0;
  while (rows[i].letter != answer) i++;
  return i;
}

int cli_parse(cli *c, int argc, char **argv, error *e) {
  char letters[2 * OPTION_COUNT + 2];
  struct option names[OPTION_COUNT + 1];
  int answer;
  make_options(letters, names);
  *c = (cli){.action = CLI_RUN};
  opterr = 0;
  optind = 0; /* start afresh, whoever parsed before */
  while ((answer = getopt_long(argc, argv, letters, names, NULL)) != -1) {
    if (answer == '?' || answer == ':') return refuse_option(e, answer, argv[optind - 1]);
    TRY(take_option(c, option_of(answer), optarg, e));
    if (c->action != CLI_RUN) return 0;
  }
  if (optind >= argc) return FAIL(e, USAGE_NO_CONFIG);
  c->config_file = argv[optind++];
  c->override_count = argc - optind;
  c->overrides = (const char **)&argv[optind];
  for (int i = 0; i < c->override_count; i++) TRY(config_check_override(c->overrides[i], e));
  return 0;
}

/* --- printing ---------------------------------------------------------------------------------- */

void cli_help(FILE *to) {
  fprintf(
      to,
      "usage: mpirun -np N stencil [options] config.ini [section.key=value ...]\n\n"
      "3D finite differences on many GPUs or cores. Entries of config.ini can be overridden on the command\n"
      "line, the last one wins; config/jacobi.ini lists and explains them.\n\noptions:\n");
  for (int i = 0; i < OPTION_COUNT; i++) {
    char form[64], letter[8] = "    ";
    if (rows[i].letter) snprintf(letter, sizeof letter, "-%c, ", rows[i].letter);
    snprintf(form, sizeof form, "%s--%s %s", letter, rows[i].name, rows[i].argument ? rows[i].argument : "");
    fprintf(to, "  %-26s%s\n", form, rows[i].help);
  }
  fprintf(to, "\nexit codes: 0 done, 1 usage or config, 2 input or output file, 3 numerical failure,\n"
              "4 device or MPI failure, 75 stopped early after writing a checkpoint\n");
}

static void print_libraries(FILE *to) {
  char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "unknown", cuda[64], hdf5[64];
  int length;
  MPI_Get_library_version(mpi, &length); /* on failure "unknown" stays */
  mpi[strcspn(mpi, "\n")] = '\0';
  device_cuda_version(cuda);
  field_io_version(hdf5);
#ifdef __clang__
  fprintf(to, "C compiler: %s\n", __VERSION__);
#else
  fprintf(to, "C compiler: GCC %s\n", __VERSION__);
#endif
  fprintf(to, "CUDA toolkit: %s\nMPI: %s\nHDF5: %s\n", cuda, mpi, hdf5);
}

static void print_backends(FILE *to) {
  char why[256] = "";
  int devices = device_cuda_count(why);
  fprintf(to, "backends:\n  host\n");
#ifdef STENCIL_HAVE_CUDA
  if (devices > 0)
    fprintf(to, "  cuda: %d device%s\n", devices, devices == 1 ? "" : "s");
  else
    fprintf(to, "  cuda: no usable device: %s\n", why);
#else
  (void)devices;
  fprintf(to, "  cuda: not compiled in\n");
#endif
}

void cli_version(FILE *to) {
  fprintf(to, "stencil %s (git %s)\nbuild: %s\n", STENCIL_VERSION, STENCIL_GIT_HASH, STENCIL_BUILD_TYPE);
  print_libraries(to);
  print_backends(to);
  fprintf(to, "transports:\n");
  for (int k = 0; k < transport_count(); k++)
    fprintf(to, "  %-12s %s\n", transport_at(k)->name, transport_at(k)->note);
  fprintf(to, "kernels:\n");
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel *k = &kernel_table[i];
    const char *absent = k->host || k->cuda ? "" : " [not compiled in]";
    fprintf(to, "  %s %s %-14s %s%s\n", equation_name(k->equation), backend_name(k->backend), k->name,
            k->note, absent);
  }
}
