/* A device is memory, streams, events, asynchronous copies and kernel launches: the step loop knows nothing
 * more. device_cuda.cu fills the table with the CUDA runtime, device_host.c with worker threads that obey the
 * same rules:
 *   - work on one stream runs in order; copies and launches return at once; a launch copies its arguments;
 *   - wait(stream, event) holds back later work of `stream` until the work before the latest record of
 * `event`, as of this call, is done; waiting for an event never recorded is a no-op;
 *   - fresh device memory is not zero: every float of it is NaN on the host device;
 *   - an asynchronous failure is sticky: it is reported by the next sync, and by every later one. */
#ifndef STENCIL_DEVICE_H
#define STENCIL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "kernels/kernel.h"
#include "kernels/operations/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STREAM_BOUNDARY = 0, STREAM_INTERIOR = 1, STREAM_OUTPUT = 2, STREAM_COUNT = 3 };

typedef enum memory_kind { MEMORY_DEVICE, MEMORY_PINNED } memory_kind;
typedef enum copy_direction { COPY_TO_HOST, COPY_TO_DEVICE, COPY_ON_DEVICE } copy_direction;

/* `bytes` from `from` to `to`. */
typedef struct copy_args {
  void *to;
  const void *from;
  size_t bytes;
  copy_direction direction;
} copy_args;

typedef struct device_options {
  int local_rank;  /* this rank among the ranks of its node */
  int local_ranks; /* ranks on this node */
  int threads;     /* host device: threads a stream computes with, >= 1 */
  bool own_cores;  /* host device: each thread has a core that no other rank uses */
  bool profile;    /* events carry times, so that `seconds` works */
} device_options;

typedef struct device device;
/* A mark in the work of a stream. */
typedef struct device_event device_event;

/* Device memory of another process, in a form that can be sent there: opaque bytes. */
typedef struct peer_memory {
  unsigned char bytes[80];
} peer_memory;

/* Work between the devices of several processes. Both devices have `signal` and `await`, the host also `place`, CUDA
 * the others; a function that a device lacks is NULL. */
typedef struct device_peer {
  /* Describes `memory`, the beginning of an allocation, for another process. */
  int (*offer)(device *dev, void *memory, peer_memory *offered, error *e);
  /* Maps memory that another process has offered and not freed; unmap it before that process frees it. */
  int (*map)(device *dev, const peer_memory *offered, void **memory, error *e);
  int (*unmap)(device *dev, const peer_memory *offered, void *memory, error *e);
  /* Enqueues a write of `value` to the counter, which is in this device's memory or mapped. The write happens when all
   * earlier work of the stream is done and visible to readers of the counter. */
  int (*signal)(device *dev, int stream, uint32_t *counter, uint32_t value, error *e);
  /* Holds back later work of the stream until the counter has reached `value`, which may wrap around. The counter is in
   * this device's memory; for the host device it may also be mapped. Fresh memory counts as -1. */
  int (*await)(device *dev, int stream, const uint32_t *counter, uint32_t value, error *e);
  /* The stream as CUDA knows it, a cudaStream_t, for a library that enqueues work of its own. */
  void *(*stream)(device *dev, int stream);
  /* Makes this the device of the calling thread, for a library that asks for it. Any thread may call it. */
  int (*adopt)(device *dev, error *e);
  /* Takes memory for mapped pages near the threads that compute; huge pages where possible. Sets `bytes` there to NaN,
   * like fresh memory. DEVICE_MEMORY where there is too little memory. */
  int (*place)(device *dev, void *memory, size_t bytes, error *e);
} device_peer;

/* The table. All functions but `close` return 0 or an error id with `e` filled; `dev` is the device the table belongs
 * to. After a failed `alloc` there is nothing to free. */
