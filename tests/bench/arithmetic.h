/* What arithmetic alone allows, without memory and caches: the 25 operations of a jacobi point on registers. */
#ifndef STENCIL_BENCH_ARITHMETIC_H
#define STENCIL_BENCH_ARITHMETIC_H

typedef struct arithmetic {
  const char *isa;  /* as kernels/host_simd.c chooses it: "AVX-512", "AVX2+FMA", "portable C" */
  double gpts;      /* of all threads at once */
  double ghz;       /* of a core that runs dependent multiplications; 0: not known here */
  double per_cycle; /* vector operations a thread completes in each cycle of that clock; 0: not known */
} arithmetic;

/* Measures it with `threads` threads at the same time: the best of many pieces of some milliseconds. Exits the program
 * if a thread cannot be started. */
arithmetic arithmetic_measure(int threads);
void arithmetic_print(const arithmetic *a);

/* The end of a line: `gpts` as a part of each ceiling, and of the lower one, which bounds it. Memory allows `copy`
 * GB/s, where a point moves `bytes`; arithmetic allows `registers` Gpts/s. */
void ceilings_print(double gpts, double copy, int bytes, double registers);

#endif
