/* bulk_tensor's ring buffers of planes in shared memory: the work of a launch and of a block, the layout, and the
 * copies that fill the rings. S is a bulk_tensor::shape. */
#ifndef STENCIL_BULK_TENSOR_RING_CUH
#define STENCIL_BULK_TENSOR_RING_CUH

#include <cuda/atomic>
#include "bulk_tensor_ptx.cuh"
#include "stencil.cuh"

namespace bulk_tensor {

/* The most operands: fields besides u that a launch reads at its own points. */
constexpr int OPERANDS_MOST = EQUATION_MEDIA + 5 + MEMORIES_MAX;

/* The tensor maps. Their z = 0 is plane z_begin - 4 of u, plane z_begin of operands, plane 0 of layer terms. */
struct maps {
  CUtensorMap plane, side; /* of u; point (0, 0) is the first ghost */
  CUtensorMap operand[OPERANDS_MOST];
  CUtensorMap layer_terms; /* LAYERED: the layer terms along x of the slab's rows */
};

/* LAYERED: which points of a row have layer terms: the first `lo` and the last `hi`, each 0 or `width`. No tile has
 * points of both layers. Row 0 of the launch is row y of the layer terms. A box has `pitch` columns. Layer terms of
 * the high layer lie `high` planes further on and begin at point `first` (absorb_layer_terms). */
struct layer_term_rows {
  int lo, hi, width, pitch, high, first, y;
};
constexpr int LAYER_TERMS_MOST = 32; /* columns */

/* LAYERED: the first columns of the halo boxes at the ends of a row, in the map `side`. Ghosts beyond a layer are 0:
 * their box lies outside the map, where the copy engine stores 0 without reading memory. */
struct row_ends {
  int left_box, right_box;
};

/* Planes cut into chunks that differ by at most one plane: the first `longer` have one more. Blocks that keep step need
 * equal lengths, since a block that has ended no longer counts its steps. */
struct z_cut {
  int planes, longer;
  __host__ __device__ __forceinline__ int begin(int chunk) const {
    return chunk * planes + (chunk < longer ? chunk : longer);
  }
  __host__ __device__ __forceinline__ int count(int chunk) const { return planes + (chunk < longer); }
};

/* A wave: one launch whose blocks are all resident. They do jobs [first, first + gridDim.x). Job j is tile j % tiles of
 * chunk j / tiles; a tile has tile_y rows. progress: the counter through which blocks keep step; NULL: they do not.
 * before: its value when all earlier launches of the stream are done. beside: the launch before is of the same step and
 * of other points, so blocks need not wait for it. */
struct wave {
  int tiles_x, tiles, tile_y, first;
  z_cut z;
  unsigned *progress, before;
  bool beside;
  row_ends ends;
  layer_term_rows layer_terms;
};

/* A slot of a ring buffer of SLOTS, and the parity of the rounds made so far: waits name a phase by it. */
template <int SLOTS> struct ring_slot {
  int slot, parity;
  /* The place of item n. */
  static __device__ __forceinline__ ring_slot of(int n) {
    return {(int)((unsigned)n % SLOTS), (int)((unsigned)n / SLOTS & 1)};
  }
  __device__ __forceinline__ ring_slot after(int n) const {
    return slot + n < SLOTS ? ring_slot{slot + n, parity} : ring_slot{slot + n - SLOTS, parity ^ 1};
  }
};

/* The layout of a block's shared memory. */
template <class S> struct layout {
  float *ring, *operands, *centres, *layer_terms;
  barrier *full, *empty, *operands_full, *operands_empty;

  __device__ __forceinline__ explicit layout(float *shared)
      : ring(shared), operands(ring + S::stages * S::slot),
        centres(operands + S::operand_stages * S::operand_slot), layer_terms(shared + S::layer_terms),
        full(reinterpret_cast<barrier *>(shared + S::floats)), empty(full + S::stages),
        operands_full(empty + S::stages), operands_empty(operands_full + S::operand_stages) {}

  /* Called by one thread. A slot is full after one arrival and all its bytes, empty after one arrival of each warp. */
  __device__ __forceinline__ void init() const {
    const int warps = (int)blockDim.x / 32;
    for (int i = 0; i < S::stages; i++) barrier_init(full + i, 1), barrier_init(empty + i, warps);
    for (int i = 0; i < S::operand_stages; i++)
      barrier_init(operands_full + i, 1), barrier_init(operands_empty + i, warps);
    barriers_ready();
  }
};

/* A block's job. Step i of `steps` reads plane z_begin - 4 + i; from step 8 on each step finishes one output plane. `z`
 * counts from the launch's first output plane. */
template <class S> struct job {
  int x, y, z, planes, steps;

  __device__ __forceinline__ job(const kernel_args &a, const wave &w) {
    const int j = w.first + (int)blockIdx.x, tile = j % w.tiles;
    x = tile % w.tiles_x * S::tile_x, y = tile / w.tiles_x * w.tile_y;
    z = w.z.begin(j / w.tiles), planes = w.z.count(j / w.tiles), steps = planes + 2 * RADIUS;
  }
  /* Is the plane of this step an output plane? Other planes only add to sums along z. */
  __device__ __forceinline__ bool owns(int step) const { return step >= RADIUS && step < planes + RADIUS; }
  /* The slot of the operands that finish this step's output plane. Recomputed, to save two registers. */
  static __device__ __forceinline__ ring_slot<S::operand_stages> operands(int step) {
    return ring_slot<S::operand_stages>::of(step - 2 * RADIUS);
  }
};

/* --- what one thread at a time does ------------------------------------------------------------------------- */

struct operand_boxes {
  bool medium[EQUATION_MEDIA];
  int columns; /* columns of layer terms; 0: the block has none */
  int y, z;    /* their first row and plane in the map, for the first output plane */
};

template <class S>
__device__ __forceinline__ operand_boxes boxes_of(const kernel_args &a, const layer_term_rows &t,
                                                  const job<S> &j, bool layered) {
  const bool low = j.x<t.lo, high = t.hi> 0 && j.x + S::tile_x > a.nx - t.hi;
  operand_boxes boxes = {
      {}, layered && (low || high) ? t.pitch : 0, t.y + j.y, a.z_begin + j.z + (low ? 0 : t.high)};
#pragma unroll
  for (int k = 0; k < EQUATION_MEDIA; k++) boxes.medium[k] = a.medium[k] != nullptr;
  return boxes;
}

/* Starts the copies that fill a block's ring buffers. */
template <class S, bool LAYERED> struct filler {
  const layout<S> &at;
  const maps &m;
  const job<S> &mine;
  const operand_boxes &boxes;
  const kernel_args &a;
  const wave &w;
  bool reads_operands;

  /* Starts the fetches of a step. The warp whose turn it is calls it. */
  __device__ __forceinline__ void next(int step, ring_slot<S::stages> t) const {
    plane(step + S::ahead, t.after(S::ahead));
    if (reads_operands && step >= 2 * RADIUS) operands(step + S::operand_ahead);
  }

  __device__ __forceinline__ void first_operands() const {
    for (int i = 0; i < S::operand_ahead && reads_operands; i++) operands(2 * RADIUS + i);
  }

  /* Fetches this step's plane of u; of an output plane also the halo columns. */
  __device__ __forceinline__ void plane(int step, ring_slot<S::stages> t) const {
    if (step >= mine.steps) return;
    float *slot = at.ring + t.slot * S::slot;
    barrier *full = at.full + t.slot;
    const int right_x = mine.x + RADIUS + S::tile_x;
    const int left_box = LAYERED && mine.x == 0 ? w.ends.left_box : mine.x,
              right_box = LAYERED && mine.x + S::tile_x >= a.nx ? w.ends.right_box : right_x;
    wait(at.empty + t.slot, t.parity ^ 1);
    const int z = mine.z + step;
    arrive_and_expect(full, (int)sizeof(float) * (S::tile_x * (w.tile_y + 2 * S::halo_y) +
                                                  (mine.owns(step) ? 2 * RADIUS * w.tile_y : 0)));
    copy_box(slot, &m.plane, mine.x + RADIUS, mine.y + RADIUS - S::halo_y, z, full);
    if (!mine.owns(step)) return;
    copy_box(slot + S::plane, &m.side, left_box, mine.y + RADIUS, z, full);
    copy_box(slot + S::plane + S::side, &m.side, right_box, mine.y + RADIUS, z, full);
  }

  /* Fetches the operands that finish this step's output plane. */
  __device__ __forceinline__ void operands(int step) const {
    if (step >= mine.steps) return;
    const ring_slot<S::operand_stages> t = mine.operands(step);
    float *slot = at.operands + t.slot * S::operand_slot;
    barrier *full = at.operands_full + t.slot;
    wait(at.operands_empty + t.slot, t.parity ^ 1);
    const int plane = step - 2 * RADIUS;
    const int medium_rows = S::terms_kind::flat ? 1 : w.tile_y;
    int rows = w.tile_y * (S::operands - S::media);
#pragma unroll
    for (int k = 0; k < S::media; k++) rows += boxes.medium[k] ? medium_rows : 0;
    arrive_and_expect(full, (int)sizeof(float) * (S::tile_x * rows + w.tile_y * boxes.columns));
#pragma unroll
    for (int k = 0; k < S::operands; k++)
      if (k >= S::media || boxes.medium[k])
        copy_box(slot + k * S::tile, &m.operand[k], mine.x, mine.y, mine.z + plane, full);
    if (boxes.columns)
      copy_box(at.layer_terms + t.slot * S::layer_terms_slot, &m.layer_terms, 0, boxes.y, boxes.z + plane,
               full);
  }
};

/* Keeps blocks in step, since tiles that drift apart read each other's halos from DRAM. It counts that this block has
 * begun `step`. Then it waits until all blocks have begun the step before. With a deep ring a quarter of them must also
 * have begun this one. A stricter condition waits for the slowest block, a weaker one costs reads
 * (docs/EXPERIMENTS.md). Results do not depend on it: a block that has once waited in vain is `alone` and waits no
 * more. */
template <class S> __device__ __forceinline__ void keep_step(const wave &w, int step, unsigned *alone) {
  constexpr int PATIENCE = 300; /* reads of the counter, each a round trip to L2 */
  if (!w.progress) return;
  const unsigned enough = w.before + (unsigned)step * gridDim.x + (S::deep ? gridDim.x / 4 : 0);
  unsigned begun; /* the counter only grows, and may wrap */
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(begun) : "l"(w.progress) : "memory");
  if ((int)(begun + 1 - enough) >= 0) return;
  /* read by threads of several warps */
  const cuda::atomic_ref<unsigned, cuda::thread_scope_block> gave_up(*alone);
  if (gave_up.load(cuda::memory_order_relaxed)) return;
#pragma unroll 1
  for (int looks = 0; looks < PATIENCE; looks++) {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(begun) : "l"(w.progress) : "memory");
    if ((int)(begun - enough) >= 0) return;
  }
  gave_up.store(1, cuda::memory_order_relaxed);
}

} // namespace bulk_tensor
#endif
