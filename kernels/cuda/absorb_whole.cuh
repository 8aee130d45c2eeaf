/* Updates the points in absorbing layers along y and z, stencil and layer in one visit. One visit moves 32 bytes a
 * point; the interior kernel and a second visit would move 16 and 32. Blocks loop over tiles inward through the
 * layers (absorb_tile_loop.cuh), with psi of four rows in registers. An earlier launch has computed the layer terms
 * along x (absorb_cuda_before). The launch runs beside the interior kernel, because alone its few blocks would leave
 * most of the device idle. `choose` (bulk_tensor_launch.cuh) leaves multiprocessors free for it. Loops along z come
 * first. Among them, loops where layers cross come first, since they take longest. The last blocks store images in z,
 * which saves a launch. */
#ifndef STENCIL_ABSORB_WHOLE_CUH
#define STENCIL_ABSORB_WHOLE_CUH

#include "absorb_update.cuh"
#include "kernels/images.cuh"
#include "kernels/launch_behind.cuh"

namespace absorbing {

enum {
  WHOLE_MEDIA = 1, /* media of an equation at most: shared memory holds the copies of one */
  /* points of a piece of a layer at least: each piece first reads eight rows that it does not update */
  WHOLE_PIECE = 7,
  WHOLE_CROSSING = 5, /* the least points where layers cross: an iteration takes twice as long there */
  WHOLE_ENOUGH = 100  /* blocks: with fewer, layers are cut into pieces, though these read more */
};

struct whole_layers {
  span y, z;
  unsigned tiles_x;
  unsigned low; /* tiles of rows in the low layer along y */
  layers crossing, along_z, along_y;
  unsigned image_rows; /* rows whose images in z the interior kernel does not store: s.y.between(), or 0 */
  bool concurrent;     /* the launch before is of the same step and of other points */
  __host__ __device__ unsigned layer_blocks() const {
    return crossing.blocks() + along_z.blocks() + along_y.blocks();
  }
};

template <enum equation Q, terms_of TERMS, bool PACKS, row_kind ROWS>
static __device__ __forceinline__ void update_along_z(const absorb_args &a, const whole_layers &s,
                                                      const tile_maps &m, unsigned block, float *shared) {
  const piece p(ROWS == ACROSS ? s.crossing : s.along_z, s.z, block);
  const int x = (int)(p.tile % s.tiles_x) * TILE_X, tile = (int)(p.tile / s.tiles_x);
  const bool low = ROWS == ACROSS && tile < (int)s.low, high = ROWS == ACROSS && !low;
  const int begin = low ? s.y.begin : high ? s.y.hi : s.y.lo, end = low ? s.y.lo : high ? s.y.end : s.y.hi;
  const int y = begin + (high ? tile - (int)s.low : tile) * LAYER_WARPS;
  if (p.count > 0)
    update_inward<Q, TERMS, 2, PACKS, ROWS>(a, m, {0, p.count, p.at, y, x, end - y, false}, shared);
}

template <enum equation Q, terms_of TERMS, bool PACKS>
static __device__ __forceinline__ void update_along_y(const absorb_args &a, const whole_layers &s,
                                                      const tile_maps &m, unsigned block, float *shared) {
  const piece p(s.along_y, s.y, block);
  const int x = (int)(p.tile % s.tiles_x) * TILE_X, z = s.z.lo + (int)(p.tile / s.tiles_x) * LAYER_WARPS;
  if (p.count > 0)
    update_inward<Q, TERMS, 1, PACKS, PLAIN>(a, m, {0, p.count, z, p.at, x, s.z.hi - z, s.image_rows > 0},
                                             shared);
}

/* Stores images in z of points that the interior kernel has stored, a pack a thread. */
static __device__ __forceinline__ void store_images(const absorb_args &a, const whole_layers &s,
                                                    unsigned block) {
  const kernel_args &f = a.field;
  const int packs = (f.nx + PACK - 1) / PACK, i = (int)(block * LAYER_THREADS + threadIdx.x),
            x = i % packs * PACK, y = s.y.lo + i / packs;
  await_launch_before();
  if (y >= s.y.hi) return;
  for (int n = 0; n < images::NEAR_FACES; n++) {
    const int z = images::plane_near_face(n, f.nz);
    if (z >= s.z.lo && z < s.z.hi)
      images::store_in_z(f, f.out + ((ptrdiff_t)f.plane * z + (ptrdiff_t)f.pitch * y + x), z, f.nx - x);
  }
}

/* u in boxes across y and across z. */
struct whole_maps {
  tile_maps along_y, along_z;
};

/* --- launches ----------------------------------------------------------------------------------------------- */

/* With `concurrent` the kernel runs beside the launch before, and ends after that launch. */
template <enum equation Q, terms_of TERMS, bool PACKS, bool BATCH>
static __global__ void __launch_bounds__(LAYER_THREADS, LAYER_BLOCKS)
    whole(const __grid_constant__ absorb_args a, const __grid_constant__ whole_layers s,
          const __grid_constant__ whole_maps m) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) float shared[];
  const unsigned crossing = s.crossing.blocks(), along_z = crossing + s.along_z.blocks(),
                 layer_blocks = s.layer_blocks();
  admit_next_launch();
  if (!s.concurrent) await_launch_before();
  if (!BATCH && blockIdx.x < crossing)
    update_along_z<Q, TERMS, PACKS, ACROSS>(a, s, m.along_z, blockIdx.x, shared);
  else if (blockIdx.x < along_z)
    update_along_z<Q, TERMS, PACKS, BATCH ? BATCH_ROWS : PLAIN>(a, s, m.along_z, blockIdx.x - crossing,
                                                                shared);
  else if (!BATCH && blockIdx.x < layer_blocks)
    update_along_y<Q, TERMS, PACKS>(a, s, m.along_y, blockIdx.x - along_z, shared);
  else
    store_images(a, s, blockIdx.x - layer_blocks);
  if (s.concurrent && blockIdx.x == gridDim.x - 1) await_launch_before();
