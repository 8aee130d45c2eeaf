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

static inline bool decimal_is(const char *s) {
  static const char digits[] = "0123456789";
  s += *s == '+' || *s == '-';
  size_t whole = strspn(s, digits), fraction = 0;
  s += whole;
  if (*s == '.') {
    fraction = strspn(s + 1, digits);
    s += 1 + fraction;
  }
  if (whole + fraction == 0) return false;
  if (*s == 'e' || *s == 'E') {
    s++;
    s += *s == '+' || *s == '-';
    size_t exponent = strspn(s, digits);
    if (exponent == 0) return false;
    s += exponent;
  }
  return *s == '\0';
}

/* False unless `text` is a number that a double can hold. A number too small to be told from 0 is not. */
static inline bool decimal_number(const char *text, double *number) {
  if (!decimal_is(text)) return false;
  errno = 0;
  *number = strtod(text, NULL);
  bool vanished = errno == ERANGE && *number == 0;
  return isfinite(*number) && !vanished;
}

/* False unless `text` is an integer; 1e3 is one too. Beyond int64_t, *integer is its nearest limit and
 * *beyond true. */
static inline bool decimal_integer(const char *text, int64_t *integer, bool *beyond) {
  double number;
  errno = 0;
  if (!strpbrk(text, ".eE")) {
    if (!decimal_is(text)) return false;
    *integer = strtoll(text, NULL, 10);
    *beyond = errno == ERANGE;
    return true;
  }
  if (!decimal_number(text, &number) || number != floor(number)) return false;
  *beyond = fabs(number) >= 0x1p63;
  *integer = !*beyond ? (int64_t)number : number > 0 ? INT64_MAX : INT64_MIN;
  return true;
}

#endif
