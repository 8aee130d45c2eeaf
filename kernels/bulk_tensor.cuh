/* bulk_tensor: the copy engine of Hopper (TMA) fills rings of planes; nobody waits for a whole block.
 *
 *   thread 0:   wait empty ─ copy plane | left | right ──► full       (runs AHEAD planes in front)
 *                            copy u-, m of output plane ──► full      (wave, heat: a ring of their own)
 *   each warp:  wait full ─ add the plane to the sums ─ arrive empty ─ finish and store output plane z - 4
 *
 * What makes it fast (768^3 on one H200, Gpts/s, copy = 529 of jacobi and 264 of wave; docs/PERFORMANCE.md
 * has what failed). The link between the two halves of L2 is the wall: a plain copy keeps it 93 % busy, half of
 * all L2 requests cross it, and nothing that crossed is kept on the near side.
 *                                                                                        jacobi   wave
 *   rings, no block barrier, one tile of 128 x 36 points an SM and all of z in one go        400    224
 *   + blocks keep step (keep_step), so that DRAM reads a halo once: 2.16 to 1.93 GB          442    259
 *   + boxes start on 128-byte lines, halo columns in boxes of their own: a row that starts
 *     16 bytes off its line takes 15 L2 requests instead of 6                                480    260 */
#ifndef STENCIL_BULK_TENSOR_CUH
#define STENCIL_BULK_TENSOR_CUH

#include "bulk_tensor_ptx.cuh"
#include "star.cuh"

namespace bulk_tensor {

using star::load;
using star::PACK;
using star::REACH;

/* An equation on tiles of TX x TY points, ROWS rows a thread, rings of STAGES planes of u and OPERAND_STAGES
 * of what else the equation reads, BLOCKS resident blocks an SM. */
template <enum equation Q, int TX, int TY, int ROWS, int STAGES, int OPERAND_STAGES, int BLOCKS>
struct shape {
  static constexpr enum equation equation = Q;
  static constexpr bool needs_centre = Q != EQUATION_JACOBI;
  static constexpr int tile_x = TX, tile_y = TY, rows = ROWS, blocks = BLOCKS;
  static constexpr int threads_x = TX / PACK, threads = threads_x * (TY / ROWS), warps = threads / 32;
  static constexpr int stages = STAGES, ahead = STAGES > 3 ? STAGES - 2 : STAGES - 1; /* planes in flight */
  static constexpr int operand_stages = OPERAND_STAGES, operand_ahead = OPERAND_STAGES - 1;
  static constexpr int operands = Q == EQUATION_WAVE ? 2 : Q == EQUATION_HEAT ? 1 : 0; /* m, u- */
  static_assert(TX % 32 == 0 && TY % ROWS == 0 && threads % 32 == 0, "whole lines, threads and warps");
  /* A slot of the ring, in floats: rows -4 .. TY + 3 without halo columns | left columns | right columns. */
  static constexpr int pitch = TX, plane = TX * (TY + 2 * REACH), side = (REACH * TY + 31) / 32 * 32;
  static constexpr int slot = plane + 2 * side;
  static constexpr int tile = TX * TY, operand_slot = operands * tile;
  static constexpr int barriers = 2 * (STAGES + OPERAND_STAGES);
  static constexpr size_t floats =
      STAGES * slot + OPERAND_STAGES * operand_slot + (needs_centre ? REACH * tile : 0);
  static constexpr size_t shared = sizeof(float) * floats + sizeof(barrier) * barriers;
};

/* The tensors and their boxes. z 0 is plane z_begin - 4 of u and plane z_begin of the others. */
struct maps {
  CUtensorMap plane, side; /* of u; point (0, 0) is the first ghost */
  CUtensorMap before, medium;
};

/* One launch of blocks that are all resident: jobs [first, first + gridDim.x). Job j is tile j % tiles, chunk
 * j / tiles of `planes` planes. progress: a counter that starts at 0, through which the blocks keep step; NULL:
 * they need not. */
struct wave {
  int tiles_x, tiles, planes, first;
  unsigned *progress;
};

/* A place in a ring of SLOTS: the slot, and how often, modulo 2, the ring was gone round. */
template <int SLOTS> struct turn {
  int slot, parity;
  __device__ __forceinline__ turn after(int n) const {
    return slot + n < SLOTS ? turn{slot + n, parity} : turn{slot + n - SLOTS, parity ^ 1};
  }
};

/* Where a block's things are in shared memory. */
template <class S> struct layout {
  float *ring, *operands, *centres;
  barrier *full, *empty, *operands_full, *operands_empty;

  __device__ __forceinline__ explicit layout(float *shared)
      : ring(shared), operands(ring + S::stages * S::slot),
        centres(operands + S::operand_stages * S::operand_slot),
        full(reinterpret_cast<barrier *>(shared + S::floats)), empty(full + S::stages),
        operands_full(empty + S::stages), operands_empty(operands_full + S::operand_stages) {}

  /* By one thread. One arrival fills a slot (thread 0's, and the bytes), one of each warp empties it. */
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < S::stages; i++) barrier_init(full + i, 1), barrier_init(empty + i, S::warps);
    for (int i = 0; i < S::operand_stages; i++)
      barrier_init(operands_full + i, 1), barrier_init(operands_empty + i, S::warps);
    barriers_ready();
  }
};

