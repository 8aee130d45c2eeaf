/* What the kernels of absorbing layers on a CUDA device share: how layers are cut into blocks, and what one point gets. */
#ifndef STENCIL_ABSORB_CUH
#define STENCIL_ABSORB_CUH

#include <cuda_runtime.h>
#include "absorb.h"

/* For the layers along x of points that lie in no other (bulk_tensor_layers.cuh). The first is operation_absorb without
 * images. The second leaves what is to be multiplied by the medium and added, one term a point, in the array psi_in, which
 * nobody reads again. */
extern "C" int absorb_cuda_along_x(const absorb_args *a, void *stream);
extern "C" int absorb_cuda_terms(const absorb_args *a, void *stream);

namespace absorbing {

enum { LANES = 32 };

/* Coordinates of a range that lie in its axis' layers: those below `lo` and those from `hi` on. */
struct span {
  int begin, lo, hi, end;
  __host__ __device__ int between() const { return hi - lo; }
};

/* The two boxes along z or y: tiles of rows of points across the axis, in pieces along it. */
struct layers {
  unsigned tiles, pieces;
  __host__ __device__ unsigned blocks() const { return 2 * tiles * pieces; }
};

/* A block's share of its layers' points: `count` of them, the first at `at` along the axis. */
struct piece {
  unsigned tile;
  int at, count;
  __device__ __forceinline__ piece(const layers &l, const span &s, unsigned block) {
    tile = block % l.tiles, block /= l.tiles;
    const bool high = block >= l.pieces;
    const int number = (int)(high ? block - l.pieces : block), all = high ? s.end - s.hi : s.lo - s.begin;
    const int from = all * number / (int)l.pieces;
    count = all * (number + 1) / (int)l.pieces - from;
    at = high ? s.end - 1 - from : s.begin + from;
  }
};

inline span span_of(const absorb_axis &a, int begin, int end) {
  const int lo = a.lo - a.origin, hi = a.points - a.hi - a.origin;
  span s = {begin, lo < begin ? begin : lo > end ? end : lo, 0, end};
  s.hi = hi < s.lo ? s.lo : hi > end ? end : hi;
  return s;
}

inline unsigned blocks_for(long long n, long long block) {
  return (unsigned)((n + block - 1) / block);
}

/* What the layers along x or y add to a point at u, from memory; `state` leads to its row or column of the state. */
static __device__ __forceinline__ float across(const absorb_args &a, int axis, const float *w, absorb_place p,
                                               const float *u, ptrdiff_t stride, ptrdiff_t state,
                                               ptrdiff_t state_stride) {
  const absorb_axis &s = a.axis[axis];
  const absorb_line l = absorb_line_of(&s, a.width, p, stride, state_stride);
  return absorb_add(&s, &l, a.difference, w, u, s.psi_in + state, s.psi_out + state, s.zeta + state);
}

/* The same of all axes before this one. */
static __device__ __forceinline__ float before_axis(const absorb_args &a, int axis, int z, int y, int x) {
  const kernel_args &f = a.field;
  const ptrdiff_t pitch = (ptrdiff_t)f.pitch, nx = f.nx, ny = f.ny;
  const absorb_place px = absorb_locate(&a.axis[0], x), py = absorb_locate(&a.axis[1], y);
  const float *u = f.in + ((ptrdiff_t)f.plane * z + pitch * y + x);
  float sum = 0;
  if (px.inward) sum += across(a, 0, f.wx, px, u, 1, (z * ny + y) * (a.axis[0].lo + a.axis[0].hi), 1);
  if (axis == 2 && py.inward)
    sum += across(a, 1, f.wy, py, u, pitch, (ptrdiff_t)z * (a.axis[1].lo + a.axis[1].hi) * nx + x, nx);
  return sum;
}

} // namespace absorbing
#endif
