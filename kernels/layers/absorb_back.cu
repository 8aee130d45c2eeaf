/* The transpose of absorbing layers on CUDA. With a kernel that adds their sums (kernel_terms.added), three launches before it:
 *
 *   ends     along x: a warp has an end of a row, or a part of it
 *   inward   along y, then along z: a thread goes through a layer, with what it needs of its neighbours in registers
 *
 * Else a thread a point of the boxes that layers reach, after the kernel. */
#include <cuda_runtime.h>
#include "absorb_back.h"

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

/* --- sums ------------------------------------------------------------------------------------------------------- */

enum {
  LANES = 32,
  WARPS = 8,
  OWN = LANES - 2 * RADIUS, /* points whose sums a warp finds: the others are beside them */
  WALKERS = 128,            /* threads of a block */
  AHEAD = 4                 /* points that a thread loads at a time */
};

/* chi of point k from the face; beyond the layer it is +0. */
static __device__ __forceinline__ float chi_at(const absorb_args &l, const float *c, int k, float nu,
                                               float before) {
  return k >= 0 && k < l.width ? absorb_back_chi(c[k], c[l.width + k], nu, before) : 0;
}

/* phi of point k >= 0; v: nu + chi of points k, k - 1 ... */
static __device__ __forceinline__ float phi_at(const absorb_args &l, const float *c, int k, const float v[4],
                                               float before) {
  return absorb_back_phi(c[2 * l.width + k], c[3 * l.width + ABSORB_BEYOND + k], l.difference, v, before);
}

static __global__ void __launch_bounds__(LANES *WARPS)
    ends(const __grid_constant__ absorb_back_args a, int parts) {
  const absorb_args &l = a.layers;
  const kernel_args &f = l.field;
  const absorb_axis &s = l.axis[0];
  const int lane = (int)threadIdx.x % LANES, faces = (s.lo > 0) + (s.hi > 0),
            unit = (int)(blockIdx.x * WARPS + threadIdx.x / LANES), row = unit / (parts * faces);
  const int inward = s.lo == 0 || unit / parts % faces ? -1 : 1;
  const absorb_point at = {f.z_begin + row / f.ny, row % f.ny, 0};
  const int k = unit % parts * OWN - RADIUS + lane, x = inward > 0 ? k : s.points - 1 - k;
  const bool there = at.z < f.z_end && k < l.width + 2 * RADIUS, inside = there && k >= 0 && k < l.width;
  const ptrdiff_t in_row = (ptrdiff_t)f.plane * at.z + (ptrdiff_t)f.pitch * at.y + x,
                  state = absorb_back_state(&l, 0, at) + absorb_stored(&s, l.width, {k, inward}, k);
  const float nu = there ? f.in[in_row] : 0, before = inside ? s.zeta[state] : 0,
              phi_before = there && k >= 0 && k < l.width + ABSORB_BEYOND ? s.psi_in[state] : 0;
  float chi[BACK_LINE], v[4], phi[4];
  chi[RADIUS] = chi_at(l, s.coefficients, k, nu, before);
  v[0] = nu + chi[RADIUS];
#pragma unroll
  for (int d = 1; d <= RADIUS; d++) {
    chi[RADIUS - d] = __shfl_up_sync(~0u, chi[RADIUS], d);
    chi[RADIUS + d] = __shfl_down_sync(~0u, chi[RADIUS], d);
    if (d < 4) v[d] = __shfl_up_sync(~0u, v[0], d);
  }
  phi[0] = k >= 0 && k < l.width + ABSORB_BEYOND ? phi_at(l, s.coefficients, k, v, phi_before) : 0;
#pragma unroll
  for (int d = 1; d <= ABSORB_BEYOND; d++) phi[d] = __shfl_down_sync(~0u, phi[0], d);
  if (!there || lane < RADIUS || lane >= RADIUS + OWN || k >= l.width + RADIUS) return;
  const float second = absorb_back_second(&s, f.wx, chi + RADIUS);
  a.sums[in_row] = 0 + (inside ? second + absorb_slope(&s, phi[0], phi[1], phi[2], phi[3]) : second);
  if (inside) a.chi_out[0][state] = chi[RADIUS], s.psi_out[state] = phi[0];
}