/* A block's share. Step i of `steps` brings plane z_begin - 4 + i; from step 8 on one output plane is finished
 * a step. `z` counts from the launch's first output plane. */
template <class S> struct job {
  int x, y, z, planes, steps;

  __device__ __forceinline__ job(const kernel_args &a, const wave &w) {
    const int j = w.first + (int)blockIdx.x, tile = j % w.tiles;
    x = tile % w.tiles_x * S::tile_x, y = tile / w.tiles_x * S::tile_y;
    z = j / w.tiles * w.planes;
    planes = min(w.planes, a.z_end - a.z_begin - z), steps = planes + 2 * REACH;
  }
  /* Is the plane of this step an output plane? If not, it only adds to sums in z. */
  __device__ __forceinline__ bool owns(int step) const { return step >= REACH && step < planes + REACH; }
};

/* --- thread 0's second job: keeping the rings full ----------------------------------------------------- */

template <class S>
__device__ __forceinline__ void fetch(const layout<S> &at, const maps &m, const job<S> &j, int step,
                                      turn<S::stages> t) {
  if (step >= j.steps) return;
  float *slot = at.ring + t.slot * S::slot;
  barrier *full = at.full + t.slot;
  wait(at.empty + t.slot, t.parity ^ 1);
  const int z = j.z + step;
  arrive_and_expect(full, (int)sizeof(float) * (S::plane + (j.owns(step) ? 2 * REACH * S::tile_y : 0)));
  copy_box(slot, &m.plane, j.x + REACH, j.y, z, full);
  if (!j.owns(step)) return;
  copy_box(slot + S::plane, &m.side, j.x, j.y + REACH, z, full);
  copy_box(slot + S::plane + S::side, &m.side, j.x + REACH + S::tile_x, j.y + REACH, z, full);
}

/* What finishing the output plane of this step takes besides u. */
template <class S>
__device__ __forceinline__ void fetch_operands(const layout<S> &at, const maps &m, bool medium,
                                               const job<S> &j, int step, turn<S::operand_stages> t) {
  if (step >= j.steps) return;
  float *slot = at.operands + t.slot * S::operand_slot;
  barrier *full = at.operands_full + t.slot;
  wait(at.operands_empty + t.slot, t.parity ^ 1);
  const int z = j.z + step - 2 * REACH, boxes = medium + (S::equation == EQUATION_WAVE);
  arrive_and_expect(full, (int)sizeof(float) * S::tile * boxes);
  if (medium) copy_box(slot, &m.medium, j.x, j.y, z, full);
  if (S::equation == EQUATION_WAVE) copy_box(slot + S::tile, &m.before, j.x, j.y, z, full);
}

