/* What the tests of the configuration share: config files in a folder of their own, loaded and checked. */
#ifndef STENCIL_CONFIG_HARNESS_H
#define STENCIL_CONFIG_HARNESS_H

#include <stdio.h>
#include <unistd.h>
#include "config/config_internal.h"
#include "test.h"

#define COUNT(array) ((int)(sizeof array / sizeof array[0]))
#define BASE         "[grid]\nnx = 8\nny = 9\nnz = 10\n[time]\nsteps = 3\n" /* the next line is 7 */
#define GRID         "[grid]\nnx = 64\nny = 65\nnz = 66\ndx = 10\ndy = 5\ndz = 2\norigin = -100 0 7\n"
#define WAVE         GRID "[time]\nsteps = 3\n[equation]\ntype = wave\n" /* the next line is 13 */
#define HEAT         GRID "[time]\nsteps = 3\n[equation]\ntype = heat\n"

static const char path[] = "t.ini"; /* in a folder of its own, so that messages are the same everywhere */
static char folder[] = "/tmp/test_config.XXXXXX";

static inline int enter_folder(void **state) {
  (void)state;
  return !mkdtemp(folder) || chdir(folder);
}

static inline int leave_folder(void **state) {
  (void)state;
  unlink(path);
  return chdir("/") || rmdir(folder);
}

static inline void write_file(const void *text, size_t size) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

/* Loads what is in the file, with one override unless it is NULL. */
static inline int load_file(config *c, const char *override, error *e) {
  *e = (error){0};
  int id = config_load(c, path, override != NULL, &override, e);
  assert_int_equal(id, e->id);
  assert_int_equal(error_exit_code(id), id ? EXIT_CODE_CONFIG : EXIT_CODE_DONE);
  assert_null(strpbrk(e->text, "\n\r"));
  assert_int_equal(e->text[0] != '\0', id != 0);
  return id;
}

static inline int load(config *c, const char *text, const char *override, error *e) {
  write_file(text, strlen(text));
  return load_file(c, override, e);
}

/* The caller frees it. */
static inline config expect_taken(const char *text, const char *override) {
  config c;
  error e;
  if (load(&c, text, override, &e)) fail_msg("%s", e.text);
  return c;
}

static bool seen[ERROR_COUNT]; /* messages provoked so far */

/* Fails the test unless the text is refused with exactly this message. */
static inline void expect_refused(const char *text, const char *override, const char *message) {
  config c;
  error e;
  if (!load(&c, text, override, &e)) fail_msg("accepted, but expected: %s", message);
  seen[e.id] = true;
  assert_string_equal(e.text, message);
  assert_true(!c.sources && !c.receiver_positions);
}

typedef struct refused {
  const char *text, *override, *message;
} refused;

static inline void run_refused(const refused *cases, int count) {
  for (int i = 0; i < count; i++) expect_refused(cases[i].text, cases[i].override, cases[i].message);
}

/* Is this the message of a rule that concerns several keys? These messages follow each other in error.def. */
static inline bool is_rule(int id) {
  return id >= ERROR_CONFIG_ONLY_WITH && id <= ERROR_CONFIG_OUTSIDE;
}

#endif
