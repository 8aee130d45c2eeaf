/* The launches that store the images of new values in ghosts (images.cuh). There are none where all ghosts keep their
 * value.
 *
 *   near_faces   a thread for each point near a face that may have images
 *   fill_gaps    both ends of rows at once, in whole sectors
 *
 * Why not in the kernel itself: warps at a face then have more to do for each plane, and as blocks keep step all others
 * wait for them (docs/EXPERIMENTS.md). */
#include "images.cuh"
#include "launch_behind.cuh"

namespace images {

enum { BLOCK = 128, GRID_MAX = 65535 /* blocks that a launch may have along y */ };

/* The faces with images of points in the planes of a launch. */
struct face_list {
  int count;
  unsigned char faces[FACE_COUNT];
};

/* The points near a face: so many in x, y, z. In z planes of the launch, or DEPTHS from the face on. */
struct extent {
  int x, y, z;
};
static __host__ __device__ __forceinline__ extent near(const kernel_args &a, int face) {
  const int axis = face / 2;
  return {axis == 0 ? min(DEPTHS, a.nx) : a.nx, axis == 1 ? min(DEPTHS, a.ny) : a.ny,
          axis == 2 ? min(DEPTHS, a.nz) : a.z_end - a.z_begin};
}

/* Block (i, j, k) does points from i * BLOCK on, of planes j (and every gridDim.y-th), of the k-th face. */
static __global__ void __launch_bounds__(BLOCK)
    near_faces(const __grid_constant__ kernel_args a, const __grid_constant__ face_list list) {
  await_launch_before();
  const int face = list.faces[blockIdx.z], axis = face / 2, i = (int)(blockIdx.x * BLOCK + threadIdx.x);
  const bool upper = face & 1;
  const extent n = near(a, face);
  int x = i % n.x, y = i / n.x;
  if (y >= n.y) return;
  if (axis == 0 && upper) x = a.nx - 1 - x;
  if (axis == 1 && upper) y = a.ny - 1 - y;
  for (int plane = (int)blockIdx.y; plane < n.z; plane += (int)gridDim.y) {
    const int z = axis < 2 ? a.z_begin + plane : upper ? a.nz - 1 - plane : plane;
    if (z >= a.z_begin && z < a.z_end) ghosts_renew(&a, z, y, x);
  }
}

/* The faces from `first` on that have something to do: in z only those near the launch's planes. */
static face_list faces_of(const kernel_args &a, int first) {
  face_list list = {};
  for (int face = first; face < FACE_COUNT; face++) {
    const bool far =
        (face == FACE_Z_LO && a.z_begin >= DEPTHS) || (face == FACE_Z_HI && a.z_end <= a.nz - DEPTHS);
    if (a.ghosts[face] != GHOST_KEEP && !far) list.faces[list.count++] = (unsigned char)face;
  }
  return list;
}

static cudaError_t launch_faces(const kernel_args &args, int first, cudaStream_t stream) {
  kernel_args a = args;
  face_list list = faces_of(a, first);
  int across = 1, planes = 1;
  if (!list.count) return cudaSuccess;
  for (int i = 0; i < list.count; i++) {
    const extent n = near(a, list.faces[i]);
    across = max(across, n.x * n.y), planes = max(planes, n.z);
  }
  const dim3 grid((unsigned)((across - 1) / BLOCK + 1), (unsigned)min(planes, (int)GRID_MAX),
                  (unsigned)list.count);
  void *parameters[] = {&a, &list};
  return launch_behind(reinterpret_cast<const void *>(near_faces), grid, BLOCK, 0, stream, parameters);
}

/* --- both ends of rows of whole sectors ------------------------------------------------------------------- */

/* Gap i of a plane, of ny + 1, is what lies between the last point of row i - 1 and the first of row i: right ghosts,
 * padding, left ghosts, in whole 32-byte sectors. Its first and its last sector are stored whole, padding included:
 * DRAM would have to read half of one that is stored in part. A thread has a pack of GAPS gaps, and loads for all of
 * them before it stores. */
enum { PACK = 4, GAPS = 4, GAP_LANES = 4, SECTOR = 8 };

/* Do the gaps of this launch hold only images and padding? */
static bool gaps_fit(const kernel_args &a) {
  const size_t gap = a.pitch - (size_t)a.nx;
  return a.nx % SECTOR == 0 && gap >= SECTOR && gap <= 4 * SECTOR && a.ghosts[FACE_X_LO] != GHOST_KEEP &&
         a.ghosts[FACE_X_HI] != GHOST_KEEP;
}

/* x of the first of the two packs whose points have their images at this end of a row. */
static __device__ __forceinline__ int sources_at(const kernel_args &a, bool upper) {
  const bool wraps = a.ghosts[FACE_X_LO] == GHOST_WRAP;
  return upper == wraps ? 0 : a.nx - 2 * PACK;
}
static __device__ __forceinline__ float4 ghosts_from(const float4 v[2], bool upper, int rule, bool held) {
  float4 g =
      upper ? make_float4(v[1].z, v[1].y, v[1].x, v[0].w) : make_float4(v[1].x, v[0].w, v[0].z, v[0].y);
  if (rule == GHOST_WRAP) g = upper ? v[0] : v[1];
  if (held) g = make_float4(0, 0, 0, 0);
  return rule == GHOST_ODD ? make_float4(-g.x, -g.y, -g.z, -g.w) : g;
}

static __global__ void __launch_bounds__(BLOCK) fill_gaps(const __grid_constant__ kernel_args a) {
  constexpr int ACROSS = BLOCK / GAP_LANES;
  await_launch_before();
  const int lane = (int)threadIdx.x % GAP_LANES, packs = (int)(a.pitch - (size_t)a.nx) / PACK;
  const int pack = lane < 2 ? lane : packs - GAP_LANES + lane;
  const bool upper = lane == 0, lower = !upper && pack == packs - 1, ghosts = upper || lower;
  const unsigned char *g = a.ghosts;
  const int rule = g[upper ? FACE_X_HI : FACE_X_LO];
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
      const bool held = ghosts_held(y, a.ny, g[FACE_Y_LO], g[FACE_Y_HI]) ||
                        ghosts_held(z, a.nz, g[FACE_Z_LO], g[FACE_Z_HI]);
      float *row = plane + (ptrdiff_t)a.pitch * y;
      float *to = plane + (ptrdiff_t)a.pitch * (gap - 1) + a.nx + pack * PACK;
      __stcs(reinterpret_cast<float4 *>(to), ghosts_from(v[k], upper, rule, ghosts && held));
      if (ghosts && rule == GHOST_ODD) row[upper ? a.nx - 1 : 0] = 0;
    }
  }
}

static cudaError_t launch_gaps(const kernel_args &args, cudaStream_t stream) {
  constexpr int A_BLOCK = GAPS * BLOCK / GAP_LANES;
  kernel_args a = args;
  const dim3 grid((unsigned)(a.ny / A_BLOCK + 1), (unsigned)min(a.z_end - a.z_begin, (int)GRID_MAX));
  void *parameters[] = {&a};
  return launch_behind(reinterpret_cast<const void *>(fill_gaps), grid, BLOCK, 0, stream, parameters);
}

} // namespace images

extern "C" int operation_ghosts_cuda(const void *args, void *stream) {
  const kernel_args &a = *static_cast<const kernel_args *>(args);
  const cudaStream_t s = static_cast<cudaStream_t>(stream);
  if (a.z_end <= a.z_begin) return cudaSuccess;
  if (!images::gaps_fit(a)) return (int)images::launch_faces(a, FACE_X_LO, s);
  const cudaError_t status = images::launch_gaps(a, s);
  return (int)(status == cudaSuccess ? images::launch_faces(a, FACE_Y_LO, s) : status);
}