typedef struct device_table {
  enum backend backend;
  /* Waits for all streams, then frees the device. Free its memory first. */
  void (*close)(device *dev);
  /* Allocates `bytes` of device or pinned host memory, aligned to 256 bytes; the host device's in whole pages. The
   * caller frees it. */
  int (*alloc)(device *dev, void **memory, size_t bytes, memory_kind kind, error *e);
  int (*free)(device *dev, void *memory, memory_kind kind, error *e);
  /* Enqueues a copy. Both ranges must stay allocated until it is done. */
  int (*copy)(device *dev, int stream, const copy_args *copy, error *e);
  /* Enqueues a kernel of this backend on the planes [z_begin, z_end) of `args`, which is copied. On a GPU
   * the range may be empty, to ask whether the kernel runs: KERNEL_UNSUPPORTED where the GPU or the program lacks what
   * it needs. */
  int (*launch)(device *dev, int stream, const kernel *k, const kernel_args *args, error *e);
  /* Enqueues an operation (operation.h); `args`, of the operation's type, is copied. */
  int (*apply)(device *dev, int stream, const operation *o, const void *args, error *e);
  /* Makes `count` events; with `timed` they carry times, where options.profile allows. The caller owns the events, and
   * unmakes them when no stream will use them any more, before it closes the device. Unmaking NULL does nothing. After
   * a failure, events that could not be made are NULL. */
  int (*make_events)(device *dev, device_event **events, int count, bool timed, error *e);
  void (*unmake_events)(device *dev, device_event **events, int count);
  /* On the host device an event belongs to the stream that records it until that stream has reached it. */
  int (*record)(device *dev, int stream, device_event *event, error *e);
  int (*wait)(device *dev, int stream, device_event *event, error *e);
  /* Waits until all work of the stream is done. DEVICE_FAILED if any of it has failed, now or earlier. */
  int (*sync)(device *dev, int stream, error *e);
  /* Waits until the work before the latest record of `event` is done; returns at once if it was never recorded. This is
   * the only function that any thread may call; nobody may record the event meanwhile. */
  int (*sync_event)(device *dev, device_event *event, error *e);
  /* Waits for two recorded events, then gives the seconds from `first` to `last`. Both must carry times, which needs
   * options.profile. */
  int (*seconds)(device *dev, device_event *first, device_event *last, double *seconds, error *e);
  /* Makes copies of memory that was not allocated here as fast as those of pinned memory, until unpin. NULL on the
   * host, where pinning makes no difference. */
  int (*pin)(device *dev, void *memory, size_t bytes, error *e);
  int (*unpin)(device *dev, void *memory, error *e);
  const device_peer *peer; /* NULL: none */
} device_table;

/* The part of a device that its users may read. Implementations put it first in a struct of their own. */
struct device {
  const device_table *table;
  char description[256];    /* for the log: "NVIDIA H200 (132 SMs, 139 GiB)", "host, 2 threads, AVX-512" */
  char warning[256];        /* for the log; empty if there is nothing to say */
  size_t bytes, peak_bytes; /* device memory in use now and at most */
  size_t pinned_bytes;      /* pinned host memory in use now */
  size_t total_bytes;       /* memory of the device, 0 if unknown */
  size_t available;         /* bytes this rank may use: less where ranks share the device; 0 if unknown */
  block_counter *counters;  /* CUDA: one for each stream, for operations that launch; else NULL */
  unsigned char gpu[16];    /* identifies the GPU, the same in every process; zeros: no GPU */
};

/* Opens a device: name "host", "cuda" or "auto" (cuda where it is compiled in and a device is there, else host). A
 * backend that this program or machine does not have is exit 1 with the reason; no device is open then. The caller
 * closes the device with dev->table->close. */
int device_open(const char *name, const device_options *options, device **opened, error *e);
int device_open_host(const device_options *options, device **opened, error *e);
int device_open_cuda(const device_options *options, device **opened, error *e);

/* Can the device run this kernel with these arguments? False where the GPU or the program lacks something. */
bool device_runs(device *dev, const kernel *k, const kernel_args *args);

/* Memory that serves one use after another, and only grows. A zero-initialised buffer is empty. */
typedef struct device_buffer {
  void *memory;
  size_t bytes;
} device_buffer;
/* Reserves `bytes`; a buffer that grows loses its content. Free it by device_release with the same kind. */
int device_reserve(device *dev, device_buffer *b, size_t bytes, memory_kind kind, error *e);
void device_release(device *dev, device_buffer *b, memory_kind kind);

/* Number of CUDA devices that this process sees. `why` gets the reason if there is none. 0 in a program without CUDA.
 */
int device_cuda_count(char why[256]);
/* Sets `text` to the CUDA runtime and CMAKE_CUDA_ARCHITECTURES compiled in, such as "13.0, code for 90"; "none" without
 * CUDA. Writes at most 64 bytes. */
void device_cuda_version(char text[64]);

#ifdef __cplusplus
}
#endif
#endif
