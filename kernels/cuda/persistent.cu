/* persistent: one cooperative launch advances many steps, with grid.sync() between them. A warp owns 128 points of a
 * row and moves up in z. It keeps sums in registers and reads neighbours through the caches: fields this small
 * stay in L2, and no pipeline must be filled again in every step. Pieces of the planes that neighbours wait for come
 * first. The block that finishes the last of them sets the neighbour's counter with a release at system scope; the
 * neighbour's blocks acquire it before their next step. */
#include <cooperative_groups.h>
#include <cuda/atomic>
#include "kernels/operations/operation.h"
#include "stencil.cuh"

namespace cg = cooperative_groups;

namespace persistent {

using stencil::PACK;

enum { LANES = 32, ROWS = 8, THREADS = LANES * ROWS, TILE_X = LANES * PACK, BLOCKS = 2 /* an SM */ };
constexpr unsigned long long PATIENCE = 60ull * 1000 * 1000 * 1000; /* ns to wait for a neighbour */

/* Pieces are tiles of z ranges: [0, lo) and [hi, nz) first, then [lo, hi) in chunks of `planes`. */
struct cutting {
  int tiles_x, tiles, lo, hi, planes, boundary, pieces;
};

struct one_row { /* stencil::arrive needs a shape */
  static constexpr int rows = 1;
};

struct zspan {
  int begin, end;
};

struct point {
  int z, y, x;
};

/* Copies of new values: into the neighbours' ghosts, and images into own ghosts. */
struct copies {
  float *remote[2]; /* [side]: the neighbour's ghost point (first ghost plane, 0, 0); NULL: none */
  bool images;
};

static __device__ __forceinline__ zspan piece_span(const cutting &c, int piece, int nz) {
  if (piece >= c.boundary) {
    const int begin = c.lo + (piece - c.boundary) / c.tiles * c.planes;
    return {begin, min(begin + c.planes, c.hi)};
  }
  return c.lo > 0 && piece < c.tiles ? zspan{0, c.lo} : zspan{c.hi, nz};
}

/* --- a piece ---------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ bool has_images(const kernel_args &a, point p) {
  const unsigned char *g = a.ghosts;
  return ghosts_touch(p.x, a.nx, g[FACE_X_LO], g[FACE_X_HI]) ||
         ghosts_touch(p.x + PACK - 1, a.nx, g[FACE_X_LO], g[FACE_X_HI]) ||
         ghosts_touch(p.y, a.ny, g[FACE_Y_LO], g[FACE_Y_HI]) ||
         ghosts_touch(p.z, a.nz, g[FACE_Z_LO], g[FACE_Z_HI]);
}

static __device__ __forceinline__ void store_lanes(float *to, const float v[PACK], int lanes) {
  if (lanes >= PACK)
    *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
  else
    for (int i = 0; i < lanes; i++) to[i] = v[i];
}

/* Stores new values here, and in the neighbours' ghosts where the plane is one that they wait for. */
static __device__ __forceinline__ void store_everywhere(const kernel_args &a, const copies &c, point p,
                                                        const float v[PACK]) {
  const ptrdiff_t at = (ptrdiff_t)a.pitch * p.y + p.x, plane = (ptrdiff_t)a.plane;
  const int lanes = a.nx - p.x;
  float *to = a.out + plane * p.z + at;
  if (c.images && has_images(a, p)) {
    for (int i = 0; i < PACK && i < lanes; i++) ghosts_store(&a, p.z, p.y, p.x + i, v[i]);
    for (int side = 0; side < 2; side++) { /* points held 0 are 0 in the neighbour's ghosts too */
      const int ghost = side ? p.z - (a.nz - RADIUS) : p.z;
      if (c.remote[side] && ghost >= 0 && ghost < RADIUS)
        for (int i = 0; i < PACK && i < lanes; i++) c.remote[side][plane * ghost + at + i] = to[i];
    }
    return;
  }
  store_lanes(to, v, lanes);
  if (c.remote[0] && p.z < RADIUS) store_lanes(c.remote[0] + plane * p.z + at, v, lanes);
  if (c.remote[1] && p.z >= a.nz - RADIUS)
    store_lanes(c.remote[1] + plane * (p.z - (a.nz - RADIUS)) + at, v, lanes);
}

/* Adds the arms in x and y of the four points at `own`, whose values are u. */
static __device__ __forceinline__ void add_arms(float sum[1][PACK], const float u[PACK], const float *own,
                                                const kernel_args &a) {
  float row[1][PACK + 2 * RADIUS];
  stencil::load(row[0], own - RADIUS);
  stencil::load(row[0] + RADIUS + PACK, own + PACK);
#pragma unroll
  for (int i = 0; i < PACK; i++) row[0][RADIUS + i] = u[i];
  stencil::add_arms_from<1>(sum, row, own, (int)a.pitch, a);
}

template <enum equation Q>
static __device__ __forceinline__ void finish_plane(const kernel_args &a, const copies &c, point p,
                                                    float done[PACK]) {
  const ptrdiff_t at = (ptrdiff_t)a.plane * p.z + (ptrdiff_t)a.pitch * p.y + p.x;
  float u[PACK], m[EQUATION_MEDIA][PACK], before[PACK] = {};
  if (stencil::reads_u<Q>) {
    stencil::load(u, a.in + at);
#pragma unroll
    for (int k = 0; k < stencil::media_of<Q>; k++)
      if (a.medium[k]) stencil::load(m[k], a.medium[k] + at);
    if (stencil::reads_before<Q>) stencil::load(before, a.out + at);
    stencil::update<Q>(done, m, u, before, a);
  }
  store_everywhere(a, c, p, done);
}

template <enum equation Q>
static __device__ void update_piece(const kernel_args &a, const copies &c, int y, int x, zspan z) {
  const float *own = a.in + (ptrdiff_t)a.pitch * y + x;
  const ptrdiff_t plane = (ptrdiff_t)a.plane;
  float sums[2 * RADIUS][1][PACK] = {}, u[1][PACK], next[PACK], done[1][PACK];
  stencil::load(next, own + plane * (z.begin - RADIUS));
  for (int p = z.begin - RADIUS; p < z.end + RADIUS; p++) {
#pragma unroll
    for (int i = 0; i < PACK; i++) u[0][i] = next[i];
    if (p + 1 < z.end + RADIUS) stencil::load(next, own + plane * (p + 1));
    stencil::arrive<one_row>(done, sums, u, a);
    if (p >= z.begin && p < z.end) add_arms(sums[4], u[0], own + plane * p, a);
    if (p - RADIUS >= z.begin) finish_plane<Q>(a, c, {p - RADIUS, y, x}, done[0]);
  }
}

/* --- meeting the neighbours ------------------------------------------------------------------------------------- */

static __device__ __forceinline__ unsigned long long now_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

/* Counts a finished piece that neighbours wait for. The block that finishes a step's last piece signals them. */
static __device__ void piece_done(const persistent_args &p, const cutting &c, int step) {
  __syncthreads();
  if (threadIdx.x || threadIdx.y) return;
  __threadfence_system(); /* the block's planes, before the count */
  const unsigned before = cuda::atomic_ref<unsigned, cuda::thread_scope_device>(p.state->done).fetch_add(1);
  if (before + 1 != (unsigned)c.boundary * (unsigned)(step + 1)) return;
  __threadfence_system();
  for (int side = 0; side < 2; side++)
    if (p.remote_counter[side])
      cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*p.remote_counter[side])
          .store(p.counter_before + (uint32_t)step + 1, cuda::memory_order_release);
}

