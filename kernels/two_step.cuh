/* two_step on the device: temporal blocking, two time steps in one pass over memory. two_step.cu has the idea,
 * the diagram and the figures. A header, to keep both files short. */
#ifndef STENCIL_TWO_STEP_CUH
#define STENCIL_TWO_STEP_CUH

#include "bulk_tensor.cuh"

namespace two_step {

using bulk_tensor::barrier;
using bulk_tensor::put;
using bulk_tensor::turn;
using star::load;
using star::PACK;
using star::REACH;

/* The smallest pitch of rows of `floats` at which threads that own `rows` rows of `width` points each, a pack after
 * the other, read without bank conflicts where one row of threads ends and the next begins. */
constexpr int pitch_of(int floats, int width, int rows) {
  for (int pitch = floats; pitch < floats + 16; pitch += PACK)
    if (width % 32 == 0 || (rows * pitch - width) % 32 == 0) return pitch;
  return floats;
}

/* Equation Q on tiles of TX x TY points of step n+2, hence (TX+8) x (TY+8) of step n+1 and (TX+16) x (TY+16) of
 * step n. A thread of the first step's warps owns FIRST rows of 4 points, one of the second step's SECOND. STAGES
 * planes of u and OPERAND_STAGES of what else the first step reads are at hand or on their way. FIELD: the medium
 * is one. A block may be LAG planes ahead of the slowest; LAG < 0: blocks do not keep step. */
template <enum equation Q, int TX, int TY, int FIRST, int SECOND, int STAGES, int OPERAND_STAGES, bool FIELD,
          int LAG>
struct shape {
  static constexpr enum equation equation = Q;
  static constexpr bool updates = Q != EQUATION_JACOBI; /* is the star only a part of the new value? */
  static constexpr bool field = updates && FIELD;
  static constexpr int operands =
      field + (Q == EQUATION_WAVE); /* fields besides u that the first step reads */
  static constexpr int tile_x = TX, tile_y = TY, stages = STAGES, lag = LAG;
  static constexpr int first_x = TX + 2 * REACH, first_y = TY + 2 * REACH, u_y = TY + 4 * REACH;

  /* A thread's points, in slots of u and of step n+1. Boxes start 8 points left of the tile, those of the operands
   * too: 16 bytes off a 32-byte sector would cost every row twice the L2 requests. */
  template <int ROWS, int PITCH> struct points { static constexpr int rows = ROWS, pitch = PITCH; };
  using first = points<FIRST, pitch_of(TX + 4 * REACH, first_x, FIRST)>;
  using second = points<SECOND, pitch_of(first_x, TX, SECOND)>;
  static constexpr int u_x = first::pitch, operand_x = TX + 4 * REACH; /* boxes */
  static constexpr int first_packs = first_x / PACK, second_packs = TX / PACK;
  static constexpr int first_threads = first_packs * ((first_y + FIRST - 1) / FIRST),
                       second_threads = second_packs * ((TY + SECOND - 1) / SECOND);
  static constexpr int first_warps = (first_threads + 31) / 32, second_warps = (second_threads + 31) / 32,
                       threads = 32 * (first_warps + second_warps);

