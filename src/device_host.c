/* The host device: streams are worker threads, "device" memory is ordinary memory filled with NaN. See
 * device.h for the rules, which are CUDA's. One is stricter: an event belongs to the first stream it is
 * recorded on. */
#include "clock.h"
#include "device.h"
#include "host_memory.h"
#include "host_stream.h"
#include "pace.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const double PATIENCE = 5e-3; /* s */

enum {
  OPERATION_ARGS_MAX = 448,
  SHARE_MIN = 1 << 20 /* bytes below which sharing a copy among threads costs more than it saves */
};

typedef struct host_event {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int stream;      /* the stream it is recorded on; -1 before the first record */
  size_t recorded; /* records asked for; touched by the device's user only */
  size_t done;     /* records reached; guarded by lock, as is */
  double time;     /* when the last of them was reached, s */
} host_event;

typedef struct host_device {
  device base;
  host_stream *streams[STREAM_COUNT];
  error failures[STREAM_COUNT]; /* first asynchronous failure of each stream; written by its thread, read
                                   after sync */
  host_event events[EVENT_MAX];
  int threads;
  double patience; /* s that those wait awake who have cores of their own */
} host_device;

static host_device *host_of(device *dev) {
  return (host_device *)dev;
}

/* --- memory
 * --------------------------------------------------------------------------------------------------- */

typedef struct fill_task {
  float *to;
  size_t count;
} fill_task;

static void share_of(size_t count, int part, int parts, size_t *begin, size_t *end) {
  size_t share =
      (count / (size_t)parts + 1023) / 1024 * 1024; /* whole pages of floats: first touch places them */
  *begin = share * (size_t)part < count ? share * (size_t)part : count;
  *end = part == parts - 1 || *begin + share > count ? count : *begin + share;
}

static void fill_run(const void *payload, int part, int parts) {
  const fill_task *t = payload;
  size_t begin, end;
  share_of(t->count, part, parts, &begin, &end);
  memset(t->to + begin, 0xFF, (end - begin) * sizeof(float)); /* all bits set is a NaN */
}

static int host_alloc(device *dev, void **memory, size_t bytes, memory_kind kind, error *e) {
  host_device *h = host_of(dev);
  const char *name = kind == MEMORY_DEVICE ? "device" : "pinned host";
  int failed = host_memory_take(memory, bytes);
  if (failed) return FAIL(e, DEVICE_MEMORY, "host", bytes, name, strerror(failed));
  fill_task fill = {*memory, bytes / sizeof(float)};
  host_stream_push(h->streams[STREAM_INTERIOR], fill_run, &fill, sizeof fill, h->threads);
  host_stream_sync(h->streams[STREAM_INTERIOR]);
  if (kind == MEMORY_DEVICE) {
    dev->bytes += bytes;
    if (dev->bytes > dev->peak_bytes) dev->peak_bytes = dev->bytes;
  } else
    dev->pinned_bytes += bytes;
  return 0;
}

static int host_free(device *dev, void *memory, memory_kind kind, error *e) {
  (void)e;
  if (!memory) return 0;
  size_t bytes = host_memory_bytes(memory);
  for (int s = 0; s < STREAM_COUNT; s++) host_stream_sync(host_of(dev)->streams[s]); /* as cudaFree does */
  if (kind == MEMORY_DEVICE)
    dev->bytes -= bytes;
  else
    dev->pinned_bytes -= bytes;
  host_memory_give_back(memory);
  return 0;
}

static int host_pin(device *dev, void *memory, size_t bytes, error *e) {
  (void)dev, (void)memory, (void)bytes, (void)e; /* all memory is alike to the host */
  return 0;
}

static int host_unpin(device *dev, void *memory, error *e) {
  (void)dev, (void)memory, (void)e;
  return 0;
}

/* --- copies and launches
 * -------------------------------------------------------------------------------------- */

typedef struct copy_task {
  unsigned char *to;
  const unsigned char *from;
  size_t bytes;
  copy_direction direction;
  error *failure;
} copy_task;

/* Copies past the caches: what is copied on the device is a whole field, and reading a line only to overwrite
 * it would make the measured copy bandwidth a third too low. */
