/* bulk_tensor with absorbing layers, in up to three launches:
 *
 *   before     the layer terms along x (absorb_before.cu)
 *   interior   the box of points in no layer along y or z; the layer terms are one more operand (LAYERED)
 *   whole      points of layers along y and z (absorb_whole.cuh); also the images, where all are in z and the interior
 *              kernel stores none
 *
 * The third runs beside the second, on multiprocessors that the interior kernel leaves free. Other images follow. Where
 * rows do not suit the boxes of layer terms, or there are several media, operation_absorb_cuda adds the layers in a
 * second visit. */
#ifndef STENCIL_BULK_TENSOR_LAYERS_CUH
#define STENCIL_BULK_TENSOR_LAYERS_CUH

#include "absorb_whole.cuh"
#include "bulk_tensor_launch.cuh"

namespace bulk_tensor {

/* The box of points in no layer along y or z. Without `with_images` its images are stored later, when all points are
 * there. */
inline kernel_args inner_box(const absorb_args &a, const absorbing::whole_layers &s, bool with_images) {
  kernel_args f = a.field;
  const ptrdiff_t offset = (ptrdiff_t)f.pitch * s.y.lo;
  f.in += offset, f.out += offset;
  if (f.before) f.before += offset;
  if (f.medium[0]) f.medium[0] += offset;
  f.terms = terms_from(f.terms, offset);
  f.ny = s.y.between(), f.z_begin = s.z.lo, f.z_end = s.z.hi;
  for (int face = 0; face < FACE_COUNT && !with_images; face++) f.ghosts[face] = GHOST_KEEP;
  return f;
}

/* The layer terms of the rows of a box whose first row is row y of the slab. */
inline layer_terms_array layer_terms_of(const absorb_args &a, int y) {
  const absorb_axis &x = a.axis[0];
  const absorb_layer_terms t = absorb_layer_terms_of(&x, a.width, a.field.nz);
  return {{x.lo, x.hi, a.width, t.pitch, t.high, t.first, y}, a.layer_terms, a.field.ny, t.planes};
}

/* Can an interior kernel with tiles of tile_x points add the layer terms along x? It can where its box holds rows of
 * them and no tile has points of both layers. */
inline bool layer_terms_fit(const absorb_args &a, int tile_x) {
  const layer_term_rows t = layer_terms_of(a, 0).rows;
  return t.lo + t.hi == 0 || (t.pitch <= LAYER_TERMS_MOST && a.field.nx - t.hi >= tile_x);
}

/* Launches the interior kernel on the box, whose row 0 is row y of the slab. A narrow box has the small shape's
 * tiles. */
template <class Small, class... Others>
cudaError_t launch_interior(const absorb_args &a, const kernel_args &box, int y,
                            const concurrent_blocks &layer_blocks, cudaStream_t stream) {
  constexpr int WIDEST = 128; /* tile of Others */
  const layer_terms_array layer_terms = layer_terms_of(a, y);
  if (layer_terms.rows.lo + layer_terms.rows.hi == 0)
    return launch_with<false, Others..., Small>(&box, nullptr, layer_blocks, stream);
  return layer_terms_fit(a, WIDEST)
             ? launch_with<true, Others..., Small>(&box, &layer_terms, layer_blocks, stream)
             : launch_with<true, Small>(&box, &layer_terms, layer_blocks, stream);
}

/* The operation of a kernel with layers (kernel.layers), with one of these shapes. */
template <class Small, class... Others>
int launch_layers(shapes<Small, Others...>, const absorb_args *args, void *cuda_stream) {
  const cudaStream_t stream = (cudaStream_t)cuda_stream;
  if (Small::media > absorbing::WHOLE_MEDIA || !layer_terms_fit(*args, Small::tile_x)) {
    const int status = launch(shapes<Others..., Small>(), &args->field, cuda_stream);
    return status == cudaSuccess ? operation_absorb_cuda(args, cuda_stream) : status;
  }
  absorbing::whole_layers layers = absorbing::whole_layers_of(*args);
  const bool imaged = layers.image_rows > 0,
             by_interior = stores_images(args->field, layers.z.lo, layers.z.hi);
  const kernel_args box = inner_box(*args, layers, by_interior);
  if (by_interior) layers.image_rows = 0;
  cudaError_t status = (cudaError_t)absorb_cuda_before(args, stream);
  layers.concurrent = box.ny > 0 && box.z_end > box.z_begin; /* is the box not empty? */
  if (status == cudaSuccess && layers.concurrent)
    status = launch_interior<Small, Others...>(*args, box, layers.y.lo,
                                               absorbing::cost_of(layers, args->width), stream);
  typedef typename Small::terms_kind T;
  constexpr absorbing::terms_of terms = T::gradient ? absorbing::GRADIENT_TERMS
                                        : T::any    ? absorbing::FORWARD_TERMS
                                                    : absorbing::NO_TERMS;
  if (status == cudaSuccess)
    status = absorbing::launch_whole<Small::equation, terms, T::flat>(*args, layers, stream);
  return (int)(status == cudaSuccess && !imaged ? images::launch(&args->field, stream) : status);
}

} // namespace bulk_tensor
#endif
