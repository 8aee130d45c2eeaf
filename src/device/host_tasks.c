#include "host_tasks.h"
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"
#include "base/numbers.h"
#include "host_memory.h"
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* --- copies ------------------------------------------------------------------------------------------------------ */

enum { SHARE_MIN = 1 << 20 /* bytes below which sharing a copy among threads costs more than it saves */ };

typedef struct nan_task {
  float *to;
  size_t count;
  atomic_int *failed; /* for shared memory; else NULL */
} nan_task;

static void host_copy_part(size_t count, int part, int parts, size_t *begin, size_t *end) {
  /* Whole pages of floats: first touch places them. */
  const size_t length = (count / (size_t)parts + 1023) / 1024 * 1024;
  *begin = length * (size_t)part < count ? length * (size_t)part : count;
  *end = part == parts - 1 || *begin + length > count ? count : *begin + length;
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; the C library may be older */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Takes the pages that hold [begin, end). Returns 0, also on a system that cannot do this, or an errno. Otherwise
 * SIGBUS would kill a process that touches shared memory for which there is no page. */
static int host_copy_populate(uintptr_t begin, uintptr_t end) {
  const uintptr_t page = page_bytes(), first = begin / page * page;
  if (!madvise((void *)first, end - first, MADV_POPULATE_WRITE) || errno == EINVAL) return 0;
  return errno == EFAULT ? ENOMEM : errno; /* EFAULT: it would have been SIGBUS */
}

/* Anonymous memory gets huge pages by madvise; memory that processes share usually gets them only by MADV_COLLAPSE. The
 * page taken first decides where a huge page lies. Returns 0 or an errno. */
static int host_copy_take_shared(uintptr_t begin, uintptr_t end) {
  for (uintptr_t at = begin / HUGE_PAGE * HUGE_PAGE; at < end; at += HUGE_PAGE) {
    const uintptr_t first = at < begin ? begin : at;
    const int failed = host_copy_populate(first, first + 1);
    if (failed) return failed;
    (void)madvise((void *)at, HUGE_PAGE, MADV_COLLAPSE); /* only a hint */
  }
  return host_copy_populate(begin, end);
}

static void host_copy_run_nan(const void *payload, int part, int parts) {
  const nan_task *t = payload;
  size_t begin, end;
  host_copy_part(t->count, part, parts, &begin, &end);
  int failed = 0;
  if (t->failed && begin != end)
    failed = host_copy_take_shared((uintptr_t)(t->to + begin), (uintptr_t)(t->to + end));
  if (failed)
    atomic_store(t->failed, failed);
  else
    memset(t->to + begin, 0xFF, (end - begin) * sizeof(float)); /* all bits set is a NaN */
}

/* Copies on the device write past the caches: a copy is a whole field, and reading each line before it is overwritten
 * would make the measured copy bandwidth a third too low. The wider the stores, the better: a processor that gives up a
 * line before all its pieces have come is half as fast with 16 bytes as with 64. `to` is at a line's start. */
enum { LINE = 16 /* floats */ };
typedef void host_copy_lines(float *to, const float *from, size_t lines);

#ifdef __x86_64__
#define LINES(name, isa, lanes, load, stream)                                                                \
  __attribute__((target(isa))) static void name(float *to, const float *from, size_t lines) {                \
    for (const float *end = from + lines * LINE; from < end; from += LINE, to += LINE)                       \
      for (int k = 0; k < LINE; k += lanes) stream(to + k, load(from + k));                                  \
    _mm_sfence();                                                                                            \
  }
LINES(host_copy_lines_avx512, "avx512f", 16, _mm512_loadu_ps, _mm512_stream_ps)
LINES(host_copy_lines_avx, "avx", 8, _mm256_loadu_ps, _mm256_stream_ps)
LINES(host_copy_lines_sse, "sse2", 4, _mm_loadu_ps, _mm_stream_ps)
#undef LINES

static host_copy_lines *host_copy_lines_best(void) {
  if (__builtin_cpu_supports("avx512f")) return host_copy_lines_avx512;
  return __builtin_cpu_supports("avx") ? host_copy_lines_avx : host_copy_lines_sse;
}
#else
static void host_copy_lines_plain(float *to, const float *from, size_t lines) {
  memcpy(to, from, lines * LINE * sizeof *to);
}

static host_copy_lines *host_copy_lines_best(void) {
  return host_copy_lines_plain;
}
#endif

static void host_copy_streaming(float *to, const float *from, size_t count) {
  for (; count > 0 && (uintptr_t)to % (LINE * sizeof *to); count--) *to++ = *from++;
  const size_t lines = count / LINE;
  host_copy_lines_best()(to, from, lines);
  for (size_t i = lines * LINE; i < count; i++) to[i] = from[i];
}

static void host_copy_run(const void *payload, int part, int parts) {
  error *failure = ((const copy_task *)payload)->failure;
  const copy_args *c = &((const copy_task *)payload)->copy;
  if (failure->id) return;
  if (!c->to || !c->from) {
    if (part == 0) FAIL(failure, DEVICE_FAILED, "host", "copy", "invalid argument: null pointer");
    return;
  }
  if (c->bytes < SHARE_MIN) {
    memcpy(c->to, c->from, c->bytes);
    return;
  }
  unsigned char *to = c->to;
  const unsigned char *from = c->from;
  size_t begin, end, whole = c->bytes / sizeof(float) * sizeof(float);
  host_copy_part(whole / sizeof(float), part, parts, &begin, &end);
  if (c->direction == COPY_ON_DEVICE)
    host_copy_streaming((float *)c->to + begin, (const float *)c->from + begin, end - begin);
  else
    memcpy(to + begin * sizeof(float), from + begin * sizeof(float), (end - begin) * sizeof(float));
  if (part == parts - 1) memcpy(to + whole, from + whole, c->bytes - whole);
}

void host_copy_push(host_stream *s, const copy_task *task, int threads) {
  bool shared = task->copy.bytes >= SHARE_MIN && task->copy.to && task->copy.from;
  host_stream_push(s, host_copy_run, task, sizeof *task, shared ? threads : 1, 1);
}

void host_copy_push_nan(host_stream *s, float *to, size_t count, int threads, atomic_int *failed) {
  nan_task task = {to, count, failed};
  host_stream_push(s, host_copy_run_nan, &task, sizeof task, threads, 1);
}

/* --- events ------------------------------------------------------------------------------------------------------ */

typedef struct event_task {
  host_event *event;
  size_t record;
} event_task;

host_event *host_event_open(void) {
  host_event *ev = calloc(1, sizeof *ev);
  if (!ev) return NULL;
  pthread_mutex_init(&ev->lock, NULL);
  pthread_cond_init(&ev->changed, NULL);
  return ev;
}

void host_event_close(host_event *ev) {
  if (!ev) return;
  pthread_cond_destroy(&ev->changed);
  pthread_mutex_destroy(&ev->lock);
  free(ev);
}

static void host_event_run_record(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const event_task *t = payload;
  pthread_mutex_lock(&t->event->lock);
  t->event->done = t->record;
  t->event->time = clock_seconds();
  pthread_cond_broadcast(&t->event->changed);
  pthread_mutex_unlock(&t->event->lock);
}

/* Waits for record number `record`. Returns the time of the latest record so far, s. */
static double host_event_time_after(host_event *ev, size_t record) {
  pthread_mutex_lock(&ev->lock);
  while (ev->done < record) pthread_cond_wait(&ev->changed, &ev->lock);
  const double time = ev->time;
  pthread_mutex_unlock(&ev->lock);
  return time;
}

static void host_event_run_wait(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const event_task *t = payload;
  (void)host_event_time_after(t->event, t->record);
}

static bool host_event_pending(host_event *ev) {
  pthread_mutex_lock(&ev->lock);
  const bool pending = ev->done < ev->recorded;
  pthread_mutex_unlock(&ev->lock);
  return pending;
}

int host_event_record(host_event *ev, host_stream *s, error *e) {
  if (ev->stream != s && host_event_pending(ev))
    return FAIL(e, DEVICE_FAILED, "host", "record", "another stream has yet to reach the event");
  ev->stream = s;
  event_task record = {ev, ++ev->recorded};
  host_stream_push(s, host_event_run_record, &record, sizeof record, 1, 1);
  return 0;
}

void host_event_wait(host_event *ev, host_stream *s) {
  event_task wait = {ev, ev->recorded};
  if (wait.record) host_stream_push(s, host_event_run_wait, &wait, sizeof wait, 1, 1);
}

void host_event_sync(host_event *ev) {
  (void)host_event_time_after(ev, ev->recorded);
}

int host_event_seconds(host_event *first, host_event *last, double *seconds, error *e) {
  if (!first->recorded || !last->recorded)
    return FAIL(e, DEVICE_FAILED, "host", "seconds", "the event was never recorded");
  const double begin = host_event_time_after(first, first->recorded);
  *seconds = host_event_time_after(last, last->recorded) - begin;
  return 0;
}

/* --- counters of other processes ---------------------------------------------------------------------------------- */

typedef struct counter_task {
  uint32_t *counter;
  uint32_t value;
} counter_task;

static void host_counter_run_signal(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const counter_task *t = payload;
  __atomic_store_n(t->counter, t->value, __ATOMIC_RELEASE);
}

/* Yields the core while it waits, because the stream that computes may need the core. */
static void host_counter_run_await(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const double LONGEST = 200e-6; /* s */
  const host_counter *c = payload;
  pace p = {.begin = clock_seconds(), .eager = c->patience};
  while ((int32_t)(__atomic_load_n(c->counter, __ATOMIC_ACQUIRE) - c->value) < 0) pace_wait(&p, LONGEST);
}

void host_counter_signal(host_stream *s, uint32_t *counter, uint32_t value) {
  counter_task signal = {counter, value};
  host_stream_push(s, host_counter_run_signal, &signal, sizeof signal, 1, 1);
}

void host_counter_await(host_stream *s, const host_counter *c) {
  host_stream_push(s, host_counter_run_await, c, sizeof *c, 1, 1);
}
