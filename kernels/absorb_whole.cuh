/* Whole points in absorbing layers along y and z: the star and the layer in one visit, 32 bytes a point instead of the 16
 * of the sweep and 32 of a second visit. A thread goes through a layer, inward, N points side by side in x, with nine
 * rows of the field and four of psi at hand. Points in several layers, few, are computed each by itself. */
#ifndef STENCIL_ABSORB_WHOLE_CUH
#define STENCIL_ABSORB_WHOLE_CUH

#include "absorb.cuh"
#include "launch_behind.cuh"
#include "star.cuh"

namespace absorbing {

enum {
  WHOLE_WARPS = 8,  /* of a block */
  WHOLE_BLOCKS = 2, /* resident on a multiprocessor; three would leave too few registers */
  TURNS_AHEAD = 3,  /* L2 is asked for what a thread will need in so many turns */
  WHOLE_ENOUGH = 4096,
  WHOLE_PIECE = 7 /* as ENOUGH and PIECE of absorb.cu */
};

/* N points that follow each other in x. */
template <int N> static __device__ __forceinline__ void get(float v[N], const float *from) {
  if (N == 2) {
    const float2 p = *reinterpret_cast<const float2 *>(from);
    v[0] = p.x, v[N - 1] = p.y;
  } else {
    v[0] = from[0];
  }
}
template <int N> static __device__ __forceinline__ void put(float *to, const float v[N]) {
  if (N == 2)
    *reinterpret_cast<float2 *>(to) = make_float2(v[0], v[N - 1]);
  else
    to[0] = v[0];
}

static __device__ __forceinline__ void ask_for(const float *at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

/* What a turn needs from memory besides what the turns before have read: u four rows further on, psi three, and the rest
 * of the points themselves. */
template <int N> struct arrivals { float u[N], before[N], zeta[N], out[N], medium[N]; };

/* Neighbours in a turn: along the axis across (y or z), r points down and up; and the row in x. */
template <int N> struct neighbours {
  float down[GHOST_REACH + 1][N], up[GHOST_REACH + 1][N], row[N + 2 * GHOST_REACH];
};

/* A thread on its way through a layer along axis 1 (y) or 2 (z), at row i counted from the outer edge. */
template <int AXIS, int INWARD, int N> struct march {
  const absorb_args &a;
  const kernel_args &f;
  const absorb_axis &s;
  ptrdiff_t across, step, state_step; /* strides */
  ptrdiff_t at, state;                /* the first point in a field, in the state */
  int i, z;
  float u[2 * GHOST_REACH + 1][N], psi[ABSORB_BEYOND + 1][N];
  arrivals<N> next;

  __device__ __forceinline__ march(const absorb_args &args, int first, int plane, int y, int x)
      : a(args), f(args.field), s(args.axis[AXIS]), i(first), z(plane) {
    const ptrdiff_t nx = f.nx, pitch = (ptrdiff_t)f.pitch, planes = (ptrdiff_t)f.plane,
                    state_stride = AXIS == 1 ? nx : nx * f.ny;
    across = AXIS == 1 ? planes : pitch;
    step = INWARD * (AXIS == 1 ? pitch : planes), state_step = INWARD * state_stride;
    at = planes * z + pitch * y + x;
    state = absorb_stored(&s, a.width, {first, INWARD}, first) * state_stride +
            (AXIS == 1 ? (ptrdiff_t)z * (s.lo + s.hi) * nx : y * nx) + x;
#pragma unroll
    for (int k = 0; k < 2 * GHOST_REACH; k++) get<N>(u[k], f.in + (at + (k - GHOST_REACH) * step));
#pragma unroll
    for (int k = 0; k < ABSORB_BEYOND; k++) {
      float before[N];
      get<N>(before, remembered(k));
      renew(k, before);
    }
    fetch();
  }
  /* psi[i + k] before this step; past the layer its last, which counts 0 times. */
  __device__ __forceinline__ const float *remembered(int k) const {
    return s.psi_in + (state + (min(i + k, a.width - 1) - i) * state_step);
  }
  __device__ __forceinline__ void renew(int k, const float before[N]) {
    const float *c = s.coefficients + (2 * a.width + i + k);
    const float psi_a = c[0], psi_b = c[a.width + ABSORB_BEYOND];
#pragma unroll
    for (int n = 0; n < N; n++)
      psi[k][n] = absorb_psi(psi_a, psi_b, a.difference, &u[GHOST_REACH + k][n], N, before[n]);
  }
  __device__ __forceinline__ void fetch() {
    get<N>(next.u, f.in + (at + GHOST_REACH * step));
    get<N>(next.before, remembered(ABSORB_BEYOND));
    get<N>(next.zeta, s.zeta + state);
    get<N>(next.out, f.out + at);
#pragma unroll
    for (int n = 0; n < N; n++) next.medium[n] = f.scale;
    if (f.medium) get<N>(next.medium, f.medium + at);
  }
  __device__ __forceinline__ void ask_ahead() const {
    const ptrdiff_t then = at + TURNS_AHEAD * step, state_then = state + TURNS_AHEAD * state_step;
    ask_for(f.in + (then + GHOST_REACH * step));
    ask_for(f.out + then);
    if (f.medium) ask_for(f.medium + then);
    ask_for(s.zeta + state_then);
    ask_for(remembered(TURNS_AHEAD + ABSORB_BEYOND));
  }
  __device__ __forceinline__ void look_around(neighbours<N> *b) const {
#pragma unroll
    for (int r = 1; r <= GHOST_REACH; r++)
      get<N>(b->down[r], f.in + (at - r * across)), get<N>(b->up[r], f.in + (at + r * across));
#pragma unroll
    for (int k = 0; k < GHOST_REACH; k += N) {
      get<N>(b->row + k, f.in + (at - GHOST_REACH + k));
      get<N>(b->row + N + GHOST_REACH + k, f.in + (at + N + k));
    }
#pragma unroll
    for (int n = 0; n < N; n++) b->row[GHOST_REACH + n] = u[GHOST_REACH][n];
  }
  /* Point n, r points along z or y. */
  __device__ __forceinline__ float in_z(const neighbours<N> &b, int r, int n) const {
    return AXIS == 2 ? u[GHOST_REACH + r * INWARD][n] : r < 0 ? b.down[-r][n] : b.up[r][n];
  }
  __device__ __forceinline__ float in_y(const neighbours<N> &b, int r, int n) const {
    return AXIS == 1 ? u[GHOST_REACH + r][n] : r < 0 ? b.down[-r][n] : b.up[r][n];
  }
  /* The star of point n, in the canonical order. */
  __device__ __forceinline__ float star(const neighbours<N> &b, int n) const {
    const float *row = b.row + GHOST_REACH + n;
    float sum = __fmul_rn(f.wz[4], in_z(b, -4, n));
#pragma unroll
    for (int r = 3; r >= 1; r--) sum = __fmaf_rn(f.wz[r], in_z(b, -r, n), sum);
    sum = __fmaf_rn(f.center, u[GHOST_REACH][n], sum);
#pragma unroll
    for (int r = 1; r <= GHOST_REACH; r++) {
      sum = __fmaf_rn(f.wy[r], __fadd_rn(in_y(b, -r, n), in_y(b, r, n)), sum);
      sum = __fmaf_rn(f.wx[r], __fadd_rn(row[-r], row[r]), sum);
    }
#pragma unroll
    for (int r = 1; r <= GHOST_REACH; r++) sum = __fmaf_rn(f.wz[r], in_z(b, r, n), sum);
    return sum;
  }
  /* Finishes row i and goes on to the next, of which `left` are left. */
  __device__ __forceinline__ void turn(int left) {
    const arrivals<N> now = next;
    const ptrdiff_t here = at, here_state = state;
    const float *w = AXIS == 1 ? f.wy : f.wz, *c = s.coefficients + i;
    neighbours<N> b;
    float zeta[N], done[N];
    look_around(&b);
    if (left >= TURNS_AHEAD) ask_ahead();
#pragma unroll
    for (int n = 0; n < N; n++) u[2 * GHOST_REACH][n] = now.u[n];
    renew(ABSORB_BEYOND, now.before);
    i++, at += step, state += state_step;
    if (left > 0) fetch(); /* before anything is stored: compilers move no load up */
#pragma unroll
    for (int n = 0; n < N; n++) {
      const float slope = absorb_slope(&s, psi[0][n], psi[1][n], psi[2][n], psi[3][n]);
      zeta[n] =
          absorb_zeta(c[0], c[a.width], absorb_second(&s, w, &u[GHOST_REACH][n], N), slope, now.zeta[n]);
      done[n] = star::update<EQUATION_WAVE>(star(b, n), now.medium[n], u[GHOST_REACH][n], now.out[n]);
      done[n] = fmaf(now.medium[n], 0.0f + (slope + zeta[n]), done[n]);
    }
    put<N>(s.psi_out + here_state, psi[0]);
    put<N>(s.zeta + here_state, zeta);
    put<N>(f.out + here, done);
    const int beyond = AXIS == 2 ? absorb_left(&a, {i - 1, INWARD}, z) : 0;
#pragma unroll
    for (int k = 1; k <= ABSORB_BEYOND; k++)
      if (k <= beyond) put<N>(s.psi_out + (here_state + k * state_step), psi[k]);
    if (AXIS == 2) z += INWARD;
    move_up();
  }
  __device__ __forceinline__ void move_up() {
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int k = 0; k < 2 * GHOST_REACH; k++) u[k][n] = u[k + 1][n];
#pragma unroll
      for (int k = 0; k < ABSORB_BEYOND; k++) psi[k][n] = psi[k + 1][n];
    }
  }
};

