#include "host_stream.h"
#include <errno.h>
#include <math.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/thread.h"

enum { QUEUE_LENGTH = 128, SPINS = 400 /* looks before a waiting thread yields its core: about 20 us */ };

typedef struct queued_task {
  host_task *task;
  int threads, pieces; /* threads that work on the task, and parts of each */
  _Alignas(16) unsigned char payload[HOST_TASK_PAYLOAD];
} queued_task;

typedef struct helper {
  host_stream *stream;
  pthread_t thread;
  int number; /* 1 .. threads - 1; the stream's own thread is number 0 */
} helper;

struct host_stream {
  int threads;
  double patience; /* s */
  pthread_t thread;
  bool thread_started;
  int helpers_started;
  helper *helpers;
  host_parts *parts; /* of each thread, in the task that the helpers share */

  /* The thread that uses the device writes the queue, the stream's thread reads it. The semaphore orders them in one
   * direction only. If a push also read the progress, it would order other streams after this stream's work, and
   * ThreadSanitizer could not see a missing wait. */
  queued_task queue[QUEUE_LENGTH];
  sem_t queued;
  size_t pushed, known_done; /* the pusher's: tasks since the start; tasks known to be done */
  pthread_mutex_t done_lock;
  pthread_cond_t done_changed;
  size_t done; /* tasks run since the start */

  pthread_mutex_t team_lock;
  pthread_cond_t team_called, team_finished;
  const queued_task *shared; /* the task that the helpers share */
  atomic_size_t calls;       /* tasks shared since the start */
  atomic_size_t busy;        /* helpers not yet finished with `shared` */
  int asleep;                /* helpers that wait for team_called */
  bool dismissed;
};

/* Polls for up to s->patience seconds until `counter` is `value` (until_equal) or no longer is. Waking many threads is
 * slow, above all in virtual machines, and all wait for the last one: on 16 cores steps of 256^3 and 512^3 took 1.5
 * times as long without polling. */
static void host_stream_look(const host_stream *s, const atomic_size_t *counter, size_t value,
                             bool until_equal) {
  pace p = {.begin = clock_seconds(), .eager = INFINITY, .spins = SPINS};
  for (double end = p.begin + s->patience, now = p.begin; now < end; now = clock_seconds()) {
    if ((atomic_load_explicit(counter, memory_order_acquire) == value) == until_equal) return;
    pace_wait(&p, 0);
  }
}

/* Waits for the call after number `seen`; false if the stream ends first. */
static bool host_stream_await_call(host_stream *s, size_t seen) {
  host_stream_look(s, &s->calls, seen, false);
  if (atomic_load_explicit(&s->calls, memory_order_acquire) != seen) return true;
  pthread_mutex_lock(&s->team_lock);
  s->asleep++;
  while (s->calls == seen && !s->dismissed) pthread_cond_wait(&s->team_called, &s->team_lock);
  s->asleep--;
  const bool called = s->calls != seen;
  pthread_mutex_unlock(&s->team_lock);
  return called;
}

/* Does the thread's own parts, then those that other threads have left. */
static void host_stream_do_parts(host_stream *s, const queued_task *q, int own) {
  const int owners = q->pieces > 1 ? q->threads : 1; /* a single part is done by its owner */
  if (own >= q->threads && owners == 1) return;
  for (int i = 0; i < owners; i++) {
    const int owner = (own + i) % q->threads;
    for (int part; (part = host_parts_take(s->parts, owner, q->pieces)) >= 0;)
      q->task(q->payload, part, q->threads * q->pieces);
  }
}

static void *host_stream_helper_main(void *argument) {
  helper *h = argument;
  host_stream *s = h->stream;
  for (size_t seen = 0; host_stream_await_call(s, seen); seen++) {
    host_stream_do_parts(s, s->shared, h->number);
    if (atomic_fetch_sub_explicit(&s->busy, 1, memory_order_acq_rel) > 1) continue;
    pthread_mutex_lock(&s->team_lock);
    pthread_cond_signal(&s->team_finished);
    pthread_mutex_unlock(&s->team_lock);
  }
  return NULL;
}

static void host_stream_run_with_helpers(host_stream *s, const queued_task *q) {
  pthread_mutex_lock(&s->team_lock);
  s->shared = q;
  s->busy = (size_t)s->threads - 1;
  atomic_fetch_add_explicit(&s->calls, 1, memory_order_release);
  if (s->asleep) pthread_cond_broadcast(&s->team_called);
  pthread_mutex_unlock(&s->team_lock);

  host_stream_do_parts(s, q, 0);

  host_stream_look(s, &s->busy, 0, true);
  pthread_mutex_lock(&s->team_lock);
  while (s->busy > 0) pthread_cond_wait(&s->team_finished, &s->team_lock);
  pthread_mutex_unlock(&s->team_lock);
}

