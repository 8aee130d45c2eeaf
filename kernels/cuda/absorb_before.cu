/* The launch before the interior kernel: the layer terms of layers along x.
 *
 * A lane has one pack at an end of a row. A warp has both ends of as many rows as it has lanes for: three rows for
 * layers of 20 points. The state of consecutive rows is contiguous, so a warp reads and writes whole stretches. Packs
 * of high ends are reversed in registers, so that one code does both ends. Lanes exchange neighbours' values by
 * shuffles. All loads are issued before the first is used, so that none waits for another. */
#include "kernels/layers/absorb.cuh"
#include "kernels/launch_behind.cuh"
#include "stencil.cuh"

namespace absorbing {

using stencil::PACK;

enum {
  BEFORE_WARPS = 8,
  BEFORE_BLOCK = LANES * BEFORE_WARPS,
  BEFORE_BLOCKS = 4 /* blocks resident on a multiprocessor */
};

/* How rows are divided among lanes. A block has rows of one plane. */
struct row_cut {
  int end, row, rows; /* lanes for an end and for a row; rows a warp does */
  unsigned inverse;   /* 2^16 / row, rounded up */
};

/* The pack of a lane; its points are counted inward. WHOLE: every pack lies in the layer, and its state is aligned to
 * 16 bytes. */
template <bool WHOLE> struct row_pack {
  const absorb_axis &s;
  bool high, outermost, innermost;
  int row, inward, outward; /* row: among the warp's rows; inward, outward: the lanes of the packs beside */
  int x, column;            /* the pack's first point, in a row of the field and in a row of the state */
  unsigned in_layer;        /* bits, inward */
  float psi_a[PACK], psi_b[PACK], zeta_a[PACK], zeta_b[PACK];

  __device__ __forceinline__ row_pack(const absorb_args &a, const row_cut &cut) : s(a.axis[0]) {
    const int nx = a.field.nx, lane = (int)(threadIdx.x % LANES);
    row = (int)((unsigned)lane * cut.inverse >> 16);
    const int in_row = lane - row * cut.row;
    high = s.lo == 0 || in_row >= cut.end;
    inward = high ? lane - 1 : lane + 1, outward = high ? lane + 1 : lane - 1;
    const int number = high ? cut.row - 1 - in_row : in_row;
    outermost = number == 0, innermost = number == cut.end - 1;
    /* number of points of the outermost pack that lie beyond the face */
    const int past = !WHOLE && high ? (PACK - nx % PACK) % PACK : 0;
    const int first = number * PACK - past;
    x = high ? nx - PACK - first : first;
    column = high ? x - (nx - s.hi) + s.lo : x;
    set_coefficients(a.width, first);
  }
  __device__ __forceinline__ void set_coefficients(int width, int first) {
    const float *zeta = s.coefficients + first, *psi = zeta + 2 * width;
    in_layer = 0;
#pragma unroll
    for (int n = 0; n < PACK; n++) {
      const bool in = WHOLE || (first + n >= 0 && first + n < width);
      in_layer |= (unsigned)in << n;
      psi_a[n] = in ? psi[n] : 0, psi_b[n] = in ? psi[width + ABSORB_BEYOND + n] : 0;
      zeta_a[n] = in ? zeta[n] : 0, zeta_b[n] = in ? zeta[width + n] : 0;
    }
  }
  /* Turns the order in memory into the inward order, or back. */
  __device__ __forceinline__ void reverse(float to[PACK], const float from[PACK]) const {
#pragma unroll
    for (int n = 0; n < PACK; n++) to[n] = high ? from[PACK - 1 - n] : from[n];
  }
  /* Does the layer hold point n of the pack, counted in memory's order? */
  __device__ __forceinline__ bool holds(int n) const {
    return in_layer >> (high ? PACK - 1 - n : n) & 1;
  }
  __device__ __forceinline__ void get(float v[PACK], const float *from) const {
    if (WHOLE)
      stencil::load(v, from);
    else
#pragma unroll
      for (int n = 0; n < PACK; n++)
        if (holds(n)) v[n] = from[n];
  }
  __device__ __forceinline__ void put(float *to, const float inward_v[PACK]) const {
    float v[PACK];
    reverse(v, inward_v);
    if (WHOLE)
      stencil::put(to, v);
    else
#pragma unroll
      for (int n = 0; n < PACK; n++)
        if (holds(n)) to[n] = v[n];
  }
};

/* The operands of a pack, in the order in memory. next: the pack of u past the layer, for the innermost pack. All are
 * 0 where the lane has no row. */
struct before_operands {
  float u[PACK], next[PACK], psi[PACK], layer_term[PACK];
};

/* Fills u with the pack and its two neighbours, inward; u is 0 beyond the face. All lanes of the warp call it. */
template <bool WHOLE>
static __device__ __forceinline__ void gather(float u[3 * PACK], const row_pack<WHOLE> &p,
                                              const before_operands &o) {
  p.reverse(u + PACK, o.u);
  p.reverse(u + 2 * PACK, o.next);
#pragma unroll
  for (int n = 0; n < PACK; n++) {
    const float outer = __shfl_sync(~0u, u[PACK + n], p.outward);
    const float inner = __shfl_sync(~0u, u[PACK + n], p.inward);
    u[n] = p.outermost ? 0 : outer;
    if (!p.innermost) u[2 * PACK + n] = inner;
  }
}

/* Computes d(psi)/ds at the points of a pack from its `psi`, to which it appends the next three. All lanes of the
 * warp call it. */
template <bool WHOLE>
static __device__ __forceinline__ void slopes(float slope[PACK], float psi[PACK + ABSORB_BEYOND],
                                              const row_pack<WHOLE> &p) {
#pragma unroll
  for (int k = 0; k < ABSORB_BEYOND; k++) {
    const float inner = __shfl_sync(~0u, psi[k], p.inward);
    psi[PACK + k] = p.innermost ? 0 : inner;
  }
#pragma unroll
  for (int n = 0; n < PACK; n++) slope[n] = absorb_slope(&p.s, psi[n], psi[n + 1], psi[n + 2], psi[n + 3]);
}

template <bool WHOLE>
static __global__ void __launch_bounds__(BEFORE_BLOCK, BEFORE_BLOCKS)
    before(const __grid_constant__ absorb_args a, const __grid_constant__ row_cut cut) {
  const row_pack<WHOLE> p(a, cut);
  const absorb_axis &s = a.axis[0];
  const int z = a.field.z_begin + (int)blockIdx.y,
            warp = (int)(blockIdx.x * BEFORE_WARPS + threadIdx.x / LANES), y = warp * cut.rows + p.row;
  const bool exists = p.row < cut.rows && y < a.field.ny;
  const ptrdiff_t at = ((ptrdiff_t)z * a.field.ny + y) * (s.lo + s.hi) + p.column;
  const absorb_layer_terms layer_terms = absorb_layer_terms_of(&s, a.width, a.field.nz);
  float *const layer_terms_at =
      a.layer_terms + absorb_layer_term_at(&layer_terms, a.field.ny, p.high, {z, y, p.x});
  const float *u_at = a.field.in + ((ptrdiff_t)a.field.plane * z + (ptrdiff_t)a.field.pitch * y + p.x);
  before_operands o = {};
  await_launch_before(); /* so far only coefficients were read, which never change */
  admit_next_launch();
  if (exists) {
    stencil::load(o.u, u_at);
    if (p.innermost) stencil::load(o.next, u_at + (p.high ? -PACK : PACK));
    p.get(o.psi, s.psi_in + at);
    stencil::load(
        o.layer_term,
        layer_terms_at); /* a pack without layer points may be another row's: its layer terms are unused */
  }
  float u[3 * PACK], psi[PACK + ABSORB_BEYOND], slope[PACK], zeta[PACK], layer_term[PACK];
  gather(u, p, o);
  p.reverse(psi, o.psi);
  p.reverse(layer_term, o.layer_term);
  slopes(slope, psi, p);
#pragma unroll
  for (int n = 0; n < PACK; n++) {
    zeta[n] = layer_term[n] - slope[n];
    psi[n] = absorb_psi(p.psi_a[n], p.psi_b[n], a.difference, u + PACK + n, 1, psi[n]);
  }
  slopes(slope, psi, p);
#pragma unroll
  for (int n = 0; n < PACK; n++) {
    const float second = absorb_second(&s, a.field.wx, u + PACK + n, 1);
    zeta[n] = absorb_zeta(p.zeta_a[n], p.zeta_b[n], second, slope[n], zeta[n]);
    layer_term[n] = 0.0f + (slope[n] + zeta[n]);
  }
  if (!exists) return;
  p.put(s.psi_out + at, psi);
  p.put(layer_terms_at, layer_term);
}

/* The division for a launch whose arguments have layers along x. */
static row_cut row_cut_of(const absorb_args &a) {
  row_cut s = {};
  const int past = (PACK - a.field.nx % PACK) % PACK;
  s.end = stencil::ceil_div(a.width + past, PACK);
  s.row = a.axis[0].lo > 0 && a.axis[0].hi > 0 ? 2 * s.end : s.end;
  s.rows = LANES / s.row, s.inverse = (unsigned)stencil::ceil_div(1 << 16, s.row);
  return s;
}

} // namespace absorbing

extern "C" int absorb_cuda_before(const absorb_args *args, void *stream) {
  using namespace absorbing;
  constexpr int GRID_MAX = 65535; /* planes of a launch */
  const kernel_args &f = args->field;
  absorb_args a = *args;
  if (a.axis[0].lo + a.axis[0].hi == 0) return cudaSuccess;
  row_cut s = row_cut_of(a);
  const bool whole = a.width % PACK == 0 && f.nx % PACK == 0;
  const void *const kernel = reinterpret_cast<const void *>(whole ? before<true> : before<false>);
  const unsigned blocks = blocks_for(f.ny, s.rows * BEFORE_WARPS);
  void *parameters[] = {&a, &s};
  cudaError_t status = cudaSuccess;
  for (int z = f.z_begin; z < f.z_end && status == cudaSuccess; z = a.field.z_end) {
    a.field.z_begin = z, a.field.z_end = f.z_end - z < GRID_MAX ? f.z_end : z + GRID_MAX;
    status = launch_behind(kernel, dim3(blocks, (unsigned)(a.field.z_end - z)), BEFORE_BLOCK, 0,
                           static_cast<cudaStream_t>(stream), parameters);
  }
  return (int)status;
}