template <int AXIS, int INWARD, int N>
static __device__ __forceinline__ void march_through(const absorb_args &a, int count, int z, int y, int x) {
  const int first = absorb_locate(&a.axis[AXIS], AXIS == 1 ? y : z).i;
  march<AXIS, INWARD, N> m(a, first, z, y, x);
#pragma unroll 1
  for (int left = count - 1; left >= 0; left--) m.turn(left);
}

/* `count` rows of a layer, the first at (z, y, x). */
template <int AXIS, int N>
static __device__ __forceinline__ void march_inward(const absorb_args &a, int count, int z, int y, int x) {
  if (absorb_locate(&a.axis[AXIS], AXIS == 1 ? y : z).inward > 0)
    march_through<AXIS, 1, N>(a, count, z, y, x);
  else
    march_through<AXIS, -1, N>(a, count, z, y, x);
}

/* --- corners ------------------------------------------------------------------------------------------------ */

/* What the layer along z, if it is in one, adds to a point at u. */
static __device__ __forceinline__ float along_z(const absorb_args &a, int z, int y, int x, const float *u) {
  const kernel_args &f = a.field;
  const absorb_axis &s = a.axis[2];
  const absorb_place p = absorb_locate(&s, z);
  const ptrdiff_t nx = f.nx, state = y * nx + x;
  if (!p.inward) return 0;
  const absorb_line l = absorb_line_of(&s, a.width, p, (ptrdiff_t)f.plane, nx * f.ny);
  const int left = absorb_left(&a, p, z);
#pragma unroll
  for (int k = 1; k <= ABSORB_BEYOND; k++)
    if (k <= left) s.psi_out[state + l.psi[k]] = absorb_psi_at(&l, a.difference, u, s.psi_in + state, k);
  return absorb_add(&s, &l, a.difference, f.wz, u, s.psi_in + state, s.psi_out + state, s.zeta + state);
}

