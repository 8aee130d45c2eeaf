/* The CUDA function of surplus.h, in the order of the arrays of layer points. A warp does a part of a row in a layer
 * along y or z, or points at the ends of rows, in layers along x alone. A thread does EACH points, a warp apart; it
 * loads all operands before it stores. */
#include <cuda_runtime.h>
#include "surplus.h"

namespace surplus {

enum { BLOCK = 256, WARP = 32, EACH = 2, PART = WARP * EACH /* points of a warp */ };

/* How the planes of a launch are cut. */
struct cut {
  surplus_region own, all; /* of the slab's planes; of the launch's */
  unsigned rows, parts;    /* number of whole rows; warps of a row */
  unsigned whole, of_ends; /* blocks of whole rows; blocks of the ends of a plane's rows */
};

/* Row `row` of the whole ones: y and z of its points. */
static __device__ __forceinline__ absorb_point row_of(const surplus_args &a, const cut &c, unsigned row) {
  const surplus_layers &s = a.layers;
  const absorb_axis &y = s.axis[1];
  const unsigned ny = (unsigned)s.ny, of_layers = (unsigned)(y.lo + y.hi),
                 low = (unsigned)(c.all.low - a.field.z_begin) * ny,
                 framed = (unsigned)(c.all.high - c.all.low) * of_layers;
  if (row < low) return {a.field.z_begin + (int)(row / ny), (int)(row % ny), 0};
  row -= low;
  if (row >= framed) return {c.all.high + (int)((row - framed) / ny), (int)((row - framed) % ny), 0};
  const int line = (int)(row % of_layers);
  return {c.all.low + (int)(row / of_layers), line < y.lo ? line : s.ny - (int)of_layers + line, 0};
}

/* The points of a thread. Point j is at[j] from the first one's row in fields, and j WARP further in arrays of own
 * points. */
template <bool WHOLE> struct points {
  static constexpr int AXES = WHOLE ? ABSORB_AXES : 1; /* axes of layers that the points may lie in */
  surplus_run run; /* of the first one; chi and coefficients are of axes but x */
  int at[EACH];
  bool there[EACH];
  absorb_place along_x[EACH];
  float *chi_x[EACH];

  __device__ __forceinline__ float *chi(int axis, int j) const {
    return axis == 0 ? chi_x[j] : run.chi[axis] ? run.chi[axis] + j * WARP : NULL;
  }
};

static __device__ __forceinline__ void find(const surplus_args &a, const cut &c, unsigned warp,
                                            points<true> &p) {
  const surplus_layers &s = a.layers;
  absorb_point first = row_of(a, c, warp / c.parts);
  first.x = (int)(warp % c.parts * PART + threadIdx.x % WARP);
  p.run = surplus_run_of(&a, &c.own, first);
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    const absorb_point at = {first.z, first.y, first.x + j * WARP};
    p.there[j] = at.x < s.nx, p.at[j] = j * WARP;
    p.along_x[j] = surplus_locate(&s.axis[0], at.x);
    p.chi_x[j] = p.along_x[j].inward ? surplus_chi(&s, 0, at) : NULL;
  }
}

/* Finds the points at the ends of rows. Their chi lies in the same order. */
static __device__ __forceinline__ void find(const surplus_args &a, const cut &c, unsigned block,
                                            points<false> &p) {
  const surplus_layers &s = a.layers;
  const absorb_axis &x = s.axis[0], &y = s.axis[1];
  const unsigned ends = (unsigned)(x.lo + x.hi),
                 first =
                     (block % c.of_ends * (BLOCK / WARP) + threadIdx.x / WARP) * PART + threadIdx.x % WARP;
  const int z = c.all.low + (int)(block / c.of_ends), rows = s.ny - y.lo - y.hi;
  const int start = x.lo > 0 ? 0 : s.nx - (int)ends;
  p.run = surplus_run_of(&a, &c.own, {z, y.lo, start});
  p.run.at -= start, p.run.stored += first;
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    const unsigned t = first + j * WARP;
    const int row = (int)(t / ends), i = (int)(t % ends), at = i < x.lo ? i : s.nx - (int)ends + i;
    p.there[j] = row < rows, p.at[j] = row * a.field.pitch + at;
    p.along_x[j] = absorb_locate(&x, at);
    p.chi_x[j] = s.chi[0] + ((ptrdiff_t)(z + RADIUS) * s.ny + y.lo) * ends + t;
  }
}

