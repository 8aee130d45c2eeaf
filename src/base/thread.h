/* Threads besides the main one, what all threads count as 0, and conditions that they wait for until a time. */
#ifndef STENCIL_THREAD_H
#define STENCIL_THREAD_H

#include <pthread.h>
#include "error.h"

/* From now on subnormal numbers count as 0 in the calling thread, as operands and as results: for the main thread.
 * Ahead of every wave lies a shell of numbers too small for the normal range, and processors take a hundred times as
 * long for those: a shot into a silent model ran 3.7 times as long as one into noise. The CUDA code is compiled to the
 * same (-ftz=true): the same bits, compared on 10^8 cases around the smallest normal number. */
void thread_flush_subnormals(void);

/* Starts a thread for which subnormal numbers count as 0. It takes no signals, nor do those that it starts: signals are the main thread's, whose handlers
 * keep what they have seen where no other thread may write (stop.c). Faults of its own it does take. Returns 0 or an
 * errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Says what has failed and ends this process with its exit code, upon which the launcher ends the job: for a thread that
 * finds the main one stuck, perhaps while it holds a stream of stdio, which is therefore left alone. */
_Noreturn void thread_end_process(const error *e);

/* A condition for condition_wait; end it with pthread_cond_destroy. */
void condition_init(pthread_cond_t *condition);

/* pthread_cond_timedwait until the time that clock_seconds() (clock.h) tells is `until`: 0 or ETIMEDOUT. */
int condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double until);

#endif