#endif
}

/* Cuts each layer of `width` points into pieces of at least `least` points, for two layers. */
inline layers cut_layers(const span &s, unsigned tiles, int width, int least) {
  layers l = {s.boxes(), tiles, 1};
  while (2 * l.tiles * l.pieces < WHOLE_ENOUGH && (int)(l.pieces + 1) * least <= width) l.pieces++;
  return l;
}

inline whole_layers whole_layers_of(const absorb_args &a) {
  const kernel_args &f = a.field;
  whole_layers s = {};
  s.y = span_of(a.axis[1], 0, f.ny), s.z = span_of(a.axis[2], f.z_begin, f.z_end);
  s.tiles_x = blocks_for(f.nx, TILE_X);
  s.low = blocks_for(s.y.lo, LAYER_WARPS);
  const unsigned crossing = s.low + blocks_for(s.y.end - s.y.hi, LAYER_WARPS);
  s.crossing = cut_layers(s.z, s.tiles_x * crossing, a.width, WHOLE_CROSSING);
  s.along_z = cut_layers(s.z, s.tiles_x * blocks_for(s.y.between(), LAYER_WARPS), a.width, WHOLE_PIECE);
  s.along_y = cut_layers(s.y, s.tiles_x * blocks_for(s.z.between(), LAYER_WARPS), a.width, WHOLE_PIECE);
  if (images::in_z_alone(f, s.z.lo, s.z.hi)) s.image_rows = (unsigned)s.y.between();
  return s;
}