/* The values of a point that a thread loads before it stores. */
template <int AXES> struct known {
  float chi[AXES], missing, before, last, kappa, memory[MEMORIES_MAX], image;
};

template <bool WHOLE>
static __device__ __forceinline__ void load(const surplus_args &a, const points<WHOLE> &p, int j,
                                            known<points<WHOLE>::AXES> &k) {
  const ptrdiff_t at = p.run.at + p.at[j], stored = p.run.stored + j * WARP;
#pragma unroll
  for (int i = 0; i < points<WHOLE>::AXES; i++) k.chi[i] = p.chi(i, j) ? *p.chi(i, j) : 0;
  if (!p.run.own) return;
  k.missing = a.missing[stored], k.before = a.before[stored];
  if (a.image) k.image = a.image[at];
  if (!a.field.terms.memories) return;
  k.last = a.last[stored], k.kappa = a.field.terms.loss[at];
#pragma unroll
  for (int l = 0; l < MEMORIES_MAX; l++)
    if (l < a.field.terms.memories) k.memory[l] = a.memory[l][stored];
}

template <bool WHOLE>
static __device__ __forceinline__ void store(const surplus_args &a, const points<WHOLE> &p, int j,
                                             const known<points<WHOLE>::AXES> &k) {
  const ptrdiff_t at = p.run.at + p.at[j], stored = p.run.stored + j * WARP;
#pragma unroll
  for (int i = 0; i < points<WHOLE>::AXES; i++)
    if (p.chi(i, j)) *p.chi(i, j) = k.chi[i];
  if (!p.run.own) return;
  a.missing[stored] = k.missing, a.before[stored] = k.before;
  if (a.image) a.image[at] = k.image;
  if (!a.field.terms.memories) return;
  a.last[stored] = k.last;
#pragma unroll
  for (int l = 0; l < MEMORIES_MAX; l++)
    if (l < a.field.terms.memories) a.memory[l][stored] = k.memory[l];
}

/* Does for a point what surplus_step does. */
template <bool WHOLE>
static __device__ __forceinline__ void advance(const surplus_args &a, const points<WHOLE> &p, int j,
                                               known<points<WHOLE>::AXES> &k, float mu, float u) {
  const kernel_terms &t = a.field.terms;
  float e = 0, had = 0;
#pragma unroll
  for (int i = 0; i < points<WHOLE>::AXES; i++) {
    if (!p.chi(i, j)) continue;
    const float *c = i == 0 ? a.layers.axis[0].coefficients + p.along_x[j].i : p.run.coefficients[i];
    const float now = surplus_next(c[0], c[a.layers.width], k.chi[i], mu, e);
    had += k.chi[i], e += now, k.chi[i] = now;
  }
  if (!p.run.own) return;
  if (a.image) k.image = fmaf(-u, e, k.image);
  if (t.memories) {
    float strength = 0;
#pragma unroll
    for (int l = 0; l < MEMORIES_MAX; l++)
      if (l < t.memories) strength += t.b[l], e = fmaf(t.a[l], k.memory[l], e);
    e /= fmaf(-k.kappa, strength, 1);
#pragma unroll
    for (int l = 0; l < MEMORIES_MAX; l++)
      if (l < t.memories) k.memory[l] = fmaf(t.a[l], k.memory[l], t.b[l] * k.kappa * e);
    had = k.last, k.last = e;
  }
  k.missing = surplus_lacks(u, e, had, k.before, k.missing);
  k.before = had;
}

