/* How traces lie in memory, or in a file in place of it: in blocks of some traces. A block has sample after sample,
 * each of all its traces. So one sample of all traces is a few pieces, and a whole trace lies within one block.
 * Reading either does not read all of a file. */
#ifndef STENCIL_TRACES_H
#define STENCIL_TRACES_H

#include <stdint.h>

/* It owns nothing. */
typedef struct traces {
  float *x;
  int64_t samples, count; /* samples of each trace; traces */
  int64_t width;          /* traces of a block, at least 1; the last block may have fewer */
  int64_t capacity;       /* samples of each trace that fit */
} traces;

/* Number of traces in the block of trace i: so many floats from one sample of a trace to the next. */
static inline int64_t traces_apart(const traces *t, int64_t i) {
  const int64_t left = t->count - i / t->width * t->width;
  return left < t->width ? left : t->width;
}

static inline float *traces_at(const traces *t, int64_t sample, int64_t i) {
  return t->x + i / t->width * t->width * t->capacity + sample * traces_apart(t, i) + i % t->width;
}

/* *at: the place of a sample of trace i. Returns how many traces, from i on, have that sample in one piece. */
static inline int64_t traces_piece(const traces *t, int64_t sample, int64_t i, float **at) {
  *at = traces_at(t, sample, i);
  return traces_apart(t, i) - i % t->width;
}

#endif