/* Every few steps: says that this block has come so far, and waits until all have come as far as it was the
 * last time. Only speed depends on it: a block that has waited in vain once (others are not resident, or share
 * their SM with other work) is `alone` from then on. */
template <class S> __device__ __forceinline__ void keep_step(const wave &w, int step, bool *alone) {
  constexpr int PATIENCE = 300; /* looks at the counter, each a round trip to L2 */
  constexpr int STRIDE = S::equation == EQUATION_WAVE ? 2 : 3;
  if (!w.progress || step % STRIDE) return;
  const unsigned expected = (unsigned)(step / STRIDE) * gridDim.x;
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(w.progress) : "memory");
  if (*alone) return;
  for (int looks = 0; looks < PATIENCE; looks++) {
    unsigned seen;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(w.progress) : "memory");
    if (seen >= expected) return;
  }
  *alone = true;
}

/* --- all threads ----------------------------------------------------------------------------------------- */

/* The packs beside the thread's own: in the plane, or at the tile's edge in a box of halo columns. */
struct beside {
  int at, pitch; /* in a slot, floats */
};

/* Adds the arms in x and y to `sum`. `own`: the thread's first point in the slot, u its points. */
template <class S>
__device__ __forceinline__ void add_arms(float sum[S::rows][PACK], const float u[S::rows][PACK],
                                         const float *slot, int own, const beside &left, const beside &right,
                                         const kernel_args &a) {
  float row[S::rows][PACK + 2 * REACH], column[S::rows + 2 * REACH][PACK];
#pragma unroll
  for (int j = 0; j < S::rows; j++) {
    load(row[j], slot + left.at + j * left.pitch);
    load(row[j] + REACH + PACK, slot + right.at + j * right.pitch);
#pragma unroll
    for (int i = 0; i < PACK; i++) row[j][REACH + i] = column[REACH + j][i] = u[j][i];
  }
#pragma unroll
  for (int r = 1; r <= REACH; r++) {
    load(column[REACH - r], slot + own - r * S::pitch);
    load(column[REACH + S::rows - 1 + r], slot + own + (S::rows - 1 + r) * S::pitch);
#pragma unroll
    for (int j = 0; j < S::rows; j++)
#pragma unroll
      for (int i = 0; i < PACK; i++) {
        const int y = REACH + j, x = REACH + i;
        sum[j][i] = __fmaf_rn(a.wy[r], __fadd_rn(column[y - r][i], column[y + r][i]), sum[j][i]);
        sum[j][i] = __fmaf_rn(a.wx[r], __fadd_rn(row[j][x - r], row[j][x + r]), sum[j][i]);
      }
  }
}

/* From the sums to the new values. `operands` and `centres` (u itself, four planes ago) are at the thread's
 * first point of this output plane. */
template <class S>
__device__ __forceinline__ void finish(float done[S::rows][PACK], const float *operands, const float *centres,
                                       const kernel_args &a) {
#pragma unroll
  for (int j = 0; j < S::rows; j++) {
    float u[PACK], m[PACK] = {a.scale, a.scale, a.scale, a.scale}, before[PACK] = {};
    load(u, centres + j * S::tile_x);
    if (a.medium) load(m, operands + j * S::tile_x);
    if (S::equation == EQUATION_WAVE) load(before, operands + S::tile + j * S::tile_x);
#pragma unroll
    for (int i = 0; i < PACK; i++) done[j][i] = star::update<S::equation>(done[j][i], m[i], u[i], before[i]);
  }
}

__device__ __forceinline__ void put(float *to, const float v[PACK]) {
  *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
}

