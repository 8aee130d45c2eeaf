/* The transpose of absorbing layers on CUDA: a thread a point of the boxes that layers reach. */
#include <cuda_runtime.h>
#include "absorb_back.h"
#include "plan.cuh"

namespace absorb_back {

enum { BLOCK_X = 32, BLOCK_Y = 8, GRID_MAX = 65535 };

/* Points [begin, end) of each axis, x y z. */
struct box {
  int begin[3], end[3];
};

static __global__ void __launch_bounds__(BLOCK_X *BLOCK_Y)
    add(const __grid_constant__ absorb_back_args a, const __grid_constant__ box b) {
  const int x = b.begin[0] + (int)(blockIdx.x * BLOCK_X + threadIdx.x);
  if (x >= b.end[0]) return;
  for (int z = b.begin[2] + (int)blockIdx.z; z < b.end[2]; z += (int)gridDim.z)
    for (int y = b.begin[1] + (int)(blockIdx.y * BLOCK_Y + threadIdx.y); y < b.end[1];
         y += (int)gridDim.y * BLOCK_Y)
      absorb_back_add(&a, {z, y, x});
}

static cudaError_t launch(const absorb_back_args &a, const box &b, cudaStream_t stream) {
  const int n[3] = {b.end[0] - b.begin[0], b.end[1] - b.begin[1], b.end[2] - b.begin[2]};
  if (n[0] <= 0 || n[1] <= 0 || n[2] <= 0) return cudaSuccess;
  const int rows = (n[1] + BLOCK_Y - 1) / BLOCK_Y;
  const dim3 grid((unsigned)((n[0] + BLOCK_X - 1) / BLOCK_X), (unsigned)(rows < GRID_MAX ? rows : GRID_MAX),
                  (unsigned)(n[2] < GRID_MAX ? n[2] : GRID_MAX));
  add<<<grid, dim3(BLOCK_X, BLOCK_Y), 0, stream>>>(a, b);
  return cudaGetLastError();
}

} // namespace absorb_back

/* The reach of the layers along z, then of what is left those along y, then along x. */
extern "C" int operation_absorb_back_cuda(const void *args, void *stream) {
  using namespace absorb_back;
  const absorb_back_args &a = *static_cast<const absorb_back_args *>(args);
  const kernel_args &f = a.layers.field;
  box rest = {{0, 0, f.z_begin}, {f.nx, f.ny, f.z_end}};
  rest.begin[2] = f.z_begin;
  for (int axis = ABSORB_AXES - 1; axis >= 0; axis--) {
    const absorb_axis &s = a.layers.axis[axis];
    const int lo = s.lo ? s.lo + RADIUS - s.origin : -s.origin,
              hi = s.points - s.origin - (s.hi ? s.hi + RADIUS : 0);
    box low = rest, high = rest;
    low.end[axis] = lo < rest.begin[axis] ? rest.begin[axis] : lo > rest.end[axis] ? rest.end[axis] : lo;
    rest.begin[axis] = low.end[axis];
    high.begin[axis] = hi < rest.begin[axis] ? rest.begin[axis] : hi > rest.end[axis] ? rest.end[axis] : hi;
    rest.end[axis] = high.begin[axis];
    cudaError_t status = launch(a, low, static_cast<cudaStream_t>(stream));
    if (status == cudaSuccess) status = launch(a, high, static_cast<cudaStream_t>(stream));
    if (status != cudaSuccess) return (int)status;
  }
  return cudaSuccess;
}
