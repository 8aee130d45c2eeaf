/* The command line: every option, every message, and what --help and --version must mention. */
#include "test.h"
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>
#include "config/config_internal.h"
#include "config_load.h"
#include "kernels/kernel.h"
#include "run/cli.h"

typedef struct words {
  char text[256], *argv[16];
} words;

/* Parses "stencil" and the words of a line; `copy` receives what cli points to. */
static int parse(cli *c, const char *line, words *copy, error *e) {
  int argc = 0;
  snprintf(copy->text, sizeof copy->text, "stencil %s", line);
  for (char *word = strtok(copy->text, " "); word; word = strtok(NULL, " ")) copy->argv[argc++] = word;
  copy->argv[argc] = NULL;
  *e = (error){0};
  int id = cli_parse(c, argc, copy->argv, e);
  assert_int_equal(id, e->id);
  assert_null(strpbrk(e->text, "\r\n"));
  return id;
}

#define HELP " (see stencil --help)"

TEST(test_refused) {
  static const char *const cases[][2] = {
      {"", "no config file given: stencil [options] config.ini [section.key=value ...]"},
      {"-q", "no config file given: stencil [options] config.ini [section.key=value ...]"},
      {"--bogus a.ini", "unknown option --bogus" HELP},
      {"a.ini --dryrun", "unknown option --dryrun, did you mean --dry-run?" HELP},
      {"--reprot=x a.ini", "unknown option --reprot=x, did you mean --report?" HELP},
      {"--re x", "ambiguous option --re; --restart or --report" HELP},
      {"--ver", "ambiguous option --ver; --version or --verify-gradient or --verbose" HELP},
      {"--=3", "ambiguous option --=3; --help or --version or --example or --dry-run or --measure or "
               "--restart or --benchmark or --verify-gradient or --report or --quiet or --verbose" HELP},
      {"-x a.ini", "unknown option -x" HELP},
      {"-qxn a.ini", "unknown option -x" HELP},
      {"-\n a.ini", "unknown option - " HELP},
      {"--quiet=3 a.ini", "--quiet: takes no argument" HELP},
      {"--help=html", "--help: expected text, man, markdown or bash, got 'html'" HELP},
      {"--example sound", "--example: expected jacobi, heat or wave, got 'sound'" HELP},
      {"--benchmark", "--benchmark: its argument is missing" HELP},
      {"a.ini -b", "--benchmark: its argument is missing" HELP},
      {"a.ini --report", "--report: its argument is missing" HELP},
      {"a.ini --report=", "--report: its argument is empty" HELP},
      {"--measure a.ini", "--measure: only with --dry-run" HELP},
      {"--verify-gradient -n a.ini", "--verify-gradient: not with --restart, --benchmark or --dry-run" HELP},
      {"-q --verbose a.ini", "--quiet and --verbose: only one of them" HELP},
      {"-b 3 -r auto a.ini", "--benchmark and --restart: only one of them" HELP},
      {"-b 0 a.ini", "--benchmark: expected a number of steps >= 1, got '0'"},
      {"-b ten a.ini", "--benchmark: expected a number of steps >= 1, got 'ten'"},
      {"-b1e30 a.ini", "--benchmark: expected a number of steps >= 1, got '1e30'"},
      {"a.ini b.ini", "b.ini: expected section.key=value"},
      {"a.ini grid.nx=3 -- -q", "-q: expected section.key=value"},
  };
  for (int i = 0; i < COUNT(cases); i++) {
    cli c;
    error e;
    words copy;
    if (!parse(&c, cases[i][0], &copy, &e)) fail_msg("accepted, but expected: %s", cases[i][1]);
    assert_string_equal(e.text, cases[i][1]);
    assert_int_equal(error_exit_code(e.id), EXIT_CODE_CONFIG);
  }
}

static cli expect_taken(const char *line, words *copy) {
  cli c;
  error e;
  assert_ok(parse(&c, line, copy, &e), &e);
  return c;
}

TEST(test_plain) {
  words copy;
  cli c = expect_taken("a.ini", &copy);
  assert_int_equal(c.action, CLI_RUN);
  assert_string_equal(c.config_file, "a.ini");
  assert_true(c.override_count == 0 && !c.report_file && c.benchmark == 0);
  assert_false(c.dry_run || c.measure || c.quiet || c.verbose);
}

/* Options may stand anywhere; the order of what is not an option stays. */
TEST(test_all_options) {
  static const char *const forms[] = {
      "a.ini --dry-run grid.nx=4 --benchmark=1e2 --report r.json grid.nx=5 --quiet",
      "-nb 100 a.ini grid.nx=4 --rep=r.json -q grid.nx=5"};
  words copy;
  for (int i = 0; i < 2; i++) {
    cli c = expect_taken(forms[i], &copy);
    assert_true(c.dry_run && c.quiet && !c.verbose);
    assert_int_equal(c.benchmark, 100);
    assert_string_equal(c.report_file, "r.json");
    assert_string_equal(c.config_file, "a.ini");
    assert_int_equal(c.override_count, 2);
    assert_string_equal(c.overrides[0], "grid.nx=4");
    assert_string_equal(c.overrides[1], "grid.nx=5");
  }
  assert_true(expect_taken("-v a.ini", &copy).verbose);
}

