/* Shared by the files of the CUDA device (device.h). */
#ifndef STENCIL_CUDA_DEVICE_CUH
#define STENCIL_CUDA_DEVICE_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include "device.h"

/* An allocation. free needs its size, which the runtime does not tell. */
struct allocation {
  void *memory;
  size_t bytes;
  memory_kind kind;
  allocation *next;
};

/* Functions of the driver that the runtime lacks. They are looked up at run time, so that the program also starts where
 * there is no driver. */
struct driver_functions {
  CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr);
  CUresult (*write)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  CUresult (*wait)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
};

struct cuda_device {
  device shown; /* first: a device * is a cuda_device * */
  int ordinal;
  cudaStream_t streams[STREAM_COUNT];
  block_counter counters[STREAM_COUNT]; /* of kernels' blocks */
  bool profile;
  allocation *allocations;
  driver_functions driver;
};

static inline cuda_device *cuda_of(device *dev) {
  return reinterpret_cast<cuda_device *>(dev);
}

/* A device_event is a cudaEvent_t. */
static inline cudaEvent_t cuda_event_of(device_event *event) {
  return reinterpret_cast<cudaEvent_t>(event);
}

/* Records that `call`, spelled as in the source, failed. */
int cuda_failed(error *e, const char *call, cudaError_t status);

/* Requests small fetches from memory on chips for which this program has bulk_tensor; a hint. */
void cuda_fetch_little(void);

#define CUDA_TRY(e, call)                                                                                    \
  do {                                                                                                       \
    const cudaError_t cuda_status_ = (call);                                                                 \
    if (cuda_status_ != cudaSuccess) return cuda_failed((e), #call, cuda_status_);                           \
  } while (0)

/* --- cuda_peer.cu: work between the devices of several processes --- */

extern const device_peer cuda_peer;
int cuda_find_driver_functions(cuda_device *d, error *e);

#endif
