/* How traces lie in memory, or in a file in place of it: in blocks of some traces, one after the other, in each
 * sample after sample. So a row of samples is a few pieces, and whole traces are near each other: none of both reads
 * all of a file. */
#ifndef STENCIL_TRACES_H
#define STENCIL_TRACES_H

#include <stdint.h>

/* It owns nothing. */
typedef struct traces {
  float *x;
  int64_t samples, count; /* samples of each trace; traces */
  int64_t width;          /* traces of a block, at least 1; the last one may have fewer */
  int64_t capacity;       /* samples that it can hold */
} traces;

/* Traces of the block that trace i is in: from one sample of it to the next there are so many floats. */
static inline int64_t traces_apart(const traces *t, int64_t i) {
  const int64_t left = t->count - i / t->width * t->width;
  return left < t->width ? left : t->width;
}

static inline float *traces_at(const traces *t, int64_t sample, int64_t i) {
  return t->x + i / t->width * t->width * t->capacity + sample * traces_apart(t, i) + i % t->width;
}

/* *at: a sample of trace i; returns how many of those after it, itself too, follow each other there. */
static inline int64_t traces_piece(const traces *t, int64_t sample, int64_t i, float **at) {
  *at = traces_at(t, sample, i);
  return traces_apart(t, i) - i % t->width;
}

#endif
