/* The host device: streams are worker threads, "device" memory is ordinary memory filled with NaN. See device.h for the
 * rules, which are CUDA's. */
#include "device.h"
#include "host_memory.h"
#include "host_stream.h"
#include "host_tasks.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/host_range.h"
#include "kernels/host/host_simd.h"

static const double PATIENCE = 5e-3; /* s */

typedef struct host_device {
  device base;
  host_stream *streams[STREAM_COUNT];
  /* The first asynchronous failure of each stream; written by its thread, read after sync. */
  error failures[STREAM_COUNT];
  int threads;
  double patience; /* s that a thread polls before it sleeps; 0 where ranks share cores */
} host_device;

static host_device *host_of(device *dev) {
  return (host_device *)dev;
}

/* --- memory --------------------------------------------------------------------------------------------- */

static int host_alloc(device *dev, void **memory, size_t bytes, memory_kind kind, error *e) {
  host_device *h = host_of(dev);
  const char *name = kind == MEMORY_DEVICE ? "device" : "pinned host";
  const size_t taken = dev->bytes + dev->pinned_bytes;
  /* The system would grant more memory, and kill the process that uses it. */
  int failed = taken + bytes > dev->available ? ENOMEM : host_memory_take(memory, bytes);
  if (failed) return FAIL(e, DEVICE_MEMORY, "host", bytes, name, strerror(failed));
  host_copy_push_nan(h->streams[STREAM_INTERIOR], *memory, bytes / sizeof(float), h->threads, NULL);
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

/* --- copies and work ------------------------------------------------------------------------------------ */

static int host_copy(device *dev, int stream, const copy_args *copy, error *e) {
  (void)e;
  host_device *h = host_of(dev);
  host_copy_push(h->streams[stream], &(copy_task){*copy, &h->failures[stream]}, h->threads);
  return 0;
}

/* Launches and operations are skipped on a stream that has failed. */
typedef struct launch_task {
  const error *failure;
  const kernel *k;
  kernel_args args;
} launch_task;
_Static_assert(sizeof(launch_task) <= HOST_TASK_PAYLOAD, "a launch must fit a task");

typedef struct operation_task {
  const error *failure;
  host_operation *run;
  _Alignas(16) unsigned char args[HOST_TASK_PAYLOAD - 16];
} operation_task;
_Static_assert(sizeof(operation_task) <= HOST_TASK_PAYLOAD, "an operation must fit a task");

static void host_run_launch(const void *payload, int part, int parts) {
  const launch_task *t = payload;
  if (!t->failure->id) t->k->host(&t->args, part, parts);
}

static void host_run_operation(const void *payload, int part, int parts) {
  const operation_task *t = payload;
  if (!t->failure->id) t->run(t->args, part, parts);
}

static int host_launch(device *dev, int stream, const kernel *k, const kernel_args *args, error *e) {
  host_device *h = host_of(dev);
  if (!k->host) return FAIL(e, DEVICE_FAILED, "host", k->name, "not a kernel of the host device");
  if (args->z_end <= args->z_begin)
    return FAIL(e, DEVICE_FAILED, "host", k->name, "invalid argument: empty z range");
  const int pieces = host_range_pieces(args, h->threads);
  const launch_task task = {&h->failures[stream], k, *args};
  host_stream_push(h->streams[stream], host_run_launch, &task, sizeof task, h->threads, pieces);
  return 0;
}

static int host_apply(device *dev, int stream, const operation *o, const void *args, error *e) {
  host_device *h = host_of(dev);
  operation_task task = {&h->failures[stream], o->host, {0}};
  if (o->args_bytes > sizeof task.args) return FAIL(e, DEVICE_FAILED, "host", o->name, "too many arguments");
  memcpy(task.args, args, o->args_bytes);
  const size_t bytes = offsetof(operation_task, args) + o->args_bytes;
  const int pieces = o->pieces ? o->pieces(args, h->threads) : 1;
  host_stream_push(h->streams[stream], host_run_operation, &task, bytes, h->threads, pieces);
  task.run = o->then;
  if (o->then) host_stream_push(h->streams[stream], host_run_operation, &task, bytes, h->threads, 1);
  return 0;
}

/* --- events --------------------------------------------------------------------------------------------- */

static int host_make_events(device *dev, device_event **events, int count, bool timed, error *e) {
  (void)dev, (void)timed;
  for (int i = 0; i < count; i++)
    if (!(events[i] = host_event_open())) FAIL(e, OUT_OF_MEMORY, sizeof *events[i], "events");
  return e->id;
}

static void host_unmake_events(device *dev, device_event **events, int count) {
  for (int s = 0; s < STREAM_COUNT; s++)
    host_stream_sync(host_of(dev)->streams[s]); /* streams may still use the events */
  for (int i = 0; i < count; i++) host_event_close(events[i]);
}

static int host_record(device *dev, int stream, device_event *event, error *e) {
  return host_event_record(event, host_of(dev)->streams[stream], e);
}

static int host_wait(device *dev, int stream, device_event *event, error *e) {
  (void)e;
  host_event_wait(event, host_of(dev)->streams[stream]);
  return 0;
}

static int host_sync_event(device *dev, device_event *event, error *e) {
  (void)dev, (void)e;
  host_event_sync(event);
  return 0;
}

static int host_seconds(device *dev, device_event *first, device_event *last, double *seconds, error *e) {
  (void)dev;
  return host_event_seconds(first, last, seconds, e);
}

static int host_sync(device *dev, int stream, error *e) {
  host_device *h = host_of(dev);
  host_stream_sync(h->streams[stream]);
  if (!h->failures[stream].id) return 0;
  if (!e->id) *e = h->failures[stream]; /* sticky: the failure stays for the next sync */
  return e->id;
}

/* --- other processes ------------------------------------------------------------------------------------ */

static int host_signal(device *dev, int stream, uint32_t *counter, uint32_t value, error *e) {
  (void)e;
  host_counter_signal(host_of(dev)->streams[stream], counter, value);
  return 0;
}

static int host_await(device *dev, int stream, const uint32_t *counter, uint32_t value, error *e) {
  (void)e;
  const host_device *h = host_of(dev);
  host_counter_await(h->streams[stream], &(host_counter){counter, value, h->patience});
  return 0;
}

static int host_place(device *dev, void *memory, size_t bytes, error *e) {
  host_device *h = host_of(dev);
  atomic_int failed = 0;
  host_copy_push_nan(h->streams[STREAM_INTERIOR], memory, bytes / sizeof(float), h->threads, &failed);
  host_stream_sync(h->streams[STREAM_INTERIOR]);
  if (failed) return FAIL(e, DEVICE_MEMORY, "host", bytes, "shared", strerror(failed));
  if (bytes >= 2 * HUGE_PAGE && !host_memory_huge(memory))
    snprintf(
        dev->warning, sizeof dev->warning,
        "fields that ranks share got no huge pages (they need Linux 6.1 and free memory): steps are slower");
  return 0;
}

/* Memory is shared by pages (shared_memory.h), not by handles. */
static const device_peer host_peer = {.signal = host_signal, .await = host_await, .place = host_place};

/* --- open and close ------------------------------------------------------------------------------------- */

static void host_close(device *dev) {
  host_device *h = host_of(dev);
  for (int s = 0; s < STREAM_COUNT; s++) host_stream_close(h->streams[s]);
  free(h);
}

static const device_table host_table = {.backend = BACKEND_HOST,
                                        .close = host_close,
                                        .alloc = host_alloc,
                                        .free = host_free,
                                        .copy = host_copy,
                                        .launch = host_launch,
                                        .apply = host_apply,
                                        .make_events = host_make_events,
                                        .unmake_events = host_unmake_events,
                                        .record = host_record,
                                        .wait = host_wait,
                                        .sync = host_sync,
                                        .sync_event = host_sync_event,
                                        .seconds = host_seconds,
                                        .peer = &host_peer};

/* In a batch job or a container, a process that exceeds the limit is killed. So some memory is left for files, MPI and
 * HDF5, which the device does not count. */
static void host_find_memory(device *dev, int ranks) {
  const host_memory_limits m = host_memory_limits_read();
  const uint64_t half = m.left / 2, beside = host_memory_beside(ranks);
  const uint64_t available = m.of_group ? m.left - (beside < half ? beside : half) : m.total;
  dev->total_bytes = (size_t)m.total;
  dev->available = (size_t)(available / (uint64_t)ranks);
  if (!dev->available) dev->available = 1; /* 0 would mean unknown */
}

int device_open_host(const device_options *options, device **opened, error *e) {
  host_device *h;
  TRY(ALLOC(e, h, 1, "the host device"));
  h->base.table = &host_table;
  h->threads = options->threads > 0 ? options->threads : 1;
  h->patience = options->own_cores ? PATIENCE : 0;
  host_find_memory(&h->base, options->local_ranks > 0 ? options->local_ranks : 1);
  snprintf(h->base.description, sizeof h->base.description, "host, %d thread%s, %s", h->threads,
           h->threads == 1 ? "" : "s", host_isa_get(0)->name);
  for (int s = 0; s < STREAM_COUNT; s++) {
    /* Only on the interior's stream does the next task follow at once. A thread that polled for another stream's task
     * would keep a core from the interior. */
    const double patience = s == STREAM_INTERIOR ? h->patience : 0;
    const int threads = s == STREAM_OUTPUT ? 1 : h->threads; /* this stream only copies, while steps run */
    h->streams[s] = host_stream_open(threads, patience);
    if (h->streams[s]) continue;
    host_close(&h->base);
    return FAIL(e, DEVICE_FAILED, "host", "starting worker threads", "no more threads can be created");
  }
  *opened = &h->base;
  return 0;
}
