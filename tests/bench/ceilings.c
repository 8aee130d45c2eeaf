/* What this machine's memory and arithmetic allow and how near the host kernels come to it.
 *   bench_ceilings [NX NY NZ [THREADS]]     (default 256 256 256 and every core it may use)
 * Copy bandwidth counts bytes read + bytes written. A kernel that reads and writes each point once moves 8
 * bytes a point, so copy / 8 bounds its rate; a medium of its own at every point adds 4 and the wave, which
 * reads what it overwrites, 4. Every figure is the best of several passes from one field to the other and
 * back, by threads that first touched their own share, on huge pages where the system grants them; as in the
 * program, a thread that has done its share takes parts of others' shares. What arithmetic allows is the rate of a jacobi
 * point's operations on registers (arithmetic.h); the other equations have one and two more. */
#include "base/clock.h"
#include "base/thread.h"
#include "device/host_memory.h"
#include "device/host_stream.h"
#include "halo/slab.h"
#include "kernels/host_share.h"
#include "kernels/kernel.h"
#include "arithmetic.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PASSES_MIN = 8, COPY_PIECES = 16, THREADS_MAX = 512 };
static const double SECONDS_MIN = 0.25;

/* One measurement: `pass` is run by every thread, for its share, from one field to the other. */
typedef struct work {
  void (*pass)(struct work *w, int part, const float *from, float *to);
  const slab *s;
  const kernel *k;
  enum equation equation;
  bool medium; /* a field, else one number */
  float *field[2], *media;
  size_t floats;
  int threads;
  int pieces; /* parts of each thread; others take them only where it has several */
  host_parts parts[THREADS_MAX];
  double start[THREADS_MAX]; /* s, when each thread began: the pass begins with the first */
  pthread_barrier_t barrier;
  double best; /* seconds; written by thread 0 */
  bool done;
} work;

typedef struct worker {
  pthread_t thread;
  work *w;
  int part;
} worker;

/* Floats [begin, end) that belong to a part, in whole 128-byte lines. */
static size_t share_begin(const work *w, int part) {
  return w->floats / SLAB_ALIGN * (size_t)part / (size_t)(w->threads * w->pieces) * SLAB_ALIGN;
}

typedef float vector __attribute__((vector_size(16), may_alias));

/* Compiled so that it does not become a memcpy, which stores around the cache (CMakeLists.txt). */
static void copy_plain(work *w, int part, const float *from, float *to) {
  for (size_t i = share_begin(w, part); i < share_begin(w, part + 1); i += 4)
    *(vector *)(to + i) = *(const vector *)(from + i);
}

#ifdef __x86_64__
#include <immintrin.h>
static void copy_streaming(work *w, int part, const float *from, float *to) {
  for (size_t i = share_begin(w, part); i < share_begin(w, part + 1); i += 4)
    _mm_stream_ps(to + i, _mm_load_ps(from + i));
  _mm_sfence();
}
__attribute__((target("avx512f"))) static void copy_plain_avx512(work *w, int part, const float *from,
                                                                 float *to) {
  for (size_t i = share_begin(w, part); i < share_begin(w, part + 1); i += 16)
    _mm512_store_ps(to + i, _mm512_load_ps(from + i));
}
__attribute__((target("avx512f"))) static void copy_streaming_avx512(work *w, int part, const float *from,
                                                                     float *to) {
  for (size_t i = share_begin(w, part); i < share_begin(w, part + 1); i += 16)
    _mm512_stream_ps(to + i, _mm512_load_ps(from + i));
  _mm_sfence();
}
#endif

static void fill(work *w, int part, const float *from, float *to) {
  (void)from;
  uint32_t state = 12345u + (uint32_t)part;
  for (size_t i = share_begin(w, part); i < share_begin(w, part + 1); i++) {
    state = state * 1664525u + 1013904223u;
    to[i] = w->media[i] = (float)(state >> 8) * 0x1p-24f;
  }
}