/* Points [begin, end) from a face that a launch does. Along z those before and after them, which are a neighbour's: is chi, or
 * with `after` phi, too, stored there? */
struct stretch {
  int begin, end;
  bool before, after;
};

/* What a thread knows of point k and those before it. */
struct known {
  float chi[BACK_LINE] = {}, v[4] = {},
        phi[ABSORB_BEYOND + 2] = {}; /* chi and phi: of k last; v: of k first */

  __device__ __forceinline__ void take(const absorb_args &l, const float *c, int k, bool needs_phi, float nu,
                                       float chi_before, float phi_before) {
#pragma unroll
    for (int d = 0; d + 1 < BACK_LINE; d++) chi[d] = chi[d + 1];
#pragma unroll
    for (int d = 3; d > 0; d--) v[d] = v[d - 1];
#pragma unroll
    for (int d = 0; d <= ABSORB_BEYOND; d++) phi[d] = phi[d + 1];
    chi[BACK_LINE - 1] = chi_at(l, c, k, nu, chi_before);
    v[0] = nu + chi[BACK_LINE - 1];
    phi[ABSORB_BEYOND + 1] = needs_phi ? phi_at(l, c, k, v, phi_before) : 0;
  }
  /* What point k - RADIUS gets. */
  __device__ __forceinline__ float sum(const absorb_args &l, const absorb_axis &s, const float w[],
                                       bool inside) const {
    const float second = absorb_back_second(&s, w, chi + RADIUS);
    return inside ? second + absorb_slope(&s, phi[0], phi[1], phi[2], phi[3]) : second;
  }
};

/* A thread's way through a layer along AXIS, at (x, y) or (z, x) of `at`. */
template <int AXIS>
static __device__ __forceinline__ void go(const absorb_back_args &a, const kernel_added &reach,
                                          const stretch &r, int inward, absorb_point at) {
  const absorb_args &l = a.layers;
  const kernel_args &f = l.field;
  const absorb_axis &s = l.axis[AXIS];
  const float *w = AXIS == 1 ? f.wy : f.wz, *c = s.coefficients;
  const int first = inward > 0 ? -s.origin : s.points - 1 - s.origin, width = l.width;
  const ptrdiff_t stride = (ptrdiff_t)(AXIS == 1 ? f.pitch : f.plane), step = inward * stride,
                  state_step = AXIS == 1 ? f.nx : (ptrdiff_t)f.nx * f.ny;
  const ptrdiff_t point = (ptrdiff_t)f.plane * at.z + (ptrdiff_t)f.pitch * at.y + at.x + first * stride,
                  state = absorb_back_state(&l, AXIS, at);
  const auto stored = [&](int k) { return state + absorb_stored(&s, width, {k, inward}, k) * state_step; };
  const bool crosses = terms_reached(&reach, 0, at.x) || (AXIS == 2 && terms_reached(&reach, 1, at.y));
  known now;
  for (int from = r.begin - RADIUS; from < r.end + RADIUS; from += AHEAD) {
    float nu[AHEAD], chi[AHEAD], phi[AHEAD], sum[AHEAD];
#pragma unroll
    for (int n = 0; n < AHEAD; n++) {
      const int k = from + n, i = k - RADIUS;
      nu[n] = k < r.end + RADIUS ? f.in[point + k * step] : 0;
      chi[n] = k >= 0 && k < width && k < r.end + RADIUS ? s.zeta[stored(k)] : 0;
      phi[n] =
          k >= r.begin && k < width + ABSORB_BEYOND && k < r.end + ABSORB_BEYOND ? s.psi_in[stored(k)] : 0;
      sum[n] = crosses && i >= r.begin && i < r.end ? a.sums[point + i * step] : 0;
    }
#pragma unroll
    for (int n = 0; n < AHEAD; n++) {
      const int k = from + n, i = k - RADIUS;
      const bool own = k >= r.begin && k < r.end;
      now.take(l, c, k, k >= r.begin && k < width + ABSORB_BEYOND, nu[n], chi[n], phi[n]);
      if (k >= 0 && k < width && k < r.end + RADIUS && (own || (k < r.begin ? r.before : r.after)))
        a.chi_out[AXIS][stored(k)] = now.chi[BACK_LINE - 1];
      if (k >= r.begin && k < width && (own || (r.after && k < r.end + ABSORB_BEYOND)))
        s.psi_out[stored(k)] = now.phi[ABSORB_BEYOND + 1];
      if (i >= r.begin && i < r.end) a.sums[point + i * step] = sum[n] + now.sum(l, s, w, i < width);
    }
  }
}

