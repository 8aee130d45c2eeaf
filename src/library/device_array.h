/* Access to a caller's memory on CUDA devices. In a library without CUDA all functions fail. */
#ifndef STENCIL_DEVICE_ARRAY_H
#define STENCIL_DEVICE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fails unless `memory`, the beginning of a caller's array, lies on that device. `name` is the array's, for the
 * message. */
int device_array_check(const char *name, const void *memory, int device, error *e);
/* Finds the range of an array's numbers. *sound: all are normal numbers above 0. */
int device_array_range(const float *values, size_t count, int device, float range[2], bool *sound, error *e);
/* Is `device` the calling thread's device? */
bool device_array_is_here(int device);
/* Copies bytes of an array to the host, or back, and waits. */
int device_array_get(void *to, const void *from, size_t bytes, int device, error *e);
int device_array_put(void *to, const void *from, size_t bytes, int device, error *e);
/* Waits for a caller's stream, a cudaStream_t, on the current device; NULL: the default one. */
int device_array_await(void *stream, error *e);

#ifdef __cplusplus
}
#endif
#endif
