/* The absorbing layers on a CUDA device, one launch for what a range of planes has of the shell. The shell is three kinds
 * of boxes without overlap: all points of the layers along z; of the other planes those along y; of what remains those
 * along x. What a point reads along its layer's axis its neighbours there read too, so it is passed on in registers:
 *
 *   along z and y: a thread goes through the layer, inward, with nine points of the field and four psi at hand; where
 *     layers cross it computes point by point what the other axes add.
 *   along x: a warp takes the layer of a row, a point a lane, and lanes shuffle.
 *
 * So a point loads and stores what is its own, once. A thread a point, with all it needs from the caches, took 1.9
 * times as long (512^3, 20 points at all faces, one H200). */
#include "absorb.cuh"
#include "launch_behind.cuh"

namespace absorbing {

enum {
  WARPS = 8,
  BLOCK = LANES * WARPS,
  SEGMENT = LANES -
            2 * GHOST_REACH, /* points of a row that a warp takes at a time, beside those it needs for them */
  ROWS = 4,                  /* that a warp takes one after the other, and asks for together */
  ENOUGH = 8192,             /* warps: where there are fewer, layers are cut into pieces ... */
  PIECE = 4 /* ... of so many points at least, since each begins with those before and after it */
};

struct shell {
  span y, z;
  unsigned tiles_x; /* of LANES points */
  bool images;      /* does any face reflect or wrap? */
  layers along_y, along_z;
  unsigned blocks_row; /* of a plane of the boxes along x */
};

static __device__ __forceinline__ void store(const kernel_args &f, bool images, int z, int y, int x,
                                             ptrdiff_t at, float value) {
  if (images)
    ghosts_store(&f, z, y, x, value);
  else
    f.out[at] = value;
}

/* Of one point in a layer along y or z: what its turn needs from memory besides what the turns before have read. */
struct operands {
  float u, before, zeta, out, medium; /* u four points further on, psi three; the rest of the point itself */
};

/* Points i = p.i .. p.i + count - 1 of a layer along axis 1 (y) or 2 (z); the first is (z, y, x). */
template <int AXIS>
static __device__ __forceinline__ void march(const absorb_args &a, bool images, absorb_place p, int count,
                                             int z, int y, int x) {
  const kernel_args &f = a.field;
  const absorb_axis &s = a.axis[AXIS];
  const float *w = AXIS == 1 ? f.wy : f.wz, *c = s.coefficients;
  const ptrdiff_t nx = f.nx, stride = (ptrdiff_t)(AXIS == 1 ? f.pitch : f.plane),
                  state_stride = AXIS == 1 ? nx : nx * f.ny;
  const ptrdiff_t step = p.inward * stride, state_step = p.inward * state_stride;
  ptrdiff_t at = (ptrdiff_t)f.plane * z + (ptrdiff_t)f.pitch * y + x;
  ptrdiff_t state = absorb_stored(&s, a.width, p, p.i) * state_stride +
                    (AXIS == 1 ? (ptrdiff_t)z * (s.lo + s.hi) * nx : y * nx) + x;
  float u[2 * GHOST_REACH + 1], psi[ABSORB_BEYOND + 1];
  /* psi[i + k] before this step; past the layer its last, which counts 0 times */
  const auto remembered = [&](int i, int k) {
    return s.psi_in[state + (min(i + k, a.width - 1) - i) * state_step];
  };
  const auto renewed = [&](int i, int k, float before) {
    return absorb_psi(c[2 * a.width + i + k], c[3 * a.width + ABSORB_BEYOND + i + k], a.difference,
                      u + GHOST_REACH + k, 1, before);
  };
  const auto fetch = [&](int i) {
    return operands{f.in[at + GHOST_REACH * step], remembered(i, ABSORB_BEYOND), s.zeta[state], f.out[at],
                    f.medium ? f.medium[at] : f.scale};
  };
#pragma unroll
  for (int k = 0; k < 2 * GHOST_REACH; k++) u[k] = f.in[at + (k - GHOST_REACH) * step];
#pragma unroll
  for (int k = 0; k < ABSORB_BEYOND; k++) psi[k] = renewed(p.i, k, remembered(p.i, k));
  operands next = fetch(p.i);
  for (int i = p.i; i < p.i + count; i++) {
    const operands now = next;
    const ptrdiff_t here = at, here_state = state;
    at += step, state += state_step;
    if (i + 1 < p.i + count) next = fetch(i + 1); /* before anything is stored: compilers move no load up */
    u[2 * GHOST_REACH] = now.u;
    psi[ABSORB_BEYOND] = renewed(i, ABSORB_BEYOND, now.before);
    const float slope = absorb_slope(&s, psi[0], psi[1], psi[2], psi[3]);
    const float zeta =
        absorb_zeta(c[i], c[a.width + i], absorb_second(&s, w, u + GHOST_REACH, 1), slope, now.zeta);
    s.psi_out[here_state] = psi[0];
    s.zeta[here_state] = zeta;
    if (AXIS == 2) {
      const int left = absorb_left(&a, {i, p.inward}, z);
#pragma unroll
      for (int k = 1; k <= ABSORB_BEYOND; k++)
        if (k <= left) s.psi_out[here_state + k * state_step] = psi[k];
    }
    const float sum = before_axis(a, AXIS, z, y, x) + (slope + zeta);
    store(f, images, z, y, x, here, fmaf(now.medium, sum, now.out));
    (AXIS == 1 ? y : z) += p.inward;
#pragma unroll
    for (int k = 0; k < 2 * GHOST_REACH; k++) u[k] = u[k + 1];
#pragma unroll
    for (int k = 0; k < ABSORB_BEYOND; k++) psi[k] = psi[k + 1];
  }
}

/* Points of the layers along x of rows [y, y_end), at most ROWS: this lane's of each. TERMS: what absorb_cuda_terms
 * does. */
template <bool TERMS>
static __device__ __forceinline__ void rows(const absorb_args &a, bool images, int z, int y, int y_end,
                                            int lane) {
  const kernel_args &f = a.field;
  const absorb_axis &s = a.axis[0];
  const float *c = s.coefficients;
  const int layers = s.lo + s.hi;
  for (int first = 0; first < a.width; first += SEGMENT)
    for (int inward = s.lo ? 1 : -1; inward >= (s.hi ? -1 : 1); inward -= 2) {
      const int k = first + lane - GHOST_REACH, end = min(first + SEGMENT, a.width);
      const bool reads = k < end + GHOST_REACH, has_psi = lane >= GHOST_REACH && k < end + ABSORB_BEYOND,
                 owns = lane >= GHOST_REACH && k < end;
      const int x = inward > 0 ? k : f.nx - 1 - k;
      const ptrdiff_t at = (ptrdiff_t)f.plane * z + (ptrdiff_t)f.pitch * y + x;
      const ptrdiff_t state =
          ((ptrdiff_t)z * f.ny + y) * layers + absorb_stored(&s, a.width, {0, inward}, has_psi ? k : 0);
      const float psi_a = has_psi ? c[2 * a.width + k] : 0,
                  psi_b = has_psi ? c[3 * a.width + ABSORB_BEYOND + k] : 0, zeta_a = owns ? c[k] : 0,
                  zeta_b = owns ? c[a.width + k] : 0;
      float own[ROWS], before[ROWS], memory[ROWS], out[ROWS], medium[ROWS];
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        const ptrdiff_t row = at + j * (ptrdiff_t)f.pitch;
        const bool exists = y + j < y_end;
        own[j] = exists && reads ? f.in[row] : 0;
        before[j] = exists && has_psi ? s.psi_in[state + j * layers] : 0;
        memory[j] = exists && owns ? s.zeta[state + j * layers] : 0;
        out[j] = !TERMS && exists && owns ? f.out[row] : 0;
        medium[j] = !TERMS && f.medium && exists && owns ? f.medium[row] : f.scale;
      }
#pragma unroll
      for (int j = 0; j < ROWS; j++) {
        float u[2 * GHOST_REACH + 1], psi[ABSORB_BEYOND + 1];
        u[GHOST_REACH] = own[j];
#pragma unroll
        for (int r = 1; r <= GHOST_REACH; r++) {
          u[GHOST_REACH - r] = __shfl_up_sync(~0u, own[j], r);
          u[GHOST_REACH + r] = __shfl_down_sync(~0u, own[j], r);
        }
        psi[0] = absorb_psi(psi_a, psi_b, a.difference, u + GHOST_REACH, 1, before[j]);
#pragma unroll
        for (int r = 1; r <= ABSORB_BEYOND; r++) psi[r] = __shfl_down_sync(~0u, psi[0], r);
        if (!owns || y + j >= y_end) continue;
        const float slope = absorb_slope(&s, psi[0], psi[1], psi[2], psi[3]);
        const float zeta =
            absorb_zeta(zeta_a, zeta_b, absorb_second(&s, f.wx, u + GHOST_REACH, 1), slope, memory[j]);
        s.psi_out[state + j * layers] = psi[0];
        s.zeta[state + j * layers] = zeta;
        const float term = 0.0f + (slope + zeta);
        if (TERMS)
          s.psi_in[state + j * layers] = term;
        else
          store(f, images, z, y + j, x, at + j * (ptrdiff_t)f.pitch, fmaf(medium[j], term, out[j]));
      }
    }
}

