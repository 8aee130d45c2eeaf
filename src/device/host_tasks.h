/* Tasks of the host device's streams besides kernels: copies, filling new memory with NaN, events of this device, and
 * counters in memory that other processes see. The rules are CUDA's (device.h), with one more: an event belongs to the
 * stream that records it until that stream has reached it. */
#ifndef STENCIL_HOST_TASKS_H
#define STENCIL_HOST_TASKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "device.h"
#include "host_stream.h"

/* --- copies ------------------------------------------------------------------------------------------------------ */

typedef struct copy_task {
  copy_args copy;
  error *failure; /* the stream's: once set, nothing is copied; copying NULL sets it */
} copy_task;

/* Enqueues a copy on at most `threads` threads. */
void host_copy_push(host_stream *s, const copy_task *task, int threads);

/* Enqueues setting `count` floats to NaN. The threads that compute touch the memory first, which places its pages near
 * them. `failed`: NULL, or for memory that processes share, where huge pages must be requested. Where the system has
 * too little memory, the task sets *failed to an errno and leaves the rest as it was. */
void host_copy_push_nan(host_stream *s, float *to, size_t count, int threads, atomic_int *failed);

/* --- events ------------------------------------------------------------------------------------------------------ */

typedef struct device_event {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  const host_stream *stream; /* the stream that recorded it last; NULL before the first record */
  size_t recorded;           /* records requested; only the device's user changes it */
  size_t done;               /* records reached; guarded by lock */
  double time;               /* when the last record was reached, s; guarded by lock */
} host_event;

/* NULL where memory is short. */
host_event *host_event_open(void);
/* No stream may still use it. NULL is allowed. */
void host_event_close(host_event *ev);
/* Enqueues a record. DEVICE_FAILED if another stream has recorded the event and not reached it yet. */
int host_event_record(host_event *ev, host_stream *s, error *e);
/* Holds back later work of `s` until the latest record, as of this call, is reached. */
void host_event_wait(host_event *ev, host_stream *s);
/* Waits until the latest record is reached. */
void host_event_sync(host_event *ev);
/* Waits for both events, then gives the seconds from `first` to `last`; DEVICE_FAILED if one was never recorded. */
int host_event_seconds(host_event *first, host_event *last, double *seconds, error *e);

/* --- counters of other processes ---------------------------------------------------------------------------------- */

/* Sets the counter when all earlier work of the stream is done. A process that awaits it then sees that work. */
void host_counter_signal(host_stream *s, uint32_t *counter, uint32_t value);
/* A counter of another process, and how to wait for it. */
typedef struct host_counter {
  const uint32_t *counter;
  uint32_t value;  /* may wrap around */
  double patience; /* s in which the waiting thread stays awake */
} host_counter;
/* Holds back later work of the stream until the counter has reached the value. */
void host_counter_await(host_stream *s, const host_counter *c);

#endif