/* Waits until both neighbours have sent what the next step reads. */
static __device__ void await_neighbours(const persistent_args &p, int step) {
  if (threadIdx.x || threadIdx.y) return;
  const unsigned long long begin = now_ns();
  for (int side = 0; side < 2; side++) {
    if (!p.counter[side]) continue;
    cuda::atomic_ref<uint32_t, cuda::thread_scope_system> counter(*const_cast<uint32_t *>(p.counter[side]));
    while ((int32_t)(counter.load(cuda::memory_order_acquire) - (p.counter_before + (uint32_t)step + 1)) <
           0) {
      if (now_ns() - begin > PATIENCE) {
        atomicExch(&p.state->failed, 1u);
        return;
      }
      __nanosleep(20);
    }
  }
  if (blockIdx.x == 0) p.state->waited_ns += now_ns() - begin;
}

template <enum equation Q>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    advance(const __grid_constant__ persistent_args p, const __grid_constant__ cutting c) {
  const cg::grid_group grid = cg::this_grid();
  kernel_args a = p.constants;
  bool images = false;
  for (int f = 0; f < FACE_COUNT; f++) images = images || a.ghosts[f] != GHOST_KEEP;
  for (int step = 0; step < p.steps; step++) {
    constexpr unsigned fields = EQUATION_STATES_OF(EQUATIONS[Q].levels);
    const unsigned in = (unsigned)step % fields, out = (unsigned)(step + 1) % fields;
    const copies others = {{p.remote[0][out], p.remote[1][out]}, images};
    a.in = p.fields[in], a.out = p.fields[out];
    for (int piece = (int)blockIdx.x; piece < c.pieces; piece += (int)gridDim.x) {
      const int tile = piece % c.tiles;
      const int x = tile % c.tiles_x * TILE_X + (int)threadIdx.x * PACK,
                y = tile / c.tiles_x * ROWS + (int)threadIdx.y;
      if (x < a.nx && y < a.ny) update_piece<Q>(a, others, y, x, piece_span(c, piece, a.nz));
      if (piece < c.boundary) piece_done(p, c, step);
    }
    await_neighbours(p, step);
    grid.sync();
    if (*(volatile unsigned *)&p.state->failed) return;
  }
}

