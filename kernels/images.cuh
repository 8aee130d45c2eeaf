/* Images of new values in ghosts (ghosts.h), stored by the thread that stores the values. For kernels that have been
 * compiled for it: even a test that is never true, in the loop over planes, costs jacobi 6 % and a spilled register a
 * quarter, so where all ghosts keep their value another instance runs, without a trace of this (with_images).
 * A warp does its planes one after another, so what counts is how long the threads at a face take for an image:
 *   y, z   the image of a pack is a pack
 *   x      ghosts -4 .. -1 are points 4 3 2 1, so a pack of the next thread's first point and of the last three of the
 *          own; where the padding beside them is free, the next thread stores 8 7 6 5 there, since part of a 32-byte
 *          sector costs the memory more than all of it. Where packs and face do not match: point by point */
#ifndef STENCIL_IMAGES_CUH
#define STENCIL_IMAGES_CUH

#include "ghosts.h"

namespace star {

constexpr int REACH = 4; /* of the star, points */
constexpr int PACK = 4;  /* floats in 16 bytes: what one copy moves, and the points in x a thread owns */
static_assert(REACH == GHOST_REACH, "as many ghosts as the star reads");

/* Shape S, for launches that have images to store if IMAGES. */
template <class S, bool IMAGES> struct with_images : S { static constexpr bool images = IMAGES; };

inline bool any_images(const kernel_args *a) {
  for (int face = 0; face < FACE_COUNT; face++)
    if (a->ghosts[face] != GHOST_KEEP) return true;
  return false;
}

/* Has one of `count` points from `first` on, of n along an axis, an image beyond the face, or is it held for it?
 * Sometimes true without. */
__device__ __forceinline__ bool near_face(const kernel_args &a, int face, int first, int count, int n) {
  const int rule = a.ghosts[face], last = first + count - 1;
  const int nearest = face & 1 ? n - 1 - last : first,
            farthest = face & 1 ? n - 1 - first : last; /* to the face */
  return rule == GHOST_WRAP ? farthest >= n - 2 * PACK : rule != GHOST_KEEP && nearest <= REACH;
}

/* What a thread knows of images before its loop over planes: a bit for each face that concerns it, in x and y, and: */
enum { HOLDS = 1 << FACE_COUNT /* a rule holds points */, BY_PACK = 2 * HOLDS /* in x */, PADS = 4 * HOLDS };
enum { FACES_X = 3 << FACE_X_LO, FACES_Y = 3 << FACE_Y_LO, FACES_Z = 3 << FACE_Z_LO, FACES = HOLDS - 1 };

/* Of a thread whose first point is (y, x), in a tile of TX points in x. */
template <int TX, int ROWS> __device__ __forceinline__ int faces_of(const kernel_args &a, int y, int x) {
  int faces = 0;
  if (y >= a.ny || x >= a.nx) return 0;
#pragma unroll
  for (int side = 0; side < 2; side++) {
    faces |= near_face(a, FACE_X_LO + side, x, PACK, a.nx) << (FACE_X_LO + side);
    faces |= near_face(a, FACE_Y_LO + side, y, ROWS, a.ny) << (FACE_Y_LO + side);
  }
#pragma unroll
  for (int face = 0; face < FACE_COUNT; face++)
    if (a.ghosts[face] == GHOST_ODD) faces |= HOLDS;
  /* Not where a tile begins with the last pack: the point before it is another block's. */
  if (a.nx % PACK == 0 && a.nx >= 2 * PACK && (a.nx - PACK) % TX) faces |= BY_PACK;
  if (a.pitch - (size_t)a.nx >= 4 * PACK) faces |= PADS; /* what is beside the ghosts is not the next row's */
  return faces;
}

__device__ __forceinline__ int faces_of_plane(const kernel_args &a, int z) {
  return near_face(a, FACE_Z_LO, z, 1, a.nz) << FACE_Z_LO | near_face(a, FACE_Z_HI, z, 1, a.nz) << FACE_Z_HI;
}

/* How images lie beyond FACE, seen from a thread's first point along the axis. */
template <int FACE> struct image {
  static constexpr bool upper = FACE & 1;
  bool wraps;
  unsigned flip; /* of the sign bit */
  int depth;     /* of the first point, from the face */
  int nearest;   /* depths [nearest, nearest + 4) have an image */
  int shift; /* from the first point to its image; that of the i-th is i further, or if mirrored i nearer */

  __device__ __forceinline__ image(const kernel_args &a, int first, int n) {
    wraps = a.ghosts[FACE] == GHOST_WRAP, flip = a.ghosts[FACE] == GHOST_ODD ? 0x80000000u : 0;
    depth = upper ? n - 1 - first : first, nearest = wraps ? n - REACH : 1;
    const int distance = wraps ? n : 2 * depth;
    shift = upper ? distance : -distance;
  }
  /* Has point i an image? */
  __device__ __forceinline__ bool has(int i) const {
    return (unsigned)((upper ? depth - i : depth + i) - nearest) < REACH;
  }
  __device__ __forceinline__ float of(float v) const { return __uint_as_float(__float_as_uint(v) ^ flip); }
};

template <int ROWS> struct packs { float v[ROWS][PACK]; };

/* A thread's new values of one plane, of which `rows` rows of `lanes` points exist. */
template <int ROWS> struct fresh {
  const kernel_args &a;
  float (&v)[ROWS][PACK];
  float *to; /* point (z, y, x) of `out`, the first */
  int z, y, x, rows, lanes;

  template <int FACE> __device__ __forceinline__ void put(float *at, int j, const image<FACE> &m) const {
    if (lanes >= PACK)
      *reinterpret_cast<float4 *>(at) =
          make_float4(m.of(v[j][0]), m.of(v[j][1]), m.of(v[j][2]), m.of(v[j][3]));
    else
#pragma unroll
      for (int i = 0; i < PACK - 1; i++)
        if (i < lanes) at[i] = m.of(v[j][i]);
  }

  __device__ __forceinline__ void hold() const {
    const bool plane = ghosts_held(z, a.nz, a.ghosts[FACE_Z_LO], a.ghosts[FACE_Z_HI]);
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
      const bool row = plane || ghosts_held(y + j, a.ny, a.ghosts[FACE_Y_LO], a.ghosts[FACE_Y_HI]);
#pragma unroll
      for (int i = 0; i < PACK; i++)
        if (row || ghosts_held(x + i, a.nx, a.ghosts[FACE_X_LO], a.ghosts[FACE_X_HI])) v[j][i] = 0;
    }
  }