/* Weights that keep the fields finite: an average for jacobi, else a Laplacian with m < 1. */
static kernel_args arguments(const work *w, const float *from, float *to) {
  const slab *s = w->s;
  size_t first = slab_offset(s, 0, 0, 0);
  kernel_args a = {.in = from + first, .out = to + first, .pitch = s->pitch, .plane = s->plane};
  a.medium[0] = w->medium ? w->media + first : NULL;
  a.scale[0] = 0.5f;
  a.nx = s->nx, a.ny = s->ny, a.nz = s->nz, a.z_end = s->nz;
  a.equation = w->equation;
  a.center = equation_has(w->equation, GIVEN_WEIGHTS) ? 0.4f : -0.6f;
  for (int r = 1; r <= 4; r++) a.wx[r] = a.wy[r] = a.wz[r] = 0.05f - 0.01f * (float)r; /* they sum to 0.6 */
  return a;
}

static void kernel_pass(work *w, int part, const float *from, float *to) {
  const kernel_args a = arguments(w, from, to);
  w->k->host(&a, part, w->threads * w->pieces);
}

static int kernel_pieces(const work *w) {
  const kernel_args a = arguments(w, w->field[0], w->field[1]);
  return host_share_pieces(&a, w->threads);
}

/* The thread's own parts, then those that others have left. */
static void do_parts(work *w, int own, const float *from, float *to) {
  for (int i = 0; i < (w->pieces > 1 ? w->threads : 1); i++) {
    const int owner = (own + i) % w->threads;
    for (int part; (part = host_parts_take(w->parts, owner, w->pieces)) >= 0;) w->pass(w, part, from, to);
  }
}

static double first_start(const work *w) {
  double first = w->start[0];
  for (int i = 1; i < w->threads; i++) first = fmin(first, w->start[i]);
  return first;
}

static void *worker_main(void *argument) {
  worker *me = argument;
  work *w = me->w;
  double begin = clock_seconds();
  for (int n = 0; !w->done; n++) {
    w->parts[me->part].left = w->pieces;
    pthread_barrier_wait(&w->barrier);
    w->start[me->part] = clock_seconds();
    do_parts(w, me->part, w->field[n % 2], w->field[(n + 1) % 2]);
    pthread_barrier_wait(&w->barrier);
    if (me->part == 0) {
      double seconds = clock_seconds() - first_start(w);
      if (n == 0 || seconds < w->best) w->best = seconds;
      w->done = n + 1 >= PASSES_MIN && clock_seconds() - begin > SECONDS_MIN;
    }
    pthread_barrier_wait(&w->barrier);
  }
  return NULL;
}

/* Seconds of the fastest pass. */
static double measure(work *w, void (*pass)(work *, int, const float *, float *), int pieces) {
  worker workers[THREADS_MAX];
  w->pass = pass;
  w->pieces = pieces;
  w->done = false;
  pthread_barrier_init(&w->barrier, NULL, (unsigned)w->threads);
  for (int t = 0; t < w->threads; t++) {
    workers[t] = (worker){.w = w, .part = t};
    if (thread_start(&workers[t].thread, worker_main, &workers[t])) exit(1);
  }
  for (int t = 0; t < w->threads; t++) pthread_join(workers[t].thread, NULL);
  pthread_barrier_destroy(&w->barrier);
  return w->best;
}

static double gbs_of(work *w, void (*pass)(work *, int, const float *, float *)) {
  return 2e-9 * sizeof(float) * (double)w->floats / measure(w, pass, COPY_PIECES);
}

static double copy_gbs(work *w, const char *what, void (*pass)(work *, int, const float *, float *)) {
  double gbs = gbs_of(w, pass);
  printf("copy   %-26s %8.2f GB/s\n", what, gbs);
  return gbs;
}

/* GB/s of the fastest way to copy. */
static double measure_copies(work *w) {
  double best = copy_gbs(w, "plain stores", copy_plain);
#ifdef __x86_64__
  best = fmax(best, copy_gbs(w, "non-temporal, 16 bytes", copy_streaming));
  if (__builtin_cpu_supports("avx512f")) {
    best = fmax(best, copy_gbs(w, "plain stores, 64 bytes", copy_plain_avx512));
    best = fmax(best, copy_gbs(w, "non-temporal, 64 bytes", copy_streaming_avx512));
  }
#endif
  return best;
}