/* --- the host's half -------------------------------------------------------------------------------------------- */

/* Chooses chunks thick enough that the 8 extra planes they read cost little, and thin enough that all blocks have
 * work. */
static void cut_pieces(cutting *c, const persistent_args *p, int blocks) {
  const kernel_args &a = p->constants;
  const double EXTRA = 2.5; /* the cost of the 8 planes, in planes */
  const bool lower = p->remote_counter[0], upper = p->remote_counter[1];
  c->tiles_x = stencil::ceil_div(a.nx, TILE_X);
  c->tiles = c->tiles_x * stencil::ceil_div(a.ny, ROWS);
  c->lo = lower ? (a.nz < 2 * RADIUS ? a.nz : RADIUS) : 0;
  c->hi = upper && a.nz >= 2 * RADIUS ? a.nz - RADIUS : a.nz;
  if (upper && a.nz < 2 * RADIUS) c->lo = a.nz; /* all of a thin slab is boundary */
  c->boundary = c->tiles * ((c->lo > 0) + (c->hi < a.nz));
  double least = 0;
  for (int planes = 2; planes <= 64; planes++) {
    const int pieces = c->boundary + c->tiles * stencil::ceil_div(c->hi - c->lo, planes);
    const double cost = stencil::ceil_div(pieces, blocks) * (planes + EXTRA);
    if (planes > 2 && cost >= least) continue;
    least = cost, c->planes = planes, c->pieces = pieces;
  }
}

template <enum equation Q> static int launch(persistent_args p, cudaStream_t stream) {
  const void *function = reinterpret_cast<const void *>(advance<Q>);
  residency r = {};
  cutting c = {};
  cudaError_t status = residency_of(function, THREADS, 0, &r);
  if (status != cudaSuccess) return (int)status;
  const int blocks = r.sms * r.blocks;
  cut_pieces(&c, &p, blocks);
  status = cudaMemsetAsync(p.state, 0, sizeof *p.state, stream);
  if (status != cudaSuccess) return (int)status;
  void *parameters[] = {&p, &c};
  return (int)launch_together(function, c.pieces < blocks ? c.pieces : blocks, dim3(LANES, ROWS), parameters,
                              stream);
}

} // namespace persistent

extern "C" int operation_persistent_cuda(const void *args, void *stream) {
  const persistent_args &p = *static_cast<const persistent_args *>(args);
  return stencil::of_equation(p.constants.equation, [&](auto q) {
    return persistent::launch<decltype(q)::value>(p, (cudaStream_t)stream);
  });
}