/* A point of any layers, by itself. */
static __device__ __forceinline__ void corner_point(const absorb_args &a, int z, int y, int x) {
  const kernel_args &f = a.field;
  const ptrdiff_t pitch = (ptrdiff_t)f.pitch, plane = (ptrdiff_t)f.plane, at = plane * z + pitch * y + x;
  const float *u = f.in + at;
  float sum = __fmul_rn(f.wz[4], u[-4 * plane]);
#pragma unroll
  for (int r = 3; r >= 1; r--) sum = __fmaf_rn(f.wz[r], u[-r * plane], sum);
  sum = __fmaf_rn(f.center, u[0], sum);
#pragma unroll
  for (int r = 1; r <= GHOST_REACH; r++) {
    sum = __fmaf_rn(f.wy[r], __fadd_rn(u[-r * pitch], u[r * pitch]), sum);
    sum = __fmaf_rn(f.wx[r], __fadd_rn(u[-r], u[r]), sum);
  }
#pragma unroll
  for (int r = 1; r <= GHOST_REACH; r++) sum = __fmaf_rn(f.wz[r], u[r * plane], sum);
  const float m = f.medium ? f.medium[at] : f.scale;
  const float done = star::update<EQUATION_WAVE>(sum, m, u[0], f.out[at]);
  float added = before_axis(a, 2, z, y, x);
  if (absorb_locate(&a.axis[2], z).inward) added += along_z(a, z, y, x, u);
  f.out[at] = fmaf(m, added, done);
}

/* The layers along y and z of a launch. Marches take points [x_begin, x_end) of rows, where no layer along x is. What is
 * left are corners: rows in layers along y and z; the ends of other rows in layers along z, and of those along y. */
struct whole_shell {
  span y, z;
  int x_begin, x_end;
  unsigned tiles_x;
  layers along_z, along_y;
  long long corners[3];
  bool beside; /* the launch before is of the same step, and of other points */
};

/* Coordinate i of those outside [begin, end). */
static __device__ __forceinline__ int outside(int i, int begin, int end) {
  return i < begin ? i : i - begin + end;
}

static __device__ __forceinline__ void corner(const absorb_args &a, const whole_shell &s, long long i) {
  const int nx = a.field.nx, ends = nx - (s.x_end - s.x_begin), rows_between = s.y.between(),
            rows = a.field.ny - rows_between;
  const auto x_of = [&](long long k) { return outside((int)k, s.x_begin, s.x_end); };
  const auto y_of = [&](long long k) { return outside((int)k, s.y.lo, s.y.hi); };
  const auto z_of = [&](long long k) { return outside(s.z.begin + (int)k, s.z.lo, s.z.hi); };
  if (i < s.corners[0]) return corner_point(a, z_of(i / nx / rows), y_of(i / nx % rows), (int)(i % nx));
  i -= s.corners[0];
  if (i < s.corners[1])
    return corner_point(a, z_of(i / ends / rows_between), s.y.lo + (int)(i / ends % rows_between),
                        x_of(i % ends));
  i -= s.corners[1];
  if (i < s.corners[2])
    corner_point(a, s.z.lo + (int)(i / ends / rows), y_of(i / ends % rows), x_of(i % ends));
}

