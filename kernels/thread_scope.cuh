/* The star, streamed in z. A block owns a tile in x and y and a chunk of planes. Planes come in one after
 * another through a ring of shared-memory slots, each thread's 16-byte copies tracked by its own
 * cuda::pipeline. A thread owns ROWS x 4 points and keeps, for each, the partial sums of the eight output
 * planes that a plane adds to and that are not finished: so every plane is read once, from shared memory, and
 * only the one at hand. A header, so that bench_kernels can time shapes which the program does not use. */
#ifndef STENCIL_THREAD_SCOPE_CUH
#define STENCIL_THREAD_SCOPE_CUH

#include <cuda/pipeline>
#include <cuda_runtime.h>
#include "kernel.h"

namespace thread_scope {

constexpr int REACH = 4; /* of the star, points */
constexpr int PACK = 4;  /* floats in 16 bytes: what one copy moves, and the points in x a thread owns */

/* A tile of TX x TY points, ROWS rows a thread, a ring of STAGES planes, BLOCKS resident blocks an SM. */
template <int TX, int TY, int ROWS, int STAGES, int BLOCKS> struct shape {
  static_assert(TX % 32 == 0 && TY % ROWS == 0, "whole packs, conflict-free rows, whole threads");
  static_assert(STAGES >= 3 && STAGES <= 10, "pipeline_consumer_wait_prior counts up to 8 groups");
  static constexpr int tile_x = TX, tile_y = TY, rows = ROWS, stages = STAGES, blocks = BLOCKS;
  static constexpr int threads_x = TX / PACK, threads = threads_x * (TY / ROWS);
  static constexpr int pitch = TX + 2 * REACH, slot = pitch * (TY + 2 * REACH); /* floats of a ring slot */
  static constexpr int packs_x = pitch / PACK, packs = slot / PACK, copies = (packs + threads - 1) / threads;
  static constexpr size_t shared = sizeof(float) * STAGES * slot;
};

/* How a launch is cut up: block b has tile b % (x * y) and chunk b / (x * y) of `planes` planes. */
struct cut {
  int x, y;
  int planes;
};

/* This thread's share of the copies of a plane: pack number thread + i * threads of the slot. Which of them
 * to do is the same for every plane; packs that no stored point reads are left out (corners, and what lies
 * beyond the ghosts), and so is the halo where a plane only adds to sums in z. */
template <class S> struct copier {
  size_t from[S::copies];
  unsigned all = 0, centre = 0; /* bit i: do copy i; ... in a plane that needs no halo */

  __device__ __forceinline__ copier(const kernel_args &a, int x0, int y0) {
#pragma unroll
    for (int i = 0; i < S::copies; i++) {
      const int pack = (int)threadIdx.x + i * S::threads;
      const int x = pack % S::packs_x * PACK - REACH, y = pack / S::packs_x - REACH; /* in the tile */
      const bool in_x = x >= 0 && x < S::tile_x, in_y = y >= 0 && y < S::tile_y;
      const bool exists = pack < S::packs && x0 + x < a.nx + REACH && y0 + y < a.ny + REACH;
      all |= (unsigned)(exists && (in_x || in_y)) << i;
      centre |= (unsigned)(exists && in_x && in_y) << i;
      from[i] = (size_t)y * a.pitch + (size_t)x; /* wraps where negative, as does the sum it is used in */
    }
  }

  /* `plane` points at the tile's first point in global memory, `slot` at the start of a ring slot. */
  __device__ __forceinline__ void copy(float *slot, const float *plane, bool halo,
                                       cuda::pipeline<cuda::thread_scope_thread> &pipe) const {
    const unsigned todo = halo ? all : centre;
#pragma unroll
    for (int i = 0; i < S::copies; i++)
      if (todo >> i & 1)
        cuda::memcpy_async(slot + PACK * ((int)threadIdx.x + i * S::threads), plane + from[i],
                           cuda::aligned_size_t<16>(16), pipe);
  }
};

__device__ __forceinline__ void load(float to[PACK], const float *from) {
  const float4 v = *reinterpret_cast<const float4 *>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

/* Adds the arms in x and y to `sum`. `own` is the thread's first point in the slot, u its points. */
template <class S>
__device__ __forceinline__ void add_arms(float sum[S::rows][PACK], const float u[S::rows][PACK],
                                         const float *own, const kernel_args &a) {
  float row[S::rows][PACK + 2 * REACH], column[S::rows + 2 * REACH][PACK];
#pragma unroll
  for (int j = 0; j < S::rows; j++) {
    load(row[j], own + j * S::pitch - REACH);
    load(row[j] + REACH + PACK, own + j * S::pitch + PACK);
#pragma unroll
    for (int i = 0; i < PACK; i++) row[j][REACH + i] = column[REACH + j][i] = u[j][i];
  }
#pragma unroll
  for (int r = 1; r <= REACH; r++) {
    load(column[REACH - r], own - r * S::pitch);
    load(column[REACH + S::rows - 1 + r], own + (S::rows - 1 + r) * S::pitch);
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

/* Plane z arrives. sums[k] belongs to output plane z + 3 - k, to which k + 1 planes were added before this
 * one: in the canonical order, for planes come in ascending. Afterwards `done` is output plane z - 4 and each
 * sum has moved up by one. ARMS: z is itself an output plane of this chunk; else only its reach in z matters.
 */
template <class S, bool ARMS>
__device__ __forceinline__ void arrive(float done[S::rows][PACK], float sums[2 * REACH][S::rows][PACK],
                                       const float *own, const kernel_args &a) {
  float u[S::rows][PACK];
#pragma unroll
  for (int j = 0; j < S::rows; j++) {
    load(u[j], own + j * S::pitch);
#pragma unroll
    for (int i = 0; i < PACK; i++) {
      done[j][i] = __fmaf_rn(a.wz[4], u[j][i], sums[7][j][i]);
      sums[7][j][i] = __fmaf_rn(a.wz[3], u[j][i], sums[6][j][i]);
      sums[6][j][i] = __fmaf_rn(a.wz[2], u[j][i], sums[5][j][i]);
      sums[5][j][i] = __fmaf_rn(a.wz[1], u[j][i], sums[4][j][i]);
      sums[4][j][i] = __fmaf_rn(a.center, u[j][i], sums[3][j][i]);
      sums[3][j][i] = __fmaf_rn(a.wz[1], u[j][i], sums[2][j][i]);
      sums[2][j][i] = __fmaf_rn(a.wz[2], u[j][i], sums[1][j][i]);
      sums[1][j][i] = __fmaf_rn(a.wz[3], u[j][i], sums[0][j][i]);
      sums[0][j][i] = __fmul_rn(a.wz[4], u[j][i]);
    }
  }
  if (ARMS) add_arms<S>(sums[4], u, own, a);
}

/* Stores the points that exist: `rows` rows of `lanes` points. Nothing reads them again before the next step.
 */
template <class S>
__device__ __forceinline__ void store(float *to, const float done[S::rows][PACK], int rows, int lanes,
                                      size_t pitch) {
#pragma unroll
  for (int j = 0; j < S::rows; j++, to += pitch) {
    if (j < rows && lanes >= PACK)
      __stcs(reinterpret_cast<float4 *>(to), make_float4(done[j][0], done[j][1], done[j][2], done[j][3]));
    else if (j < rows)
#pragma unroll
      for (int i = 0; i < PACK - 1; i++)
        if (i < lanes) to[i] = done[j][i];
  }
}

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    star(const __grid_constant__ kernel_args a, const cut c) {
  extern __shared__ __align__(16) float ring[];
  const int tile = (int)(blockIdx.x % (unsigned)(c.x * c.y)),
            chunk = (int)(blockIdx.x / (unsigned)(c.x * c.y));
  const int x0 = tile % c.x * S::tile_x, y0 = tile / c.x * S::tile_y;
  const int z_begin = a.z_begin + chunk * c.planes, z_end = min(z_begin + c.planes, a.z_end);
  const int x = (int)threadIdx.x % S::threads_x * PACK, y = (int)threadIdx.x / S::threads_x * S::rows;
  const size_t corner = (size_t)y0 * a.pitch + (size_t)x0;
  const size_t own = (size_t)(REACH + y) * S::pitch + (size_t)(REACH + x);

  const copier<S> copies(a, x0, y0);
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
  const float *source = a.in + (ptrdiff_t)(z_begin - REACH) * (ptrdiff_t)a.plane + corner;
  int next = z_begin - REACH; /* plane to copy next, into slot `fill` */
  int fill = 0, slot = 0;
  auto prefetch = [&] {
    if (next < z_end + REACH)
      copies.copy(ring + fill * S::slot, source, next >= z_begin && next < z_end, pipe);
    pipe.producer_commit(); /* an empty group too: wait_prior counts groups */
    fill = fill + 1 < S::stages ? fill + 1 : 0;
    source += a.plane;
    next++;
  };
  for (int i = 0; i < S::stages - 1; i++) prefetch();

  float sums[2 * REACH][S::rows][PACK] = {}, done[S::rows][PACK];
  const int rows = a.ny - (y0 + y), lanes = a.nx - (x0 + x); /* that exist, of the thread's; may be < 1 */
  float *to = a.out + (ptrdiff_t)(z_begin - 2 * REACH) * (ptrdiff_t)a.plane + corner + (size_t)y * a.pitch +
              (size_t)x;
  for (int z = z_begin - REACH; z < z_end + REACH; z++) {
    cuda::pipeline_consumer_wait_prior<S::stages - 2>(pipe); /* this thread's copies of plane z have landed */
    __syncthreads(); /* so have everyone's; and everyone has read plane z - 1, whose slot is refilled now */
    prefetch();
    const float *points = ring + slot * S::slot + own;
    if (z >= z_begin && z < z_end)
      arrive<S, true>(done, sums, points, a);
    else
      arrive<S, false>(done, sums, points, a);
    if (z - REACH >= z_begin) store<S>(to, done, rows, lanes, a.pitch);
    to += a.plane;
    slot = slot + 1 < S::stages ? slot + 1 : 0;
  }
}

/* A shape as the host sees it. */
struct variant {
  const char *name;
  const void *function;
  int tile_x, tile_y, threads;
  size_t shared;
};

template <class S> variant variant_of(const char *name) {
  return {name, reinterpret_cast<const void *>(star<S>), S::tile_x, S::tile_y, S::threads, S::shared};
}

} // namespace thread_scope
#endif
