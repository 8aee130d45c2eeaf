/* The library without CUDA. */
#include "device_array.h"

static int device_array_lacks(error *e) {
  return FAIL(e, LIBRARY_LACKS, "CUDA: it was built without");
}

int device_array_check(const char *name, const void *memory, int device, error *e) {
  (void)name, (void)memory, (void)device;
  return device_array_lacks(e);
}

int device_array_get(void *to, const void *from, size_t bytes, int device, error *e) {
  (void)to, (void)from, (void)bytes, (void)device;
  return device_array_lacks(e);
}

int device_array_put(void *to, const void *from, size_t bytes, int device, error *e) {
  return device_array_get(to, from, bytes, device, e);
}

int device_array_await(void *stream, error *e) {
  return stream ? device_array_lacks(e) : 0;
}
