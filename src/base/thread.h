/* Starts threads, makes them count subnormal numbers as 0, and waits for conditions with a time limit. */
#ifndef STENCIL_THREAD_H
#define STENCIL_THREAD_H

#include <pthread.h>
#include "error.h"

/* Makes subnormal numbers count as 0 in the calling thread from now on, as operands and as results. The main thread
 * calls it. Numbers ahead of a wave front are subnormal, and processors take a hundred times as long for those: a shot
 * into a silent model ran 3.7 times as long as one into noise. The CUDA code is compiled with -ftz=true and gives the
 * same bits: this was compared on 10^8 cases around the smallest normal number. */
void thread_flush_subnormals(void);

/* Starts a thread for which subnormal numbers count as 0. Signals are blocked in it and in threads that it starts: only
 * the main thread takes them, because its handlers write variables that no other thread may write (stop.c). Faults,
 * such as SIGSEGV, are not blocked. Returns 0 or an errno; after an errno there is no thread. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Runs `run` on at most `threads` threads at once, this thread among them; on fewer where threads cannot be started.
 * Subnormal numbers count as 0 in all of them, so that bits do not depend on the thread. */
void thread_run(int threads, void *(*run)(void *), void *argument);

/* Calls each(context, i) for i from 0 to count - 1 on at most `threads` threads, as thread_run. A thread that is done
 * takes the next i. */
void thread_each(int threads, int count, void (*each)(void *context, int i), void *context);

/* Prints the error and ends this process with its exit code; the launcher then ends the job. For a thread that finds
 * the main thread stuck. It does not use stdio, because the main thread may hold a lock of stdio. */
_Noreturn void thread_end_process(const error *e);

/* Makes a condition for condition_wait. Free it with pthread_cond_destroy. */
void condition_init(pthread_cond_t *condition);

/* Waits for the condition until clock_seconds() (clock.h) reaches `until`, s. Returns 0 or ETIMEDOUT. The mutex is
 * locked before and after. */
int condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double until);

#endif
