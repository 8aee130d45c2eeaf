/* bulk_tensor with absorbing layers, in up to three launches:
 *
 *   terms    of the box of points in no layer along y or z: what the layers along x add, left in an array
 *   sweep    of that box, as ever; the terms come as one more operand (LAYERS_X)
 *   whole    points of the layers along y and z (absorb_whole.cuh), beside the sweep where that leaves room
 *
 * Then images. Rows that do not suit the sweep's boxes get what layers along x add last, in a second visit. */
#ifndef STENCIL_BULK_TENSOR_LAYERS_CUH
#define STENCIL_BULK_TENSOR_LAYERS_CUH

#include "absorb_whole.cuh"
#include "bulk_tensor_launch.cuh"

namespace bulk_tensor {

/* The box of points in no layer along y or z. Nothing of it is imaged before all is there. */
inline kernel_args inner_box(const absorb_args &a, const absorbing::whole_shell &s) {
  kernel_args f = a.field;
  const ptrdiff_t offset = (ptrdiff_t)f.pitch * s.y.lo;
  f.in += offset, f.out += offset;
  if (f.medium) f.medium += offset;
  f.ny = s.y.between(), f.z_begin = s.z.lo, f.z_end = s.z.hi;
  for (int face = 0; face < FACE_COUNT; face++) f.ghosts[face] = GHOST_KEEP;
  return f;
}

/* Can the sweep add what layers along x do? Layers of whole packs of points, in rows of more than one tile, of which the
 * last has all of the high layer. */
inline bool terms_fit(const absorb_args &a) {
  constexpr int NARROWEST = 64, WIDEST = 128; /* tiles */
  const absorb_axis &x = a.axis[0];
  const int nx = a.field.nx, last = (nx - 1) % NARROWEST + 1;
  return x.lo + x.hi > 0 && a.width % star::PACK == 0 && a.width <= TERMS_MOST &&
         nx % star::PACK == 0 && nx > WIDEST && last >= x.hi;
}

/* Sweeps the box with its layers along x, whose terms begin in row `first_row`. */
template <class... Shapes>
cudaError_t sweep_with_terms(const absorb_args &a, const kernel_args &box, int first_row,
                             cudaStream_t stream) {
  const absorb_axis &x = a.axis[0];
  const terms_array terms = {{x.lo, x.hi, a.width, first_row}, x.psi_in, a.field.ny, a.field.nz};
  const cudaError_t status = (cudaError_t)absorb_cuda_terms(&a, stream);
  return status == cudaSuccess ? launch_with<LAYERS_X, Shapes...>(&box, &terms, stream) : status;
}

/* What the operation of a kernel with layers does (kernel.layers), with one of these shapes. */
template <class... Shapes> int launch_layers(const absorb_args *args, void *cuda_stream) {
  const cudaStream_t stream = (cudaStream_t)cuda_stream;
  absorbing::whole_shell shell = absorbing::whole_shell_of(*args);
  const kernel_args box = inner_box(*args, shell);
  const bool with_terms = terms_fit(*args);
  cudaError_t status = cudaSuccess;
  shell.beside = box.ny > 0 && box.z_end > box.z_begin; /* is there anything to sweep? */
  if (shell.beside && with_terms)
    status = sweep_with_terms<Shapes...>(*args, box, shell.y.lo, stream);
  else if (shell.beside)
    status = launch_with<PLAIN, Shapes...>(&box, nullptr, stream);
  if (status == cudaSuccess) status = absorbing::launch_whole(*args, shell, stream);
  if (status == cudaSuccess && !with_terms) status = (cudaError_t)absorb_cuda_along_x(args, stream);
  return (int)(status == cudaSuccess ? images::launch(&args->field, stream) : status);
}

} // namespace bulk_tensor
#endif
