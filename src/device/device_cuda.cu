/* The CUDA device: fills the device table with the CUDA runtime. The only file that makes streams and events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cuda_device.cuh"
#include "kernels/launch_behind.cuh"
#include "kernels/operations/statistics.h"

int cuda_failed(error *e, const char *call, cudaError_t status) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
  (void)cudaGetLastError(); /* it is reported here: the next launch must not report it again */
  return FAIL(e, DEVICE_FAILED, "cuda", name, cudaGetErrorString(status));
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static cudaError_t cuda_release(const allocation *a) {
  return a->kind == MEMORY_DEVICE ? cudaFree(a->memory) : cudaFreeHost(a->memory);
}

static void cuda_forget(cuda_device *d, allocation **link) {
  allocation *a = *link;
  *(a->kind == MEMORY_DEVICE ? &d->shown.bytes : &d->shown.pinned_bytes) -= a->bytes;
  *link = a->next;
  free(a);
}

static void cuda_remember(cuda_device *d, allocation *a) {
  a->next = d->allocations;
  d->allocations = a;
  *(a->kind == MEMORY_DEVICE ? &d->shown.bytes : &d->shown.pinned_bytes) += a->bytes;
  if (d->shown.bytes > d->shown.peak_bytes) d->shown.peak_bytes = d->shown.bytes;
}

/* Fills memory with NaN, like the host device, so that values that nobody wrote show in the result. */
static int cuda_fill_with_nan(cuda_device *d, void *memory, size_t bytes, error *e) {
  const cudaStream_t stream = d->streams[STREAM_BOUNDARY];
  CUDA_TRY(e, cudaMemsetAsync(memory, 0xFF, bytes, stream));
  CUDA_TRY(e, cudaStreamSynchronize(stream)); /* the other stream may use the memory next */
  return 0;
}

static int cuda_alloc(device *dev, void **memory, size_t bytes, memory_kind kind, error *e) {
  allocation *a;
  TRY(ALLOC(e, a, 1, "the list of allocations"));
  *memory = NULL;
  *a = {NULL, bytes, kind, NULL};
  const size_t ask = bytes ? bytes : 1; /* NULL would look like a failure */
  const cudaError_t status = kind == MEMORY_DEVICE ? cudaMalloc(&a->memory, ask)
                                                   : cudaHostAlloc(&a->memory, ask, cudaHostAllocPortable);
  if (status != cudaSuccess) {
    free(a);
    (void)cudaGetLastError(); /* otherwise the next launch would report it */
    return FAIL(e, DEVICE_MEMORY, "cuda", bytes, kind == MEMORY_DEVICE ? "device" : "pinned host",
                cudaGetErrorString(status));
  }
  cuda_remember(cuda_of(dev), a);
  *memory = a->memory;
  return kind == MEMORY_DEVICE ? cuda_fill_with_nan(cuda_of(dev), a->memory, bytes, e) : 0;
}

static int cuda_free(device *dev, void *memory, memory_kind kind, error *e) {
  if (!memory) return 0;
  cuda_device *d = cuda_of(dev);
  allocation **link = &d->allocations;
  while (*link && ((*link)->memory != memory || (*link)->kind != kind)) link = &(*link)->next;
  if (!*link) return FAIL(e, DEVICE_FAILED, "cuda", "free", "this memory is not the device's");
  const cudaError_t status = cuda_release(*link);
  cuda_forget(d, link);
  return status == cudaSuccess ? 0
                               : cuda_failed(e, kind == MEMORY_DEVICE ? "cudaFree" : "cudaFreeHost", status);
}

static int cuda_pin(device *dev, void *memory, size_t bytes, error *e) {
  (void)dev;
  CUDA_TRY(e, cudaHostRegister(memory, bytes, cudaHostRegisterPortable));
  return 0;
}

static int cuda_unpin(device *dev, void *memory, error *e) {
  (void)dev;
  CUDA_TRY(e, cudaHostUnregister(memory));
  return 0;
}

/* --- streams ----------------------------------------------------------------------------------------------------- */

static int cuda_copy(device *dev, int stream, const copy_args *c, error *e) {
  static const cudaMemcpyKind kinds[] = {cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice,
                                         cudaMemcpyDeviceToDevice};
  const cudaStream_t on = cuda_of(dev)->streams[stream];
  if (c->bytes) CUDA_TRY(e, cudaMemcpyAsync(c->to, c->from, c->bytes, kinds[c->direction], on));
  return 0;
}

/* Turns a launcher's return code into an error. */
static int cuda_launched(const char *what, int status, error *e) {
  return status == cudaSuccess ? 0 : cuda_failed(e, what, static_cast<cudaError_t>(status));
}

