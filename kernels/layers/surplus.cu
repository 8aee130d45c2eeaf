/* What the way back takes from mu, on CUDA: neighbouring threads have neighbouring points of layers, in the order in which arrays
 * of own points hold them. A thread has the same point of a few planes: to find out which one costs divisions. */
#include <cuda_runtime.h>
#include "surplus.h"

namespace surplus {

enum { BLOCK = 256, PLANES = 4 /* of a thread */ };

/* Planes that hold the same points, and how they are cut. */
struct section {
  int begin, end;
  ptrdiff_t points;   /* of a plane */
  unsigned of_planes; /* blocks for PLANES planes */
  unsigned blocks() const {
    return end > begin ? of_planes * (unsigned)((end - begin + PLANES - 1) / PLANES) : 0;
  }
};

/* The planes of a launch, from low to high, and of the slab. */
struct cut {
  section of[3];
  unsigned first[3]; /* block of each */
  surplus_shell own;
};

/* Point `i` of a plane. */
static __device__ __forceinline__ absorb_point point_of(const surplus_layers &s, bool whole, unsigned i) {
  const absorb_axis &x = s.axis[0], &y = s.axis[1];
  const unsigned nx = (unsigned)s.nx, ends = (unsigned)(x.lo + x.hi), low = (unsigned)y.lo * nx,
                 between = (unsigned)(s.ny - y.lo - y.hi) * ends;
  if (whole || i < low) return {0, (int)(i / nx), (int)(i % nx)};
  if (i >= low + between) {
    i -= low + between;
    return {0, s.ny - y.hi + (int)(i / nx), (int)(i % nx)};
  }
  const int column = (int)((i - low) % ends);
  return {0, y.lo + (int)((i - low) / ends), column < x.lo ? column : s.nx - (int)ends + column};
}

template <enum surplus_kind KIND>
static __global__ void __launch_bounds__(BLOCK)
    points(const __grid_constant__ surplus_args a, const __grid_constant__ cut c) {
  const int which = (blockIdx.x >= c.first[1]) + (blockIdx.x >= c.first[2]);
  const section &s = c.of[which];
  const unsigned block = blockIdx.x - c.first[which], i = block % s.of_planes * BLOCK + threadIdx.x;
  if (i >= s.points) return;
  absorb_point p = point_of(a.layers, which != 1, i);
  p.z = s.begin + (int)(block / s.of_planes) * PLANES;
  for (int end = min(p.z + PLANES, s.end); p.z < end; p.z++) {
    const surplus_run r = surplus_run_of(&a, &c.own, p);
    if (KIND == SURPLUS_STEP)
      surplus_step(&a, &r, 1);
    else
      surplus_finish(&a, p, &r);
  }
}

} // namespace surplus

extern "C" int operation_surplus_cuda(const void *args, void *stream) {
  using namespace surplus;
  const surplus_args &a = *static_cast<const surplus_args *>(args);
  const int begin = a.field.z_begin, end = a.field.z_end;
  const surplus_shell all = surplus_shell_of(&a.layers, begin, end);
  cut c = {{{begin, all.low, all.full, 0}, {all.low, all.high, all.ring, 0}, {all.high, end, all.full, 0}},
           {},
           surplus_shell_of(&a.layers, 0, a.layers.nz)};
  unsigned blocks = 0;
  for (int i = 0; i < 3; i++) {
    c.of[i].of_planes = (unsigned)((c.of[i].points + BLOCK - 1) / BLOCK);
    c.first[i] = blocks;
    blocks += c.of[i].blocks();
  }
  if (blocks == 0) return cudaSuccess;
  (a.kind == SURPLUS_STEP
       ? points<SURPLUS_STEP>
       : points<SURPLUS_END>)<<<blocks, BLOCK, 0, static_cast<cudaStream_t>(stream)>>>(a, c);
  return (int)cudaGetLastError();
}
