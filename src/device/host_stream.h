/* A stream of the host device: a FIFO of tasks run in order by one thread, which shares each task with a team
 * of helper threads. Every stream has locks of its own: a lock shared by two streams would order their work
 * by accident and hide a missing wait from ThreadSanitizer. One thread at a time may use a stream. */
#ifndef STENCIL_HOST_STREAM_H
#define STENCIL_HOST_STREAM_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct host_stream host_stream;

/* Largest payload of a task, bytes; the payload is copied when the task is pushed. */
enum { HOST_TASK_PAYLOAD = 1152 };

/* Does part `part` of the `parts` parts of a task. It must not push to any stream. */
typedef void host_task(const void *payload, int part, int parts);

/* How many of its own parts of a task a thread has left; in a cache line of its own. */
typedef struct host_parts {
  _Alignas(64) atomic_int left;
} host_parts;
/* Takes one of the `pieces` parts of thread `owner`. Returns the part's number in the task; -1: no part is left. */
static inline int host_parts_take(host_parts *all, int owner, int pieces) {
  /* Look first: else threads that are done would take the cache line from threads that still have parts. */
  if (atomic_load_explicit(&all[owner].left, memory_order_relaxed) <= 0) return -1;
  const int left = atomic_fetch_sub_explicit(&all[owner].left, 1, memory_order_relaxed);
  return left > 0 ? (owner + 1) * pieces - left : -1;
}

/* Starts a stream whose tasks run on `threads` threads; NULL if the system gives no more threads. `patience`: s for
 * which an idle thread polls for the next task before it sleeps; 0 where cores are shared. */
host_stream *host_stream_open(int threads, double patience);
/* Runs what is queued, then stops the threads and frees the stream. NULL is allowed. */
void host_stream_close(host_stream *s);
/* Appends a task for `threads` threads (at most the stream's), `pieces` parts for each: threads x pieces parts in all.
 * `bytes` of `payload`, at most HOST_TASK_PAYLOAD, are copied. Each thread does its own parts. Where it has several, a
 * thread that is done takes parts that others have left, so that nobody waits long for a slow or busy core. Waits while
 * the queue is full. */
void host_stream_push(host_stream *s, host_task *task, const void *payload, size_t bytes, int threads,
                      int pieces);
/* Waits until everything pushed so far has run. */
void host_stream_sync(host_stream *s);

#endif
