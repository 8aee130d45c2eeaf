/* Stores images of new values in ghosts (ghosts.h). Every launcher of one step enqueues this behind the launch that
 * stored the values, unless all ghosts keep their value.
 *
 *   row_ends     the ghosts of one row beyond a face in x
 *   store_pack   four ghosts in x of a row beyond a face in y or z
 *   fill_gaps    both ends of rows at once, in whole sectors
 *   store_in_z   those of a pack in z, for kernels that have no such launch (absorb_whole.cuh)
 *
 * Why not in the kernel itself: warps at a face then have more to do for each plane, and as blocks keep step all others
 * wait for them (docs/EXPERIMENTS.md). */
#ifndef STENCIL_IMAGES_CUH
#define STENCIL_IMAGES_CUH

#include <cuda_runtime.h>
#include "ghosts.h"
#include "launch_behind.cuh"

namespace images {

enum {
  PACK = 4 /* points in x that one thread moves */,
  DEPTHS = RADIUS + 1 /* from the face's own point on */
};

/* The faces with images of points in the planes of a launch. */
struct face_list {
  int count;
  unsigned char faces[FACE_COUNT];
};

/* Along an axis of n points: the index of the ghost `depth` (1 .. 4) beyond a face, and of the point that it is the
 * image of. Depth 0 is the face's own point. */
static __host__ __device__ __forceinline__ int ghost_of(bool upper, int depth, int n) {
  return upper ? n - 1 + depth : -depth;
}
static __host__ __device__ __forceinline__ int source_of(int rule, bool upper, int depth, int n) {
  if (rule == GHOST_WRAP) return upper ? depth - 1 : n - depth;
  return upper ? n - 1 - depth : depth;
}

static __device__ __forceinline__ bool held_row(const kernel_args &a, int z, int y) {
  const unsigned char *g = a.ghosts;
  return ghosts_held(y, a.ny, g[FACE_Y_LO], g[FACE_Y_HI]) || ghosts_held(z, a.nz, g[FACE_Z_LO], g[FACE_Z_HI]);
}
static __device__ __forceinline__ bool held(const kernel_args &a, int z, int y, int x) {
  return ghosts_held(x, a.nx, a.ghosts[FACE_X_LO], a.ghosts[FACE_X_HI]) || held_row(a, z, y);
}

/* Loads four points of a row from x on, aligned to 16 bytes; points past the row's end are 0. */
static __device__ __forceinline__ void load_pack(float v[PACK], const float *row, int x, int nx) {
  if (x + PACK <= nx) {
    const float4 p = *reinterpret_cast<const float4 *>(row + x);
    v[0] = p.x, v[1] = p.y, v[2] = p.z, v[3] = p.w;
  } else {
    for (int i = 0; i < PACK; i++) v[i] = x + i < nx ? row[x + i] : 0.0f;
  }
}

/* The image of a value: 0 where the point is held, whatever the launch before has stored there. */
static __device__ __forceinline__ float image_of(float value, bool is_held, int rule) {
  const float v = is_held ? 0.0f : value;
  return rule == GHOST_ODD ? -v : v;
}

/* Stores four floats, or the first `count` of them; aligned ones in one store. */
static __device__ __forceinline__ void store_floats(float *to, const float v[PACK], int count) {
  if (count >= PACK && reinterpret_cast<size_t>(to) % sizeof(float4) == 0)
    *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
  else
    for (int i = 0; i < PACK; i++)
      if (i < count) to[i] = v[i];
}

/* Fills the ghosts of row (z, y) beyond a face in x, and sets the held point to 0. */
static __device__ __forceinline__ void row_ends(const kernel_args &a, int face, int z, int y) {
  const int rule = a.ghosts[face];
  const bool upper = face & 1;
  float *row = a.out + (ptrdiff_t)a.plane * z + (ptrdiff_t)a.pitch * y, v[PACK];
  for (int i = 0; i < PACK; i++) { /* ascending in x */
    const int x = source_of(rule, upper, upper ? i + 1 : PACK - i, a.nx);
    v[i] = image_of(row[x], held(a, z, y, x), rule);
  }
  store_floats(row + (upper ? a.nx : -PACK), v, PACK);
  if (rule == GHOST_ODD) row[upper ? a.nx - 1 : 0] = 0;
}

/* Stores the pack from x on of a row `depth` beyond a face: in y, in plane z, or in z, at y. Depth 0 is the held
 * row. */
static __device__ __forceinline__ void store_pack(const kernel_args &a, int face, int depth, int z, int y,
                                                  int x) {
  const int rule = a.ghosts[face], n = face >= FACE_Z_LO ? a.nz : a.ny;
  const bool upper = face & 1, hold = depth == 0;
  if (hold && rule != GHOST_ODD) return;
  const int source = hold ? ghost_of(upper, 0, n) : source_of(rule, upper, depth, n);
  const int from_z = face >= FACE_Z_LO ? source : z, from_y = face >= FACE_Z_LO ? y : source;
  if (from_z < a.z_begin || from_z >= a.z_end) return;
  float *row = a.out + (ptrdiff_t)a.plane * from_z + (ptrdiff_t)a.pitch * from_y, v[PACK] = {};
  if (!hold) {
    load_pack(v, row, x, a.nx);
    for (int i = 0; i < PACK; i++) v[i] = image_of(v[i], held(a, from_z, from_y, x + i), rule);
  }
  const ptrdiff_t stride = (ptrdiff_t)(face >= FACE_Z_LO ? a.plane : a.pitch);
  store_floats(row + x + stride * (ghost_of(upper, depth, n) - source), v, a.nx - x);
}

/* An item has two numbers: `across`, a plane of the launch (for faces in z a row of the slab), and its place along
 * it. */
static __host__ __device__ __forceinline__ int items_across(const kernel_args &a, int face) {
  return face >= FACE_Z_LO ? a.ny : a.z_end - a.z_begin;
}
static __host__ __device__ __forceinline__ int items_along(const kernel_args &a, int face) {
  return face <= FACE_X_HI ? a.ny : DEPTHS * ((a.nx + PACK - 1) / PACK);
}
static __device__ __forceinline__ void fill_item(const kernel_args &a, int face, int across, int i) {
  const int packs = (a.nx + PACK - 1) / PACK;
  if (face <= FACE_X_HI)
    row_ends(a, face, a.z_begin + across, i);
  else if (face <= FACE_Y_HI)
    store_pack(a, face, i / packs, a.z_begin + across, 0, i % packs * PACK);
  else
    store_pack(a, face, i / packs, 0, across, i % packs * PACK);
}

/* Block (i, j, k) does items from i * BLOCK on of the k-th face; across, it does j and every gridDim.y-th after it. */
template <int BLOCK>
__global__ void __launch_bounds__(BLOCK)
    store_all(const __grid_constant__ kernel_args a, const __grid_constant__ face_list list) {
  await_launch_before();
  const int face = list.faces[blockIdx.z], i = (int)(blockIdx.x * BLOCK + threadIdx.x);
  if (i >= items_along(a, face)) return;
  for (int across = (int)blockIdx.y; across < items_across(a, face); across += (int)gridDim.y)
    fill_item(a, face, across, i);
}

/* --- images in z alone, by kernels of points -------------------------------------------------------------- */

/* Stores the images in z of a pack of `lanes` points in plane z. */
static __device__ __forceinline__ void store_in_z(const kernel_args &a, float *at, int z, int lanes) {
  const int lo = a.ghosts[FACE_Z_LO], hi = a.ghosts[FACE_Z_HI], mirror = a.nz - 1 - z;
  const bool low = lo != GHOST_KEEP && z >= 1 && z <= RADIUS,
             high = hi != GHOST_KEEP && mirror >= 1 && mirror <= RADIUS,
             is_held = ghosts_held(z, a.nz, lo, hi);
  float v[PACK] = {}, image[PACK];
  if (!low && !high && !is_held) return;
  if (is_held)
    store_floats(at, v, lanes);
  else
    load_pack(v, at, 0, lanes);
  for (int side = 0; side < 2; side++) {
    for (int i = 0; i < PACK; i++) image[i] = image_of(v[i], false, side ? hi : lo);
    if (side ? high : low) store_floats(at + (ptrdiff_t)a.plane * (side ? 2 * mirror : -2 * z), image, lanes);
  }
}

/* The planes of nz that may have images in z where z does not wrap: i = 0 .. NEAR_FACES - 1. In a thin slab planes
 * come twice. */
enum { NEAR_FACES = 2 * DEPTHS };
static __host__ __device__ __forceinline__ int plane_near_face(int i, int nz) {
  return i < DEPTHS ? i : nz - 1 - (i - DEPTHS);
}

/* Do the points of a launch have images, and are all of these in z and of planes [begin, end)? */
inline bool in_z_alone(const kernel_args &a, int begin, int end) {
  const int lo = a.ghosts[FACE_Z_LO], hi = a.ghosts[FACE_Z_HI];
  bool some = false, alone = lo != GHOST_WRAP;
  for (int face = 0; face < FACE_Z_LO; face++) alone = alone && a.ghosts[face] == GHOST_KEEP;
  for (int i = 0; i < NEAR_FACES; i++) {
    const int z = plane_near_face(i, a.nz);
    if (z >= a.z_begin && z < a.z_end && ghosts_touch(z, a.nz, lo, hi))
      some = true, alone = alone && z >= begin && z < end;
  }
  return some && alone;
}

/* --- both ends of rows of whole sectors ------------------------------------------------------------------- */

/* Gap i of a plane, of ny + 1, lies between the last point of row i - 1 and the first of row i: right ghosts,
 * padding, left ghosts. It spans whole sectors of 32 bytes. The first and the last sector are stored whole, padding
 * included: DRAM would have to read a sector that is stored in part. A thread has a pack of GAPS gaps, and loads for
 * all of them before it stores. */
enum { GAPS = 4, GAP_LANES = 4, GAP_BLOCK = 128, SECTOR = 8 };

/* Do the gaps of this launch hold only images and padding? */
inline bool gaps_fit(const kernel_args *a) {
  const size_t gap = a->pitch - (size_t)a->nx;
  return a->nx % SECTOR == 0 && gap >= SECTOR && gap <= 4 * SECTOR && a->ghosts[FACE_X_LO] != GHOST_KEEP &&
         a->ghosts[FACE_X_HI] != GHOST_KEEP;
}

/* x of the first of the two packs whose points have their images at this end of a row. */
static __device__ __forceinline__ int sources_at(const kernel_args &a, bool upper) {
  const bool wraps = a.ghosts[FACE_X_LO] == GHOST_WRAP;
  return upper == wraps ? 0 : a.nx - 2 * PACK;
}
static __device__ __forceinline__ float4 ghosts_from(const float4 v[2], bool upper, int rule, bool is_held) {
  float4 g =
      upper ? make_float4(v[1].z, v[1].y, v[1].x, v[0].w) : make_float4(v[1].x, v[0].w, v[0].z, v[0].y);
  if (rule == GHOST_WRAP) g = upper ? v[0] : v[1];
  return make_float4(image_of(g.x, is_held, rule), image_of(g.y, is_held, rule), image_of(g.z, is_held, rule),
                     image_of(g.w, is_held, rule));
}

static __global__ void __launch_bounds__(GAP_BLOCK) fill_gaps(const __grid_constant__ kernel_args a) {
  constexpr int ACROSS = GAP_BLOCK / GAP_LANES;
  await_launch_before();
  const int lane = (int)threadIdx.x % GAP_LANES, packs = (int)(a.pitch - (size_t)a.nx) / PACK;
  const int pack = lane < 2 ? lane : packs - GAP_LANES + lane;
  const bool upper = lane == 0, lower = !upper && pack == packs - 1, ghosts = upper || lower;
  const int rule = a.ghosts[upper ? FACE_X_HI : FACE_X_LO];
  const int first = (int)blockIdx.x * GAPS * ACROSS + (int)threadIdx.x / GAP_LANES;
  if (!ghosts && packs < GAP_LANES) return;
  for (int z = a.z_begin + (int)blockIdx.y; z < a.z_end; z += (int)gridDim.y) {
    float *plane = a.out + (ptrdiff_t)a.plane * z;
    float4 v[GAPS][2] = {};
#pragma unroll
    for (int k = 0; k < GAPS; k++) {
      const int y = first + k * ACROSS - upper;
      if (!ghosts || y < 0 || y >= a.ny) continue;
      const float4 *from =
          reinterpret_cast<const float4 *>(plane + (ptrdiff_t)a.pitch * y + sources_at(a, upper));
      v[k][0] = __ldcs(from), v[k][1] = __ldcs(from + 1);
    }
#pragma unroll
    for (int k = 0; k < GAPS; k++) {
      const int gap = first + k * ACROSS, y = gap - upper;
      if (gap > a.ny || (ghosts && (y < 0 || y >= a.ny))) continue;
      float *row = plane + (ptrdiff_t)a.pitch * y;
      float *to = plane + (ptrdiff_t)a.pitch * (gap - 1) + a.nx + pack * PACK;
      __stcs(reinterpret_cast<float4 *>(to), ghosts_from(v[k], upper, rule, ghosts && held_row(a, z, y)));
      if (ghosts && rule == GHOST_ODD) row[upper ? a.nx - 1 : 0] = 0;
    }
  }
}

inline cudaError_t launch_gaps(const kernel_args *a, cudaStream_t stream) {
  constexpr int A_BLOCK = GAPS * GAP_BLOCK / GAP_LANES, GRID_MAX = 65535;
  const int planes = a->z_end - a->z_begin;
  const dim3 grid((unsigned)(a->ny / A_BLOCK + 1), (unsigned)(planes < GRID_MAX ? planes : GRID_MAX));
  kernel_args args = *a;
  void *parameters[] = {&args};
  return launch_behind(reinterpret_cast<const void *>(fill_gaps), grid, GAP_BLOCK, 0, stream, parameters);
}

/* --- launching -------------------------------------------------------------------------------------------- */

/* The faces from `first` on with images to store: in z only faces within reach of the launch's planes. */
inline face_list faces_of(const kernel_args *a, int first) {
  face_list list = {};
  for (int face = first; face < FACE_COUNT; face++) {
    const int rule = a->ghosts[face];
    bool some = rule != GHOST_KEEP;
    if (some && face >= FACE_Z_LO) {
      some = false;
      for (int depth = rule == GHOST_WRAP; depth < DEPTHS; depth++) {
        const int z = source_of(rule, face & 1, depth, a->nz);
        some = some || (z >= a->z_begin && z < a->z_end);
      }
    }
    if (some) list.faces[list.count++] = (unsigned char)face;
  }
  return list;
}

inline cudaError_t launch_faces(const kernel_args *a, const face_list &list, cudaStream_t stream) {
  constexpr int BLOCK = 128, GRID_MAX = 65535;
  int along = 1, across = 1;
  if (!list.count) return cudaSuccess;
  for (int i = 0; i < list.count; i++) {
    const int face = list.faces[i];
    if (items_along(*a, face) > along) along = items_along(*a, face);
    if (items_across(*a, face) > across) across = items_across(*a, face);
  }
  const dim3 grid((unsigned)((along - 1) / BLOCK + 1), (unsigned)(across < GRID_MAX ? across : GRID_MAX),
                  (unsigned)list.count);
  kernel_args args = *a;
  face_list faces = list;
  void *parameters[] = {&args, &faces};
  return launch_behind(reinterpret_cast<const void *>(store_all<BLOCK>), grid, BLOCK, 0, stream, parameters);
}

/* Enqueues the images of the own points of planes [z_begin, z_end) of `out`, and sets held points to 0. */
inline cudaError_t launch(const kernel_args *a, cudaStream_t stream) {
  if (a->z_end <= a->z_begin) return cudaSuccess;
  if (!gaps_fit(a)) return launch_faces(a, faces_of(a, FACE_X_LO), stream);
  const cudaError_t status = launch_gaps(a, stream);
  return status == cudaSuccess ? launch_faces(a, faces_of(a, FACE_Y_LO), stream) : status;
}

} // namespace images
#endif
