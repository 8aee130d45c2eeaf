#include "device.h"
#include <string.h>
#include <stdio.h>

#ifndef STENCIL_HAVE_CUDA
int device_cuda_count(char why[256]) {
  snprintf(why, 256, "this program was built without CUDA");
  return 0;
}

void device_cuda_version(char text[64]) {
  snprintf(text, 64, "none");
}

int device_open_cuda(const device_options *options, device **opened, error *e) {
  (void)options;
  *opened = NULL;
  return FAIL(e, DEVICE_UNKNOWN_BACKEND, "cuda",
              " (build it where nvcc is found, or with -DSTENCIL_CUDA=ON)");
}
#endif

static int device_open_named(const char *name, const device_options *options, device **opened, error *e) {
  char why[256];
  if (strcmp(name, "host") == 0) return device_open_host(options, opened, e);
  if (strcmp(name, "cuda") == 0) return device_open_cuda(options, opened, e);
  if (strcmp(name, "auto") != 0) return FAIL(e, DEVICE_UNKNOWN_BACKEND, name, "");
  return device_cuda_count(why) > 0 ? device_open_cuda(options, opened, e)
                                    : device_open_host(options, opened, e);
}

int device_open(const char *name, const device_options *options, device **opened, error *e) {
  TRY(device_open_named(name, options, opened, e));
  device *dev = *opened;
  if (!dev->available) dev->available = dev->total_bytes;
  return 0;
}

bool device_runs(device *dev, const kernel *k, const kernel_args *args) {
  kernel_args none = *args;
  error refused = {0};
  none.z_begin = none.z_end = 0;
  return k->host || (k->cuda && !dev->table->launch(dev, STREAM_INTERIOR, k, &none, &refused));
}

int device_reserve(device *dev, device_buffer *b, size_t bytes, memory_kind kind, error *e) {
  if (b->memory && bytes <= b->bytes) return 0;
  device_release(dev, b, kind);
  TRY(dev->table->alloc(dev, &b->memory, bytes, kind, e));
  b->bytes = bytes;
  return 0;
}

void device_release(device *dev, device_buffer *b, memory_kind kind) {
  error ignored = {0};
  dev->table->free(dev, b->memory, kind, &ignored);
  *b = (device_buffer){0};
}