static void copy_streaming(float *to, const float *from, size_t count) {
#ifdef __SSE2__
  size_t i = 0;
  for (; i < count && ((size_t)(to + i) & 15); i++) to[i] = from[i];
  for (; i + 16 <= count; i += 16)
    for (size_t k = 0; k < 16; k += 4) _mm_stream_ps(to + i + k, _mm_loadu_ps(from + i + k));
  _mm_sfence();
  for (; i < count; i++) to[i] = from[i];
#else
  memcpy(to, from, count * sizeof *to);
#endif
}

static void copy_run(const void *payload, int part, int parts) {
  const copy_task *t = payload;
  if (t->failure->id) return;
  if (!t->to || !t->from) {
    if (part == 0) FAIL(t->failure, DEVICE_FAILED, "host", "copy", "invalid argument: null pointer");
    return;
  }
  if (parts == 1) {
    memcpy(t->to, t->from, t->bytes);
    return;
  }
  size_t begin, end;
  share_of(t->bytes / sizeof(float), part, parts, &begin, &end);
  if (t->direction == COPY_ON_DEVICE)
    copy_streaming((float *)(void *)t->to + begin, (const float *)(const void *)t->from + begin, end - begin);
  else
    memcpy(t->to + begin * sizeof(float), t->from + begin * sizeof(float), (end - begin) * sizeof(float));
  if (part == parts - 1) {
    size_t shared = t->bytes / sizeof(float) * sizeof(float);
    memcpy(t->to + shared, t->from + shared, t->bytes - shared);
  }
}

static int host_copy(device *dev, int stream, void *to, const void *from, size_t bytes,
                     copy_direction direction, error *e) {
  (void)e;
  host_device *h = host_of(dev);
  copy_task copy = {to, from, bytes, direction, &h->failures[stream]};
  bool shared = bytes >= SHARE_MIN && to && from;
  host_stream_push(h->streams[stream], copy_run, &copy, sizeof copy, shared ? h->threads : 1);
  return 0;
}

typedef struct launch_task {
  host_kernel *run;
  error *failure;
  kernel_args args;
} launch_task;

static void launch_run(const void *payload, int part, int parts) {
  const launch_task *t = payload;
  if (!t->failure->id) t->run(&t->args, part, parts);
}

static int host_launch(device *dev, int stream, const kernel *k, const kernel_args *args, error *e) {
  host_device *h = host_of(dev);
  if (!k->host) return FAIL(e, DEVICE_FAILED, "host", k->name, "not a kernel of the host device");
  if (args->z_end <= args->z_begin)
    return FAIL(e, DEVICE_FAILED, "host", k->name, "invalid argument: empty z range");
  launch_task launch = {k->host, &h->failures[stream], *args};
  _Static_assert(sizeof launch <= HOST_TASK_PAYLOAD, "a launch must fit a task");
  host_stream_push(h->streams[stream], launch_run, &launch, sizeof launch, h->threads);
  return 0;
}

typedef struct apply_task {
  host_operation *run;
  error *failure;
  _Alignas(16) unsigned char args[OPERATION_ARGS_MAX];
} apply_task;

static void apply_run(const void *payload, int part, int parts) {
  const apply_task *t = payload;
  if (!t->failure->id) t->run(t->args, part, parts);
}

static int host_apply(device *dev, int stream, const operation *o, const void *args, error *e) {
  host_device *h = host_of(dev);
  apply_task apply = {.run = o->host, .failure = &h->failures[stream]};
  if (o->args_bytes > sizeof apply.args) return FAIL(e, DEVICE_FAILED, "host", o->name, "too many arguments");
  memcpy(apply.args, args, o->args_bytes);
  _Static_assert(sizeof apply <= HOST_TASK_PAYLOAD, "an operation must fit a task");
  host_stream_push(h->streams[stream], apply_run, &apply, sizeof apply, h->threads);
  return 0;
}

/* --- events
 * --------------------------------------------------------------------------------------------------- */

typedef struct event_task {
  host_event *event;
  size_t record;
} event_task;

static void record_run(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const event_task *t = payload;
  pthread_mutex_lock(&t->event->lock);
  t->event->done = t->record;
  t->event->time = clock_seconds();
  pthread_cond_broadcast(&t->event->changed);
  pthread_mutex_unlock(&t->event->lock);
}

