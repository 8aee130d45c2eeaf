#include "writer.h"
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "thread.h"

struct writer {
  pthread_t thread;
  int64_t collected; /* jobs whose `done` was called; it and the next one are the opener's */
  int64_t pushed_here;

  pthread_mutex_t lock;
  pthread_cond_t queued, finished_one;
  /* guarded by lock: */
  writer_job *jobs[WRITER_ROOM];
  bool written[WRITER_ROOM];
  int64_t pushed, finished; /* jobs since the start */
  bool closing;
  error failure; /* of the first job that failed */
  writer_totals totals;
};

static void writer_do(writer *w, writer_job *job, error *e) {
  double begin = clock_seconds();
  job->write(job, e);
  job->seconds = clock_seconds() - begin;
  pthread_mutex_lock(&w->lock);
  w->totals.seconds += job->seconds;
  if (!e->id) w->totals.bytes += job->bytes;
  if (job->seconds > w->totals.longest) w->totals.longest = job->seconds;
  pthread_mutex_unlock(&w->lock);
}

static void *writer_main(void *argument) {
  writer *w = argument;
  error e = {0};
  for (int64_t next = 0;; next++) {
    pthread_mutex_lock(&w->lock);
    while (w->pushed == next && !w->closing) pthread_cond_wait(&w->queued, &w->lock);
    bool over = w->pushed == next;
    writer_job *job = over ? NULL : w->jobs[next % WRITER_ROOM];
    pthread_mutex_unlock(&w->lock);
    if (over) return NULL;
    bool dropped = e.id != 0; /* jobs after a failure may depend on the failed one */
    if (!dropped) writer_do(w, job, &e);
    pthread_mutex_lock(&w->lock);
    w->written[next % WRITER_ROOM] = !e.id;
    if (!dropped) w->failure = e;
    w->finished++;
    pthread_cond_signal(&w->finished_one);
    pthread_mutex_unlock(&w->lock);
  }
}

int writer_open(writer **opened, error *e) {
  TRY(ALLOC(e, *opened, 1, "the writer"));
  writer *w = *opened;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->queued, NULL);
  pthread_cond_init(&w->finished_one, NULL);
  int rc = thread_start(&w->thread, writer_main, w);
  if (!rc) return 0;
  free(w);
  *opened = NULL;
  return FAIL(e, DEVICE_FAILED, "host", "starting the writer's thread", strerror(rc));
}

/* Calls `done` of all finished jobs, and waits until at most `most` are unfinished. Returns how many are unfinished. */
static int writer_collect_until(writer *w, int most) {
  for (;;) {
    pthread_mutex_lock(&w->lock);
    while (w->finished == w->collected && w->pushed - w->collected > most)
      pthread_cond_wait(&w->finished_one, &w->lock);
    int unfinished = (int)(w->pushed - w->collected), at = (int)(w->collected % WRITER_ROOM);
    writer_job *job = w->finished > w->collected ? w->jobs[at] : NULL;
    bool written = w->written[at];
    pthread_mutex_unlock(&w->lock);
    if (!job) return unfinished;
    w->collected++;
    job->done(job, written);
  }
}

int writer_await_place(writer *w) {
  return writer_collect_until(w, WRITER_ROOM - 1);
}

void writer_collect(writer *w) {
  if (w->collected < w->pushed_here) writer_collect_until(w, WRITER_ROOM);
}

void writer_push(writer *w, writer_job *job) {
  pthread_mutex_lock(&w->lock);
  w->jobs[w->pushed++ % WRITER_ROOM] = job;
  pthread_cond_signal(&w->queued);
  pthread_mutex_unlock(&w->lock);
  w->pushed_here++;
}

int writer_drain(writer *w, error *e) {
  writer_collect_until(w, 0);
  pthread_mutex_lock(&w->lock);
  if (!e->id) *e = w->failure;
  pthread_mutex_unlock(&w->lock);
  return e->id;
}

bool writer_failed(writer *w) {
  if (w->pushed_here == 0) return false;
  pthread_mutex_lock(&w->lock);
  bool failed = w->failure.id != 0;
  pthread_mutex_unlock(&w->lock);
  return failed;
}

writer_totals writer_sum(writer *w) {
  pthread_mutex_lock(&w->lock);
  writer_totals t = w->totals;
  pthread_mutex_unlock(&w->lock);
  return t;
}

void writer_close(writer *w) {
  if (!w) return;
  writer_collect_until(w, 0);
  pthread_mutex_lock(&w->lock);
  w->closing = true;
  pthread_cond_signal(&w->queued);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  pthread_cond_destroy(&w->finished_one);
  pthread_cond_destroy(&w->queued);
  pthread_mutex_destroy(&w->lock);
  free(w);
}
