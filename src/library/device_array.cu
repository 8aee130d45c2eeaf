#include <cuda_runtime.h>
#include "device_array.h"

/* Makes `device` the thread's own, and the one before it again at the end. */
struct device_array_scope {
  int before = -1;
  explicit device_array_scope(int device) {
    cudaGetDevice(&before);
    cudaSetDevice(device);
  }
  ~device_array_scope() {
    if (before >= 0) cudaSetDevice(before);
  }
};

static int device_array_failed(cudaError_t rc, const char *call, error *e) {
  return rc == cudaSuccess ? 0 : FAIL(e, DEVICE_FAILED, "cuda", call, cudaGetErrorString(rc));
}

int device_array_check(const char *name, const void *memory, int device, error *e) {
  cudaPointerAttributes found;
  const cudaError_t rc = cudaPointerGetAttributes(&found, memory);
  const bool there =
      rc == cudaSuccess && (found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged);
  if (rc != cudaSuccess) cudaGetLastError(); /* it is said here */
  if (there && found.device == device) return 0;
  return FAIL(e, LIBRARY_INPUT, name,
              there ? "its memory is another CUDA device's" : "its memory is no CUDA device's");
}

static int device_array_copy(void *to, const void *from, size_t bytes, int device, cudaMemcpyKind kind,
                             error *e) {
  const device_array_scope here(device);
  return device_array_failed(cudaMemcpy(to, from, bytes, kind), "cudaMemcpy", e);
}

int device_array_get(void *to, const void *from, size_t bytes, int device, error *e) {
  return device_array_copy(to, from, bytes, device, cudaMemcpyDeviceToHost, e);
}

int device_array_put(void *to, const void *from, size_t bytes, int device, error *e) {
  return device_array_copy(to, from, bytes, device, cudaMemcpyHostToDevice, e);
}

int device_array_await(void *stream, error *e) {
  return device_array_failed(cudaStreamSynchronize((cudaStream_t)stream), "cudaStreamSynchronize", e);
}
