/* Memory of CUDA devices that a caller owns. In a library without CUDA all of it fails. */
#ifndef STENCIL_DEVICE_ARRAY_H
#define STENCIL_DEVICE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does `memory`, the beginning of a caller's array, lie on that device? `name`: of the array, for the message. */
int device_array_check(const char *name, const void *memory, int device, error *e);
/* Copies bytes of such an array to the host, or back, and waits. */
int device_array_get(void *to, const void *from, size_t bytes, int device, error *e);
int device_array_put(void *to, const void *from, size_t bytes, int device, error *e);
/* Waits for a caller's stream, a cudaStream_t, on the current device; NULL: the default one. */
int device_array_await(void *stream, error *e);

#ifdef __cplusplus
}
#endif
#endif
