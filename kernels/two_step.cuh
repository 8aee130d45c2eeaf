/* two_step: temporal blocking, two time steps in one pass over memory. See two_step.cu for the idea, the diagram and what it
 * costs; this header holds the device code, so that a benchmark can time shapes which the program does not use. */
#ifndef STENCIL_TWO_STEP_CUH
#define STENCIL_TWO_STEP_CUH

#include <cuda.h>
#include <stdint.h>
#include "star.cuh"

/* Arguments of two steps at once: `in` is u of step n, with ghosts of 4 in x and y, of 8 in z towards a neighbour and of 4
 * beyond the grid. */
typedef struct two_step_args {
  kernel_args one;     /* as for one step, but `out` receives u of step n+2 and is not read */
  const float *before; /* wave: u of step n-1, laid out as `in`; towards a neighbour 4 ghost planes of it (and of the medium) */
  float *middle;       /* wave: receives u of step n+1; NULL: not wanted. No two of in, before, middle, out may overlap */
  int z_outer_begin, z_outer_end; /* planes outside are not part of the grid and keep their value */
} two_step_args;

namespace two_step {
using star::PACK;
using star::REACH;

/* Equation Q on tiles of TX x TY points of step n+2, hence (TX+8) x (TY+8) of step n+1 and (TX+16) x (TY+16) of step n. A
 * thread of the first step's warps owns FIRST rows of 4 points, one of the second step's SECOND. STAGES planes of u are on
 * their way or at hand. SYNC: how many planes blocks may drift apart, 0: no limit. */
template <enum equation Q, int TX, int TY, int FIRST, int SECOND, int STAGES, int SYNC = 0, int PAD = 0, int AHEAD = 0, bool FIELD = true> struct shape {
  static constexpr enum equation equation = Q;
  static constexpr bool updates = Q != EQUATION_JACOBI; /* is the star only a part of the new value? */
  static constexpr int tile_x = TX, tile_y = TY, stages = STAGES, sync = SYNC, ahead = AHEAD;
  static constexpr bool field = updates && FIELD; /* the medium is a field */
  static constexpr int operands = field + (Q == EQUATION_WAVE); /* fields besides u that the first step reads */
  static constexpr int first_x = TX + 2 * REACH, first_y = TY + 2 * REACH, u_x = TX + 4 * REACH, u_y = TY + 4 * REACH;

  template <int ROWS, int PITCH> struct points {
    static constexpr int rows = ROWS, pitch = PITCH;
  };
  using first = points<FIRST, u_x>;
  using second = points<SECOND, first_x + PAD>;
  static constexpr int first_packs = first_x / PACK, first_threads = first_packs * ((first_y + FIRST - 1) / FIRST);
  static constexpr int second_packs = TX / PACK, second_threads = second_packs * ((TY + SECOND - 1) / SECOND);
  static constexpr int first_warps = (first_threads + 31) / 32, second_warps = (second_threads + 31) / 32;
  static constexpr int threads = 32 * (first_warps + second_warps);

  /* Shared memory, floats. TMA wants 128-byte alignment. */
  static constexpr int align(int floats) { return (floats + 31) / 32 * 32; }
  static constexpr int u_slots = STAGES + REACH, u_slot = align(u_x * u_y);
  static constexpr int own_slots = 2 /* a plane's number mod 2 */, own_slot = align(first_x * first_y), own_fields = operands;
  static constexpr int v_slots = 2, v_slot = align((first_x + PAD) * first_y);
  static constexpr int late_slots = REACH + 1, late_slot = TX * TY, late_fields = updates + field;
  static constexpr int own_at = u_slots * u_slot, v_at = own_at + own_slots * own_fields * own_slot;
  static constexpr int late_at = v_at + v_slots * v_slot, barriers_at = late_at + late_slots * late_fields * late_slot;
  static constexpr int barriers = u_slots + own_slots + 2;
  static constexpr int beyond = SECOND * (first_x + PAD); /* floats: what the last thread's rows below the tile read */
  static constexpr size_t shared = sizeof(float) * (barriers_at + beyond) + sizeof(uint64_t) * barriers;
};

struct maps {
  CUtensorMap u, before, medium;                   /* boxes of u_x x u_y, first_x x first_y points */
  CUtensorMap ahead_u, ahead_before, ahead_medium; /* the same fields, boxes of a tile */
};

/* item i of `items`: tile i % (x * y), chunk i / (x * y) of `planes`; blocks take items in turn. z of the maps' first planes. */
struct cut {
  int x, y, planes, items;
  int z_u, z_own;
  unsigned *progress;
};

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(uint64_t *b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ __forceinline__ void barrier_expect(uint64_t *b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t *b, int parity) {
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra D; bra W; D: }" ::"r"(
                   shared_address(b)),
               "r"(parity)
               : "memory");
}
__device__ __forceinline__ void bulk_load(float *to, const CUtensorMap *map, int x, int y, int z, uint64_t *full) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                   shared_address(to)),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(full))
               : "memory");
}