static __global__ void __launch_bounds__(BLOCK, 3)
    add(const __grid_constant__ absorb_args a, const __grid_constant__ shell s) {
  const int lane = (int)(threadIdx.x % LANES), warp = (int)(threadIdx.x / LANES);
  unsigned block = blockIdx.x;
  if (block < s.along_z.blocks()) {
    const piece p(s.along_z, s.z, block);
    const int x = (int)(p.tile % s.tiles_x) * LANES + lane, y = (int)(p.tile / s.tiles_x) * WARPS + warp;
    if (x < a.field.nx && y < a.field.ny && p.count > 0)
      march<2>(a, s.images, absorb_locate(&a.axis[2], p.at), p.count, p.at, y, x);
    return;
  }
  block -= s.along_z.blocks();
  if (block < s.along_y.blocks()) {
    const piece p(s.along_y, s.y, block);
    const int x = (int)(p.tile % s.tiles_x) * LANES + lane, z = (int)(p.tile / s.tiles_x) * WARPS + warp;
    if (x < a.field.nx && z < s.z.between() && p.count > 0)
      march<1>(a, s.images, absorb_locate(&a.axis[1], p.at), p.count, s.z.lo + z, p.at, x);
    return;
  }
  block -= s.along_y.blocks();
  const int z = s.z.lo + (int)(block / s.blocks_row);
  const int y = s.y.lo + ((int)(block % s.blocks_row) * WARPS + warp) * ROWS;
  if (y < s.y.hi) rows<false>(a, s.images, z, y, s.y.hi, lane);
}

