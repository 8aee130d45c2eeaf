/* The exact sum of float32 values, up to 2^31 of them, whatever their order: a fixed-point number that spans all of
 * float32. */
#ifndef STENCIL_EXACT_SUM_H
#define STENCIL_EXACT_SUM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { EXACT_DIGITS = 10, EXACT_LOWEST = -149 /* the exponent of the least float */ };

/* Sum of digit[i] 2^(32 i + EXACT_LOWEST); start from {0}. */
typedef struct exact_sum {
  int64_t digit[EXACT_DIGITS];
  int64_t others; /* values that are not finite */
} exact_sum;

static inline void exact_add(exact_sum *s, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t exponent = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF;
  s->others += exponent == 0xFF;
  const uint32_t shift = exponent ? exponent - 1 : 0;
  const int64_t magnitude = (int64_t)(exponent ? fraction | 0x800000 : fraction) << shift % 32;
  const int64_t sign = bits >> 31 ? -1 : 1;
  s->digit[shift / 32] += sign * (magnitude & 0xFFFFFFFF);
  s->digit[shift / 32 + 1] += sign * (magnitude >> 32);
}

/* Digits 0 to 2^32 - 1 of the sum's magnitude; returns its sign. */
static inline int exact_digits(const exact_sum *s, uint32_t digit[EXACT_DIGITS]) {
  for (int sign = 1;; sign = -1) {
    int64_t carry = 0;
    for (int i = 0; i < EXACT_DIGITS; i++) {
      carry += sign * s->digit[i];
      digit[i] = (uint32_t)carry;
      carry = carry >= 0 ? carry >> 32 : -((-carry + 0xFFFFFFFF) >> 32);
    }
    if (carry == 0) return sign;
  }
}

/* The sum, rounded once to nearest, ties to even. Below the least normal number it is 0, as everywhere; beyond the
 * largest it is Inf. */
static inline float exact_value(const exact_sum *s) {
  uint32_t digit[EXACT_DIGITS], kept = 0;
  const int sign = exact_digits(s, digit);
  int top = 32 * EXACT_DIGITS - 1, rest = 0;
  if (s->others) return NAN;
  while (top >= 0 && !(digit[top / 32] >> top % 32 & 1)) top--;
  if (top < 23) return 0;
  for (int i = top; i >= top - 23; i--) kept = kept << 1 | (digit[i / 32] >> i % 32 & 1);
  const int half = top - 24;
  for (int i = half - 1; i >= 0 && !rest; i--) rest = digit[i / 32] >> i % 32 & 1;
  if (half >= 0 && (digit[half / 32] >> half % 32 & 1) && (rest || kept & 1)) kept++;
  return (float)ldexp(sign * (double)kept, top - 23 + EXACT_LOWEST);
}

#endif