static void wait_run(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const event_task *t = payload;
  pthread_mutex_lock(&t->event->lock);
  while (t->event->done < t->record) pthread_cond_wait(&t->event->changed, &t->event->lock);
  pthread_mutex_unlock(&t->event->lock);
}

static int host_record(device *dev, int stream, int event, error *e) {
  host_device *h = host_of(dev);
  host_event *ev = &h->events[event];
  if (ev->stream >= 0 && ev->stream != stream)
    return FAIL(e, DEVICE_FAILED, "host", "record", "the event belongs to another stream");
  ev->stream = stream;
  event_task record = {ev, ++ev->recorded};
  host_stream_push(h->streams[stream], record_run, &record, sizeof record, 1);
  return 0;
}

static int host_wait(device *dev, int stream, int event, error *e) {
  (void)e;
  host_device *h = host_of(dev);
  event_task wait = {&h->events[event], h->events[event].recorded};
  if (wait.record) host_stream_push(h->streams[stream], wait_run, &wait, sizeof wait, 1);
  return 0;
}

static int host_sync_event(device *dev, int event, error *e) {
  (void)e;
  event_task wait = {&host_of(dev)->events[event], host_of(dev)->events[event].recorded};
  wait_run(&wait, 0, 1);
  return 0;
}

static int host_seconds(device *dev, int first, int last, double *seconds, error *e) {
  host_event *a = &host_of(dev)->events[first], *b = &host_of(dev)->events[last];
  if (!a->recorded || !b->recorded)
    return FAIL(e, DEVICE_FAILED, "host", "seconds", "the event was never recorded");
  TRY(host_sync_event(dev, first, e));
  TRY(host_sync_event(dev, last, e));
  pthread_mutex_lock(&a->lock);
  double begin = a->time;
  pthread_mutex_unlock(&a->lock);
  pthread_mutex_lock(&b->lock);
  *seconds = b->time - begin;
  pthread_mutex_unlock(&b->lock);
  return 0;
}

static int host_sync(device *dev, int stream, error *e) {
  host_device *h = host_of(dev);
  host_stream_sync(h->streams[stream]);
  if (!h->failures[stream].id) return 0;
  if (!e->id) *e = h->failures[stream]; /* sticky: it stays for the next sync */
  return e->id;
}

/* --- statistics
 * ----------------------------------------------------------------------------------------------- */

typedef void statistics_phase(const statistics_args *args, int part, int parts);
typedef struct statistics_task {
  statistics_phase *phase;
  const error *failure;
  statistics_args args;
} statistics_task;

static void statistics_run(const void *payload, int part, int parts) {
  const statistics_task *t = payload;
  if (!t->failure->id) t->phase(&t->args, part, parts);
}

/* One task after the other: between them the threads meet. */
static int host_statistics(device *dev, int stream, const statistics_args *args, error *e) {
  (void)e;
  host_device *h = host_of(dev);
  statistics_task task = {statistics_host_units, &h->failures[stream], *args};
  host_stream_push(h->streams[stream], statistics_run, &task, sizeof task, h->threads);
  task.phase = statistics_host_planes;
  host_stream_push(h->streams[stream], statistics_run, &task, sizeof task, h->threads);
  task.phase = statistics_host_bad;
  host_stream_push(h->streams[stream], statistics_run, &task, sizeof task, 1);
  return 0;
}

typedef struct histogram_task {
  const error *failure;
  histogram_args args;
} histogram_task;

static void clear_counts(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const histogram_task *t = payload;
  memset(t->args.counts, 0, (size_t)t->args.bins * sizeof *t->args.counts);
}

static void histogram_run(const void *payload, int part, int parts) {
  const histogram_task *t = payload;
  if (!t->failure->id) histogram_host(&t->args, part, parts);
}

static int host_histogram(device *dev, int stream, const histogram_args *args, error *e) {
  (void)e;
  host_device *h = host_of(dev);
  histogram_task task = {&h->failures[stream], *args};
  host_stream_push(h->streams[stream], clear_counts, &task, sizeof task, 1);
  host_stream_push(h->streams[stream], histogram_run, &task, sizeof task, h->threads);
  return 0;
}

