/* Tasks of the host device's streams: copies, and filling new memory with NaN. Threads share a task. */
#ifndef STENCIL_HOST_COPY_H
#define STENCIL_HOST_COPY_H

#include "device.h"
#include "host_stream.h"

typedef struct copy_task {
  copy_args copy;
  error *failure; /* of the stream: nothing is copied once it is set; a null pointer sets it */
} copy_task;

/* Enqueues a copy in at most `threads` shares. */
void host_copy_push(host_stream *s, const copy_task *task, int threads);

/* Enqueues setting `count` floats to NaN. The threads that compute touch the memory first, which places its pages near
 * them. */
void host_copy_push_nan(host_stream *s, float *to, size_t count, int threads);

#endif