  /* Shared memory, floats; boxes start at multiples of 32. */
  static constexpr int boxed(int floats) { return (floats + 31) / 32 * 32; }
  static constexpr int u_slot = boxed(u_x * u_y), u_slots = STAGES + REACH;
  static constexpr int operand_slot = boxed(operand_x * first_y), operand_slots = OPERAND_STAGES;
  static constexpr int v_slot = second::pitch * first_y, v_slots = 2;
  static constexpr int late_slot = TX * TY, late_fields = updates + field, late_slots = REACH + 1;
  static constexpr int operands_at = u_slots * u_slot,
                       v_at = operands_at + operand_slots * operands * operand_slot;
  static constexpr int late_at = v_at + v_slots * v_slot,
                       barriers_at = late_at + late_slots * late_fields * late_slot;
  static constexpr int barriers = u_slots + operand_slots + 2;
  static constexpr int beyond =
      SECOND * second::pitch; /* rows below the tile that its last threads look at */
  static constexpr size_t shared = sizeof(float) * (barriers_at + beyond) + sizeof(barrier) * barriers;
};

/* The tensors. Point (0, 0) of u is the first ghost, of the others the first own one. */
struct maps {
  CUtensorMap u, before, medium;
};

/* Item i of `items` is tile i % tiles, chunk i / tiles of `planes` planes; a block takes every gridDim.x-th. The
 * maps' first planes are z_u and z_operands. progress: a counter that starts at 0. */
struct cut {
  int tiles_x, tiles, planes, items;
  int z_u, z_operands;
  unsigned *progress;
};

struct item {
  int x, y, z_begin, z_end;
  int steps; /* step i brings plane z_begin - 8 + i of u, and finishes plane z_begin - 12 + i of step n+1 and
                plane z_begin - 16 + i of step n+2 */
  __device__ __forceinline__ item(const kernel_args &a, const cut &c, int i, int tile_x, int tile_y) {
    x = i % c.tiles % c.tiles_x * tile_x, y = i % c.tiles / c.tiles_x * tile_y;
    z_begin = a.z_begin + i / c.tiles * c.planes, z_end = min(z_begin + c.planes, a.z_end);
    steps = z_end - z_begin + 4 * REACH;
  }
};

template <class S> struct layout {
  float *u, *operands, *v, *late;
  barrier *u_full, *operands_full;
  barrier *computed; /* all warps of the first step are done with a step */
  barrier *taken;    /* ... of the second step have read what else they need of the step before */

  __device__ __forceinline__ explicit layout(float *shared)
      : u(shared), operands(shared + S::operands_at), v(shared + S::v_at), late(shared + S::late_at),
        u_full(reinterpret_cast<barrier *>(shared + S::barriers_at + S::beyond)),
        operands_full(u_full + S::u_slots), computed(operands_full + S::operand_slots), taken(computed + 1) {}

  __device__ __forceinline__ void init() const {
    for (int i = 0; i < S::u_slots + S::operand_slots; i++) bulk_tensor::barrier_init(u_full + i, 1);
    bulk_tensor::barrier_init(computed, 32 * S::first_warps);
    bulk_tensor::barrier_init(taken, 32 * S::second_warps);
    bulk_tensor::barriers_ready();
  }
};

/* What the loading thread does. It is one of the second step's: these have less to do, and when they learn that
 * the first step is done with a step they know that slots are free. */
template <class S> struct loader {
  const layout<S> &at;
  const maps &m;
  const cut &c;
  int slot = 0, operand_slot = 0;
  int steps = 0, seen = 0;

  __device__ __forceinline__ void plane(const item &t, int step) {
    barrier *full = at.u_full + slot;
    bulk_tensor::arrive_and_expect(full, (int)sizeof(float) * S::u_x * S::u_y);
    bulk_tensor::copy_box(at.u + slot * S::u_slot, &m.u, t.x - REACH, t.y - REACH,
                          t.z_begin - 2 * REACH + step - c.z_u, full);
    slot = slot + 1 == S::u_slots ? 0 : slot + 1;
  }

  /* For the plane of step n+1 that `step` finishes. */
  __device__ __forceinline__ void operands(const item &t, int step) {
    if (!S::operands) return;
    barrier *full = at.operands_full + operand_slot;
    float *to = at.operands + operand_slot * S::operands * S::operand_slot;
    const int x = t.x - 2 * REACH, y = t.y - REACH, z = t.z_begin - 3 * REACH + step - c.z_operands;
    bulk_tensor::arrive_and_expect(full, (int)sizeof(float) * S::operands * S::operand_x * S::first_y);
    if (S::field) bulk_tensor::copy_box(to, &m.medium, x, y, z, full);
    if (S::equation == EQUATION_WAVE)
      bulk_tensor::copy_box(to + S::field * S::operand_slot, &m.before, x, y, z, full);
    operand_slot = operand_slot + 1 == S::operand_slots ? 0 : operand_slot + 1;
  }

  __device__ __forceinline__ void begin(const item &t) {
    for (int i = 0; i < S::u_slots; i++) plane(t, i);
    for (int i = 0; i < S::operand_slots; i++) operands(t, 2 * REACH + i);
  }

  /* The first step is done with `step`: with plane step - 4 of u, and the operands. */
  __device__ __forceinline__ void refill(const item &t, int step) {
    keep_step();
    if (step >= 2 * REACH && step + S::operand_slots < t.steps) operands(t, step + S::operand_slots);
    if (step >= REACH && step + S::stages < t.steps) plane(t, step + S::stages);
  }

  /* Waits, not for long, until the slowest block is not far behind, so that halos are read while L2 has them.
   * What is looked at was asked for a step ago, so that it need not be waited for. */
  __device__ __forceinline__ void keep_step() {
    constexpr int PATIENCE = 50;
    if (S::lag < 0) return;
    const int expected = (++steps - S::lag) * (int)gridDim.x;
    for (int looks = 0; seen < expected && looks < PATIENCE; looks++) look();
    advance(1);
    look();
  }
  __device__ __forceinline__ void look() {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(c.progress) : "memory");
  }
  __device__ __forceinline__ void advance(int n) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(c.progress), "r"(n) : "memory");
  }
  /* Nobody waits for this block any more. */
  __device__ __forceinline__ void end() {
    if (S::lag >= 0) advance(1 << 20);
  }
};

