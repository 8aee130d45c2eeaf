/* bulk_tensor: its shapes for each equation. 768 x 768 points are 132 tiles of 128 x 36, one for each SM of an
 * H200, and 1024 x 1024 are twice 128 of 128 x 32; the small ones are for thin launches and small grids. */
#include "bulk_tensor_launch.cuh"

using bulk_tensor::shape;
using bulk_tensor::variant_of;

template <bool IMAGES> static int jacobi(const kernel_args *args, void *stream) {
  constexpr auto Q = EQUATION_JACOBI;
  static const star::choice<3> shapes(variant_of<shape<Q, 128, 36, 3, 6, 1, 1>, IMAGES>("128x36"),
                                      variant_of<shape<Q, 128, 32, 4, 6, 1, 1>, IMAGES>("128x32"),
                                      variant_of<shape<Q, 64, 16, 2, 6, 1, 3>, IMAGES>("64x16"));
  return bulk_tensor::launch(shapes, args, stream);
}

template <bool IMAGES> static int heat(const kernel_args *args, void *stream) {
  constexpr auto Q = EQUATION_HEAT;
  static const star::choice<3> shapes(variant_of<shape<Q, 128, 36, 3, 4, 2, 1>, IMAGES>("128x36"),
                                      variant_of<shape<Q, 128, 32, 4, 4, 3, 1>, IMAGES>("128x32"),
                                      variant_of<shape<Q, 64, 16, 2, 4, 2, 3>, IMAGES>("64x16"));
  return bulk_tensor::launch(shapes, args, stream);
}

template <bool IMAGES> static int wave(const kernel_args *args, void *stream) {
  constexpr auto Q = EQUATION_WAVE;
  static const star::choice<3> shapes(variant_of<shape<Q, 128, 36, 3, 3, 2, 1>, IMAGES>("128x36"),
                                      variant_of<shape<Q, 128, 32, 4, 4, 2, 1>, IMAGES>("128x32"),
                                      variant_of<shape<Q, 64, 16, 2, 4, 2, 3>, IMAGES>("64x16"));
  return bulk_tensor::launch(shapes, args, stream);
}

extern "C" int jacobi_cuda_bulk_tensor(const kernel_args *args, void *stream) {
  return star::any_images(args) ? jacobi<true>(args, stream) : jacobi<false>(args, stream);
}
extern "C" int heat_cuda_bulk_tensor(const kernel_args *args, void *stream) {
  return star::any_images(args) ? heat<true>(args, stream) : heat<false>(args, stream);
}
extern "C" int wave_cuda_bulk_tensor(const kernel_args *args, void *stream) {
  return star::any_images(args) ? wave<true>(args, stream) : wave<false>(args, stream);
}