static __global__ void __launch_bounds__(BLOCK, 4)
    leave_terms(const __grid_constant__ absorb_args a, const __grid_constant__ shell s) {
  const int lane = (int)(threadIdx.x % LANES), warp = (int)(threadIdx.x / LANES);
  const int z = s.z.lo + (int)(blockIdx.x / s.blocks_row);
  const int y = s.y.lo + ((int)(blockIdx.x % s.blocks_row) * WARPS + warp) * ROWS;
  admit_next_launch();
  await_launch_before();
  if (y < s.y.hi) rows<true>(a, false, z, y, s.y.hi, lane);
}

/* Layers of `width` points, across which there are tiles_x tiles of x and `others` points of the third axis. */
static layers layers_of(unsigned tiles_x, int others, int width) {
  layers l = {tiles_x * blocks_for(others, WARPS), 1};
  while (2 * l.tiles * WARPS * l.pieces < ENOUGH && (int)l.pieces * PIECE < width) l.pieces++;
  return l;
}

/* The shell of a launch; *blocks: how many it takes. */
static shell shell_of(const absorb_args &a, long long *blocks) {
  const kernel_args &f = a.field;
  shell s = {};
  s.y = span_of(a.axis[1], 0, f.ny), s.z = span_of(a.axis[2], f.z_begin, f.z_end);
  s.tiles_x = blocks_for(f.nx, LANES);
  for (int face = 0; face < FACE_COUNT; face++) s.images = s.images || f.ghosts[face] != GHOST_KEEP;
  if (s.z.between() < f.z_end - f.z_begin) s.along_z = layers_of(s.tiles_x, f.ny, a.width);
  if (s.y.between() < f.ny) s.along_y = layers_of(s.tiles_x, s.z.between(), a.width);
  if (a.axis[0].lo + a.axis[0].hi > 0) s.blocks_row = blocks_for(s.y.between(), WARPS * ROWS);
  *blocks = (long long)s.along_z.blocks() + s.along_y.blocks() + (long long)s.blocks_row * s.z.between();
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

/* The shell's boxes along x alone. */
static absorbing::shell rows_of(const absorb_args &a, long long *blocks) {
  absorbing::shell s = absorbing::shell_of(a, blocks);
  s.along_z = s.along_y = {}, s.images = false;
  *blocks = (long long)s.blocks_row * s.z.between();
  return s;
}

extern "C" int absorb_cuda_along_x(const absorb_args *a, void *stream) {
  using namespace absorbing;
  long long blocks = 0;
  const shell s = rows_of(*a, &blocks);
  if (blocks == 0) return cudaSuccess;
  add<<<(unsigned)blocks, BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(*a, s);
  return (int)cudaGetLastError();
}

extern "C" int absorb_cuda_terms(const absorb_args *a, void *stream) {
  using namespace absorbing;
  long long blocks = 0;
  absorb_args args = *a;
  shell s = rows_of(args, &blocks);
  void *parameters[] = {&args, &s};
  if (blocks == 0) return cudaSuccess;
  return (int)launch_behind(reinterpret_cast<const void *>(leave_terms), dim3((unsigned)blocks), BLOCK, 0,
                            static_cast<cudaStream_t>(stream), parameters);
}
