/* A block's loop over tiles of a layer, along an axis. The copy engine fills a ring buffer of tiles in shared memory:
 *
 *   a warp:     wait empty ─ copy tile | left | right ──► full   (AHEAD tiles in front; one warp after another)
 *   a thread:   what it alone needs, one or two iterations ahead, by copies of its own
 *   an iteration:  wait full ─ own points of the tile four rows on into registers ─ neighbours from the tile ─ empty
 *
 * A warp owns a row of 128 points, a thread a pack of 4. A thread keeps u of the four rows before and after its pack in
 * registers. */
#ifndef STENCIL_ABSORB_TILE_LOOP_CUH
#define STENCIL_ABSORB_TILE_LOOP_CUH

#include <cuda_pipeline_primitives.h>
#include "kernels/layers/absorb.cuh"
#include "bulk_tensor_launch.cuh"
#include "stencil.cuh"

namespace absorbing {

using bulk_tensor::barrier;
using stencil::PACK;

enum {
  LAYER_WARPS = 8,  /* warps of a block: as many rows of a tile */
  LAYER_BLOCKS = 2, /* blocks resident on a multiprocessor */
  LAYER_THREADS = LAYER_WARPS * LANES,
  TILE_X = LANES * PACK,
  BOX = TILE_X * (LAYER_WARPS + 2 * RADIUS), /* floats: a tile and its halo rows */
  SIDE = RADIUS * LAYER_WARPS,               /* the halo columns at one side */
  SLOT = BOX + 2 * SIDE,
  SLOTS = 8,
  AHEAD = SLOTS - RADIUS - 2, /* tiles fetched in advance */
  OPERANDS = 10               /* packs for a thread's own operands */
};
/* The operands of a thread in an iteration. From ZETA_Y on they are of the layer along y, where two layers cross. */
enum operand { BEFORE, ZETA, OUT, MEDIUM, LAYER_TERM, ZETA_Y, BEFORE_Y };
static_assert((int)BEFORE_Y + ABSORB_BEYOND + 1 == OPERANDS && 2 * (LAYER_TERM + 1) == OPERANDS,
              "one iteration, or two");

constexpr int RING_FLOATS = SLOTS * SLOT, OWN_FLOATS = OPERANDS * LAYER_THREADS * PACK;
constexpr size_t LAYER_SHARED = sizeof(float) * (RING_FLOATS + OWN_FLOATS) + sizeof(barrier) * 2 * SLOTS;

/* The maps of u: a tile across the axis of the loop, and its halo columns. The maps leave out the ghosts beyond
 * layers, which are 0. The copy engine stores 0 outside a map without reading memory. x, y, z: point (0, 0, 0) in the
 * maps. */
struct tile_maps {
  CUtensorMap plane, side;
  int x, y, z;
};

/* The rows of a tile loop: `count` along the axis, the first at (z, y, x), and `rows` across. i: of the first row, from
 * the layer's outer edge. images: a loop along y stores images in z. */
struct tile_range {
  int i, count, z, y, x, rows;
  bool images;
};

/* The loop of one thread along axis 1 (y) or 2 (z), up or down. It copies its own operands OPERAND_AHEAD iterations
 * ahead. FLAT: the rows are those of a batch, without an arm along y (kernel_args.flat). */
template <int AXIS, int INWARD, int OPERAND_AHEAD, bool FLAT> struct tile_loop {
  static constexpr int HALO = FLAT ? 0 : RADIUS; /* rows of a tile before and after its own */
  static constexpr int TILE = TILE_X * (LAYER_WARPS + 2 * HALO);
  const kernel_args &f;
  const tile_maps &maps;
  const tile_range c;
  float *ring, *own; /* ring buffer of tiles; the thread's operands */
  barrier *full, *empty;
  int lane, row, lanes; /* lanes: points of the pack that exist, < 1: none */
  ptrdiff_t step, at;   /* floats from row to row; the place of the pack in row 0 */
  float u[2 * RADIUS + 1][PACK];

  __device__ __forceinline__ tile_loop(const kernel_args &args, const tile_maps &m, const tile_range &where,
                                       float *shared)
      : f(args), maps(m), c(where), ring(shared) {
    lane = (int)threadIdx.x % LANES, row = (int)threadIdx.x / LANES;
    own = ring + RING_FLOATS + threadIdx.x * PACK;
    full = reinterpret_cast<barrier *>(ring + RING_FLOATS + OWN_FLOATS), empty = full + SLOTS;
    lanes = row < c.rows ? f.nx - x() : 0;
    step = INWARD * (ptrdiff_t)(AXIS == 1 ? f.pitch : f.plane);
    at = (ptrdiff_t)f.plane * z() + (ptrdiff_t)f.pitch * y() + x();
  }
  /* The pack in row 0. */
  __device__ __forceinline__ int x() const { return c.x + lane * PACK; }
  __device__ __forceinline__ int y() const { return c.y + (AXIS == 2 ? row : 0); }
  __device__ __forceinline__ int z() const { return c.z + (AXIS == 1 ? row : 0); }

  /* Starts the copy of tile j, row j - 4 of the loop. One thread calls it. */
  __device__ __forceinline__ void fetch(int j) {
    if (j >= c.count + 2 * RADIUS) return;
    const int slot = j % SLOTS, along = INWARD * (j - RADIUS);
    const int side_x = maps.x + c.x - RADIUS, side_y = maps.y + c.y + (AXIS == 1 ? along : 0),
              side_z = maps.z + c.z + (AXIS == 2 ? along : 0);
    const bool owned = j >= RADIUS && j < c.count + RADIUS;
    float *to = ring + slot * SLOT;
    bulk_tensor::wait(empty + slot, (j / SLOTS & 1) ^ 1);
    bulk_tensor::arrive_and_expect(full + slot, (int)sizeof(float) * (TILE + (owned ? 2 * SIDE : 0)));
    bulk_tensor::copy_box(to, &maps.plane, maps.x + c.x, side_y - (AXIS == 1 ? 0 : HALO),
                          side_z - (AXIS == 2 ? 0 : HALO), full + slot);
    if (!owned) return;
    bulk_tensor::copy_box(to + BOX, &maps.side, side_x, side_y, side_z, full + slot);
    bulk_tensor::copy_box(to + BOX + SIDE, &maps.side, side_x + RADIUS + TILE_X, side_y, side_z, full + slot);
  }
  __device__ __forceinline__ void wait_for(int j) { bulk_tensor::wait(full + j % SLOTS, j / SLOTS & 1); }
  __device__ __forceinline__ void release(int j) {
    __syncwarp();
    if (lane == 0) bulk_tensor::arrive(empty + j % SLOTS);
  }
  /* The thread's pack in tile j. */
  __device__ __forceinline__ const float *tile(int j) const {
    return ring + j % SLOTS * SLOT + (row + HALO) * TILE_X + lane * PACK;
  }

  __device__ __forceinline__ float *operand(int t, int o) const {
    return own + (t % OPERAND_AHEAD * (OPERANDS / OPERAND_AHEAD) + o) * (LAYER_THREADS * PACK);
  }
  /* Starts the copy of an operand: of the whole pack, or of the points whose bits are set. */
  __device__ __forceinline__ void copy_own(int t, int o, const float *from, bool pack,
                                           unsigned points) const {
    float *to = operand(t, o);
    if (pack) return __pipeline_memcpy_async(to, from, sizeof(float4));
#pragma unroll
    for (int n = 0; n < PACK; n++)
      if (points >> n & 1) __pipeline_memcpy_async(to + n, from + n, sizeof(float));
  }
  /* Ends the group of copies of an iteration. */
  __device__ __forceinline__ void commit_own() const {
    __pipeline_commit();
  }
  __device__ __forceinline__ void await_own() const {
    __pipeline_wait_prior(OPERAND_AHEAD - 1);
  }
  __device__ __forceinline__ void put(float *to, const float v[PACK], bool pack, unsigned points) const {
    if (pack)
      stencil::put(to, v);
    else
      stencil::put_points(to, v, points);
  }
  /* Bits: which points of the pack exist. */
  __device__ __forceinline__ unsigned existing() const {
    return lanes < 1 ? 0 : lanes < PACK ? (1u << lanes) - 1 : 15;
  }

  __device__ __forceinline__ void open() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < SLOTS; i++)
        bulk_tensor::barrier_init(full + i, 1), bulk_tensor::barrier_init(empty + i, LAYER_WARPS);
      bulk_tensor::barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int j = 0; j < SLOTS; j++) fetch(j);
  }
  /* Reads the rows that the first iteration needs. */
  __device__ __forceinline__ void start() {
#pragma unroll
    for (int j = 0; j < 2 * RADIUS; j++) {
      wait_for(j);
      stencil::load(u[j], tile(j));
      if (j < RADIUS) release(j);
    }
    if (threadIdx.x == 0)
      for (int j = SLOTS; j < 2 * RADIUS + AHEAD; j++) fetch(j);
  }
  /* Begins iteration t: waits for the tile four rows on. */
  __device__ __forceinline__ void arrive(int t) {
    if (lane == 0 && row == t % LAYER_WARPS) fetch(t + 2 * RADIUS + AHEAD);
    __syncwarp();
    wait_for(t + 2 * RADIUS);
    stencil::load(u[2 * RADIUS], tile(t + 2 * RADIUS));
  }
  __device__ __forceinline__ void look(float v[PACK], const float *centre, int r) const {
    stencil::load(v, centre + r * TILE_X);
  }
  /* Computes the stencil of each point of the pack, in the canonical order. in_row: receives the pack and 4 neighbours
   * on both sides. */
  __device__ __forceinline__ void stencil_of(float sum[PACK], float in_row[PACK + 2 * RADIUS], int t) const {
    const float *centre = tile(t + RADIUS), *sides = ring + (t + RADIUS) % SLOTS * SLOT + BOX + row * RADIUS;
    float near[PACK], far[PACK];
    stencil::load(in_row, lane > 0 ? centre - PACK : sides);
    stencil::load(in_row + RADIUS + PACK, lane < LANES - 1 ? centre + PACK : sides + SIDE);
#pragma unroll
    for (int n = 0; n < PACK; n++) in_row[RADIUS + n] = u[RADIUS][n];
#pragma unroll
    for (int r = RADIUS; r >= 1; r--) {
      if (AXIS == 1) look(near, centre, -r);
#pragma unroll
      for (int n = 0; n < PACK; n++) {
        const float v = AXIS == 1 ? near[n] : u[RADIUS - r * INWARD][n];
        sum[n] = r == RADIUS ? __fmul_rn(f.wz[r], v) : __fmaf_rn(f.wz[r], v, sum[n]);
      }
    }
#pragma unroll
    for (int n = 0; n < PACK; n++) sum[n] = __fmaf_rn(f.center, u[RADIUS][n], sum[n]);
#pragma unroll
    for (int r = 1; r <= RADIUS; r++) {
      if (AXIS == 2 && !FLAT) look(near, centre, -r), look(far, centre, r);
#pragma unroll
      for (int n = 0; n < PACK; n++) {
        const float *in_x = in_row + RADIUS + n;
        if (FLAT)
          sum[n] = __fadd_rn(sum[n], 0.0f);
        else
          sum[n] = __fmaf_rn(
              f.wy[r], AXIS == 2 ? __fadd_rn(near[n], far[n]) : __fadd_rn(u[RADIUS - r][n], u[RADIUS + r][n]),
              sum[n]);
        sum[n] = __fmaf_rn(f.wx[r], __fadd_rn(in_x[-r], in_x[r]), sum[n]);
      }
    }
#pragma unroll
    for (int r = 1; r <= RADIUS; r++) {
      if (AXIS == 1) look(far, centre, r);
#pragma unroll
      for (int n = 0; n < PACK; n++)
        sum[n] = __fmaf_rn(f.wz[r], AXIS == 1 ? far[n] : u[RADIUS + r * INWARD][n], sum[n]);
    }
  }
  __device__ __forceinline__ void move_up() {
#pragma unroll
    for (int n = 0; n < PACK; n++)
#pragma unroll
      for (int k = 0; k < 2 * RADIUS; k++) u[k][n] = u[k + 1][n];
  }
};

} // namespace absorbing
#endif