/* Blocks z does a face. */
template <int AXIS>
static __global__ void __launch_bounds__(WALKERS)
    inward(const __grid_constant__ absorb_back_args a, const __grid_constant__ kernel_added reach,
           stretch low, stretch high) {
  const kernel_args &f = a.layers.field;
  const int x = (int)(blockIdx.x * WALKERS + threadIdx.x), lines = AXIS == 1 ? f.z_end - f.z_begin : f.ny;
  const bool upper = low.begin >= low.end || blockIdx.z;
  if (x >= f.nx) return;
  for (int i = (int)blockIdx.y; i < lines; i += (int)gridDim.y)
    go<AXIS>(a, reach, upper ? high : low, upper ? -1 : 1,
             AXIS == 1 ? absorb_point{f.z_begin + i, 0, x} : absorb_point{0, i, x});
}

/* The points of the layer at a face that lie in planes [begin, end) of an axis. */
static stretch stretch_of(const absorb_args &l, int axis, int inward, int begin, int end) {
  const absorb_axis &s = l.axis[axis];
  const int width = inward > 0 ? s.lo : s.hi, reach = width ? width + RADIUS : 0, planes = l.field.nz;
  const int first = inward > 0 ? begin + s.origin : s.points - s.origin - end, last = first + (end - begin);
  stretch r = {first, last < reach ? last : reach, false, false};
  if (axis == 2 && r.end > r.begin) {
    r.before = inward > 0 ? begin == 0 : end == planes;
    r.after = r.end == last && (inward > 0 ? end == planes : begin == 0);
  }
  return r;
}

template <int AXIS>
static cudaError_t launch_inward(const absorb_back_args &a, int begin, int end, cudaStream_t stream) {
  const kernel_args &f = a.layers.field;
  const stretch low = stretch_of(a.layers, AXIS, 1, begin, end),
                high = stretch_of(a.layers, AXIS, -1, begin, end);
  const int faces = (low.end > low.begin) + (high.end > high.begin),
            lines = AXIS == 1 ? f.z_end - f.z_begin : f.ny;
  if (faces == 0) return cudaSuccess;
  const dim3 grid((unsigned)((f.nx + WALKERS - 1) / WALKERS), (unsigned)(lines < GRID_MAX ? lines : GRID_MAX),
                  (unsigned)faces);
  inward<AXIS><<<grid, WALKERS, 0, stream>>>(a, absorb_back_added(&a), low, high);
  return cudaGetLastError();
}

static cudaError_t launch_sums(const absorb_back_args &a, cudaStream_t stream) {
  const absorb_axis &x = a.layers.axis[0];
  const kernel_args &f = a.layers.field;
  const int parts = (a.layers.width + RADIUS + OWN - 1) / OWN, faces = (x.lo > 0) + (x.hi > 0);
  const long long warps = (long long)(f.z_end - f.z_begin) * f.ny * faces * parts;
  if (warps) ends<<<(unsigned)((warps + WARPS - 1) / WARPS), LANES * WARPS, 0, stream>>>(a, parts);
  cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) status = launch_inward<1>(a, 0, f.ny, stream);
  return status == cudaSuccess ? launch_inward<2>(a, f.z_begin, f.z_end, stream) : status;
}

} // namespace absorb_back

/* The reach of the layers along z, then of what is left those along y, then along x. */
extern "C" int operation_absorb_back_cuda(const void *args, void *stream) {
  using namespace absorb_back;
  const absorb_back_args &a = *static_cast<const absorb_back_args *>(args);
  if (a.sums) return launch_sums(a, static_cast<cudaStream_t>(stream));
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
