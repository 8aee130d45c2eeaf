/* Shared by the test programs: cmocka with its prerequisites, and random numbers that are the same everywhere. */
#ifndef STENCIL_TEST_H
#define STENCIL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>
#include "base/error.h"

/* Name of an error id as written in error.def. */
static inline const char *error_name(int id) {
  static const char *const names[] = {
      "NONE",
#define X(name, exit, format) #name,
#include "base/error.def"
#undef X
  };
  return names[id];
}

#define COUNT(array) ((int)(sizeof array / sizeof array[0]))

/* Of the call that OK makes, which must succeed: else the test fails with the error's text. */
static error E __attribute__((unused));
#define OK(call)                                                                                             \
  do {                                                                                                       \
    E = (error){0};                                                                                          \
    assert_ok(call, &E);                                                                                     \
  } while (0)
/* It must fail with this error and message. */
#define FAILS(call, expected_id, message)                                                                    \
  do {                                                                                                       \
    E = (error){0};                                                                                          \
    assert_int_equal(call, expected_id);                                                                     \
    assert_string_equal(E.text, message);                                                                    \
  } while (0)
#define assert_ok(call, e)                                                                                   \
  do {                                                                                                       \
    if ((call) != 0) fail_msg("%s: %s: %s", #call, error_name((e)->id), (e)->text);                          \
  } while (0)

/* A test registers itself: TEST(name) {...}, or, with what a setup has made, TEST_OF(name, type *made) {...}.
 * TEST_MAIN("group", setup, teardown) of the group runs those of the program, in the order of their lines. */
enum { TESTS_MAX = 64 };
static struct CMUnitTest tests[TESTS_MAX + 1]; /* cmocka leaves out those without a name */
static int test_lines[TESTS_MAX];

static inline void test_register(struct CMUnitTest test, int line) {
  int i = 0;
  while (tests[i].name) i++;
  if (i == TESTS_MAX) abort();
  for (; i > 0 && test_lines[i - 1] > line; i--) tests[i] = tests[i - 1], test_lines[i] = test_lines[i - 1];
  tests[i] = test, test_lines[i] = line;
}

#define TEST_REGISTER(test_name, parameter, call)                                                            \
  static void test_name(parameter);                                                                          \
  static void test_name##_call(void **state) {                                                               \
    (void)state;                                                                                             \
    test_name(call);                                                                                         \
  }                                                                                                          \
  __attribute__((constructor)) static void test_name##_register(void) {                                      \
    test_register((struct CMUnitTest){.name = #test_name, .test_func = test_name##_call}, __LINE__);         \
  }                                                                                                          \
  static void test_name(parameter)
#define NO_STATE
#define TEST(name)               TEST_REGISTER(name, void, NO_STATE)
#define TEST_OF(name, parameter) TEST_REGISTER(name, parameter, *state)
#define RUN_TESTS(group)         cmocka_run_group_tests_name(group, tests, NULL, NULL)
#define TEST_MAIN(group, setup, teardown)                                                                    \
  int main(void) {                                                                                           \
    return cmocka_run_group_tests_name(group, tests, setup, teardown);                                       \
  }

/* Each test has a setup and a teardown of its own. */
static inline void tests_each(CMFixtureFunction setup, CMFixtureFunction teardown) {
  for (struct CMUnitTest *t = tests; t->name; t++) t->setup_func = setup, t->teardown_func = teardown;
}

#define TEST_MAIN_EACH(group, setup, teardown)                                                               \
  int main(void) {                                                                                           \
    tests_each(setup, teardown);                                                                             \
    return RUN_TESTS(group);                                                                                 \
  }

/* A text of its own, which stays as long as the program runs. */
__attribute__((format(printf, 1, 2))) static inline const char *text_of(const char *format, ...) {
  static struct text {
    struct text *before; /* so that no text is lost */
    char *text;
  } * last;
  struct text *new = malloc(sizeof *new);
  va_list args;
  assert_non_null(new);
  va_start(args, format);
  assert_true(vasprintf(&new->text, format, args) >= 0);
  va_end(args);
  new->before = last, last = new;
  return new->text;
}

/* A full disk: files of this process may not grow beyond so many bytes. */
static inline void limit_file_size(rlim_t bytes) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* xorshift64*: uniform in [-1, 1). */
static inline float test_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (float)((*state * 0x2545F4914F6CDD1Du) >> 40) * 0x1p-23f - 1.0f;
}

#endif