/* --- launches ----------------------------------------------------------------------------------------------- */

/* Where it runs `beside` the launch before it, it is still done after that one. */
template <int N>
static __global__ void __launch_bounds__(WHOLE_WARPS *LANES, WHOLE_BLOCKS)
    whole(const __grid_constant__ absorb_args a, const __grid_constant__ whole_shell s) {
  const int lane = (int)(threadIdx.x % LANES), warp = (int)(threadIdx.x / LANES);
  unsigned block = blockIdx.x;
  if (!s.beside) await_launch_before();
  admit_next_launch();
  if (block < s.along_z.blocks()) {
    const piece p(s.along_z, s.z, block);
    const int x = ((int)(p.tile % s.tiles_x) * LANES + lane) * N,
              y = s.y.lo + (int)(p.tile / s.tiles_x) * WHOLE_WARPS + warp;
    if (x >= s.x_begin && x < s.x_end && y < s.y.hi && p.count > 0)
      march_inward<2, N>(a, p.count, p.at, y, x);
  } else if ((block -= s.along_z.blocks()) < s.along_y.blocks()) {
    const piece p(s.along_y, s.y, block);
    const int x = ((int)(p.tile % s.tiles_x) * LANES + lane) * N,
              z = s.z.lo + (int)(p.tile / s.tiles_x) * WHOLE_WARPS + warp;
    if (x >= s.x_begin && x < s.x_end && z < s.z.hi && p.count > 0)
      march_inward<1, N>(a, p.count, z, p.at, x);
  } else {
    block -= s.along_y.blocks();
    corner(a, s, (long long)block * (WHOLE_WARPS * LANES) + threadIdx.x);
  }
  if (s.beside && blockIdx.x == gridDim.x - 1) await_launch_before();
}

/* Layers of `width` points, across which there are tiles_x tiles of x and `others` points of the third axis. */
inline layers marches(unsigned tiles_x, int others, int width) {
  layers l = {tiles_x * blocks_for(others, WHOLE_WARPS), 1};
  while (2 * l.tiles * WHOLE_WARPS * l.pieces < WHOLE_ENOUGH && (int)(l.pieces + 1) * WHOLE_PIECE <= width)
    l.pieces++;
  return l;
}

/* What threads take at a time in x. */
inline int whole_pack(const absorb_args &a) {
  return a.field.nx % 2 ? 1 : 2;
}

inline whole_shell whole_shell_of(const absorb_args &a) {
  const kernel_args &f = a.field;
  const absorb_axis &x = a.axis[0];
  const int n = whole_pack(a);
  whole_shell s = {};
  s.y = span_of(a.axis[1], 0, f.ny), s.z = span_of(a.axis[2], f.z_begin, f.z_end);
  s.x_begin = (x.lo + n - 1) / n * n, s.x_end = (f.nx - x.hi) / n * n;
  if (s.x_end < s.x_begin) s.x_end = s.x_begin;
  s.tiles_x = blocks_for(f.nx, LANES * n);
  const long long planes = f.z_end - f.z_begin - s.z.between(), rows = f.ny - s.y.between(),
                  ends = f.nx - (s.x_end - s.x_begin);
  if (planes) s.along_z = marches(s.tiles_x, s.y.between(), a.width);
  if (rows) s.along_y = marches(s.tiles_x, s.z.between(), a.width);
  s.corners[0] = planes * rows * f.nx, s.corners[1] = planes * s.y.between() * ends,
  s.corners[2] = s.z.between() * rows * ends;
  return s;
}

inline cudaError_t launch_whole(const absorb_args &args, const whole_shell &shell, cudaStream_t stream) {
  const bool pairs = whole_pack(args) == 2;
  const void *kernel =
      pairs ? reinterpret_cast<const void *>(whole<2>) : reinterpret_cast<const void *>(whole<1>);
  const unsigned threads = WHOLE_WARPS * LANES;
  const unsigned blocks = shell.along_z.blocks() + shell.along_y.blocks() +
                          blocks_for(shell.corners[0] + shell.corners[1] + shell.corners[2], threads);
  absorb_args a = args;
  whole_shell s = shell;
  void *parameters[] = {&a, &s};
  return blocks ? launch_behind(kernel, dim3(blocks), threads, 0, stream, parameters) : cudaSuccess;
}

} // namespace absorbing
#endif
