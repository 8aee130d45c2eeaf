/* Ghosts that are images of own points. A launch also stores the images of its values: host kernels and operations
 * store them with the value, CUDA kernels in a launch that follows (images.cuh). Ghosts at edges and corners, which no
 * stencil reads, are left alone. */
#ifndef STENCIL_GHOSTS_H
#define STENCIL_GHOSTS_H

#include "kernel.h"

#ifdef __CUDACC__
#define GHOSTS_INLINE static __host__ __device__ __forceinline__
#else
#define GHOSTS_INLINE static inline
#endif

/* Do points with index i of n along an axis have an image, or are these points held? lo, hi: the rules of the axis'
 * faces. */
GHOSTS_INLINE int ghosts_touch(int i, int n, int lo, int hi) {
  return (lo != GHOST_KEEP && (i <= RADIUS || (lo == GHOST_WRAP && i >= n - RADIUS))) ||
         (hi != GHOST_KEEP && (i >= n - 1 - RADIUS || (hi == GHOST_WRAP && i < RADIUS)));
}

/* Is point i of n on a face whose points are held 0? */
GHOSTS_INLINE int ghosts_held(int i, int n, int lo, int hi) {
  return (lo == GHOST_ODD && i == 0) || (hi == GHOST_ODD && i == n - 1);
}

/* An axis of n points. */
typedef struct ghosts_axis {
  ptrdiff_t stride; /* floats from one point to the next */
  int n, lo, hi;    /* lo, hi: the rules of its faces */
} ghosts_axis;

/* Stores the images along an axis of `value` at its point i. `at` is the point in memory. */
GHOSTS_INLINE void ghosts_store_axis(float *at, ghosts_axis a, int i, float value) {
  const int mirror = a.n - 1 - i;
  if (a.lo == GHOST_WRAP) {
    if (i >= a.n - RADIUS) at[-a.n * a.stride] = value;
    if (i < RADIUS) at[a.n * a.stride] = value;
    return;
  }
  if (a.lo != GHOST_KEEP && i >= 1 && i <= RADIUS) at[-2 * i * a.stride] = a.lo == GHOST_ODD ? -value : value;
  if (a.hi != GHOST_KEEP && mirror >= 1 && mirror <= RADIUS)
    at[2 * mirror * a.stride] = a.hi == GHOST_ODD ? -value : value;
}

/* Stores `value`, or 0 where the point is held, as point (z, y, x) of a->out, with its images. */
GHOSTS_INLINE void ghosts_store(const kernel_args *a, int z, int y, int x, float value) {
  const unsigned char *g = a->ghosts;
  const ptrdiff_t pitch = (ptrdiff_t)a->pitch, plane = (ptrdiff_t)a->plane;
  float *at = a->out + plane * z + pitch * y + x;
  if (ghosts_held(x, a->nx, g[FACE_X_LO], g[FACE_X_HI]) ||
      ghosts_held(y, a->ny, g[FACE_Y_LO], g[FACE_Y_HI]) || ghosts_held(z, a->nz, g[FACE_Z_LO], g[FACE_Z_HI]))
    value = 0;
  *at = value;
  const ghosts_axis along_x = {1, a->nx, g[FACE_X_LO], g[FACE_X_HI]};
  ghosts_store_axis(at, along_x, x, value);
  const ghosts_axis along_y = {pitch, a->ny, g[FACE_Y_LO], g[FACE_Y_HI]};
  ghosts_store_axis(at, along_y, y, value);
  const ghosts_axis along_z = {plane, a->nz, g[FACE_Z_LO], g[FACE_Z_HI]};
  ghosts_store_axis(at, along_z, z, value);
}

#endif
