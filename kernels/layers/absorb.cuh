/* Shared by the CUDA kernels of absorbing layers: the division of layers into blocks, and the arithmetic of a point. */
#ifndef STENCIL_ABSORB_CUH
#define STENCIL_ABSORB_CUH

#include <cuda_runtime.h>
#include "absorb.h"

/* Computes the layer terms along x into args->layer_terms (absorb_layer_terms), before the interior kernel and the
 * launch of absorb_whole.cuh. A row of layer terms has at most BEFORE_PITCH floats, a row of the field at least
 * BEFORE_POINTS. */
extern "C" int absorb_cuda_before(const absorb_args *args, void *stream);
/* Adds the layers along y and z, after an interior kernel that has added the layer terms of points in layers along x
 * alone. */
extern "C" int absorb_cuda_others(const absorb_args *args, void *stream);

/* Makes the operation of a kernel with the layers of its points (kernel.layers). */
static constexpr operation absorb_operation(const char *name, cuda_operation *cuda) {
  operation o = {};
  o.name = name, o.args_bytes = sizeof(absorb_args), o.cuda = cuda;
  return o;
}

namespace absorbing {

enum { LANES = 32, BEFORE_PITCH = 32, BEFORE_POINTS = 64 };

/* A range of coordinates: those below `lo` and from `hi` on lie in layers of the axis. */
struct span {
  int begin, lo, hi, end;
  __host__ __device__ int between() const { return hi - lo; }
  __host__ __device__ unsigned boxes() const { return (lo > begin) + (hi < end); }
};

/* The boxes along z or y, up to two: tiles of rows of points across the axis, in pieces along it. */
struct layers {
  unsigned boxes, tiles, pieces;
  __host__ __device__ unsigned blocks() const { return boxes * tiles * pieces; }
};

/* A block's part of a layer: `count` points, the first at `at` along the axis. */
struct piece {
  unsigned tile;
  int at, count;
  __device__ __forceinline__ piece(const layers &l, const span &s, unsigned block) {
    tile = block % l.tiles, block /= l.tiles;
    const bool high = s.lo == s.begin || block >= l.pieces;
    const int number = (int)(block % l.pieces), all = high ? s.end - s.hi : s.lo - s.begin;
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

} // namespace absorbing
#endif