template <class P> __device__ __forceinline__ void load_points(float u[P::rows][PACK], const float *own) {
#pragma unroll
  for (int j = 0; j < P::rows; j++) load(u[j], own + j * P::pitch);
}

/* Which of a thread's points, 4 a row, belong to the grid: a bit each. */
template <class P> __device__ __forceinline__ unsigned inside(const kernel_args &a, int x, int y) {
  unsigned bits = 0;
#pragma unroll
  for (int j = 0; j < P::rows; j++)
#pragma unroll
    for (int k = 0; k < PACK; k++)
      bits |= (unsigned)(x + k >= 0 && x + k < a.nx && y + j >= 0 && y + j < a.ny) << (j * PACK + k);
  return bits;
}

/* The warps of step n+1. */
template <class S>
__device__ __forceinline__ void first_step(const kernel_args &a, const cut &c, const layout<S> &at,
                                           int thread) {
  using P = typename S::first;
  const int worker = min(thread, S::first_threads - 1);
  const int pack = worker % S::first_packs, row = worker / S::first_packs * P::rows; /* in this step's tile */
  const int in_u = (row + REACH) * P::pitch + (pack + 1) * PACK,
            in_operands = row * S::operand_x + (pack + 1) * PACK, in_v = row * S::second::pitch + pack * PACK,
            in_late = (row - REACH) * S::tile_x + (pack - 1) * PACK;
  const bool in_tile_x = pack >= 1 && pack <= S::second_packs && thread < S::first_threads;
  float sums[2 * REACH][P::rows][PACK] = {};
  turn<S::u_slots> now = {0, 0};
  turn<S::operand_slots> operands = {0, 0};
  int event = 0, late = 0;

  for (int i0 = (int)blockIdx.x; i0 < c.items; i0 += (int)gridDim.x) {
    const item t(a, c, i0, S::tile_x, S::tile_y);
    const int x = t.x + (pack - 1) * PACK, y = t.y + row - REACH;
    const unsigned exist = inside<P>(a, x, y);
    const bool edge =
        t.x == 0 || t.y == 0 || t.x + S::tile_x + REACH > a.nx || t.y + S::tile_y + REACH > a.ny;
    float *to = a.middle +
                ((ptrdiff_t)(t.z_begin - REACH) * (ptrdiff_t)a.plane + (ptrdiff_t)y * (ptrdiff_t)a.pitch + x);
    for (int i = 0; i < t.steps; i++) {
      bulk_tensor::wait(at.u_full + now.slot, now.parity);
      const float *slot = at.u + now.slot * S::u_slot + in_u;
      float u[P::rows][PACK], done[P::rows][PACK];
      load_points<P>(u, slot);
      star::arrive<P>(done, sums, u, a);
      bulk_tensor::wait(at.taken, event ^ 1);
      if (i >= 2 * REACH) {
        const int z = t.z_begin - 3 * REACH + i;
        const bool fixed = z < a.z_outer_begin || z >= a.z_outer_end, mine = z >= t.z_begin && z < t.z_end;
        if (S::operands) bulk_tensor::wait(at.operands_full + operands.slot, operands.parity);
        const float *old = at.u + now.after(S::stages).slot * S::u_slot + in_u; /* four planes ago */
        const float *o = at.operands + operands.slot * S::operands * S::operand_slot + in_operands;
        float *v = at.v + event * S::v_slot + in_v;
        float *l = at.late + late * S::late_fields * S::late_slot + in_late;
#pragma unroll
        for (int j = 0; j < P::rows; j++) {
          float centre[PACK], before[PACK], medium[PACK], rest[PACK];
          if (S::updates || edge || fixed) load(centre, old + j * P::pitch);
          if (S::field) load(medium, o + j * S::operand_x);
          if (S::equation == EQUATION_WAVE) load(before, o + S::field * S::operand_slot + j * S::operand_x);
#pragma unroll
          for (int k = 0; k < PACK; k++) {
            if (!S::field) medium[k] = a.scale;
            if (S::updates)
              done[j][k] = star::update<S::equation>(done[j][k], medium[k], centre[k], before[k]);
            if (edge || fixed) done[j][k] = !fixed && exist >> (j * PACK + k) & 1 ? done[j][k] : centre[k];
            rest[k] = S::equation == EQUATION_WAVE ? __fmaf_rn(2.0f, done[j][k], -centre[k]) : done[j][k];
          }
          if (row + j < S::first_y) put(v + j * S::second::pitch, done[j]);
          if (S::updates && mine && in_tile_x && row + j >= REACH && row + j < REACH + S::tile_y) {
            put(l + j * S::tile_x, rest);
            if (S::field) put(l + S::late_slot + j * S::tile_x, medium);
            if (S::equation == EQUATION_WAVE)
              star::store_once(to + (ptrdiff_t)j * (ptrdiff_t)a.pitch, done[j], y + j < a.ny ? a.nx - x : 0);
          }
        }
        if (S::operands) operands = operands.after(1);
        to += a.plane;
      }
      bulk_tensor::arrive(at.computed); /* and plane i - 4 of u, and the operands */
      event ^= 1, late = late + 1 == S::late_slots ? 0 : late + 1;
      if (i >= REACH && i < t.steps - REACH) {
        load_points<P>(u, slot); /* again: registers are scarce */
        star::add_arms<P>(sums[4], u, slot, a);
      }
      now = now.after(1);
    }
  }
}

