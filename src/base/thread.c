#include "thread.h"
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "log.h"
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

/* The register with this thread's rounding mode and treatment of subnormal numbers. */
#if defined __SSE2__
enum { FLUSH = 0x8040 }; /* flush to zero, and denormals are zeros */
static unsigned thread_mode(void) {
  return _mm_getcsr();
}
static void thread_set_mode(unsigned mode) {
  _mm_setcsr(mode);
}
#elif defined __aarch64__
enum { FLUSH = 1 << 24 };
static unsigned thread_mode(void) {
  unsigned long mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return (unsigned)mode;
}
static void thread_set_mode(unsigned mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)mode));
}
#else
enum { FLUSH = 0 };
static unsigned thread_mode(void) {
  return 0;
}
static void thread_set_mode(unsigned mode) {
  (void)mode;
}
#endif

void thread_flush_subnormals(void) {
  thread_set_mode(thread_mode() | FLUSH);
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
  /* A blocked fault would end the process before the handlers of sanitizers and MPI could report it. */
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  sigset_t others, before;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&others, faults[i]);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  const unsigned mode = thread_mode();
  thread_flush_subnormals(); /* the new thread inherits the signal mask and this mode */
  const int rc = pthread_create(thread, NULL, run, argument);
  thread_set_mode(mode);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

void thread_end_process(const error *e) {
  log_end_line();
  dprintf(STDERR_FILENO, "stencil: error: %s\n", e->text);
  _exit(error_exit_code(e->id));
}

void condition_init(pthread_cond_t *condition) {
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* as clock_seconds() */
  pthread_cond_init(condition, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

int condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double until) {
  const time_t whole = (time_t)until;
  const struct timespec at = {whole, (long)(1e9 * (until - (double)whole))};
  return pthread_cond_timedwait(condition, mutex, &at);
}