__device__ __forceinline__ void bulk_prefetch(const CUtensorMap *map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z) : "memory");
}

/* A place in a ring and how often it went round (mod 2). */
template <int SLOTS> struct position {
  int slot = 0, round = 0;
  __device__ __forceinline__ void next() {
    if (++slot == SLOTS) slot = 0, round ^= 1;
  }
};

struct item {
  int x, y, z_begin, z_end;
  __device__ __forceinline__ item(const two_step_args &a, const cut &c, int i, int tile_x, int tile_y) {
    const int tile = i % (c.x * c.y), chunk = i / (c.x * c.y);
    x = tile % c.x * tile_x, y = tile / c.x * tile_y;
    z_begin = a.one.z_begin + chunk * c.planes, z_end = min(z_begin + c.planes, a.one.z_end);
  }
  __device__ __forceinline__ int planes() const { return z_end - z_begin; }
};

template <class S> struct rings {
  float *u, *own, *v, *late;
  uint64_t *u_full, *own_full, *computed, *taken;
  __device__ __forceinline__ explicit rings(float *shared)
      : u(shared), own(shared + S::own_at), v(shared + S::v_at), late(shared + S::late_at) {
    u_full = reinterpret_cast<uint64_t *>(shared + S::barriers_at);
    own_full = u_full + S::u_slots, computed = own_full + S::own_slots, taken = computed + 1;
  }
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < S::u_slots + S::own_slots; i++) barrier_init(u_full + i, 1);
    barrier_init(computed, S::first_warps), barrier_init(taken, S::second_warps);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
};

/* What the loading thread does, which is one of the second step's: these warps have less to do, and when they learn that the
 * first step finished a plane they know that slots are free. */
template <class S> struct loader {
  const two_step_args &a;
  const maps &m;
  const cut &c;
  const rings<S> &r;
  int slot = 0, own = 0, steps = 0, seen = 0;

  /* Asks for plane i of u of the item, counted from REACH * 2 planes before its first. */
  __device__ __forceinline__ void plane(const item &it, int i) {
    barrier_expect(r.u_full + slot, S::u_x * S::u_y * 4);
    const int z = it.z_begin - 2 * REACH + i - c.z_u;
    bulk_load(r.u + slot * S::u_slot, &m.u, it.x - REACH, it.y - REACH, z, r.u_full + slot);
    if (++slot == S::u_slots) slot = 0;
    if (S::ahead) bulk_prefetch(&m.ahead_u, it.x + REACH, it.y + REACH, z + S::ahead);
  }
  /* The first step's operands of plane j of step n+1, counted from REACH planes before the item's first. */
  __device__ __forceinline__ void operands(const item &it, int j) {
    if (!S::operands) return;
    barrier_expect(r.own_full + own, S::operands * S::first_x * S::first_y * 4);
    float *to = r.own + own * S::own_fields * S::own_slot;
    const int z = it.z_begin - REACH + j - c.z_own;
    if (S::field) bulk_load(to, &m.medium, it.x - REACH, it.y - REACH, z, r.own_full + own);
    if (S::equation == EQUATION_WAVE) bulk_load(to + S::field * S::own_slot, &m.before, it.x - REACH, it.y - REACH, z, r.own_full + own);
    own ^= 1;
    if (S::ahead) {
      if (S::field) bulk_prefetch(&m.ahead_medium, it.x, it.y, z + S::ahead);
      if (S::equation == EQUATION_WAVE) bulk_prefetch(&m.ahead_before, it.x, it.y, z + S::ahead);
    }
  }
  __device__ __forceinline__ void begin(const item &it) {
    for (int i = 0; i < S::u_slots; i++) plane(it, i);
    for (int j = 0; j < S::own_slots; j++) operands(it, j);
  }
  /* The first step is done with iteration i. */
  __device__ __forceinline__ void refill(const item &it, int i, int iterations) {
    keep_step();
    if (i >= 2 * REACH && i + S::own_slots < iterations) operands(it, i - 2 * REACH + S::own_slots);
    if (i >= REACH && i + S::stages < iterations) plane(it, i + S::stages);
  }
  /* The others need not wait for this block any more. */
  __device__ __forceinline__ void quit() const {
    if (S::sync) asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(c.progress), "r"(1 << 20) : "memory");
  }
  /* Waits (not for long) until the other blocks are not too far behind: so halos are read while they are in the cache. What is
   * looked at was asked for the last time, so that it need not be waited for. */
  __device__ __forceinline__ void keep_step() {
    if (!S::sync) return;
    constexpr int EVERY = S::sync ? S::sync % 10 : 1, LAG = S::sync / 10;
    if (++steps % EVERY) return;
    const int target = (steps / EVERY - LAG) * (int)gridDim.x;
    for (int tries = 0; seen < target && tries < 50; tries++)
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(c.progress) : "memory");
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(c.progress) : "memory");
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(c.progress) : "memory");
  }
};