template <bool WHOLE>
static __device__ __forceinline__ void step(const surplus_args &a, const points<WHOLE> &p) {
  float mu[SURPLUS_STEPS][EACH], u[SURPLUS_STEPS][EACH];
  known<points<WHOLE>::AXES> k[EACH];
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    if (!p.there[j]) continue;
#pragma unroll
    for (int i = 0; i < SURPLUS_STEPS; i++)
      if (i < a.steps) {
        mu[i][j] = a.seen[i].mu[p.run.at + p.at[j]];
        if (p.run.own) u[i][j] = a.seen[i].u[p.run.at + p.at[j]];
      }
    load(a, p, j, k[j]);
  }
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    if (!p.there[j]) continue;
#pragma unroll
    for (int i = 0; i < SURPLUS_STEPS; i++)
      if (i < a.steps) advance(a, p, j, k[j], mu[i][j], u[i][j]);
    store(a, p, j, k[j]);
  }
}

template <bool WHOLE>
static __device__ __forceinline__ void finish(const surplus_args &a, const points<WHOLE> &p) {
#pragma unroll
  for (int j = 0; j < EACH; j++) {
    surplus_run one = p.run;
    one.at += p.at[j], one.stored += j * WARP;
    one.chi[0] = p.chi_x[j], one.coefficients[0] = a.layers.axis[0].coefficients + p.along_x[j].i;
    float e = 0;
#pragma unroll
    for (int i = 0; i < points<WHOLE>::AXES; i++)
      if (p.there[j] && (one.chi[i] = p.chi(i, j))) e += *one.chi[i];
    if (p.there[j]) surplus_finish(&a, e, &one);
  }
}

template <enum surplus_kind KIND, bool WHOLE>
static __device__ __forceinline__ void visit(const surplus_args &a, const cut &c, unsigned number) {
  points<WHOLE> p;
  find(a, c, number, p);
  if (KIND == SURPLUS_STEP)
    step(a, p);
  else
    finish(a, p);
}

template <enum surplus_kind KIND>
static __global__ void __launch_bounds__(BLOCK, 3)
    each(const __grid_constant__ surplus_args a, const __grid_constant__ cut c) {
  const unsigned warp = blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
  if (blockIdx.x >= c.whole)
    visit<KIND, false>(a, c, blockIdx.x - c.whole);
  else if (warp < c.rows * c.parts)
    visit<KIND, true>(a, c, warp);
}

static unsigned part_of(ptrdiff_t n, int size) {
  return (unsigned)((n + size - 1) / size);
}

} // namespace surplus

extern "C" int operation_surplus_cuda(const void *args, void *stream) {
  using namespace surplus;
  const surplus_args &a = *static_cast<const surplus_args *>(args);
  const surplus_layers &s = a.layers;
  const absorb_axis &x = s.axis[0], &y = s.axis[1];
  const int begin = a.field.z_begin, end = a.field.z_end;
  cut c = {surplus_region_of(&s, 0, s.nz), surplus_region_of(&s, begin, end), 0, part_of(s.nx, PART), 0, 0};
  const int framed = c.all.high - c.all.low;
  c.rows = (unsigned)((end - begin - framed) * s.ny + framed * (y.lo + y.hi));
  c.whole = part_of((ptrdiff_t)c.rows * c.parts, BLOCK / WARP);
  c.of_ends = part_of((ptrdiff_t)(s.ny - y.lo - y.hi) * (x.lo + x.hi), BLOCK * EACH);
  const unsigned blocks = c.whole + (unsigned)framed * c.of_ends;
  if (blocks == 0) return cudaSuccess;
  (a.kind == SURPLUS_STEP ? each<SURPLUS_STEP>
                          : each<SURPLUS_END>)<<<blocks, BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(a, c);
  return (int)cudaGetLastError();
}
