/* multi_stage: a cuda::pipeline of block scope with several stages, unified: every thread both copies and
 * adds. Prolog, steady state and epilog are one loop: before a plane is waited for, whatever fits the
 * pipeline is put on its way: AHEAD planes at the start, one a plane from then on, none near the end.
 *
 *   plane      z            z+1          z+2
 *   acquire    stage of z-2 | of z-1     | of z        everyone has released it
 *   copies     |z+AHEAD-1-->|z+AHEAD --->|             on their way while planes are added
 *   wait       |z|          |z+1|        |z+2|         everyone's copies have landed
 *   sums         |add z|        |add z+1|    |add z+2|
 *   release            |r|              |r|
 *
 * The pipeline's barriers do what a block barrier does in thread_scope, but arriving and waiting are two
 * things: a warp that has released a plane goes on, and as one stage stays free it may be a plane ahead of the
 * slowest. That pays for three arrivals of every thread a plane (its copies, its commit, its release). Expect
 * the most of all forms without a copy engine where arithmetic limits (jacobi).
 *
 * Where there is no copy engine this kernel does everything: terms, batches, and what layers along x add. */
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include "kernels/cuda/stencil.cuh"
#include "kernels/layers/absorb.cuh"

#pragma nv_diag_suppress static_var_with_dynamic_init /* make_pipeline initialises what the state holds */

namespace multi_stage {

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks)
    advance(const __grid_constant__ kernel_args a, const __grid_constant__ stencil::cut c) {
  constexpr int AHEAD = S::stages - 1; /* planes in the pipeline */
  static_assert(AHEAD >= 2, "a plane to add and one on its way");
  extern __shared__ __align__(16) float ring[];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, S::stages> state;
  cuda::pipeline<cuda::thread_scope_block> pipe =
      cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
  const stencil::place<S> tile(a, c);
  const stencil::copier<S> copies(a, tile, (int)threadIdx.x);
  stencil::points<S> points(a, tile, (int)threadIdx.x);

  const int first = tile.z_begin - RADIUS, last = tile.z_end + RADIUS;
  for (int z = first, next = first, slot = 0, fill = 0; z < last; z++) {
    for (; next < last && next < z + AHEAD; next++) {
      pipe.producer_acquire();
      copies.copy(ring + fill * S::slot, tile.plane(a.in, a, next), tile.owns(next),
                  [&](float4 *to, const float4 *from, bool) {
                    cuda::memcpy_async(to, from, cuda::aligned_size_t<16>(16), pipe);
                  });
      pipe.producer_commit();
      fill = stencil::slot_after<S>(fill, 1);
    }
    pipe.consumer_wait();
    points.add(z, ring + slot * S::slot, ring + stencil::centre_slot<S>(slot) * S::slot);
    pipe.consumer_release();
    slot = stencil::slot_after<S>(slot, 1);
  }
}

} // namespace multi_stage

STENCIL_LAUNCH(multi_stage)

namespace multi_stage {

/* Operands are loaded a plane ahead into registers. Threads of the tallest shape have 255 registers, of the widest
 * 168. */
template <enum equation Q, class Terms, bool LAYERED>
int launch_kind(const kernel_args *args, void *stream, const stencil::layer_term_rows &layer_terms) {
  constexpr bool MANY = Terms::end > 1;
  if constexpr (Terms::flat)
    return multi_stage_launch<stencil::shape<Q, 128, 16, 2, 4, 1, 0, Terms, LAYERED>,
                              stencil::shape<Q, 32, 8, 1, 4, 4, 0, Terms, LAYERED>>(args, stream,
                                                                                    layer_terms);
  else
    return multi_stage_launch<stencil::shape<Q, MANY ? 64 : 128, MANY ? 32 : 24, 2, 4, 1, 0, Terms, LAYERED>,
                              stencil::shape<Q, 64, 16, 1, 4, 2, 0, Terms, LAYERED>>(args, stream,
                                                                                     layer_terms);
}

template <enum equation Q, bool LAYERED>
int launch_special(const kernel_args *args, void *stream, const stencil::layer_term_rows &layer_terms) {
  return stencil::of_kind(
      *args, [&](auto kind) { return launch_kind<Q, decltype(kind), LAYERED>(args, stream, layer_terms); });
}

/* The layer terms along x for the kernel; empty where their rows do not suit absorb_cuda_before. */
static stencil::layer_term_rows layer_terms_of(const absorb_args &a) {
  const kernel_args &f = a.field;
  const absorb_axis &x = a.axis[0];
  const absorb_layer_terms t = absorb_layer_terms_of(&x, a.width, f.nz);
  const absorbing::span y = absorbing::span_of(a.axis[1], 0, f.ny),
                        z = absorbing::span_of(a.axis[2], f.z_begin, f.z_end);
  const bool fits = x.lo + x.hi > 0 && t.pitch <= absorbing::BEFORE_PITCH && f.nx >= absorbing::BEFORE_POINTS;
  return {fits && equation_has(f.equation, HAS_TERMS) ? a.layer_terms : nullptr,
          x.lo,
          x.hi,
          t.pitch,
          t.high,
          t.first,
          y.lo,
          y.hi,
          z.lo,
          z.hi};
}

/* 64 x 32 points fit where a block may have 99 KiB of shared memory, as from compute capability 8.6 on. */
template <enum equation Q> int launch_plain(const kernel_args *args, void *stream) {
  typedef stencil::by_operands<Q, stencil::shape<Q, 128, 36, 3, 4, 1>, stencil::shape<Q, 128, 36, 3, 5, 1>,
                               stencil::shape<Q, 128, 32, 2, 4, 1>>
      wide;
  return multi_stage_launch<wide, stencil::shape<Q, 64, 32, 2, 4, 1>, stencil::shape<Q, 32, 8, 1, 4, 4>>(
      args, stream);
}

} // namespace multi_stage

extern "C" int cuda_multi_stage(const kernel_args *args, void *stream) {
  return stencil::of_equation(args->equation, [=](auto q) {
    constexpr enum equation Q = decltype(q)::value;
    if constexpr (stencil::has_terms<Q>)
      if (stencil::is_special(*args)) return multi_stage::launch_special<Q, false>(args, stream, {});
    return multi_stage::launch_plain<Q>(args, stream);
  });
}

/* The kernel adds the layer terms along x, where their rows suit absorb_cuda_before; the general operation adds the
 * rest. */
static int with_layers(const void *args, void *stream) {
  const absorb_args &a = *static_cast<const absorb_args *>(args);
  const stencil::layer_term_rows layer_terms = multi_stage::layer_terms_of(a);
  int status = 0;
  if (!layer_terms.values) {
    status = cuda_multi_stage(&a.field, stream);
    return status == cudaSuccess ? operation_absorb_cuda(args, stream) : status;
  }
  status = absorb_cuda_before(&a, stream);
  if (status == cudaSuccess)
    status = stencil::of_equation(a.field.equation, [&](auto q) {
      constexpr enum equation Q = decltype(q)::value;
      if constexpr (stencil::has_terms<Q>)
        return multi_stage::launch_special<Q, true>(&a.field, stream, layer_terms);
      else
        return (int)cudaErrorNotSupported;
    });
  return status == cudaSuccess ? absorb_cuda_others(&a, stream) : status;
}

extern "C" {
extern const operation cuda_multi_stage_layers;
const operation cuda_multi_stage_layers = absorb_operation("multi_stage", with_layers);
}
