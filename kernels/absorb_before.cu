/* What comes before the sweep and the walks through whole points (absorb_whole.cuh): the terms of layers along x, but for
 * points in layers along y and z. A thread takes a pack of a row's end, and lanes pass psi on. A warp does one end of its
 * rows after the other: they share sectors of the state. With a launch's blocks at either end this took 143 us instead of
 * 84 (512^3). */
#include "absorb.cuh"
#include "launch_behind.cuh"
#include "star.cuh"

namespace absorbing {

using star::PACK;

enum {
  BEFORE_WARPS = 8,
  BEFORE_BLOCK = LANES * BEFORE_WARPS,
  BEFORE_BLOCKS = 3, /* resident on a multiprocessor */
  GROUPS = 2         /* of rows that a warp takes, and asks for together */
};

struct before_shell {
  span y, z;
  /* Rows with terms: all of planes in no layer along z, and of the other planes those in no layer along y. */
  __host__ __device__ int inner() const { return z.between() * y.end; }
  __host__ __device__ int rows() const { return inner() + z.outer() * y.between(); }
};

/* A thread's pack of the end of rows, which has ROW_LANES packs: all of the layer, the three points that pass psi on to
 * it, and those past a row of odd length. */
template <int INWARD, int ROW_LANES> struct row_end {
  static constexpr int FIRST =
      INWARD > 0 ? 0 : ABSORB_BEYOND; /* of the pack's psi; then inward those of the next */
  const absorb_args &a;
  const absorb_axis &s;
  int x, column;     /* of the pack in a row, in a row of the state */
  unsigned in_layer; /* bits */
  bool whole;        /* the state has whole packs */
  float psi_a[PACK], psi_b[PACK], zeta_a[PACK], zeta_b[PACK];

  __device__ __forceinline__ explicit row_end(const absorb_args &args) : a(args), s(args.axis[0]) {
    const int nx = a.field.nx, lane = (int)threadIdx.x % ROW_LANES;
    const float *c = s.coefficients;
    x = (INWARD > 0 ? 0 : (nx - ROW_LANES * PACK + PACK - 1) / PACK * PACK) + lane * PACK;
    column = INWARD > 0 ? x : x - (nx - s.hi) + s.lo;
    in_layer = 0;
#pragma unroll
    for (int n = 0; n < PACK; n++) {
      const int i = INWARD > 0 ? x + n : nx - 1 - (x + n);
      const bool in = i >= 0 && i < a.width;
      in_layer |= (unsigned)in << n;
      psi_a[n] = in ? c[2 * a.width + i] : 0, psi_b[n] = in ? c[3 * a.width + ABSORB_BEYOND + i] : 0;
      zeta_a[n] = in ? c[i] : 0, zeta_b[n] = in ? c[a.width + i] : 0;
    }
    whole = a.width % PACK == 0 && nx % PACK == 0;
  }
  __device__ __forceinline__ void get(float v[PACK], const float *from) const {
    if (whole) return star::load(v, from);
#pragma unroll
    for (int n = 0; n < PACK; n++) v[n] = in_layer >> n & 1 ? from[n] : 0;
  }
  __device__ __forceinline__ void put(float *to, const float v[PACK]) const {
    if (whole)
      star::put(to, v);
    else
      star::put_points(to, v, in_layer);
  }
  /* What comes from memory for the pack of a row, where it has points of the layer; psi[FIRST ..] is what it was. u is 0
   * beyond the face, and stays as it is. */
  __device__ __forceinline__ void load(const absorb_point &row, float u[PACK + 2 * GHOST_REACH], float *psi,
                                       float zeta[PACK]) const {
    const float *at = a.field.in + ((ptrdiff_t)a.field.plane * row.z + (ptrdiff_t)a.field.pitch * row.y + x);
    star::load(u + GHOST_REACH, at);
    if (INWARD < 0 || x > 0) star::load(u, at - GHOST_REACH);
    if (INWARD > 0 || x + PACK < a.field.nx) star::load(u + GHOST_REACH + PACK, at + PACK);
    get(psi + FIRST, s.psi_in + state(row));
    get(zeta, s.zeta + state(row));
  }
  __device__ __forceinline__ ptrdiff_t state(const absorb_point &row) const {
    return ((ptrdiff_t)row.z * a.field.ny + row.y) * (s.lo + s.hi) + column;
  }
  /* psi of the pack after this step, and what its neighbour has for it; by all lanes of the warp. */
  __device__ __forceinline__ void renew(const float u[PACK + 2 * GHOST_REACH],
                                        float psi[PACK + ABSORB_BEYOND]) const {
#pragma unroll
    for (int n = 0; n < PACK; n++)
      psi[FIRST + n] =
          absorb_psi(psi_a[n], psi_b[n], a.difference, u + GHOST_REACH + n, INWARD, psi[FIRST + n]);
#pragma unroll
    for (int k = 0; k < ABSORB_BEYOND; k++) {
      if (INWARD > 0)
        psi[PACK + k] = __shfl_down_sync(~0u, psi[k], 1, ROW_LANES);
      else
        psi[k] = __shfl_up_sync(~0u, psi[PACK + k], 1, ROW_LANES);
    }
  }
  /* Stores psi, zeta and the term of the pack. */
  __device__ __forceinline__ void finish(const absorb_point &row, const float u[PACK + 2 * GHOST_REACH],
                                         const float *psi, float zeta[PACK]) const {
    float term[PACK];
#pragma unroll
    for (int n = 0; n < PACK; n++) {
      const float *p = psi + FIRST + n;
      const float slope = absorb_slope(&s, p[0], p[INWARD], p[2 * INWARD], p[3 * INWARD]);
      zeta[n] = absorb_zeta(zeta_a[n], zeta_b[n], absorb_second(&s, a.field.wx, u + GHOST_REACH + n, 1),
                            slope, zeta[n]);
      term[n] = 0.0f + (slope + zeta[n]);
    }
    put(s.psi_out + state(row), psi + FIRST);
    put(s.zeta + state(row), zeta);
    put(s.psi_in + state(row), term);
  }
};

/* The terms of GROUPS groups of rows, of which the warp's first is `group`. */
template <int INWARD, int ROW_LANES>
static __device__ __forceinline__ void leave_terms(const absorb_args &a, const before_shell &s, int group) {
  constexpr int TOGETHER = LANES / ROW_LANES;
  const row_end<INWARD, ROW_LANES> end(a);
  absorb_point row[GROUPS];
  bool exists[GROUPS];
  float u[GROUPS][PACK + 2 * GHOST_REACH] = {}, psi[GROUPS][PACK + ABSORB_BEYOND] = {},
                             zeta[GROUPS][PACK] = {};
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    const int i = (group + g) * TOGETHER + (int)threadIdx.x % LANES / ROW_LANES, outer = i - s.inner();
    row[g] = outer < 0 ? absorb_point{s.z.lo + i / s.y.end, i % s.y.end, 0}
                       : absorb_point{s.z.outside(outer / s.y.between()), s.y.lo + outer % s.y.between(), 0};
    exists[g] = i < s.rows() && end.in_layer;
    if (exists[g]) end.load(row[g], u[g], psi[g], zeta[g]);
  }
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    end.renew(u[g], psi[g]);
    if (exists[g]) end.finish(row[g], u[g], psi[g], zeta[g]);
  }
}

