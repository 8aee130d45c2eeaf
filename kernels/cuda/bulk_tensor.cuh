/* bulk_tensor: Hopper's copy engine (TMA) fills ring buffers of planes. Warps wait for slots, never for a whole block.
 *
 *   one warp:   wait empty ─ copy plane | left | right ──► full  (AHEAD planes in front; one warp after another)
 *                            copy u-, m of output plane ──► full      (wave, heat: a ring of their own)
 *   each warp:  wait full ─ add the plane to the sums ─ arrive empty ─ finish and store output plane z - 4
 *
 * Speed after each change, in Gpts/s for 768^3 on one H200; a plain copy has 529 (jacobi) and 264 (wave). The link
 * between the two halves of L2 is the limit: a plain copy keeps it 93 % busy. docs/EXPERIMENTS.md lists what failed.
 *                                                                                        jacobi   wave
 *   rings, no block barrier, one tile of 128 x 36 points an SM and all of z in one go        400    224
 *   + blocks keep step (keep_step), so that DRAM reads a halo once: 2.16 to 1.93 GB          442    259
 *   + boxes start on 128-byte lines, halo columns in boxes of their own: a row that starts
 *     16 bytes off its line takes 15 L2 requests instead of 6                                480    260
 *   + one warp after another fetches, where one had a quarter more to do than the others     490    261
 *   + blocks keep step at every plane, a quarter of them half a plane closer; copies come
 *     first; one atomic replaces an addition and a load                                      501    266
 *
 * Rows of a batch (kernel_args.flat) have no halos in y. A block with planes near a face in z stores their images.
 *
 * LAYERED instances add the layer terms along x at the ends of rows. The launch before has computed them
 * (absorb_cuda_before). Boxes of them come with the other operands. */
#ifndef STENCIL_BULK_TENSOR_CUH
#define STENCIL_BULK_TENSOR_CUH

#include "bulk_tensor_ring.cuh"
#include "kernels/ghosts.h"
#include "stencil.cuh"

