/* What the test programs share: cmocka with its prerequisites, and random numbers that are the same
 * everywhere. */
#ifndef STENCIL_TEST_H
#define STENCIL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/error.h"

/* Fails the test with the error's text. */
#define assert_ok(call, e)                                                                                   \
  do {                                                                                                       \
    if ((call) != 0) fail_msg("%s: %s: %s", #call, error_name((e)->id), (e)->text);                          \
  } while (0)

/* xorshift64*: uniform in [-1, 1). */
static inline float test_random(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (float)((*state * 0x2545F4914F6CDD1Du) >> 40) * 0x1p-23f - 1.0f;
}

#endif
