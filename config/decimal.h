/* Reads numbers strictly: the whole text must be plain or scientific decimal notation. (strtod alone would accept nan,
 * inf, hex, blanks and text after the number.) */
#ifndef STENCIL_DECIMAL_H
#define STENCIL_DECIMAL_H

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Has strtod or strtoll taken all of `text`, up to `end`, and are all its characters among `characters`? */
static inline bool decimal_whole(const char *text, const char *end, const char *characters) {
  return end > text && !*end && !text[strspn(text, characters)];
}

/* False unless `text` is a number that a double can hold. A number that underflows to 0 is refused. */
static inline bool decimal_number(const char *text, double *number) {
  char *end;
  errno = 0;
  *number = strtod(text, &end);
  bool vanished = errno == ERANGE && *number == 0;
  return decimal_whole(text, end, "+-.0123456789eE") && isfinite(*number) && !vanished;
}

/* False unless `text` is an integer; 1e3 is an integer too. Beyond int64_t, *integer is the nearest limit and *beyond
 * is true. */
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