namespace bulk_tensor {

using stencil::load;
using stencil::PACK;
using stencil::put;

/* The tile of a block and its ring buffers. TX x TY: points of a tile; ROWS: rows a thread; STAGES: planes of u in the
 * ring; OPERAND_STAGES: planes of the other operands; BLOCKS: resident on an SM. */
template <enum equation Q, int TX, int TY, int ROWS, int STAGES, int OPERAND_STAGES, int BLOCKS,
          class Terms = stencil::no_terms>
struct shape {
  static constexpr enum equation equation = Q;
  static constexpr bool needs_centre = stencil::reads_u<Q>;
  static constexpr int tile_x = TX, tile_y = TY, rows = ROWS, blocks = BLOCKS;
  static constexpr int threads_x = TX / PACK, threads = threads_x * (TY / ROWS);
  /* one slot more than copies need: a late warp does not delay the next copy */
  static constexpr bool deep = STAGES > 3;
  static constexpr int stages = STAGES, ahead = deep ? STAGES - 2 : STAGES - 1; /* planes in flight */
  static constexpr int operand_stages = OPERAND_STAGES, operand_ahead = OPERAND_STAGES - 1;
  typedef Terms terms_kind;
  static constexpr int halo_y = Terms::flat ? 0 : RADIUS; /* rows of a slot before and after the tile's */
  static constexpr int media = stencil::media_of<Q>, first_term = stencil::operands_of<Q>,
                       operands = first_term + Terms::end; /* m, then u-, then terms */
  static_assert(TX % 32 == 0 && TY % ROWS == 0 && threads % 32 == 0, "whole lines, threads and warps");
  /* A slot of the ring, in floats: rows of the tile and of its halo in y | left halo columns | right halo columns. */
  static constexpr int pitch = TX, plane = TX * (TY + 2 * halo_y), side = (RADIUS * TY + 31) / 32 * 32;
  static constexpr int slot = plane + 2 * side;
  static constexpr int tile = TX * TY, operand_slot = operands * tile;
  static constexpr int barriers = 2 * (STAGES + OPERAND_STAGES);
  static constexpr size_t floats =
      STAGES * slot + OPERAND_STAGES * operand_slot + (needs_centre ? RADIUS * tile : 0);
  static constexpr size_t shared = sizeof(float) * floats + sizeof(barrier) * barriers;
  /* LAYERED: layer terms follow, on a 128-byte line. All in floats; the last constant in bytes. */
  static constexpr size_t layer_terms = (shared + 127) / 128 * 128 / sizeof(float),
                          layer_terms_slot = LAYER_TERMS_MOST * TY;
  static constexpr size_t shared_with_layer_terms =
      sizeof(float) * (layer_terms + OPERAND_STAGES * layer_terms_slot);
};

/* The neighbours in x of a thread's packs: in the tile's rows, or at its edge in a box of halo columns. */
struct beside {
  int at, pitch; /* in a slot, floats */
};

/* A thread's points, one pack in each of S::rows rows: their places in the tile and in a slot, and how many exist. */
template <class S> struct place {
  int x, y;           /* of the first point in the tile */
  int own, in_tile;   /* of the first point in a slot and in a plane of operands, floats */
  beside left, right; /* neighbours in x */
  int rows, lanes;    /* that exist; may be < 1 */

  __device__ __forceinline__ place(const kernel_args &a, const wave &w, const job<S> &mine) {
    x = (int)threadIdx.x % S::threads_x * PACK, y = (int)threadIdx.x / S::threads_x * S::rows;
    own = (S::halo_y + y) * S::pitch + x, in_tile = y * S::tile_x + x;
    left = x > 0 ? beside{own - PACK, S::pitch} : beside{S::plane + y * RADIUS, RADIUS};
    right =
        x + PACK < S::tile_x ? beside{own + PACK, S::pitch} : beside{S::plane + S::side + y * RADIUS, RADIUS};
    rows = min(a.ny - mine.y, w.tile_y) - y, lanes = a.nx - (mine.x + x);
  }
};

/* Adds the arms in x and y to `sum`. u: the thread's points. */
template <class S>
__device__ __forceinline__ void add_arms(float sum[S::rows][PACK], const float u[S::rows][PACK],
                                         const float *slot, const place<S> &own, const kernel_args &a) {
  float row[S::rows][PACK + 2 * RADIUS];
#pragma unroll
  for (int j = 0; j < S::rows; j++) {
    load(row[j], slot + own.left.at + j * own.left.pitch);
    load(row[j] + RADIUS + PACK, slot + own.right.at + j * own.right.pitch);
#pragma unroll
    for (int i = 0; i < PACK; i++) row[j][RADIUS + i] = u[j][i];
  }
  if (S::terms_kind::flat)
    stencil::add_arm_in_x<S::rows>(sum, row, a);
  else
    stencil::add_arms_from<S::rows>(sum, row, slot + own.own, S::pitch, a);
}

/* The layer terms along x of a thread's points. Rows are `pitch` floats apart; `points` has a bit for each point of a
 * pack that has one. */
struct own_layer_terms {
  const float *at;
  int pitch;
  unsigned points;
};

/* The place of a thread's layer terms in a slot, in floats, and the bits of its points, packed into one register. With
 * 36 rows no other is free, and a spill costs more than the loads (docs/EXPERIMENTS.md). */
struct pack_layer_terms {
  int packed;
  /* Finds the layer terms of the pack at point x, in row `row` of the tile. */
  __device__ __forceinline__ pack_layer_terms(const kernel_args &a, const layer_term_rows &t, int x,
                                              int row) {
    const bool low = x < t.lo;
    const int column = x - (low ? 0 : a.nx - t.hi);
    packed = 0;
#pragma unroll
    for (int i = 0; i < PACK; i++) packed |= (int)(column + i >= 0 && column + i < (low ? t.lo : t.hi)) << i;
    if (packed) packed |= (row * t.pitch + x - (low ? 0 : t.first)) * (1 << PACK);
  }
  __device__ __forceinline__ own_layer_terms in(const float *slot, int pitch) const {
    return {slot + (packed >> PACK), pitch, (unsigned)packed};
  }
};

__device__ __forceinline__ void store_row(float *to, const float v[PACK], bool exists, int lanes) {
  if (exists && lanes >= PACK) return put(to, v);
#pragma unroll
  for (int i = 0; i < PACK; i++)
    if (exists && i < lanes) to[i] = v[i];
}

/* Turns the sums of an output plane into new values. `operands` and `centres` (u itself, read four planes ago) point
 * to the thread's first point, which lies `at` floats from point (0, 0, 0). has_layer_terms: some thread of the block
 * has layer terms. */
template <class S, bool LAYERED>
__device__ __forceinline__ void finish(float done[S::rows][PACK], const float *operands, const float *centres,
                                       const own_layer_terms &layer_terms, bool has_layer_terms,
                                       const kernel_args &a, const place<S> &own, ptrdiff_t at) {
#pragma unroll
  for (int j = 0; j < S::rows; j++) {
    float u[PACK], m[EQUATION_MEDIA][PACK], before[PACK] = {}, layer_term[PACK];
    load(u, centres + j * S::tile_x);
#pragma unroll
    for (int k = 0; k < S::media; k++) {
#pragma unroll
      for (int i = 0; i < PACK; i++) m[k][i] = a.scale[k];
      if (a.medium[k]) load(m[k], operands + k * S::tile + (S::terms_kind::flat ? -own.y : j) * S::tile_x);
    }
    if (stencil::reads_before<S::equation>) load(before, operands + S::media * S::tile + j * S::tile_x);
    /* Threads without layer terms read them too: a divergent branch costs more. */
    const bool reads_layer_terms = LAYERED && has_layer_terms;
    if constexpr (S::terms_kind::any) {
      const float *const operand = operands + S::first_term * S::tile + j * S::tile_x;
      if (reads_layer_terms) load(layer_term, layer_terms.at + j * layer_terms.pitch);
      const ptrdiff_t here = at + j * (ptrdiff_t)a.pitch;
      stencil::terms_pack<typename S::terms_kind> terms;
      terms.load(a.terms,
                 [=](float to[PACK], const float *, int place) { load(to, operand + place * S::tile); });
      terms.template finish<S::equation, S::media>(done[j], m, u, before, a.terms, layer_term,
                                                   reads_layer_terms ? layer_terms.points : 0);
      terms.store(a.terms, [=](float *field, const float v[PACK]) {
        store_row(field + here, v, j < own.rows, own.lanes);
      });
    } else {
#pragma unroll
      for (int i = 0; i < PACK; i++) {
        float here[EQUATION_MEDIA];
#pragma unroll
        for (int k = 0; k < S::media; k++) here[k] = m[k][i];
        done[j][i] = point_next(S::equation, done[j][i], here, u[i], before[i], 2.0f);
      }
      if (reads_layer_terms) {
        load(layer_term, layer_terms.at + j * layer_terms.pitch);
#pragma unroll
        for (int i = 0; i < PACK; i++)
          if (layer_terms.points >> i & 1) {
            float here[EQUATION_MEDIA];
#pragma unroll
            for (int k = 0; k < S::media; k++) here[k] = m[k][i];
            done[j][i] = __fmaf_rn(point_gain(S::equation, here), layer_term[i], done[j][i]);
          }
      }
    }
  }
}

/* Stores the `rows` rows of `lanes` points that exist. Plain stores measured faster than evict-first ones. */
template <class S>
__device__ __forceinline__ void store(float *to, const float done[S::rows][PACK], int rows, int lanes,
                                      size_t pitch) {
  if (rows >= S::rows && lanes >= PACK) {
#pragma unroll
    for (int j = 0; j < S::rows; j++, to += pitch) put(to, done[j]);
    return;
  }
  /* For one operand only: two spill more registers with layers; zero is untested. */
  if ((S::operands == 1 || S::terms_kind::flat) && lanes >= PACK) {
#pragma unroll
    for (int j = 0; j < S::rows; j++, to += pitch)
      if (j < rows) put(to, done[j]);
    return;
  }
#pragma unroll
  for (int j = 0; j < S::rows; j++, to += pitch)
#pragma unroll
    for (int i = 0; i < PACK; i++)
      if (j < rows && i < lanes) to[i] = done[j][i];
}

/* Stores plane z and its images in z. images.cuh stores the images of periodic faces afterwards. */
template <class S>
__device__ __forceinline__ void store_with_images(const kernel_args &a, float *to, float done[S::rows][PACK],
                                                  int rows, int lanes, int z) {
  const int lo = a.ghosts[FACE_Z_LO], hi = a.ghosts[FACE_Z_HI];
  if (lanes < 1) return; /* or the whole warp would store point by point */
  if (ghosts_held(z, a.nz, lo, hi))
#pragma unroll
    for (int j = 0; j < S::rows; j++)
#pragma unroll
      for (int i = 0; i < PACK; i++) done[j][i] = 0;
  store<S>(to, done, rows, lanes, a.pitch);
#pragma unroll 1
  for (int side = 0; side < 2; side++) {
    const int rule = side ? hi : lo, depth = side ? a.nz - 1 - z : z;
    if (depth < 1 || depth > RADIUS || (rule != GHOST_ODD && rule != GHOST_EVEN)) continue;
    float image[S::rows][PACK];
#pragma unroll
    for (int j = 0; j < S::rows; j++)
#pragma unroll
      for (int i = 0; i < PACK; i++) image[j][i] = rule == GHOST_ODD ? -done[j][i] : done[j][i];
    store<S>(to + (side ? 2 : -2) * depth * (ptrdiff_t)a.plane, image, rows, lanes, a.pitch);
  }
}

template <class S> __device__ __forceinline__ bool any_medium(const kernel_args &a) {
  bool any = false;
#pragma unroll
  for (int k = 0; k < S::media; k++) any = any || a.medium[k];
  return any;
}

/* This warp has read its part of the slot that `empty` belongs to. */
__device__ __forceinline__ void release(barrier *empty) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(empty);
}

