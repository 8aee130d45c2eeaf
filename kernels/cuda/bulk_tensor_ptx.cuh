/* The Hopper instructions that bulk_tensor uses, each as a function: barriers in shared memory that count arrivals and
 * bytes, and copies of a box of a tensor that complete on such a barrier. For older chips the kernels that use them
 * have no body, and the launcher refuses. */
#ifndef STENCIL_BULK_TENSOR_PTX_CUH
#define STENCIL_BULK_TENSOR_PTX_CUH

#include <cuda.h> /* the type CUtensorMap only: nothing of libcuda is linked */
#include <cuda_runtime.h>
#include <stdint.h>

namespace bulk_tensor {

typedef uint64_t barrier; /* an mbarrier: phases alternate; a wait names the parity of the phase to end */

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* The phase ends after `arrivals` arrivals and once all bytes expected in it have come. */
__device__ __forceinline__ void barrier_init(barrier *b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}

/* Makes the barriers that this thread has initialised known to the copy engine. */
__device__ __forceinline__ void barriers_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(barrier *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(barrier *b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}

/* Waits until the phase of this parity has ended. Returns at once for parity 1 of a fresh barrier. */
__device__ __forceinline__ void wait(barrier *b, int parity) {
  asm volatile("{\n"
               ".reg .pred ended;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
               "@!ended bra again;\n"
               "}" ::"r"(shared_address(b)),
               "r"(parity)
               : "memory");
}

/* Starts the copy of the map's box at point (x, y, z) to `to`, aligned to 128 bytes. Points outside the tensor come
 * as 0. `b` counts all bytes, also of those points. */
__device__ __forceinline__ void copy_box(float *to, const CUtensorMap *map, int x, int y, int z, barrier *b) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(b))
               : "memory");
}

} // namespace bulk_tensor
#endif
