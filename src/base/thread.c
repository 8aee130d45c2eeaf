#include "thread.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "log.h"
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

/* Sets this thread's register of rounding and subnormal numbers to `mode`; with `flush`, so that subnormal numbers
 * count as 0. Returns the register's value before. */
static unsigned long thread_set_mode(bool flush, unsigned long mode) {
  unsigned long before = 0;
#if defined __SSE2__
  before = _mm_getcsr();
  _mm_setcsr((unsigned)(flush ? before | 0x8040 : mode)); /* flush to zero, and denormals are zeros */
#elif defined __aarch64__
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" : : "r"(flush ? before | 1ul << 24 : mode));
#else
  (void)flush, (void)mode;
#endif
  return before;
}

void thread_flush_subnormals(void) {
  thread_set_mode(true, 0);
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
  /* A blocked fault would end the process before the handlers of sanitizers and MPI could report it. */
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  sigset_t others, before;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&others, faults[i]);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  const unsigned long mode =
      thread_set_mode(true, 0); /* the new thread inherits the signal mask and this mode */
  const int rc = pthread_create(thread, NULL, run, argument);
  thread_set_mode(false, mode);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

void thread_run(int threads, void *(*run)(void *), void *argument) {
  enum { OTHERS_MOST = 15 };
  pthread_t others[OTHERS_MOST];
  int started = 0;
  while (started + 1 < threads && started < OTHERS_MOST && !thread_start(&others[started], run, argument))
    started++;
  const unsigned long mode = thread_set_mode(true, 0);
  run(argument);
  thread_set_mode(false, mode);
  for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
}

typedef struct thread_sharing {
  int count;
  void (*each)(void *context, int i);
  void *context;
  atomic_int next;
} thread_sharing;

static void *thread_each_main(void *argument) {
  thread_sharing *w = argument;
  for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->count;) w->each(w->context, i);
  return NULL;
}

void thread_each(int threads, int count, void (*each)(void *context, int i), void *context) {
  thread_sharing w = {.count = count, .each = each, .context = context};
  thread_run(threads < count ? threads : count, thread_each_main, &w);
}

void thread_end_process(const error *e) {
  static atomic_flag begun = ATOMIC_FLAG_INIT;
  while (atomic_flag_test_and_set(&begun)) pause(); /* several watchdogs may get here; one prints */
  log_end_line();
  dprintf(STDERR_FILENO, "stencil: error: %s\n", e->text);
  _exit(error_exit_code(e->id));
}

void condition_init(pthread_cond_t *condition) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* the clock of clock_seconds() */
  pthread_cond_init(condition, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

int condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double until) {
  const time_t whole = (time_t)until;
  const struct timespec at = {whole, (long)(1e9 * (until - (double)whole))};
  return pthread_cond_timedwait(condition, mutex, &at);
}
