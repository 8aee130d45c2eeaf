/* bulk_tensor: its shapes for each equation. 768 x 768 points are 132 tiles of 128 x 36, one for each SM of an H200.
 * 128 x 32 with two rows a thread needs least time where fewer SMs have work; 64 x 72 fits other widths, and so do 64 x 64
 * and 128 x 40 for heat, which needs more blocks than jacobi to hide latency; the small ones are for thin launches and
 * small grids. */
#include "bulk_tensor_layers.cuh"

using bulk_tensor::shape;

extern "C" int jacobi_cuda_bulk_tensor(const kernel_args *args, void *stream) {
  return bulk_tensor::launch<
      shape<EQUATION_JACOBI, 128, 36, 3, 6, 1, 1>, shape<EQUATION_JACOBI, 128, 32, 2, 6, 1, 1>,
      shape<EQUATION_JACOBI, 64, 72, 3, 6, 1, 1>, shape<EQUATION_JACOBI, 64, 16, 2, 6, 1, 3>>(args, stream);
}

extern "C" int heat_cuda_bulk_tensor(const kernel_args *args, void *stream) {
  return bulk_tensor::launch<
      shape<EQUATION_HEAT, 128, 36, 3, 4, 2, 1>, shape<EQUATION_HEAT, 128, 32, 2, 4, 3, 1>,
      shape<EQUATION_HEAT, 64, 72, 3, 4, 2, 1>, shape<EQUATION_HEAT, 64, 64, 2, 4, 3, 1>,
      shape<EQUATION_HEAT, 128, 40, 5, 4, 2, 1>, shape<EQUATION_HEAT, 64, 16, 2, 4, 2, 3>>(args, stream);
}

typedef shape<EQUATION_WAVE, 128, 36, 3, 3, 2, 1> wave_36;
typedef shape<EQUATION_WAVE, 128, 32, 4, 4, 2, 1> wave_32; /* with layers, whose terms cost registers */
typedef shape<EQUATION_WAVE, 64, 16, 2, 4, 2, 3> wave_small;

extern "C" int wave_cuda_bulk_tensor(const kernel_args *args, void *stream) {
  return bulk_tensor::launch<wave_36, shape<EQUATION_WAVE, 128, 32, 2, 4, 2, 1>,
                             shape<EQUATION_WAVE, 64, 72, 3, 3, 2, 1>, wave_small>(args, stream);
}

static int wave_with_layers(const void *args, void *stream) {
  return bulk_tensor::launch_layers<wave_small, wave_36, wave_32>(static_cast<const absorb_args *>(args),
                                                                  stream);
}

/* An operation of this backend alone. */
static constexpr operation operation_of(const char *name, size_t args_bytes, cuda_operation *cuda) {
  operation o = {};
  o.name = name, o.args_bytes = args_bytes, o.cuda = cuda;
  return o;
}

extern "C" {
extern const operation wave_cuda_bulk_tensor_layers;
const operation wave_cuda_bulk_tensor_layers =
    operation_of("bulk_tensor", sizeof(absorb_args), wave_with_layers);
}
