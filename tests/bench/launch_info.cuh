/* What a launcher launches, found without the launcher's help: a CUDA graph captures its work, and the graph's kernel
 * nodes describe it. */
#ifndef STENCIL_BENCH_LAUNCH_INFO_CUH
#define STENCIL_BENCH_LAUNCH_INFO_CUH

#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    const cudaError_t status_ = (call);                                                                      \
    if (status_ != cudaSuccess) {                                                                            \
      fprintf(stderr, "bench_kernels: %s: %s\n", #call, cudaGetErrorString(status_));                        \
      exit(4);                                                                                               \
    }                                                                                                        \
  } while (0)

/* Of the kernel with the most blocks, where a launcher makes several launches; blocks and waves are the sum. */
struct launch_info {
  bool known; /* else only `launches` and `blocks` are known: the launch did not go through the runtime */
  int registers, threads, blocks_per_sm;
  size_t spilled, shared_static, shared_dynamic; /* bytes: of a thread in local memory; of a block */
  double occupancy;                              /* resident threads / the most an SM can hold */
  int launches;
  long long blocks;
  double waves; /* blocks / those resident at a time, summed over the launches */
};

static inline long long blocks_of(const cudaKernelNodeParams &p) {
  return (long long)p.gridDim.x * p.gridDim.y * p.gridDim.z;
}

static inline cudaError_t blocks_that_fit(const cudaKernelNodeParams &p, int *blocks) {
  const int threads = (int)(p.blockDim.x * p.blockDim.y * p.blockDim.z);
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, p.func, threads, p.sharedMemBytes);
}

/* Fills in what the runtime knows about the kernel of a launch; false: nothing. */
static inline bool describe(const cudaKernelNodeParams &p, launch_info *info) {
  int device = 0, threads_of_sm = 0;
  cudaFuncAttributes f = {};
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&threads_of_sm, cudaDevAttrMaxThreadsPerMultiProcessor, device));
  if (cudaFuncGetAttributes(&f, p.func) != cudaSuccess ||
      blocks_that_fit(p, &info->blocks_per_sm) != cudaSuccess) {
    cudaGetLastError(); /* it was answered: nothing later should trip over it */
    return false;
  }
  info->registers = f.numRegs;
  info->spilled = f.localSizeBytes;
  info->shared_static = f.sharedSizeBytes;
  info->shared_dynamic = p.sharedMemBytes;
  info->threads = (int)(p.blockDim.x * p.blockDim.y * p.blockDim.z);
  info->occupancy = (double)info->threads * info->blocks_per_sm / threads_of_sm;
  return true;
}

/* The kernel launches of a graph. Launches that did not go through the runtime are counted but not returned. */
static inline std::vector<cudaKernelNodeParams> kernel_nodes(cudaGraph_t graph, int *launches) {
  std::vector<cudaKernelNodeParams> kernels;
  size_t count = 0;
  CHECK(cudaGraphGetNodes(graph, NULL, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  *launches = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    cudaKernelNodeParams p = {};
    CHECK(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    ++*launches;
    if (cudaGraphKernelNodeGetParams(node, &p) == cudaSuccess) kernels.push_back(p);
  }
  cudaGetLastError();
  return kernels;
}

/* Describes what `work` enqueues on `stream`. Run `work` once before: a capture may not allow what a launcher does only
 * the first time. */
template <class Work> launch_info inspect(cudaStream_t stream, const Work &work) {
  launch_info info = {};
  cudaGraph_t graph = NULL;
  int device = 0, sms = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(work());
  CHECK(cudaStreamEndCapture(stream, &graph));
  const std::vector<cudaKernelNodeParams> kernels = kernel_nodes(graph, &info.launches);
  const cudaKernelNodeParams *main_kernel = NULL;
  for (const cudaKernelNodeParams &p : kernels) {
    int fit = 0;
    info.blocks += blocks_of(p);
    if (blocks_that_fit(p, &fit) == cudaSuccess && fit > 0) info.waves += (double)blocks_of(p) / fit / sms;
    if (!main_kernel || blocks_of(p) > blocks_of(*main_kernel)) main_kernel = &p;
  }
  info.known = main_kernel && (int)kernels.size() == info.launches && describe(*main_kernel, &info);
  CHECK(cudaGraphDestroy(graph));
  return info;
}

#endif
