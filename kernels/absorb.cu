/* The absorbing layers on a CUDA device: a thread a point, one launch for what a range of planes has of the
 * shell. The shell is three boxes without overlap: all points of the layers along z; of the other planes
 * those along y; of what remains those along x. Each joins the layers of both faces. */
#include <cuda_runtime.h>
#include "absorb.h"

namespace absorbing {

enum {
  LANES = 32, /* threads along x */
  DEEP = 8,   /* threads across a layer: what they read of the field along it, they share in the L1 cache */
  BLOCK = LANES * DEEP
};

/* Coordinates of a range that lie in its axis' layers: those below `lo` and those from `hi` on, counted from
 * begin. */
struct span {
  int begin, lo, hi, end;
  __host__ __device__ int inside() const { return lo - begin + end - hi; }
  __host__ __device__ int between() const { return hi - lo; }
  __host__ __device__ int at(int i) const { return begin + i < lo ? begin + i : hi + (i - (lo - begin)); }
};

struct shell {
  span x, y, z;
  unsigned tiles_x, tiles_y,
      tiles_z;                 /* of 32 x DEEP points: along x, across the layers along y, and along z */
  unsigned blocks_row;         /* blocks of a plane of the box along x */
  unsigned blocks_z, blocks_y; /* blocks of the boxes along z and y */
};

static span span_of(const absorb_axis &a, int begin, int end) {
  const int lo = a.lo - a.origin, hi = a.points - a.hi - a.origin;
  span s = {begin, lo < begin ? begin : lo > end ? end : lo, 0, end};
  s.hi = hi < s.lo ? s.lo : hi > end ? end : hi;
  return s;
}

static unsigned blocks_for(long long n, long long block) {
  return (unsigned)((n + block - 1) / block);
}

/* One axis of the point at u; `state` leads to its row or column of the state. */
static __device__ __forceinline__ float along(const absorb_args &a, int axis, const float *w, absorb_place p,
                                              int z, const float *u, ptrdiff_t stride, ptrdiff_t state,
                                              ptrdiff_t state_stride) {
  const absorb_axis &s = a.axis[axis];
  const absorb_line l = absorb_line_of(&s, a.width, p, stride, state_stride);
  const float sum =
      absorb_add(&s, &l, a.difference, w, u, s.psi_in + state, s.psi_out + state, s.zeta + state);
  if (axis == 2)
    absorb_add_beyond(&l, absorb_left(&a, p, z), a.difference, u, s.psi_in + state, s.psi_out + state);
  return sum;
}

static __device__ __forceinline__ void point(const absorb_args &a, int z, int y, int x) {
  const kernel_args &f = a.field;
  const ptrdiff_t pitch = (ptrdiff_t)f.pitch, plane = (ptrdiff_t)f.plane, nx = f.nx, ny = f.ny;
  const ptrdiff_t at = plane * z + pitch * y + x;
  const absorb_place px = absorb_locate(&a.axis[0], x), py = absorb_locate(&a.axis[1], y),
                     pz = absorb_locate(&a.axis[2], z);
  const float *u = f.in + at;
  float sum = 0;
  if (px.inward) sum += along(a, 0, f.wx, px, z, u, 1, (z * ny + y) * (a.axis[0].lo + a.axis[0].hi), 1);
  if (py.inward)
    sum += along(a, 1, f.wy, py, z, u, pitch, (ptrdiff_t)z * (a.axis[1].lo + a.axis[1].hi) * nx + x, nx);
  if (pz.inward) sum += along(a, 2, f.wz, pz, z, u, plane, y * nx + x, nx * ny);
  ghosts_store(&f, z, y, x, fmaf(f.medium ? f.medium[at] : f.scale, sum, f.out[at]));
}

/* Boxes along z and y: tiles of 32 points in x and DEEP across the layer, lest each point fetch its nine
 * neighbours along the layer's axis from the L2 cache by itself. The box along x: threads one after the other
 * along its rows, which are short. */
static __global__ void __launch_bounds__(BLOCK)
    add(const __grid_constant__ absorb_args a, const __grid_constant__ shell s) {
  const int lane = (int)(threadIdx.x % LANES), deep = (int)(threadIdx.x / LANES);
  unsigned block = blockIdx.x;
  if (block < s.blocks_z) {
    const int x = (int)(block % s.tiles_x) * LANES + lane;
    block /= s.tiles_x;
    const int z = (int)(block % s.tiles_z) * DEEP + deep, y = (int)(block / s.tiles_z);
    if (x < a.field.nx && z < s.z.inside()) point(a, s.z.at(z), y, x);
    return;
  }
  block -= s.blocks_z;
  if (block < s.blocks_y) {
    const int x = (int)(block % s.tiles_x) * LANES + lane;
    block /= s.tiles_x;
    const int y = (int)(block % s.tiles_y) * DEEP + deep, z = (int)(block / s.tiles_y);
    if (x < a.field.nx && y < s.y.inside()) point(a, s.z.lo + z, s.y.at(y), x);
    return;
  }
  block -= s.blocks_y;
  const unsigned columns = (unsigned)s.x.inside(), i = block % s.blocks_row * BLOCK + threadIdx.x;
  const int y = (int)(i / columns);
  if (y < s.y.between())
    point(a, s.z.lo + (int)(block / s.blocks_row), s.y.lo + y, s.x.at((int)(i % columns)));
}

/* The shell of a launch; *blocks: how many it takes. */
static shell shell_of(const absorb_args &a, long long *blocks) {
  const kernel_args &f = a.field;
  shell s = {};
  s.x = span_of(a.axis[0], 0, f.nx), s.y = span_of(a.axis[1], 0, f.ny),
  s.z = span_of(a.axis[2], f.z_begin, f.z_end);
  s.tiles_x = blocks_for(f.nx, LANES);
  s.tiles_y = blocks_for(s.y.inside(), DEEP), s.tiles_z = blocks_for(s.z.inside(), DEEP);
  s.blocks_row = blocks_for((long long)s.x.inside() * s.y.between(), BLOCK);
  s.blocks_z = s.tiles_x * s.tiles_z * (unsigned)f.ny;
  s.blocks_y = s.tiles_x * s.tiles_y * (unsigned)s.z.between();
  *blocks = (long long)s.blocks_z + s.blocks_y + (long long)s.blocks_row * s.z.between();
  return s;
}

} // namespace absorbing

extern "C" int absorb_cuda(const void *args, void *stream) {
  using namespace absorbing;
  const absorb_args &a = *static_cast<const absorb_args *>(args);
  long long blocks = 0;
  const shell s = shell_of(a, &blocks);
  if (blocks == 0) return cudaSuccess;
  add<<<(unsigned)blocks, BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(a, s);
  return (int)cudaGetLastError();
}
