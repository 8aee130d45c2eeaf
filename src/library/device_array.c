/* The library without CUDA. */
#include "device_array.h"

static int device_array_lacks(error *e) {
  return FAIL(e, LIBRARY_LACKS, "CUDA: it was built without");
}

int device_array_check(const char *name, const void *memory, int device, error *e) {
  (void)name, (void)memory, (void)device;
  return device_array_lacks(e);
}

int device_array_range(const float *values, size_t count, int device, float range[2], bool *sound, error *e) {
  (void)values, (void)count, (void)device, (void)range, (void)sound;
  return device_array_lacks(e);
}

bool device_array_is_here(int device) {
  (void)device;
  return false;
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