/* Bytes that must move for each point. */
static int ideal_bytes(const work *w) {
  return 4 * (1 + EQUATIONS[w->equation].levels + w->medium);
}

static void measure_kernel(work *w, double copy, double registers, bool medium) {
  double points = (double)w->s->nx * w->s->ny * w->s->nz;
  w->medium = medium;
  double gpts = 1e-9 * points / measure(w, kernel_pass, kernel_pieces(w));
  const double memory = copy / ideal_bytes(w);
  printf("%-6s %-14s %-11s %8.4f Gpts/s  ", equation_name(w->equation), w->k->name, medium ? "medium" : "",
         gpts);
  printf("%5.1f %% of copy / %d, %5.1f %% of registers: %5.1f %% of the lower, %s\n", 100 * gpts / memory,
         ideal_bytes(w), 100 * gpts / registers, 100 * gpts / fmin(memory, registers),
         memory < registers ? "copy" : "registers");
}

static void measure_kernels(work *w, double copy, double registers) {
  for (int i = 0; i < kernel_table_size; i++) {
    w->k = &kernel_table[i];
    if (!w->k->host || w->k->flags & KERNEL_WAVEFRONT) continue; /* the same launch as simd */
    for (int q = 0; q < EQUATION_COUNT; q++) {
      const bool media = EQUATIONS[w->equation = (enum equation)q].media > 0;
      measure_kernel(w, copy, registers, false);
      if (strcmp(w->k->name, "simd") == 0 && media) measure_kernel(w, copy, registers, true);
    }
  }
}

static int positive(const char *text) {
  int n = atoi(text);
  if (n >= 1) return n;
  fprintf(stderr, "usage: bench_ceilings [NX NY NZ [THREADS]]\n");
  exit(EXIT_CODE_CONFIG);
}

/* More threads than these would take turns, and a pass would be timed while some do not run. */
static int usable_cores(void) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  return sched_getaffinity(0, sizeof mine, &mine) ? (int)sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&mine);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0); /* it takes a minute: who stops it has what was measured until then */
  int n[4] = {256, 256, 256, usable_cores()};
  for (int i = 1; i < argc && i <= 4; i++) n[i - 1] = positive(argv[i]);
  if (n[3] > THREADS_MAX) n[3] = THREADS_MAX;
  slab s;
  error e = {0};
  if (slab_init(&s, &(slab_shape){.nx = n[0], .ny = n[1], .nz = n[2]}, 0, 1, &e)) {
    fprintf(stderr, "bench_ceilings: %s\n", e.text);
    return error_exit_code(e.id);
  }
  work w = {.s = &s, .floats = slab_floats(&s), .threads = n[3]};
  size_t bytes = (w.floats * sizeof(float) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  float **const fields[] = {&w.field[0], &w.field[1], &w.media};
  for (int i = 0; i < 3; i++) {
    *fields[i] = aligned_alloc(HUGE_PAGE, bytes);
    if (!*fields[i]) {
      fprintf(stderr, "bench_ceilings: no memory for three fields of %zu bytes\n", bytes);
      return EXIT_CODE_DEVICE;
    }
    madvise(*fields[i], bytes, MADV_HUGEPAGE);
  }
  measure(&w, fill, 1);
  printf("%d x %d x %d points, %d threads, best of at least %d passes\n", n[0], n[1], n[2], n[3], PASSES_MIN);
  const double copy = measure_copies(&w);
  const arithmetic registers = arithmetic_measure(n[3]);
  printf("registers, %-22s %8.2f Gpts/s\n", registers.isa, registers.gpts);
  measure_kernels(&w, copy, registers.gpts);
  for (int i = 0; i < 3; i++) free(*fields[i]);
  return 0;
}
