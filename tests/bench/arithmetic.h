/* What arithmetic alone allows, without memory and caches: the 25 operations of a jacobi point on registers. */
#ifndef STENCIL_BENCH_ARITHMETIC_H
#define STENCIL_BENCH_ARITHMETIC_H

typedef struct arithmetic {
  const char *isa; /* as kernels/host_simd.c chooses it: "AVX-512", "AVX2+FMA", "portable C" */
  double gpts;     /* of all threads at once */
} arithmetic;

/* Measures it with `threads` threads at the same time: the best of many pieces of some milliseconds. Exits the program
 * if a thread cannot be started. */
arithmetic arithmetic_measure(int threads);

#endif