/* Waits for the launch before, and only then lets the next one start. So a launch that runs beside this one can rely
 * on all earlier ones (absorb_whole.cuh). */
__device__ __forceinline__ void await_and_admit(const wave &w) {
  if (!w.beside) await_launch_before();
  admit_next_launch();
}

template <class S, bool LAYERED>
__global__ void __launch_bounds__(S::threads, S::blocks)
    advance(const __grid_constant__ kernel_args a, const __grid_constant__ maps m, const wave w) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) float shared[];
  __shared__ unsigned alone;
  const layout<S> at(shared);
  const job<S> mine(a, w);
  const operand_boxes boxes = boxes_of<S>(a, w.layer_terms, mine, LAYERED);
  const bool reads_operands = stencil::reads_before<S::equation> || any_medium<S>(a);
  const filler<S, LAYERED> fill = {at, m, mine, boxes, a, w, reads_operands};
  ring_slot<S::stages> t = {0, 0};
  if (threadIdx.x == 0) at.init(), alone = 0;
  /* The first wave follows the launch that computes layer terms (absorb_before.cu), which has waited for u. So u can
   * be read before that launch ends. */
  const bool early = LAYERED && w.first == 0;
  if (!early) await_and_admit(w);
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::ahead; i++) fill.plane(i, t.after(i));
    if (!early) fill.first_operands();
  }
  __syncthreads();

  const place<S> own(a, w, mine);
  float *to = a.out + (ptrdiff_t)(a.z_begin + mine.z - 2 * RADIUS) * (ptrdiff_t)a.plane +
              (size_t)(mine.y + own.y) * a.pitch + (size_t)(mine.x + own.x);
  const pack_layer_terms layer_terms(a, w.layer_terms, mine.x + own.x, own.y);
  const int warps = (int)blockDim.x / 32;
  float sums[2 * RADIUS][S::rows][PACK] = {};
  int until_fetch = threadIdx.x % 32 ? -1 : (int)threadIdx.x / 32; /* steps until it fetches; < 0: never */

  for (int i = 0; i < mine.steps; i++, to += a.plane) {
    if (early && i == RADIUS) {
      await_and_admit(w);
      if (threadIdx.x == 0) fill.first_operands();
    }
    if (until_fetch-- == 0) {
      until_fetch = warps - 1;
      fill.next(i, t);
      /* after the copies, since reading the counter takes as long as half a plane */
      if (S::deep) keep_step<S>(w, i, &alone);
    }
    __syncwarp();
    const float *slot = at.ring + t.slot * S::slot;
    wait(at.full + t.slot, t.parity);
    float u[S::rows][PACK], done[S::rows][PACK];
#pragma unroll
    for (int j = 0; j < S::rows; j++) load(u[j], slot + own.own + j * S::pitch);
    stencil::arrive<S>(done, sums, u, a);
    if (mine.owns(i)) add_arms(sums[4], u, slot, own, a);
    if (S::needs_centre) {
      float *centres = at.centres + i % RADIUS * S::tile + own.in_tile; /* this thread's alone */
      if (i >= 2 * RADIUS) {
        const ring_slot<S::operand_stages> o = mine.operands(i);
        if (reads_operands) wait(at.operands_full + o.slot, o.parity);
        finish<S, LAYERED>(done, at.operands + o.slot * S::operand_slot + own.in_tile, centres,
                           layer_terms.in(at.layer_terms + o.slot * S::layer_terms_slot, w.layer_terms.pitch),
                           boxes.columns > 0, a, own, to - a.out);
        if (reads_operands) release(at.operands_empty + o.slot);
      }
#pragma unroll
      for (int j = 0; j < S::rows; j++) { /* read again, since `done` needs the registers of u */
        load(u[j], slot + own.own + j * S::pitch);
        put(centres + j * S::tile_x, u[j]);
      }
    }
    release(at.empty + t.slot);
    if (i >= 2 * RADIUS && S::terms_kind::flat)
      store_with_images<S>(a, to, done, own.rows, own.lanes, a.z_begin + mine.z + i - 2 * RADIUS);
    else if (i >= 2 * RADIUS)
      store<S>(to, done, own.rows, own.lanes, a.pitch);
    if (!S::deep && until_fetch == warps - 1) keep_step<S>(w, i, &alone); /* after the whole plane */
    t = t.after(1);
  }
  if (w.beside && blockIdx.x == 0) await_launch_before(); /* so that this launch ends after the one before */
#endif
}

} // namespace bulk_tensor
#endif