static int cuda_launch(device *dev, int stream, const kernel *k, const kernel_args *args, error *e) {
  if (!k->cuda) return FAIL(e, DEVICE_FAILED, "cuda", k->name, "it is not a CUDA kernel");
  char what[96];
  snprintf(what, sizeof what, "launch of kernel %s", k->name);
  kernel_args launch = *args;
  launch.counter = &cuda_of(dev)->counters[stream];
  const int status = k->cuda(&launch, cuda_of(dev)->streams[stream]);
  if (status != cudaErrorNotSupported) return cuda_launched(what, status, e);
  (void)cudaGetLastError();
  return FAIL(e, KERNEL_UNSUPPORTED, k->name);
}

static int cuda_apply(device *dev, int stream, const operation *o, const void *args, error *e) {
  const int status = o->cuda(args, cuda_of(dev)->streams[stream]);
  if (status != cudaErrorNotSupported) return cuda_launched(o->name, status, e);
  (void)cudaGetLastError();
  return FAIL(e, KERNEL_UNSUPPORTED, o->name);
}

static int cuda_make_events(device *dev, device_event **events, int count, bool timed, error *e) {
  const unsigned flags = timed && cuda_of(dev)->profile ? cudaEventDefault : cudaEventDisableTiming;
  for (int i = 0; i < count; i++) events[i] = NULL;
  for (int i = 0; i < count; i++)
    CUDA_TRY(e, cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t *>(&events[i]), flags));
  return 0;
}

static void cuda_unmake_events(device *, device_event **events, int count) {
  for (int i = 0; i < count; i++)
    if (events[i]) (void)cudaEventDestroy(cuda_event_of(events[i]));
}

static int cuda_record(device *dev, int stream, device_event *event, error *e) {
  CUDA_TRY(e, cudaEventRecord(cuda_event_of(event), cuda_of(dev)->streams[stream]));
  return 0;
}

static int cuda_wait(device *dev, int stream, device_event *event, error *e) {
  CUDA_TRY(e, cudaStreamWaitEvent(cuda_of(dev)->streams[stream], cuda_event_of(event), 0));
  return 0;
}

static int cuda_sync(device *dev, int stream, error *e) {
  CUDA_TRY(e, cudaStreamSynchronize(cuda_of(dev)->streams[stream]));
  return 0;
}

static int cuda_sync_event(device *dev, device_event *event, error *e) {
  TRY(cuda_peer.adopt(dev, e)); /* the calling thread may not have chosen a device yet */
  CUDA_TRY(e, cudaEventSynchronize(cuda_event_of(event)));
  return 0;
}

static int cuda_seconds(device *dev, device_event *first, device_event *last, double *seconds, error *e) {
  const cudaEvent_t begin = cuda_event_of(first), end = cuda_event_of(last);
  if (!cuda_of(dev)->profile)
    return FAIL(e, DEVICE_FAILED, "cuda", "timing", "the device was opened without profile");
  float milliseconds = 0;
  CUDA_TRY(e, cudaEventSynchronize(begin));
  CUDA_TRY(e, cudaEventSynchronize(end));
  CUDA_TRY(e, cudaEventElapsedTime(&milliseconds, begin, end));
  *seconds = 1e-3 * (double)milliseconds;
  return 0;
}

/* --- opening and closing ----------------------------------------------------------------------------------------- */

/* Also closes a device that is only partly open. Errors are ignored: nobody is left to tell. */
static void cuda_close(device *dev) {
  if (!dev) return;
  cuda_device *d = cuda_of(dev);
  for (int i = 0; i < STREAM_COUNT; i++)
    if (d->streams[i]) (void)cudaStreamSynchronize(d->streams[i]);
  while (d->allocations) {
    (void)cuda_release(d->allocations);
    cuda_forget(d, &d->allocations);
  }
  for (int i = 0; i < STREAM_COUNT; i++) {
    (void)cudaFree(d->counters[i].begun);
    if (d->streams[i]) (void)cudaStreamDestroy(d->streams[i]);
  }
  free(d);
}

/* In the order of device.h: C++17 has no designated initialisers. */
static const device_table cuda_table = {
    BACKEND_CUDA, // backend
    cuda_close,   // close
    cuda_alloc,   // alloc
    cuda_free,    // free
    cuda_copy,    // copy
    cuda_launch,  // launch
    cuda_apply,   // apply
    cuda_make_events, cuda_unmake_events,
    cuda_record,     // record
    cuda_wait,       // wait
    cuda_sync,       // sync
    cuda_sync_event, // sync_event
    cuda_seconds,    // seconds
    cuda_pin,        // pin
    cuda_unpin,      // unpin
    &cuda_peer,      // peer
};

int device_cuda_count(char why[256]) {
  int count = 0, driver = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  const char *reason = status != cudaSuccess ? cudaGetErrorString(status) : count ? "" : "none is visible";
  if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && !driver)
    reason = "no NVIDIA driver is installed"; /* the runtime's own text speaks of a version that is too old */
  snprintf(why, 256, "%s", reason);
  return status == cudaSuccess ? count : 0;
}

