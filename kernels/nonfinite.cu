/* Where is the first NaN or Inf? A warp looks through whole rows; the smallest index wins, whatever the order
 * in which warps finish, so the answer is the same every time. */
#include "nonfinite.cuh"

enum { WARP = 32, WARPS = 8 };

static __global__ void __launch_bounds__(WARP *WARPS)
    find_nonfinite(const __grid_constant__ kernel_args a, unsigned long long *first) {
  const int lane = (int)threadIdx.x % WARP;
  const long long rows = (long long)(a.z_end - a.z_begin) * a.ny;
  const long long warps = (long long)gridDim.x * WARPS;
  for (long long row = (long long)blockIdx.x * WARPS + threadIdx.x / WARP; row < rows; row += warps) {
    const ptrdiff_t z = a.z_begin + (ptrdiff_t)(row / a.ny), y = (ptrdiff_t)(row % a.ny);
    const float *u = a.out + z * (ptrdiff_t)a.plane + y * (ptrdiff_t)a.pitch;
    int x = lane;
    while (x < a.nx && isfinite(u[x])) x += WARP;
    const unsigned mine = x < a.nx ? (unsigned)x : ~0u;
    const unsigned least = __reduce_min_sync(~0u, mine);
    if (least == ~0u) continue;
    if (lane == 0) atomicMin(first, (unsigned long long)row * (unsigned)a.nx + least);
    return; /* this warp's later rows come after */
  }
}

cudaError_t nonfinite_launch(const kernel_args *args, unsigned long long *first, cudaStream_t stream) {
  const long long BLOCKS_MAX = 4096; /* enough to fill any device */
  const cudaError_t status = cudaMemsetAsync(first, 0xFF, sizeof *first, stream); /* UINT64_MAX: none */
  if (status != cudaSuccess) return status;
  const long long rows = (long long)(args->z_end - args->z_begin) * args->ny;
  const long long blocks = rows < 1 ? 1 : (rows - 1) / WARPS + 1;
  find_nonfinite<<<(unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), WARP * WARPS, 0, stream>>>(*args,
                                                                                                     first);
  return cudaGetLastError();
}