TEST(test_help_and_version_need_no_config) {
  words copy;
  assert_int_equal(expect_taken("-h", &copy).action, CLI_HELP);
  assert_int_equal(expect_taken("a.ini --help --bogus", &copy).action, CLI_HELP);
  assert_int_equal(expect_taken("-V", &copy).action, CLI_VERSION);
  assert_int_equal(expect_taken("--help=man", &copy).help, HELP_MAN);
  assert_int_equal(expect_taken("--example heat", &copy).example, EQUATION_HEAT);
  assert_int_equal(expect_taken("--version", &copy).action, CLI_VERSION);
}

/* The output of a form of --help, of FORM_VERSION, or of FORM_EXAMPLE + equation; the caller frees it. */
enum { FORM_VERSION = 100, FORM_EXAMPLE = 200 };
static char *printed(int form) {
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  assert_non_null(file);
  if (form >= FORM_EXAMPLE)
    config_example(file, (enum equation)(form - FORM_EXAMPLE));
  else if (form == FORM_VERSION)
    cli_version(file);
  else
    cli_help(file, (enum help_form)form);
  fclose(file);
  char *copy =
      strdup(text); /* gcc 12 takes text itself for a pointer to this function's variable, and warns */
  free(text);
  return copy;
}

static void expect_word(const char *text, const char *word) {
  if (!strstr(text, word)) fail_msg("'%s' is missing in\n%s", word, text);
}

/* `words`: between @. */
static void expect_words(const char *text, const char *words) {
  char *copy = strdup(words);
  for (char *word = strtok(copy, "@"); word; word = strtok(NULL, "@")) expect_word(text, word);
  free(copy);
}

TEST(test_help) {
  char *text = printed(HELP_TEXT);
  expect_words(
      text,
      "usage: mpirun -np N@config.ini [section.key=value ...]@-h, --help[=FORM] @-V, --version @-n, "
      "--dry-run @"
      "-b, --benchmark STEPS @-r, --restart FILE|auto @    --report FILE.json @-q, --quiet @-v, --verbose @"
      "\n[source.N]\n@\n  transport = auto @75 stopped");
  for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
    assert_true(strcspn(line, "\n") <= 120);
  for (const config_key *key = config_keys; key < config_keys + config_key_count; key++) {
    const char *start = text_of("\n  %s = ", key->name);
    expect_word(text, start);
    expect_word(text, key->doc);
  }
  free(text);
}

/* The whole of a shipped file; the caller frees it. */
static char *shipped(const char *name) {
  const char *path = text_of("%s/%s", SHIPPED, name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("%s cannot be read", path);
  char *text = NULL;
  size_t size = 0;
  assert_true(getdelim(&text, &size, 0, file) > 0);
  fclose(file);
  return text;
}

TEST(test_printed_files_are_up_to_date) {
  static const struct {
    enum help_form form;
    const char *name, *command;
  } files[] = {{HELP_MARKDOWN, "docs/CONFIG.md", "stencil --help=markdown >docs/CONFIG.md"},
               {HELP_MAN, "docs/stencil.1", "stencil --help=man >docs/stencil.1"},
               {HELP_BASH, "jobs/stencil.bash", "stencil --help=bash >jobs/stencil.bash"}};
  for (int i = 0; i < COUNT(files); i++) {
    char *now = printed((int)files[i].form), *then = shipped(files[i].name);
    if (strcmp(now, then) != 0)
      fail_msg("%s is not what the tables say now: run %s", files[i].name, files[i].command);
    if (files[i].form != HELP_BASH) expect_words(now, "[u]/m^2@strength s dx dy dz");
    free(now);
    free(then);
  }
}

TEST(test_examples_can_be_run) {
  for (int equation = 0; equation < EQUATION_COUNT; equation++) {
    char path[] = "/tmp/test_cli.XXXXXX", *text = printed(FORM_EXAMPLE + equation);
    const int file = mkstemp(path);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    config c;
    error e = {0};
    if (config_load(&c, path, 0, NULL, &e)) fail_msg("%s\nin\n%s", e.text, text);
    assert_int_equal(c.equation, equation);
    assert_int_equal(c.initial, INITIAL_GAUSSIAN);
    assert_int_equal(strstr(text, "[source.1]") != NULL, equation_has((enum equation)equation, HAS_SOURCES));
    assert_int_equal(strstr(text, "\n; cfl = 0.9") != NULL,
                     !equation_has((enum equation)equation, GIVEN_WEIGHTS));
    config_free(&c);
    unlink(path);
    free(text);
  }
}

TEST(test_version) {
  char *text = printed(FORM_VERSION);
  assert_memory_equal(text, "stencil 0.", strlen("stencil 0."));
  expect_words(text, " (git @\nbuild: @\nC compiler: @\nCUDA toolkit: @\nMPI: @\nHDF5: @\nbackends:\n  "
                     "host\n  cuda: @\nkernels:\n");
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel *k = &kernel_table[i];
    const char *start = text_of("\n  %s %s ", backend_name(k->backend), k->name);
    expect_word(text, start);
    expect_word(text, k->note);
    char *line = strstr(text, start) + 1, *end = strchr(line, '\n'), *found = strstr(line, "not compiled in");
    assert_int_equal(found && found < end, !k->host && !k->cuda);
  }
  free(text);
}

TEST_MAIN("cli", NULL, NULL)
