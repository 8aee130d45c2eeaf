/* Copies of the host device, and the NaN its memory begins with: tasks of a stream, shared among threads. */
#ifndef STENCIL_HOST_COPY_H
#define STENCIL_HOST_COPY_H

#include "device.h"
#include "host_stream.h"

typedef struct copy_task {
  void *to;
  const void *from;
  size_t bytes;
  copy_direction direction;
  error *failure; /* of the stream: nothing is copied after it, and a null pointer makes it */
} copy_task;

void host_copy_push(host_stream *s, const copy_task *copy, int threads);

/* Every float is NaN then. The threads that compute touch the memory first: that places its pages near them. */
void host_copy_push_nan(host_stream *s, float *to, size_t count, int threads);

#endif
