/* What the numbers of an input dataset mean: netCDF's packing, units and fill values. */
#ifndef STENCIL_QUANTITY_H
#define STENCIL_QUANTITY_H

#include <stdbool.h>
#include <stdio.h>

/* What they measure. A dataset of a quantity may be in any unit of it that is known; none counts as SI. */
enum quantity {
  QUANTITY_NONE,
  QUANTITY_LENGTH,
  QUANTITY_TIME,
  QUANTITY_OF_MEDIUM /* and more: + enum medium */
};

enum { PACKING_FILLS = 16, PACKING_TEXT = 256 };

/* A value, in SI units, is (number scale + offset) times / per, unless the number stands for a missing one. */
typedef struct packing {
  bool plain; /* every number is a value as it is */
  bool whole; /* integers: numbers are compared exactly; else as float32 */
  double scale, offset;
  double times, per; /* of the unit: 1 and 100 for cm */
  int fills;
  double fill[PACKING_FILLS];
  bool unpacked;           /* `valid` limits number scale + offset, as float32; else the number */
  double valid[2];         /* least and greatest */
  char told[PACKING_TEXT]; /* what is converted, for the log; "": nothing */
} packing;

static inline double packing_unpack(const packing *n, double number) {
  return number * n->scale + n->offset;
}

static inline double packing_to_si(const packing *n, double value) {
  return value * n->times / n->per;
}

/* The number, as fill values and limits are compared with it. */
static inline double packing_compared(const packing *n, bool unpacked, double number) {
  return n->whole && !unpacked ? number : (double)(float)(unpacked ? packing_unpack(n, number) : number);
}

static inline bool packing_is_fill(const packing *n, double number) {
  for (int i = 0; i < n->fills; i++)
    if (packing_compared(n, false, number) == n->fill[i]) return true;
  return false;
}

static inline bool packing_is_missing(const packing *n, double number) {
  const double v = packing_compared(n, n->unpacked, number);
  return v < n->valid[0] || v > n->valid[1] || packing_is_fill(n, number);
}

enum { PACKING_FOUND = 128 };
/* For messages. */
static inline const char *packing_found_missing(const packing *n, double number, char text[PACKING_FOUND]) {
  const int digits = n->whole && !n->unpacked ? 17 : 7;
  if (packing_is_fill(n, number))
    snprintf(text, PACKING_FOUND, "the fill value %.*g", digits, number);
  else
    snprintf(text, PACKING_FOUND, "%.*g, outside its valid range from %.*g to %.*g,", digits,
             packing_compared(n, n->unpacked, number), digits, n->valid[0], digits, n->valid[1]);
  return text;
}

#endif
