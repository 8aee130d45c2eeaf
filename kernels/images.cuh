/* Images of new values in ghosts (ghosts.h). Every launcher of one step enqueues them behind the launch that stored the
 * values (operation_ghosts_cuda, images.cu), but where kernels of points store all there are, in z. */
#ifndef STENCIL_IMAGES_CUH
#define STENCIL_IMAGES_CUH

#include "operation.h"

extern "C" cuda_operation operation_ghosts_cuda; /* const kernel_args *: of the planes of a launch */

namespace images {

enum { DEPTHS = RADIUS + 1 /* points that have images beyond a face, from its own point on */ };

/* The planes of nz that may have images in z where z does not wrap: i = 0 .. NEAR_FACES - 1; a thin slab's come twice. */
enum { NEAR_FACES = 2 * DEPTHS };
static __host__ __device__ __forceinline__ int plane_near_face(int i, int nz) {
  return i < DEPTHS ? i : nz - 1 - (i - DEPTHS);
}

/* Do the points of a launch have images, all of them in z and of planes [begin, end)? */
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

} // namespace images
#endif
