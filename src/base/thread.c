#include "thread.h"
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument) {
  /* A fault that is blocked ends the process without the words of who handles it, as sanitizers and MPI do. */
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  sigset_t others, before;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&others, faults[i]);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  const int rc = pthread_create(thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

void thread_end_process(const error *e) {
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
