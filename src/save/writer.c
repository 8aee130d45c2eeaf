#include "writer.h"
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/thread.h"

struct output {
  pthread_t thread;
  int64_t collected; /* jobs whose `done` was called; the opener's, as is: */
  int64_t pushed_here;

  pthread_mutex_t lock;
  pthread_cond_t queued, finished_one;
  /* guarded by lock: */
  output_job *jobs[OUTPUT_ROOM];
  bool written[OUTPUT_ROOM];
  int64_t pushed, finished; /* jobs since the start */
  bool closing;
  error failure; /* of the first job that failed */
  output_totals totals;
};

static void do_job(output *o, output_job *job, error *e) {
  double begin = clock_seconds();
  job->write(job, e);
  job->seconds = clock_seconds() - begin;
  pthread_mutex_lock(&o->lock);
  o->totals.seconds += job->seconds;
  if (!e->id) o->totals.bytes += job->bytes;
  if (job->seconds > o->totals.longest) o->totals.longest = job->seconds;
  pthread_mutex_unlock(&o->lock);
}

static void *writer_main(void *argument) {
  output *o = argument;
  error e = {0};
  for (int64_t next = 0;; next++) {
    pthread_mutex_lock(&o->lock);
    while (o->pushed == next && !o->closing) pthread_cond_wait(&o->queued, &o->lock);
    bool over = o->pushed == next;
    output_job *job = over ? NULL : o->jobs[next % OUTPUT_ROOM];
    pthread_mutex_unlock(&o->lock);
    if (over) return NULL;
    bool dropped = e.id != 0; /* what comes after a failure may rely on what failed */
    if (!dropped) do_job(o, job, &e);
    pthread_mutex_lock(&o->lock);
    o->written[next % OUTPUT_ROOM] = !e.id;
    if (!dropped) o->failure = e;
    o->finished++;
    pthread_cond_signal(&o->finished_one);
    pthread_mutex_unlock(&o->lock);
  }
}

int output_open(output **opened, error *e) {
  output *o = *opened = calloc(1, sizeof *o);
  if (!o) return FAIL(e, OUT_OF_MEMORY, sizeof *o, "the writer");
  pthread_mutex_init(&o->lock, NULL);
  pthread_cond_init(&o->queued, NULL);
  pthread_cond_init(&o->finished_one, NULL);
  int rc = thread_start(&o->thread, writer_main, o);
  if (!rc) return 0;
  free(o);
  *opened = NULL;
  return FAIL(e, DEVICE_FAILED, "host", "starting the writer's thread", strerror(rc));
}

/* Calls `done` of jobs until `most` are left unfinished; of those that are finished already, in any case. */
static int collect(output *o, int most) {
  for (;;) {
    pthread_mutex_lock(&o->lock);
    while (o->finished == o->collected && o->pushed - o->collected > most)
      pthread_cond_wait(&o->finished_one, &o->lock);
    int unfinished = (int)(o->pushed - o->collected), at = (int)(o->collected % OUTPUT_ROOM);
    output_job *job = o->finished > o->collected ? o->jobs[at] : NULL;
    bool written = o->written[at];
    pthread_mutex_unlock(&o->lock);
    if (!job) return unfinished;
    o->collected++;
    job->done(job, written);
  }
}

int output_make_room(output *o) {
  return collect(o, OUTPUT_ROOM - 1);
}

void output_collect(output *o) {
  if (o->collected < o->pushed_here) collect(o, OUTPUT_ROOM);
}

void output_push(output *o, output_job *job) {
  pthread_mutex_lock(&o->lock);
  o->jobs[o->pushed++ % OUTPUT_ROOM] = job;
  pthread_cond_signal(&o->queued);
  pthread_mutex_unlock(&o->lock);
  o->pushed_here++;
}

int output_drain(output *o, error *e) {
  collect(o, 0);
  pthread_mutex_lock(&o->lock);
  if (!e->id) *e = o->failure;
  pthread_mutex_unlock(&o->lock);
  return e->id;
}

bool output_failed(output *o) {
  if (o->pushed_here == 0) return false;
  pthread_mutex_lock(&o->lock);
  bool failed = o->failure.id != 0;
  pthread_mutex_unlock(&o->lock);
  return failed;
}

output_totals output_sum(output *o) {
  pthread_mutex_lock(&o->lock);
  output_totals t = o->totals;
  pthread_mutex_unlock(&o->lock);
  return t;
}

void output_close(output *o) {
  if (!o) return;
  collect(o, 0);
  pthread_mutex_lock(&o->lock);
  o->closing = true;
  pthread_cond_signal(&o->queued);
  pthread_mutex_unlock(&o->lock);
  pthread_join(o->thread, NULL);
  pthread_cond_destroy(&o->finished_one);
  pthread_cond_destroy(&o->queued);
  pthread_mutex_destroy(&o->lock);
  free(o);
}