template <class S, class P>
__device__ __forceinline__ void load_points(float u[P::rows][PACK], const float *own) {
#pragma unroll
  for (int j = 0; j < P::rows; j++) star::load(u[j], own + j * P::pitch);
}

__device__ __forceinline__ void put(float *to, const float v[PACK]) {
  *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
}

/* The warps of step n+1. */
template <class S> __device__ __forceinline__ void first_step(const two_step_args &a, const cut &c, const rings<S> &r) {
  using P = typename S::first;
  const int worker = min((int)threadIdx.x, S::first_threads - 1);
  const int pack = worker % S::first_packs, row = worker / S::first_packs * P::rows; /* in the first step's tile */
  const int in_slot = (row + REACH) * P::pitch + (pack + 1) * PACK, in_own = row * S::first_x + pack * PACK,
            in_v = row * S::second::pitch + pack * PACK, in_late = (row - REACH) * S::tile_x + (pack - 1) * PACK;
  const bool in_tile_x = pack >= 1 && pack <= S::second_packs && (int)threadIdx.x < S::first_threads;
  float sums[2 * REACH][P::rows][PACK] = {};
  position<S::u_slots> at;
  position<S::own_slots> own;
  int late = 0, event = 0;

  for (int i0 = (int)blockIdx.x; i0 < c.items; i0 += (int)gridDim.x) {
    const item it(a, c, i0, S::tile_x, S::tile_y);
    const int steps = it.planes() + 4 * REACH, x = it.x + (pack - 1) * PACK, y = it.y + row - REACH;
    const bool edge = it.x == 0 || it.y == 0 || it.x + S::tile_x + REACH > a.one.nx || it.y + S::tile_y + REACH > a.one.ny;
    float *to = a.middle + ((ptrdiff_t)(it.z_begin - REACH) * (ptrdiff_t)a.one.plane + (ptrdiff_t)y * (ptrdiff_t)a.one.pitch + x);
    unsigned inside = 0; /* bit: a point of the grid */
#pragma unroll
    for (int j = 0; j < P::rows; j++)
#pragma unroll
      for (int k = 0; k < PACK; k++)
        inside |= (unsigned)(x + k >= 0 && x + k < a.one.nx && y + j >= 0 && y + j < a.one.ny) << (j * PACK + k);
    for (int i = 0; i < steps; i++) {
      __syncwarp();
      barrier_wait(r.u_full + at.slot, at.round);
      const float *slot = r.u + at.slot * S::u_slot + in_slot;
      float u[P::rows][PACK], done[P::rows][PACK];
      load_points<S, P>(u, slot);
      star::arrive<P>(done, sums, u, a.one);
      const int old = at.slot >= REACH ? at.slot - REACH : at.slot + S::u_slots - REACH; /* of plane z - 4 */
      barrier_wait(r.taken, event ^ 1);
      if (i >= 2 * REACH) {
        const int z = it.z_begin - 3 * REACH + i;
        const bool fixed = z < a.z_outer_begin || z >= a.z_outer_end, mine = z >= it.z_begin && z < it.z_end;
        if (S::operands) barrier_wait(r.own_full + own.slot, own.round);
        const float *u_old = r.u + old * S::u_slot + in_slot, *o = r.own + own.slot * S::own_fields * S::own_slot + in_own;
        float *v = r.v + event * S::v_slot + in_v, *l = r.late + late * S::late_fields * S::late_slot + in_late;
#pragma unroll
        for (int j = 0; j < P::rows; j++) {
          float centre[PACK], before[PACK], medium[PACK], rest[PACK];
          if (S::updates || edge || fixed) star::load(centre, u_old + j * P::pitch);
          if (S::equation == EQUATION_WAVE) star::load(before, o + S::field * S::own_slot + j * S::first_x);
          if (S::field) star::load(medium, o + j * S::first_x);
#pragma unroll
          for (int k = 0; k < PACK; k++) {
            if (!S::field) medium[k] = a.one.scale;
            if (S::updates) done[j][k] = star::update<S::equation>(done[j][k], medium[k], centre[k], before[k]);
            if (edge || fixed) {
              done[j][k] = !fixed && (inside >> (j * PACK + k) & 1) ? done[j][k] : centre[k];
            }
            rest[k] = S::equation == EQUATION_WAVE ? __fmaf_rn(2.0f, done[j][k], -centre[k]) : done[j][k];
          }
          if (row + j < S::first_y) put(v + j * S::second::pitch, done[j]);
          if (S::updates && mine && in_tile_x && row + j >= REACH && row + j < REACH + S::tile_y) {
            put(l + j * S::tile_x, rest);
            if (S::field) put(l + S::late_slot + j * S::tile_x, medium);
            if (S::equation == EQUATION_WAVE)
              star::store_once(to + (ptrdiff_t)j * (ptrdiff_t)a.one.pitch, done[j], y + j < a.one.ny ? a.one.nx - x : 0);
          }
        }
        own.next();
        to += a.one.plane;
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(r.computed); /* and done with u of plane z - 4 and the operands */
      event ^= 1, late = late + 1 == S::late_slots ? 0 : late + 1;
      if (i >= REACH && i < steps - REACH) {
        load_points<S, P>(u, slot); /* again: registers are scarce */
        star::add_arms<P>(sums[4], u, slot, a.one);
      }
      at.next();
    }
  }
}

/* The warps of step n+2. */
template <class S> __device__ __forceinline__ void second_step(const two_step_args &a, const maps &m, const cut &c, const rings<S> &r) {
  using P = typename S::second;
  const int thread = (int)threadIdx.x - 32 * S::first_warps, worker = min(thread, S::second_threads - 1);
  const int pack = worker % S::second_packs, row = worker / S::second_packs * P::rows;
  const int in_v = (row + REACH) * P::pitch + (pack + 1) * PACK, in_late = row * S::tile_x + pack * PACK;
  float sums[2 * REACH][P::rows][PACK] = {};
  int event = 0, late = 1; /* late: the slot of the plane REACH before this one */
  const bool loads = thread == 32 * (S::second_warps - 1);
  loader<S> load{a, m, c, r};
  if (loads && (int)blockIdx.x < c.items) load.begin(item(a, c, (int)blockIdx.x, S::tile_x, S::tile_y));

  for (int i0 = (int)blockIdx.x; i0 < c.items; i0 += (int)gridDim.x) {
    const item it(a, c, i0, S::tile_x, S::tile_y);
    const int steps = it.planes() + 4 * REACH, x = it.x + pack * PACK, y = it.y + row;
    const int lanes = thread < S::second_threads ? a.one.nx - x : 0, rows = min(a.one.ny - y, S::tile_y - row);
    float *to = a.one.out + ((ptrdiff_t)it.z_begin * (ptrdiff_t)a.one.plane + (ptrdiff_t)y * (ptrdiff_t)a.one.pitch + x);
    for (int i = 0; i < steps; i++) { /* as the first step counts */
      barrier_wait(r.computed, event);
      if (loads) load.refill(it, i, steps);
      __syncwarp();
      const float *slot = r.v + event * S::v_slot + in_v, *l = r.late + late * S::late_fields * S::late_slot + in_late;
      float u[P::rows][PACK], done[P::rows][PACK];
      load_points<S, P>(u, slot); /* of no meaning before the item's first plane, and of no consequence */
      star::arrive<P>(done, sums, u, a.one);
      if (S::updates && i >= 4 * REACH) {
#pragma unroll
        for (int j = 0; j < P::rows; j++) {
          float rest[PACK], medium[PACK];
          star::load(rest, l + j * S::tile_x);
          if (S::field) star::load(medium, l + S::late_slot + j * S::tile_x);
#pragma unroll
          for (int k = 0; k < PACK; k++) done[j][k] = __fmaf_rn(S::field ? medium[k] : a.one.scale, done[j][k], rest[k]);
        }
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(r.taken); /* the plane before, and what came late for this one */
      event ^= 1, late = late + 1 == S::late_slots ? 0 : late + 1;
      if (i >= 4 * REACH) {
#pragma unroll
        for (int j = 0; j < P::rows; j++) star::store_once(to + (ptrdiff_t)j * (ptrdiff_t)a.one.pitch, done[j], j < rows ? lanes : 0);
        to += a.one.plane;
      }
      if (i >= 3 * REACH && i < steps - REACH) star::add_arms<P>(sums[4], u, slot, a.one);
    }
    if (loads && i0 + (int)gridDim.x < c.items) load.begin(item(a, c, i0 + (int)gridDim.x, S::tile_x, S::tile_y));
  }
  if (loads) load.quit();
}

template <class S>
__global__ void __launch_bounds__(S::threads, 1)
    sweep(const __grid_constant__ two_step_args a, const __grid_constant__ maps m, const __grid_constant__ cut c) {
  extern __shared__ __align__(128) float shared[];
  const rings<S> r(shared);
  if (threadIdx.x == 0) r.init();
  __syncthreads();
  if ((int)threadIdx.x < 32 * S::first_warps)
    first_step<S>(a, c, r);
  else
    second_step<S>(a, m, c, r);
}

} // namespace two_step
#endif
