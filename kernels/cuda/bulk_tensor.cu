/* bulk_tensor: its shapes, for equations of 0, 1 or 2 operands and of more. 768 x 768 points are 132 tiles of 128 x 36, one
 * for each SM of an H200. 128 x 32 with two rows a thread needs least time where fewer SMs have work; 64 x 72 fits other
 * widths, and so do 64 x 64 and 128 x 40 with one operand, which needs more blocks than none to hide latency; the small
 * ones are for thin launches and small grids. */
#include "bulk_tensor_layers.cuh"

namespace bulk_tensor {

template <enum equation Q, int OPERANDS = star::operands_of<Q>> struct shapes_of {
  typedef shape<Q, 128, 24, 3, 3, 2, 1> wide; /* of what 227 KiB of shared memory hold */
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
  typedef shapes<narrow, wide, shape<Q, 128, 32, 4, 4, 2, 1>> layered; /* whose terms cost registers */
};

/* With terms: the more operands, the lower the tiles that fit. */
template <enum equation Q, class Terms>
using terms_shape = shape < Q,
      128,
      Terms::end == 1   ? 24
      : Terms::end == 2 ? 20
                        : Terms::end<6 ? 16 : 12, 2, 4, 2, 1, Terms>;

/* Calls launch(the kind) for the terms of a launch. */
template <bool DENSITY, bool GRADIENT, class Launch> int of_memories(int memories, const Launch &launch) {
  switch (memories) {
  case 0:
    return launch(terms_kind<DENSITY, 0, GRADIENT>());
  case 1:
    return launch(terms_kind<DENSITY, 1, GRADIENT>());
  case 2:
    return launch(terms_kind<DENSITY, 2, GRADIENT>());
  default:
    return launch(terms_kind<DENSITY, 3, GRADIENT>());
  }
}

template <bool GRADIENT, class Launch> int of_terms(const kernel_terms &t, const Launch &launch) {
  return t.density ? of_memories<true, GRADIENT>(t.memories, launch)
                   : of_memories<false, GRADIENT>(t.memories, launch);
}

template <enum equation Q> int launch_terms(const kernel_args *args, void *stream) {
  const auto launch_kind = [=](auto kind) {
    return launch(shapes<terms_shape<Q, decltype(kind)>>(), args, stream);
  };
  return args->terms.recalled ? of_terms<true>(args->terms, launch_kind)
                              : of_terms<false>(args->terms, launch_kind);
}

/* Of rows of a stack (kernel_args.flat): few halos, so wide tiles. More terms leave less room for planes. */
template <enum equation Q, class Terms>
using flat_shape = shape < Q,
      256, Terms::any ? 8 : 16, Terms::any ? 2 : 4,
      Terms::end<8 ? 5 : 4, 2, 1, terms_kind<Terms::density, Terms::memories, Terms::gradient, true>>;

template <enum equation Q> int launch_flat(const kernel_args *args, void *stream) {
  const auto launch_kind = [=](auto kind) {
    return launch(shapes<flat_shape<Q, decltype(kind)>>(), args, stream);
  };
  return args->terms.recalled ? of_terms<true>(args->terms, launch_kind)
                              : of_terms<false>(args->terms, launch_kind);
}

} // namespace bulk_tensor

extern "C" int cuda_bulk_tensor(const kernel_args *args, void *stream) {
  return star::of_equation(args->equation, [=](auto q) {
    constexpr enum equation Q = decltype(q)::value;
    if constexpr (star::has_terms<Q>) {
      if (kernel_is_stack(args)) return bulk_tensor::launch_flat<Q>(args, stream);
      if (terms_any(&args->terms)) return bulk_tensor::launch_terms<Q>(args, stream);
    }
    return bulk_tensor::launch(typename bulk_tensor::shapes_of<Q>::plain(), args, stream);
  });
}

/* Layers come with the sweep. */
static int with_layers(const void *args, void *stream) {
  const absorb_args *a = static_cast<const absorb_args *>(args);
  return star::of_equation(a->field.equation, [=](auto q) {
    constexpr enum equation Q = decltype(q)::value;
    if constexpr (star::has_terms<Q>)
      if (kernel_is_stack(&a->field) || terms_any(&a->field.terms)) {
        const auto launch_kind = [=](auto kind) {
          typedef bulk_tensor::flat_shape<Q, decltype(kind)> flat;
          typedef bulk_tensor::terms_shape<Q, decltype(kind)> shape;
          return kernel_is_stack(&a->field)
                     ? bulk_tensor::launch_layers(bulk_tensor::shapes<flat>(), a, stream)
                     : bulk_tensor::launch_layers(bulk_tensor::shapes<shape>(), a, stream);
        };
        return a->field.terms.recalled ? bulk_tensor::of_terms<true>(a->field.terms, launch_kind)
                                       : bulk_tensor::of_terms<false>(a->field.terms, launch_kind);
      }
    if constexpr ((EQUATIONS[Q].flags & HAS_LAYERS) != 0)
      return bulk_tensor::launch_layers(typename bulk_tensor::shapes_of<Q>::layered(), a, stream);
    else
      return (int)cudaErrorNotSupported;
  });
}

/* An operation of this backend alone. */
static constexpr operation operation_of(const char *name, size_t args_bytes, cuda_operation *cuda) {
  operation o = {};
  o.name = name, o.args_bytes = args_bytes, o.cuda = cuda;
  return o;
}

extern "C" {
extern const operation cuda_bulk_tensor_layers;
const operation cuda_bulk_tensor_layers = operation_of("bulk_tensor", sizeof(absorb_args), with_layers);
}