static void host_stream_run_task(host_stream *s, const queued_task *q) {
  if (q->threads == 1) {
    q->task(q->payload, 0, 1);
  } else {
    for (int i = 0; i < q->threads; i++)
      atomic_store_explicit(&s->parts[i].left, q->pieces, memory_order_relaxed);
    host_stream_run_with_helpers(s, q);
  }
}

static void *host_stream_main(void *argument) {
  host_stream *s = argument;
  for (size_t next = 0;; next++) {
    while (sem_wait(&s->queued) && errno == EINTR) continue;
    const queued_task *q = &s->queue[next % QUEUE_LENGTH];
    if (q->task) host_stream_run_task(s, q);
    bool last = !q->task;
    pthread_mutex_lock(&s->done_lock);
    s->done++; /* from here on the slot may be filled anew */
    pthread_cond_signal(&s->done_changed);
    pthread_mutex_unlock(&s->done_lock);
    if (last) return NULL;
  }
}

static bool host_stream_start_threads(host_stream *s) {
  s->helpers = calloc((size_t)s->threads, sizeof *s->helpers);
  s->parts = aligned_alloc(_Alignof(host_parts), (size_t)s->threads * sizeof *s->parts);
  if (!s->helpers || !s->parts) return false;
  memset(s->parts, 0, (size_t)s->threads * sizeof *s->parts);
  for (int number = 1; number < s->threads; number++) {
    helper *h = &s->helpers[s->helpers_started];
    *h = (helper){.stream = s, .number = number};
    if (thread_start(&h->thread, host_stream_helper_main, h)) return false;
    s->helpers_started++;
  }
  s->thread_started = thread_start(&s->thread, host_stream_main, s) == 0;
  return s->thread_started;
}

host_stream *host_stream_open(int threads, double patience) {
  host_stream *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->threads = threads;
  s->patience = patience;
  sem_init(&s->queued, 0, 0);
  pthread_mutex_init(&s->done_lock, NULL);
  pthread_cond_init(&s->done_changed, NULL);
  pthread_mutex_init(&s->team_lock, NULL);
  pthread_cond_init(&s->team_called, NULL);
  pthread_cond_init(&s->team_finished, NULL);
  if (!host_stream_start_threads(s)) {
    host_stream_close(s);
    return NULL;
  }
  return s;
}

void host_stream_close(host_stream *s) {
  if (!s) return;
  if (s->thread_started) {
    host_stream_push(s, NULL, NULL, 0, 1, 1);
    pthread_join(s->thread, NULL);
  }
  pthread_mutex_lock(&s->team_lock);
  s->dismissed = true;
  pthread_cond_broadcast(&s->team_called);
  pthread_mutex_unlock(&s->team_lock);
  for (int i = 0; i < s->helpers_started; i++) pthread_join(s->helpers[i].thread, NULL);

  pthread_cond_destroy(&s->team_finished);
  pthread_cond_destroy(&s->team_called);
  pthread_mutex_destroy(&s->team_lock);
  pthread_cond_destroy(&s->done_changed);
  pthread_mutex_destroy(&s->done_lock);
  sem_destroy(&s->queued);
  free(s->helpers);
  free(s->parts);
  free(s);
}

static void host_stream_wait_done(host_stream *s, size_t target) {
  pthread_mutex_lock(&s->done_lock);
  while (s->done < target) pthread_cond_wait(&s->done_changed, &s->done_lock);
  s->known_done = s->done;
  pthread_mutex_unlock(&s->done_lock);
}

void host_stream_push(host_stream *s, host_task *task, const void *payload, size_t bytes, int threads,
                      int pieces) {
  if (s->pushed - s->known_done == QUEUE_LENGTH) host_stream_wait_done(s, s->pushed - QUEUE_LENGTH / 2);
  queued_task *q = &s->queue[s->pushed++ % QUEUE_LENGTH];
  q->task = task;
  q->threads = threads < s->threads ? threads : s->threads;
  q->pieces = pieces;
  if (bytes) memcpy(q->payload, payload, bytes);
  sem_post(&s->queued);
}

void host_stream_sync(host_stream *s) {
  host_stream_wait_done(s, s->pushed);
}