/* The cost of the layers' blocks, for the cut of the interior kernel beside them. */
inline bulk_tensor::concurrent_blocks cost_of(const whole_layers &s, int width) {
  constexpr double ROW = 800; /* ns a row, beside the interior kernel */
  const layers *const kinds[] = {&s.crossing, &s.along_z, &s.along_y};
  double all = 0;
  for (const layers *l : kinds) all += l->blocks() * ROW * ((double)width / l->pieces + 2 * RADIUS);
  return {(int)s.layer_blocks(), LAYER_BLOCKS, all / std::max(1u, s.layer_blocks())};
}

/* Leaves the ghosts beyond the layer at the low or high end of an axis out of a map of u. *at: point 0 along the
 * axis. */
inline void leave_out(bool low, bool high, ptrdiff_t stride, size_t *points, const float **first, int *at) {
  *at = low ? 0 : RADIUS;
  if (low) *first += RADIUS * stride, *points -= RADIUS;
  if (high) *points -= RADIUS;
}

inline cudaError_t make_whole_maps(const bulk_tensor::encoder &e, whole_maps *m, const absorb_args &a) {
  constexpr int G = RADIUS, ROWS_ACROSS = LAYER_WARPS, READ = ROWS_ACROSS + 2 * G;
  const absorb_axis &x = a.axis[0], &y = a.axis[1], &z = a.axis[2];
  const bool batch = kernel_is_batch(&a.field);
  bulk_tensor::tensor u = bulk_tensor::with_ghosts(a.field, 0, a.field.nz);
  tile_maps &w = m->along_y;
  leave_out(x.lo > 0, x.hi > 0, 1, &u.nx, &u.first, &w.x);
  leave_out(y.lo > 0, y.hi > 0, (ptrdiff_t)u.pitch, &u.ny, &u.first, &w.y);
  leave_out(z.lo > 0 && z.origin == 0, z.hi > 0 && z.origin + a.field.nz == z.points, (ptrdiff_t)u.plane,
            &u.nz, &u.first, &w.z);
  m->along_z = w;
  cudaError_t status = make_map(e, &m->along_y.plane, u, {TILE_X, 1, READ});
  if (status == cudaSuccess) status = make_map(e, &m->along_y.side, u, {G, 1, ROWS_ACROSS});
  if (status == cudaSuccess) status = make_map(e, &m->along_z.plane, u, {TILE_X, batch ? ROWS_ACROSS : READ});
  if (status == cudaSuccess) status = make_map(e, &m->along_z.side, u, {G, ROWS_ACROSS});
  return status;
}

/* whole<...> with the shared memory it needs. */
struct whole_kernel {
  const void *function;
  cudaError_t status;
  explicit whole_kernel(const void *f)
      : function(f),
        status(cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)LAYER_SHARED)) {}
};

template <enum equation Q, terms_of TERMS, bool BATCH>
cudaError_t launch_whole(const absorb_args &args, const whole_layers &layers, cudaStream_t stream) {
  static const whole_kernel packs(reinterpret_cast<const void *>(whole<Q, TERMS, true, BATCH>)),
      points(reinterpret_cast<const void *>(whole<Q, TERMS, false, BATCH>));
  static const bulk_tensor::encoder e(packs.function);
  const whole_kernel &kernel = args.field.nx % PACK ? points : packs;
  const long long image_packs = (long long)layers.image_rows * blocks_for(args.field.nx, PACK);
  const unsigned blocks = layers.layer_blocks() + blocks_for(image_packs, LAYER_THREADS);
  if (blocks == 0) return cudaSuccess;
  absorb_args a = args;
  whole_layers s = layers;
  whole_maps m = {};
  void *parameters[] = {&a, &s, &m};
  cudaError_t status = e.status == cudaSuccess ? kernel.status : e.status;
  if (status == cudaSuccess) status = make_whole_maps(e, &m, a);
  return status == cudaSuccess
             ? launch_behind(kernel.function, dim3(blocks), LAYER_THREADS, LAYER_SHARED, stream, parameters)
             : status;
}

} // namespace absorbing
#endif
