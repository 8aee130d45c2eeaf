/* The quantity of an input dataset, and the numbers that are no values. */
#ifndef STENCIL_QUANTITY_H
#define STENCIL_QUANTITY_H

#include <stdbool.h>
#include <stdio.h>

/* The unit of a quantity is SI. */
enum quantity {
  QUANTITY_NONE,
  QUANTITY_LENGTH,
  QUANTITY_TIME,
  QUANTITY_OF_MEDIUM /* add enum medium */
};

/* Numbers from `first` to `last` stand for missing values, as this attribute says. */
typedef struct missing_range {
  float first, last;
  char attribute[16];
} missing_range;

enum { MISSING_MOST = 16, MISSING_TEXT = 64 };

typedef struct missing_values {
  int count;
  missing_range range[MISSING_MOST];
} missing_values;

/* The range that a number is in, or NULL. */
static inline const missing_range *missing_find(const missing_values *m, float number) {
  for (int i = 0; i < m->count; i++)
    if (number >= m->range[i].first && number <= m->range[i].last) return &m->range[i];
  return NULL;
}

/* For messages. */
static inline const char *missing_text(const missing_range *r, float number, char text[MISSING_TEXT]) {
  snprintf(text, MISSING_TEXT, "%.7g, missing as its %s says,", (double)number, r->attribute);
  return text;
}

#endif
