/* thread_scope: of a few shapes takes the one that is cheapest for a launch (thread_scope.cuh, plan.cuh). */
#include "thread_scope.cuh"

using star::choice;
using star::shape;

namespace thread_scope {

static const choice<3> &jacobi_shapes() {
  constexpr auto Q = EQUATION_JACOBI;
  static const choice<3> made(
      variant_of<shape<Q, 128, 36, 3, 4, 1>>("128x36"), /* 768 x 768: one tile an SM of a 132-SM device */
      variant_of<shape<Q, 128, 32, 4, 4, 1>>("128x32"),
      variant_of<shape<Q, 32, 8, 1, 4, 8>>("32x8")); /* thin launches and small grids: many blocks */
  return made;
}

template <enum equation Q> static const choice<2> &shapes() {
  static const choice<2> made(variant_of<shape<Q, 128, 36, 3, 5, 1>>("128x36"),
                              variant_of<shape<Q, 32, 8, 1, 3, 4>>("32x8"));
  return made;
}

cudaError_t select(const kernel_args *args, star::selection *s) {
  return jacobi_shapes().select(args, s);
}

} // namespace thread_scope

extern "C" int jacobi_cuda_thread_scope(const kernel_args *args, void *stream) {
  return thread_scope::jacobi_shapes().launch(args, stream);
}
extern "C" int heat_cuda_thread_scope(const kernel_args *args, void *stream) {
  return thread_scope::shapes<EQUATION_HEAT>().launch(args, stream);
}
extern "C" int wave_cuda_thread_scope(const kernel_args *args, void *stream) {
  return thread_scope::shapes<EQUATION_WAVE>().launch(args, stream);
}
