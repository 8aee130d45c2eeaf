/* A point of jacobi costs 8 sums of two neighbours and 17 products or fused multiply-adds (kernels/host_simd_body.h). A
 * turn does these operations. At least 14 others separate an accumulator from its next use, so latency does not bind.
 * On x86 every operation is one instruction of inline assembly: the compiler can merge, drop or spill none. */
#include "base/clock.h"
#include "arithmetic.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 1 << 18, PIECES = 40 };

/* F: multiply-add, A: add. */
#define TURN(F, A, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y)                \
  F(a)                                                                                                       \
  A(b)                                                                                                       \
  F(c) F(d) A(e) F(f) F(g) A(h) F(i) F(j) A(k) F(l) F(m) A(n) F(o) F(p) A(q) F(r) F(s) A(t) F(u) F(v) A(w)   \
      F(x) F(y)

typedef void mix(void);
typedef struct variant {
  const char *isa;
  int lanes;
  mix *run; /* TURNS turns */
} variant;

#ifdef __x86_64__
#include <immintrin.h>

/* Accumulators that are multiplied stay between 0 and 3, the others below 2^24. */
#define MULTIPLY_ADD(x) __asm__ volatile("vfmadd213ps %1, %1, %0" : "+v"(x) : "v"(half));
#define ADD(x)          __asm__ volatile("vaddps %1, %0, %0" : "+v"(x) : "v"(half));

__attribute__((target("avx512f"))) static void mix_avx512(void) {
  const __m512 half = _mm512_set1_ps(0.5f);
  __m512 a = half, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a, m = a, n = a,
         o = a, p = a, q = a, r = a, s = a, t = a, u = a, v = a, w = a, x = a, y = a;
  for (int turn = 0; turn < TURNS; turn++) {
    TURN(MULTIPLY_ADD, ADD, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y)
  }
}

/* With 16 registers there is room for 15 accumulators: 10 of them are used twice a turn. */
__attribute__((target("avx2,fma"))) static void mix_avx2(void) {
  const __m256 half = _mm256_set1_ps(0.5f);
  __m256 a = half, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a, m = a, n = a,
         o = a;
  for (int turn = 0; turn < TURNS; turn++) {
    TURN(MULTIPLY_ADD, ADD, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, a, b, c, d, e, f, g, h, i, j)
  }
}

#undef MULTIPLY_ADD
#undef ADD
#endif

/* The compiler fuses where the target can. Every accumulator depends on itself alone, so no two turns can become
 * one. */
typedef float four __attribute__((vector_size(16)));
#define MULTIPLY_ADD(x) x = x * half + half;
#define ADD(x)          x = x + half;
static void mix_portable(void) {
  const four half = {0.5f, 0.5f, 0.5f, 0.5f};
  four a = half, b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a, m = a, n = a,
       o = a;
  for (int turn = 0; turn < TURNS; turn++) {
    TURN(MULTIPLY_ADD, ADD, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, a, b, c, d, e, f, g, h, i, j)
  }
  volatile four used = a + b + c + d + e + f + g + h + i + j + k + l + m + n + o;
  (void)used;
}

static variant find_variant(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return (variant){"AVX-512", 16, mix_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return (variant){"AVX2+FMA", 8, mix_avx2};
#endif
  return (variant){"portable C", 4, mix_portable};
}

/* What the threads share, and what each finds. */
typedef struct common {
  variant v;
  pthread_barrier_t *barrier;
} common;
typedef struct worker {
  pthread_t thread;
  const common *all;
  double mix; /* seconds of the best piece */
} worker;

/* All threads begin every piece together. */
static void *worker_main(void *argument) {
  worker *me = argument;
  for (int piece = 0; piece < PIECES; piece++) {
    pthread_barrier_wait(me->all->barrier);
    double begin = clock_seconds();
    me->all->v.run();
    const double seconds = clock_seconds() - begin;
    if (piece == 0 || seconds < me->mix) me->mix = seconds;
  }
  return NULL;
}

arithmetic arithmetic_measure(int threads) {
  worker *workers = calloc((size_t)threads, sizeof *workers);
  pthread_barrier_t barrier;
  common all = {find_variant(), &barrier};
  if (!workers || pthread_barrier_init(&barrier, NULL, (unsigned)threads)) exit(1);
  for (int t = 0; t < threads; t++) {
    workers[t].all = &all;
    if (pthread_create(&workers[t].thread, NULL, worker_main, &workers[t])) exit(1);
  }
  arithmetic found = {.isa = all.v.isa};
  for (int t = 0; t < threads; t++) {
    pthread_join(workers[t].thread, NULL);
    found.gpts += 1e-9 * all.v.lanes * TURNS / workers[t].mix;
  }
  pthread_barrier_destroy(&barrier);
  free(workers);
  return found;
}
