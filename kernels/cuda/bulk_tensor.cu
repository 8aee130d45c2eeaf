/* bulk_tensor's tile shapes, for equations of 0, 1, 2 or more operands. 128 x 36 points make 132 tiles of 768 x 768,
 * one for each SM of an H200. 128 x 32 with two rows a thread is fastest where fewer SMs have work. 64 x 72 fits other
 * widths, and so do 64 x 64 and 128 x 40 with one operand. Small tiles are for thin launches and small grids. */
#include "bulk_tensor_layers.cuh"

namespace bulk_tensor {

template <enum equation Q, int OPERANDS = stencil::operands_of<Q>> struct shapes_of {
  typedef shape<Q, 128, 24, 3, 3, 2, 1> wide; /* as many planes as 227 KiB of shared memory hold */
  typedef shape<Q, 64, 16, 2, 4, 2, 2> narrow;
  typedef shapes<wide, narrow> plain;
  typedef shapes<narrow, wide> layered;
};

template <enum equation Q> struct shapes_of<Q, 0> {
  typedef shapes<shape<Q, 128, 36, 3, 6, 1, 1>, shape<Q, 128, 32, 2, 6, 1, 1>, shape<Q, 64, 72, 3, 6, 1, 1>,
                 shape<Q, 64, 16, 2, 6, 1, 3>>
      plain;
};

template <enum equation Q> struct shapes_of<Q, 1> {
  typedef shapes<shape<Q, 128, 36, 3, 4, 2, 1>, shape<Q, 128, 32, 2, 4, 3, 1>, shape<Q, 64, 72, 3, 4, 2, 1>,
                 shape<Q, 64, 64, 2, 4, 3, 1>, shape<Q, 128, 40, 5, 4, 2, 1>, shape<Q, 64, 16, 2, 4, 2, 3>>
      plain;
};

template <enum equation Q> struct shapes_of<Q, 2> {
  typedef shape<Q, 64, 16, 2, 4, 2, 3> narrow;
  typedef shape<Q, 128, 36, 3, 3, 2, 1> wide;
  typedef shapes<wide, shape<Q, 128, 32, 2, 4, 2, 1>, shape<Q, 64, 72, 3, 3, 2, 1>, narrow> plain;
  typedef shapes<narrow, wide, shape<Q, 128, 32, 4, 4, 2, 1>> layered; /* terms need registers */
};

/* The shapes with terms: the more operands, the fewer rows fit. */
template <enum equation Q, class Terms>
using terms_shape = shape < Q,
      128,
      Terms::end == 1   ? 24
      : Terms::end == 2 ? 20
                        : Terms::end<6 ? 16 : 12, 2, 4, 2, 1, Terms>;

/* The shapes for rows of a batch (kernel_args.flat). These have no halos in y, so tiles are wide. More terms leave
 * memory for fewer planes. */
template <enum equation Q, class Terms>
using flat_shape = shape < Q,
      256, Terms::any ? 8 : 16, Terms::any ? 2 : 4, Terms::end<8 ? 5 : 4, 2, 1, Terms>;

template <enum equation Q, class Terms>
using shapes_with = shapes<std::conditional_t<Terms::flat, flat_shape<Q, Terms>, terms_shape<Q, Terms>>>;

} // namespace bulk_tensor

extern "C" int cuda_bulk_tensor(const kernel_args *args, void *stream) {
  return stencil::of_equation(args->equation, [=](auto q) {
    constexpr enum equation Q = decltype(q)::value;
    if constexpr (stencil::has_terms<Q>)
      if (stencil::is_special(*args))
        return stencil::of_kind(*args, [=](auto kind) {
          return bulk_tensor::launch(bulk_tensor::shapes_with<Q, decltype(kind)>(), args, stream);
        });
    return bulk_tensor::launch(typename bulk_tensor::shapes_of<Q>::plain(), args, stream);
  });
}

/* The operation with layers: the interior kernel and two more launches. */
static int with_layers(const void *args, void *stream) {
  const absorb_args *a = static_cast<const absorb_args *>(args);
  return stencil::of_equation(a->field.equation, [=](auto q) {
    constexpr enum equation Q = decltype(q)::value;
    if constexpr (stencil::has_terms<Q>)
      if (stencil::is_special(a->field))
        return stencil::of_kind(a->field, [=](auto kind) {
          return bulk_tensor::launch_layers(bulk_tensor::shapes_with<Q, decltype(kind)>(), a, stream);
        });
    if constexpr ((EQUATIONS[Q].flags & HAS_LAYERS) != 0)
      return bulk_tensor::launch_layers(typename bulk_tensor::shapes_of<Q>::layered(), a, stream);
    else
      return (int)cudaErrorNotSupported;
  });
}

extern "C" {
extern const operation cuda_bulk_tensor_layers;
const operation cuda_bulk_tensor_layers = absorb_operation("bulk_tensor", with_layers);
}