/* Stores what exists, `rows` rows of `lanes` points. Plain stores: evict-first ones measured slower. */
template <class S>
__device__ __forceinline__ void store(float *to, const float done[S::rows][PACK], int rows, int lanes,
                                      size_t pitch) {
#pragma unroll
  for (int j = 0; j < S::rows; j++, to += pitch) {
    if (j < rows && lanes >= PACK)
      put(to, done[j]);
    else if (j < rows)
#pragma unroll
      for (int i = 0; i < PACK - 1; i++)
        if (i < lanes) to[i] = done[j][i];
  }
}

/* This warp has read its part of the slot that `empty` belongs to. */
__device__ __forceinline__ void release(barrier *empty) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(empty);
}

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    stream(const __grid_constant__ kernel_args a, const __grid_constant__ maps m, const wave w) {
  extern __shared__ __align__(128) float shared[];
  __shared__ bool alone;
  const layout<S> at(shared);
  const job<S> mine(a, w);
  const bool reads_operands = S::equation == EQUATION_WAVE || (S::operands && a.medium);
  turn<S::stages> t = {0, 0};
  turn<S::operand_stages> o = {0, 0};
  if (threadIdx.x == 0) {
    at.init();
    alone = false;
    for (int i = 0; i < S::ahead; i++) fetch<S>(at, m, mine, i, t.after(i));
    for (int i = 0; i < S::operand_ahead && reads_operands; i++)
      fetch_operands<S>(at, m, a.medium, mine, 2 * REACH + i, o.after(i));
  }
  __syncthreads();

  const int x = (int)threadIdx.x % S::threads_x * PACK, y = (int)threadIdx.x / S::threads_x * S::rows;
  const int own = (REACH + y) * S::pitch + x, in_tile = y * S::tile_x + x;
  const beside left = x > 0 ? beside{own - PACK, S::pitch} : beside{S::plane + y * REACH, REACH};
  const beside right =
      x + PACK < S::tile_x ? beside{own + PACK, S::pitch} : beside{S::plane + S::side + y * REACH, REACH};
  const int rows = a.ny - (mine.y + y), lanes = a.nx - (mine.x + x); /* that exist; may be < 1 */
  float *to = a.out + (ptrdiff_t)(a.z_begin + mine.z - 2 * REACH) * (ptrdiff_t)a.plane +
              (size_t)(mine.y + y) * a.pitch + (size_t)(mine.x + x);
  float sums[2 * REACH][S::rows][PACK] = {};

  for (int i = 0; i < mine.steps; i++, to += a.plane) {
    if (threadIdx.x == 0) {
      keep_step<S>(w, i, &alone);
      fetch<S>(at, m, mine, i + S::ahead, t.after(S::ahead));
      if (reads_operands && i >= 2 * REACH)
        fetch_operands<S>(at, m, a.medium, mine, i + S::operand_ahead, o.after(S::operand_ahead));
    }
    __syncwarp();
    const float *slot = at.ring + t.slot * S::slot;
    wait(at.full + t.slot, t.parity);
    float u[S::rows][PACK], done[S::rows][PACK];
#pragma unroll
    for (int j = 0; j < S::rows; j++) load(u[j], slot + own + j * S::pitch);
    star::arrive<S>(done, sums, u, a);
    if (mine.owns(i)) add_arms<S>(sums[4], u, slot, own, left, right, a);
    if (S::needs_centre) {
      float *centres = at.centres + i % REACH * S::tile + in_tile; /* this thread's alone */
      if (i >= 2 * REACH) {
        if (reads_operands) wait(at.operands_full + o.slot, o.parity);
        finish<S>(done, at.operands + o.slot * S::operand_slot + in_tile, centres, a);
        if (reads_operands) release(at.operands_empty + o.slot);
        o = o.after(1);
      }
#pragma unroll
      for (int j = 0; j < S::rows; j++) { /* read again: u would take the registers that `done` needs */
        load(u[j], slot + own + j * S::pitch);
        put(centres + j * S::tile_x, u[j]);
      }
    }
    release(at.empty + t.slot);
    if (i >= 2 * REACH) store<S>(to, done, rows, lanes, a.pitch);
    t = t.after(1);
  }
}

} // namespace bulk_tensor
#endif
