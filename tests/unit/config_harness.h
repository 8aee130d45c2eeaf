/* Shared by the tests of the configuration: config files in a folder, loaded and checked. */
#ifndef STENCIL_CONFIG_HARNESS_H
#define STENCIL_CONFIG_HARNESS_H

#include <stdio.h>
#include <unistd.h>
#include "config/config_internal.h"
#include "config_load.h"
#include "test.h"

#define BASE "[grid]\nnx = 8\nny = 9\nnz = 10\n[time]\nsteps = 3\n" /* the next line is 7 */
#define GRID "[grid]\nnx = 64\nny = 65\nnz = 66\ndx = 10\ndy = 5\ndz = 2\norigin = -100 0 7\n"
#define WAVE GRID "[time]\nsteps = 3\n[equation]\ntype = wave\n" /* the next line is 13 */
#define HEAT GRID "[time]\nsteps = 3\n[equation]\ntype = heat\n"

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
  assert_ok(load(&c, text, override, &e), &e);
  return c;
}

static bool seen[ERROR_COUNT]; /* messages provoked so far */

/* Expands a message that begins with &: it is about the override's key; @ at its end is the override's value. */
static inline void whole_message(char whole[1024], const char *override, const char *message) {
  const char *value = strchr(override, '=') + 1, *dot = value - 1;
  const size_t ends = message[strlen(message) - 1] == '@';
  while (*dot != '.') dot--;
  const int length =
      snprintf(whole, 1024, "command line: [%.*s] %.*s%.*s", (int)(dot - override), override,
               (int)(value - dot) - 2, dot + 1, (int)(strlen(message) - 1 - ends), message + 1);
  if (ends) snprintf(whole + length, 1024 - (size_t)length, "'%s'", value);
}

/* Fails the test unless the text is refused with exactly this message. */
static inline void expect_refused(const char *text, const char *override, const char *message) {
  config c;
  error e;
  char whole[1024];
  if (override && *message == '&') whole_message(whole, override, message), message = whole;
  if (!load(&c, text, override, &e)) fail_msg("accepted, but expected: %s", message);
  seen[e.id] = true;
  assert_string_equal(e.text, message);
  assert_true(!c.sources && !c.receiver_positions);
}

/* An override may have several values, between bars. */
typedef struct refused {
  const char *text, *override, *message;
} refused;

static inline void run_refused(const refused *cases, int count) {
  for (const refused *r = cases; r < cases + count; r++) {
    const int key = r->override && strchr(r->override, '|') ? (int)strcspn(r->override, "=") + 1 : 0;
    if (!key) expect_refused(r->text, r->override, r->message);
    for (const char *value = r->override + key, *end; key; value = end + 1) {
      char override[256];
      end = value + strcspn(value, "|");
      snprintf(override, sizeof override, "%.*s%.*s", key, r->override, (int)(end - value), value);
      expect_refused(r->text, override, r->message);
      if (!*end) break;
    }
  }
}

/* Is this the message of a rule that concerns several keys? These messages follow each other in error.def. */
static inline bool is_rule(int id) {
  return id >= ERROR_CONFIG_ONLY_WITH && id <= ERROR_CONFIG_OUTSIDE;
}

#endif
