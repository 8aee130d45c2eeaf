/* CUDA devices of several processes: memory that one offers and another maps, counters that the streams of both write
 * and await. */
#include <stdio.h>
#include <string.h>
#include "cuda_device.cuh"

#define DRIVER_TRY(e, call, name)                                                                            \
  do {                                                                                                       \
    const CUresult driver_status_ = (call);                                                                  \
    if (driver_status_ != CUDA_SUCCESS) return cuda_driver_failed((e), name, driver_status_);                \
  } while (0)

static int cuda_driver_failed(error *e, const char *name, CUresult status) {
  char text[32];
  snprintf(text, sizeof text, "CUDA driver error %d", (int)status);
  return FAIL(e, DEVICE_FAILED, "cuda", name, text);
}

/* Small allocations share a block, so the block's handle and the offset in it are sent. */
struct offered_memory {
  cudaIpcMemHandle_t block;
  uint64_t offset;
};
static_assert(sizeof(offered_memory) <= sizeof(peer_memory), "it must fit what is sent");

static int cuda_offer(device *dev, void *memory, peer_memory *offered, error *e) {
  const driver_functions &driver = cuda_of(dev)->driver;
  offered_memory o = {};
  CUdeviceptr block = 0;
  size_t bytes = 0;
  DRIVER_TRY(e, driver.range(&block, &bytes, reinterpret_cast<CUdeviceptr>(memory)), "cuMemGetAddressRange");
  CUDA_TRY(e, cudaIpcGetMemHandle(&o.block, reinterpret_cast<void *>(block)));
  o.offset = reinterpret_cast<CUdeviceptr>(memory) - block;
  memcpy(offered->bytes, &o, sizeof o);
  return 0;
}

static int cuda_map(device *dev, const peer_memory *offered, void **memory, error *e) {
  (void)dev;
  offered_memory o;
  void *block = NULL;
  memcpy(&o, offered->bytes, sizeof o);
  CUDA_TRY(e, cudaIpcOpenMemHandle(&block, o.block, cudaIpcMemLazyEnablePeerAccess));
  *memory = static_cast<unsigned char *>(block) + o.offset;
  return 0;
}

static int cuda_unmap(device *dev, const peer_memory *offered, void *memory, error *e) {
  (void)dev;
  offered_memory o;
  memcpy(&o, offered->bytes, sizeof o);
  CUDA_TRY(e, cudaIpcCloseMemHandle(static_cast<unsigned char *>(memory) - o.offset));
  return 0;
}

/* Neither signal nor await occupies a multiprocessor, so kernels that fill the device cannot hold up a halo. */
static int cuda_signal(device *dev, int stream, uint32_t *counter, uint32_t value, error *e) {
  const cuda_device *d = cuda_of(dev);
  DRIVER_TRY(e,
             d->driver.write(d->streams[stream], reinterpret_cast<CUdeviceptr>(counter), value,
                             CU_STREAM_WRITE_VALUE_DEFAULT),
             "cuStreamWriteValue32");
  return 0;
}

static int cuda_await(device *dev, int stream, const uint32_t *counter, uint32_t value, error *e) {
  const cuda_device *d = cuda_of(dev);
  DRIVER_TRY(e,
             d->driver.wait(d->streams[stream], reinterpret_cast<CUdeviceptr>(counter), value,
                            CU_STREAM_WAIT_VALUE_GEQ),
             "cuStreamWaitValue32");
  return 0;
}

static void *cuda_stream(device *dev, int stream) {
  return cuda_of(dev)->streams[stream];
}

static int cuda_adopt(device *dev, error *e) {
  CUDA_TRY(e, cudaSetDevice(cuda_of(dev)->ordinal));
  return 0;
}

const device_peer cuda_peer = {cuda_offer, cuda_map,    cuda_unmap, cuda_signal,
                               cuda_await, cuda_stream, cuda_adopt, NULL};

template <class Function> static cudaError_t cuda_driver_function(const char *name, Function *function) {
  void *found = NULL;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
  cudaError_t status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (status == cudaSuccess && result != cudaDriverEntryPointSuccess) status = cudaErrorNotSupported;
  *function = reinterpret_cast<Function>(found);
  return status;
}

int cuda_find_driver_functions(cuda_device *d, error *e) {
  CUDA_TRY(e, cuda_driver_function("cuMemGetAddressRange", &d->driver.range));
  CUDA_TRY(e, cuda_driver_function("cuStreamWriteValue32", &d->driver.write));
  CUDA_TRY(e, cuda_driver_function("cuStreamWaitValue32", &d->driver.wait));
  return 0;
}
