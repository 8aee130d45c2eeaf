/* What the numbers of an input dataset mean: netCDF's packing, units and fill values. */
#ifndef STENCIL_PACKING_H
#define STENCIL_PACKING_H

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

/* A value, in SI units, is (number scale + offset) times / per, unless the number is a fill value. */
typedef struct packing {
  bool plain; /* every number is a value as it is */
  bool whole; /* integers: fill values are compared exactly; else as float32 */
  double scale, offset;
  double times, per; /* of the unit: 1 and 100 for cm */
  int fills;
  double fill[PACKING_FILLS];
  char told[PACKING_TEXT]; /* what is converted, for the log; "": nothing */
} packing;

static inline double packing_unpack(const packing *n, double number) {
  return number * n->scale + n->offset;
}

static inline double packing_to_si(const packing *n, double value) {
  return value * n->times / n->per;
}

static inline bool packing_is_fill(const packing *n, double number) {
  const double v = n->whole ? number : (double)(float)number;
  for (int i = 0; i < n->fills; i++)
    if (v == n->fill[i]) return true;
  return false;
}

enum { PACKING_FOUND = 64 };
/* For messages. */
static inline const char *packing_found_fill(const packing *n, double number, char text[PACKING_FOUND]) {
  snprintf(text, PACKING_FOUND, "the fill value %.*g", n->whole ? 17 : 7, number);
  return text;
}

#endif