template <int ROW_LANES>
static __global__ void __launch_bounds__(BEFORE_BLOCK, BEFORE_BLOCKS)
    before(const __grid_constant__ absorb_args a, const __grid_constant__ before_shell s) {
  admit_next_launch();
  await_launch_before();
  const int warp = (int)(blockIdx.x * BEFORE_WARPS + threadIdx.x / LANES);
  if (a.axis[0].lo > 0) leave_terms<1, ROW_LANES>(a, s, warp * GROUPS);
  if (a.axis[0].hi > 0) leave_terms<-1, ROW_LANES>(a, s, warp * GROUPS);
}

} // namespace absorbing

extern "C" int absorb_cuda_before(const absorb_args *args, void *stream) {
  using namespace absorbing;
  const kernel_args &f = args->field;
  absorb_args a = *args;
  before_shell s = {span_of(a.axis[1], 0, f.ny), span_of(a.axis[2], f.z_begin, f.z_end)};
  const bool narrow = a.width + 6 <= 8 * PACK;
  const unsigned blocks = blocks_for(s.rows(), GROUPS * BEFORE_WARPS * (narrow ? 4 : 2));
  void *parameters[] = {&a, &s};
  if (blocks == 0 || a.axis[0].lo + a.axis[0].hi == 0) return cudaSuccess;
  return (int)launch_behind(reinterpret_cast<const void *>(narrow ? before<8> : before<16>), dim3(blocks),
                            BEFORE_BLOCK, 0, static_cast<cudaStream_t>(stream), parameters);
}