void device_cuda_version(char text[64]) {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) version = CUDART_VERSION;
  snprintf(text, 64, "%d.%d, code for %s", version / 1000, version % 1000 / 10, STENCIL_CUDA_ARCHITECTURES);
}

static int cuda_describe(cuda_device *d, int ordinal, error *e) {
  cudaDeviceProp properties;
  size_t available = 0;
  CUDA_TRY(e, cudaGetDeviceProperties(&properties, ordinal));
  CUDA_TRY(e, cudaMemGetInfo(&available, &d->shown.total_bytes));
  snprintf(d->shown.description, sizeof d->shown.description, "%.200s, %d SMs, %.0f GiB", properties.name,
           properties.multiProcessorCount, (double)d->shown.total_bytes / (double)(1 << 30));
  static_assert(sizeof properties.uuid == sizeof d->shown.gpu, "the whole id is kept");
  memcpy(d->shown.gpu, &properties.uuid, sizeof d->shown.gpu);
  return 0;
}

static int cuda_make_streams(cuda_device *d, error *e) {
  int least = 0, greatest = 0;
  CUDA_TRY(e, cudaDeviceGetStreamPriorityRange(&least, &greatest));
  for (int i = 0; i < STREAM_COUNT; i++) { /* the boundary first: the neighbours wait for it */
    CUDA_TRY(e, cudaStreamCreateWithPriority(&d->streams[i], cudaStreamNonBlocking,
                                             i == STREAM_BOUNDARY ? greatest : least));
    unsigned **const begun = &d->counters[i].begun;
    CUDA_TRY(e, cudaMalloc(begun, sizeof **begun)); /* each in a cache line of its own */
    CUDA_TRY(e, cudaMemsetAsync(*begun, 0, sizeof **begun, d->streams[i]));
  }
  return 0;
}

/* A kernel to query: one build compiles all kernels for the same chips. */
static __global__ void sample() {}

/* Makes L2 fetch 32 bytes instead of 64 on a miss. bulk_tensor, which reads halos of 16 bytes beside its tiles and ends
 * of rows in layers along x, is up to 2 % faster with 32; other kernels are up to 3 % slower. So devices without
 * bulk_tensor keep 64. It is a hint. */
void cuda_fetch_little(void) {
  enum { BYTES = 32 };
  if (compiled(reinterpret_cast<const void *>(sample)).chip >= HOPPER)
    (void)cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, BYTES);
  (void)cudaGetLastError();
}

/* Says that the program has no code for the card. */
static int cuda_lacks_code(int ordinal, error *e) {
  cudaDeviceProp card;
  CUDA_TRY(e, cudaGetDeviceProperties(&card, ordinal));
  return FAIL(e, DEVICE_NO_CODE, card.name, card.major, card.minor, STENCIL_CUDA_ARCHITECTURES, card.major,
              card.minor);
}

/* Chooses the device and measures an empty field. That fails if the GPU is not free, or if it cannot do cooperative
 * launches. */
static int cuda_take(cuda_device *d, int ordinal, error *e) {
  const cudaError_t status = cudaSetDevice(ordinal);
  if (status != cudaSuccess) return FAIL(e, DEVICE_ABSENT, cudaGetErrorString(status));
  const cudaError_t code = compiled(reinterpret_cast<const void *>(sample)).status;
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction)
    return cuda_lacks_code(ordinal, e);
  if (code != cudaSuccess) return FAIL(e, DEVICE_ABSENT, cudaGetErrorString(code));
  cuda_fetch_little();
  TRY(cuda_make_streams(d, e));
  const statistics_args nothing = {};
  const cudaError_t run = static_cast<cudaError_t>(operation_statistics.cuda(&nothing, d->streams[0]));
  if (run == cudaErrorNotSupported)
    return FAIL(e, DEVICE_ABSENT, "it cannot do cooperative launches, which the statistics need");
  return run == cudaSuccess ? 0 : FAIL(e, DEVICE_ABSENT, cudaGetErrorString(run));
}

int device_open_cuda(const device_options *options, device **opened, error *e) {
  char why[256];
  *opened = NULL;
  const int count = device_cuda_count(why);
  if (!count) return FAIL(e, DEVICE_ABSENT, why);
  cuda_device *d;
  TRY(ALLOC(e, d, 1, "the CUDA device"));
  d->shown.table = &cuda_table;
  d->shown.counters = d->counters;
  d->profile = options->profile;
  const int ordinal = options->local_rank % count;
  d->ordinal = ordinal;
  int failure = cuda_take(d, ordinal, e);
  if (!failure) failure = cuda_find_driver_functions(d, e);
  if (!failure) failure = cuda_describe(d, ordinal, e);
  if (failure) {
    cuda_close(&d->shown);
    return failure;
  }
  *opened = &d->shown;
  return 0;
}
