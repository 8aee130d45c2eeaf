/* Strict numbers for what users type: plain or scientific decimal notation and nothing else, the whole text
 * consumed. (strtod alone would accept nan, inf, hex, blanks and text after the number.) */
#ifndef STENCIL_DECIMAL_H
#define STENCIL_DECIMAL_H

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Is it all of `text` that strtod or strtoll has taken, up to `end`, and of these characters? */
static inline bool decimal_whole(const char *text, const char *end, const char *characters) {
  return end > text && !*end && !text[strspn(text, characters)];
}

/* False unless `text` is a number that a double can hold. A number that would become 0 is not. */
static inline bool decimal_number(const char *text, double *number) {
  char *end;
  errno = 0;
  *number = strtod(text, &end);
  bool vanished = errno == ERANGE && *number == 0;
  return decimal_whole(text, end, "+-.0123456789eE") && isfinite(*number) && !vanished;
}

/* False unless `text` is an integer; 1e3 is one too. Beyond int64_t, *integer is its nearest limit and
 * *beyond true. */
static inline bool decimal_integer(const char *text, int64_t *integer, bool *beyond) {
  double number;
  char *end;
  errno = 0;
  *integer = strtoll(text, &end, 10);
  *beyond = errno == ERANGE;
  if (decimal_whole(text, end, "+-0123456789")) return true;
  if (!decimal_number(text, &number) || number != floor(number)) return false;
  *beyond = fabs(number) >= 0x1p63;
  *integer = !*beyond ? (int64_t)number : number > 0 ? INT64_MAX : INT64_MIN;
  return true;
}

#endif