/* The warps of step n+2. */
template <class S>
__device__ __forceinline__ void second_step(const kernel_args &a, const maps &m, const cut &c,
                                            const layout<S> &at, int thread) {
  using P = typename S::second;
  const int worker = min(thread, S::second_threads - 1), pack = worker % S::second_packs,
            row = worker / S::second_packs * P::rows;
  const int in_v = (row + REACH) * P::pitch + (pack + 1) * PACK, in_late = row * S::tile_x + pack * PACK;
  const bool loads = thread == 32 * (S::second_warps - 1);
  float sums[2 * REACH][P::rows][PACK] = {};
  int event = 0, late = 1; /* late: the slot of the plane 4 before this one */
  loader<S> load_next{at, m, c};
  if (loads) load_next.begin(item(a, c, (int)blockIdx.x, S::tile_x, S::tile_y));

  for (int i0 = (int)blockIdx.x, next; i0 < c.items; i0 = next) {
    next = i0 + (int)gridDim.x;
    const item t(a, c, i0, S::tile_x, S::tile_y);
    const int x = t.x + pack * PACK, y = t.y + row;
    const int lanes = thread < S::second_threads ? a.nx - x : 0, rows = min(a.ny - y, S::tile_y - row);
    float *to = a.out + ((ptrdiff_t)t.z_begin * (ptrdiff_t)a.plane + (ptrdiff_t)y * (ptrdiff_t)a.pitch + x);
    for (int i = 0; i < t.steps; i++) {
      bulk_tensor::wait(at.computed, event);
      if (loads) load_next.refill(t, i);
      __syncwarp();
      const float *slot = at.v + event * S::v_slot + in_v;
      const float *l = at.late + late * S::late_fields * S::late_slot + in_late;
      float u[P::rows][PACK], done[P::rows][PACK];
      load_points<P>(u,
                     slot); /* before the item's first plane: anything, which nothing that is stored uses */
      star::arrive<P>(done, sums, u, a);
      if (S::updates && i >= 4 * REACH) {
#pragma unroll
        for (int j = 0; j < P::rows; j++) {
          float rest[PACK], medium[PACK];
          load(rest, l + j * S::tile_x);
          if (S::field) load(medium, l + S::late_slot + j * S::tile_x);
#pragma unroll
          for (int k = 0; k < PACK; k++)
            done[j][k] = __fmaf_rn(S::field ? medium[k] : a.scale, done[j][k], rest[k]);
        }
      }
      bulk_tensor::arrive(at.taken);
      event ^= 1, late = late + 1 == S::late_slots ? 0 : late + 1;
      if (i >= 4 * REACH) {
#pragma unroll
        for (int j = 0; j < P::rows; j++)
          star::store_once(to + (ptrdiff_t)j * (ptrdiff_t)a.pitch, done[j], j < rows ? lanes : 0);
        to += a.plane;
      }
      if (i >= 3 * REACH && i < t.steps - REACH) star::add_arms<P>(sums[4], u, slot, a);
    }
    if (loads && next < c.items) load_next.begin(item(a, c, next, S::tile_x, S::tile_y));
  }
  if (loads) load_next.end();
}

template <class S>
__global__ void __launch_bounds__(S::threads, 1)
    sweep(const __grid_constant__ kernel_args a, const __grid_constant__ maps m,
          const __grid_constant__ cut c) {
  extern __shared__ __align__(128) float shared[];
  const layout<S> at(shared);
  const int thread = (int)threadIdx.x;
  if (thread == 0) at.init();
  __syncthreads();
  if (thread < 32 * S::first_warps)
    first_step<S>(a, c, at, thread);
  else
    second_step<S>(a, m, c, at, thread - 32 * S::first_warps);
}

} // namespace two_step
#endif