/* --- other processes
 * ------------------------------------------------------------------------------------------ */

typedef struct counter_task {
  uint32_t *counter; /* memory that another process sees, too */
  uint32_t value;
  double patience; /* s in which it does not sleep */
} counter_task;

static void signal_run(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const counter_task *t = payload;
  __atomic_store_n(t->counter, t->value, __ATOMIC_RELEASE);
}

/* Leaves the core to others: one of them may be the stream that computes. */
static void await_run(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const double LONGEST = 200e-6; /* s */
  const counter_task *t = payload;
  const pace p = {.begin = clock_seconds(), .eager = t->patience};
  while ((int32_t)(__atomic_load_n(t->counter, __ATOMIC_ACQUIRE) - t->value) < 0) pace_wait(&p, LONGEST);
}

static int host_signal(device *dev, int stream, uint32_t *counter, uint32_t value, error *e) {
  (void)e;
  counter_task signal = {counter, value, 0};
  host_stream_push(host_of(dev)->streams[stream], signal_run, &signal, sizeof signal, 1);
  return 0;
}

static int host_await(device *dev, int stream, const uint32_t *counter, uint32_t value, error *e) {
  (void)e;
  counter_task await = {(uint32_t *)(uintptr_t)counter, value, host_of(dev)->patience};
  host_stream_push(host_of(dev)->streams[stream], await_run, &await, sizeof await, 1);
  return 0;
}

/* Memory is shared by pages (shared_pages.h), not by handles. */
static const device_peer host_peer = {.signal = host_signal, .await = host_await};

/* --- open and close
 * ------------------------------------------------------------------------------------------- */

static void host_close(device *dev) {
  host_device *h = host_of(dev);
  for (int s = 0; s < STREAM_COUNT; s++) host_stream_close(h->streams[s]);
  for (int i = 0; i < EVENT_MAX; i++) {
    pthread_cond_destroy(&h->events[i].changed);
    pthread_mutex_destroy(&h->events[i].lock);
  }
  free(h);
}

static const char *instruction_set(void) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return "AVX-512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "AVX2+FMA";
#endif
  return "portable C";
}

static const device_table host_table = {.backend = BACKEND_HOST,
                                        .close = host_close,
                                        .alloc = host_alloc,
                                        .free = host_free,
                                        .copy = host_copy,
                                        .launch = host_launch,
                                        .apply = host_apply,
                                        .record = host_record,
                                        .wait = host_wait,
                                        .sync = host_sync,
                                        .sync_event = host_sync_event,
                                        .seconds = host_seconds,
                                        .statistics = host_statistics,
                                        .histogram = host_histogram,
                                        .pin = host_pin,
                                        .unpin = host_unpin,
                                        .peer = &host_peer};

int device_open_host(const device_options *options, device **opened, error *e) {
  host_device *h = calloc(1, sizeof *h);
  if (!h) return FAIL(e, OUT_OF_MEMORY, sizeof *h, "the host device");
  h->base.table = &host_table;
  h->threads = options->threads > 0 ? options->threads : 1;
  h->patience = options->own_cores ? PATIENCE : 0;
  h->base.total_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  snprintf(h->base.description, sizeof h->base.description, "host, %d thread%s, %s", h->threads,
           h->threads == 1 ? "" : "s", instruction_set());
  for (int i = 0; i < EVENT_MAX; i++) {
    h->events[i].stream = -1;
    pthread_mutex_init(&h->events[i].lock, NULL);
    pthread_cond_init(&h->events[i].changed, NULL);
  }
  for (int s = 0; s < STREAM_COUNT; s++) {
    /* Only the interior's work follows at once; who looks for more of another stream's keeps a core from it. */
    const double patience = s == STREAM_INTERIOR ? h->patience : 0;
    h->streams[s] =
        host_stream_open(s == STREAM_OUTPUT ? 1 : h->threads, patience); /* copies, beside the steps */
    if (h->streams[s]) continue;
    host_close(&h->base);
    return FAIL(e, DEVICE_FAILED, "host", "starting worker threads", "no more threads can be created");
  }
  *opened = &h->base;
  return 0;
}
