/* Rows of bench_ceilings for the step loop with kernel `wavefront`. */
#ifndef STENCIL_BENCH_WAVEFRONT_H
#define STENCIL_BENCH_WAVEFRONT_H

#include <stdio.h>
#include "step/step.h"

/* Two fields of a slab without neighbours, and their medium. */
typedef struct wavefront_bench {
  const slab *s;
  float *field[2], *media;
  int threads;
} wavefront_bench;

/* Gpts/s of the best pass of the step loop on the host device in such a way (depth 1: kernel `simd`); `medium`: a field,
 * else one number. */
double wavefront_rate(const wavefront_bench *b, enum equation equation, bool medium, wavefront_shape way);

/* Best rates of an equation, Gpts/s, one for each of wavefront_ways, and the ceilings of the same run. */
typedef struct wavefront_rates {
  enum equation equation;
  bool medium;
  double copy;      /* GB/s */
  double registers; /* Gpts/s that arithmetic allows (arithmetic.h): the other ceiling */
  double cached;    /* Gpts/s of the sweep on fields that fit each core's L2 cache */
  double silent;    /* the same, not asking for planes that enter */
  double gpts[WAVEFRONT_WAYS];
} wavefront_rates;

/* Prints them, each beside both ceilings, and appends them to the list `json` where it is not NULL. */
void wavefront_rates_print(const wavefront_rates *r, const slab *s, int threads, FILE *json);

/* Removes --json FILE from the front of the arguments and begins a list in FILE; NULL where the option is missing. */
FILE *json_begin(int *argc, char ***argv);
void json_end(FILE *json);

#endif