  /* STEP: 1 where it wraps, -1 mirrored. */
  template <int STEP, int FACE> __device__ __forceinline__ void in_x_by_point(const image<FACE> &m) const {
    float *at = to + m.shift;
#pragma unroll
    for (int j = 0; j < ROWS; j++, at += a.pitch)
#pragma unroll
      for (int i = 0; i < PACK; i++)
        if (j < rows && m.has(i)) at[STEP * i] = m.of(v[j][i]);
  }

  /* The two threads nearest to the face, of points 1 .. 4 from it and 5 .. 8. */
  template <int FACE> __device__ __forceinline__ void in_x_mirrored(const image<FACE> &m, bool pads) const {
    const unsigned place = (unsigned)(FACE & 1 ? x - (a.nx - 2 * PACK) : x) / PACK; /* of the two */
    const unsigned lane = (threadIdx.x - place) % 32, pair = 3u << lane;
    const bool here = pads || place == (FACE & 1);
    float *at = to + m.shift - (FACE & 1 ? 2 : PACK);
#pragma unroll
    for (int j = 0; j < ROWS; j++, at += a.pitch) {
      const float v0 = m.of(v[j][0]), v1 = m.of(v[j][1]), v2 = m.of(v[j][2]), v3 = m.of(v[j][3]);
      const float other = __shfl_sync(pair, FACE & 1 ? v3 : v0, (int)lane + !(FACE & 1));
      if (here && j < rows)
        *reinterpret_cast<float4 *>(at) =
            FACE & 1 ? make_float4(v2, v1, v0, other) : make_float4(other, v3, v2, v1);
    }
  }

  template <int FACE> __device__ __forceinline__ void in_x_wrapped(const image<FACE> &m, bool pads) const {
    const bool here = pads || (FACE & 1 ? x == 0 : x == a.nx - PACK);
    float *at = to + m.shift;
#pragma unroll
    for (int j = 0; j < ROWS; j++, at += a.pitch)
      if (here && j < rows) put(at, j, m);
  }

  template <int FACE> __device__ __forceinline__ void in_x(int near) const {
    const image<FACE> m(a, x, a.nx);
    if (near & BY_PACK && !m.wraps)
      in_x_mirrored(m, near & PADS);
    else if (near & BY_PACK)
      in_x_wrapped(m, near & PADS);
    else if (m.wraps)
      in_x_by_point<1>(m);
    else
      in_x_by_point<-1>(m);
  }

  template <int FACE> __device__ __forceinline__ void in_y() const {
    const image<FACE> m(a, y, a.ny);
    const ptrdiff_t pitch = (ptrdiff_t)a.pitch, step = m.wraps ? pitch : -pitch;
    float *at = to + m.shift * pitch;
#pragma unroll
    for (int j = 0; j < ROWS; j++, at += step)
      if (j < rows && m.has(j)) put(at, j, m);
  }

  template <int FACE> __device__ __forceinline__ void in_z() const {
    const image<FACE> m(a, z, a.nz);
    float *at = to + m.shift * (ptrdiff_t)a.plane;
#pragma unroll
    for (int j = 0; j < ROWS; j++, at += a.pitch)
      if (j < rows && m.has(0)) put(at, j, m);
  }

  /* Sets values that are held to 0 and stores images of all; `near`: faces_of() and faces_of_plane(). */
  __device__ __forceinline__ void images(int near) const {
    if (near & HOLDS) hold();
    if (near & 1 << FACE_X_LO) in_x<FACE_X_LO>(near);
    if (near & 1 << FACE_X_HI) in_x<FACE_X_HI>(near);
    if (near & 1 << FACE_Y_LO) in_y<FACE_Y_LO>();
    if (near & 1 << FACE_Y_HI) in_y<FACE_Y_HI>();
    if (near & 1 << FACE_Z_LO) in_z<FACE_Z_LO>();
    if (near & 1 << FACE_Z_HI) in_z<FACE_Z_HI>();
  }
};

} // namespace star
#endif
