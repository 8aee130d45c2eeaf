/* The terms of an equation and the rows of a batch (kernel_args.terms, flat), in kernels that stream planes. A kernel
 * is compiled for each kind and keeps the terms of a pack of points in registers. */
#ifndef STENCIL_CUDA_TERMS_CUH
#define STENCIL_CUDA_TERMS_CUH

#include "kernels/equations/terms.h"

namespace stencil {

constexpr int PACK = 4; /* floats in 16 bytes: what one copy moves, and the points in x a thread owns */

template <bool DENSITY, int MEMORIES, bool GRADIENT = false, bool FLAT = false> struct terms_kind {
  static constexpr bool density = DENSITY, gradient = GRADIENT, flat = FLAT;
  static constexpr int memories = MEMORIES;
  static constexpr bool any = DENSITY || MEMORIES || GRADIENT;
  /* Their order, as operands behind the equation's own, and how many there are: V, recalled and g, kappa, r. */
  static constexpr int recalled = DENSITY, loss = recalled + 2 * GRADIENT, memory = loss + (MEMORIES > 0),
                       end = memory + MEMORIES;
};
typedef terms_kind<false, 0> no_terms;

template <bool DENSITY, bool GRADIENT, bool FLAT, class Launch>
int of_memories(int memories, const Launch &launch) {
  switch (memories) {
  case 0:
    return launch(terms_kind<DENSITY, 0, GRADIENT, FLAT>());
  case 1:
    return launch(terms_kind<DENSITY, 1, GRADIENT, FLAT>());
  case 2:
    return launch(terms_kind<DENSITY, 2, GRADIENT, FLAT>());
  default:
    return launch(terms_kind<DENSITY, 3, GRADIENT, FLAT>());
  }
}

template <bool GRADIENT, bool FLAT, class Launch> int of_terms(const kernel_terms &t, const Launch &launch) {
  return t.density ? of_memories<true, GRADIENT, FLAT>(t.memories, launch)
                   : of_memories<false, GRADIENT, FLAT>(t.memories, launch);
}

template <bool FLAT, class Launch> int of_way(const kernel_terms &t, const Launch &launch) {
  return t.recalled ? of_terms<true, FLAT>(t, launch) : of_terms<false, FLAT>(t, launch);
}

/* Has a launch terms, or rows of a batch? */
inline bool is_special(const kernel_args &a) {
  return kernel_is_batch(&a) || terms_any(&a.terms);
}
/* Calls launch with the kind of such a launch. */
template <class Launch> int of_kind(const kernel_args &a, const Launch &launch) {
  return kernel_is_batch(&a) ? of_way<true>(a.terms, launch) : of_way<false>(a.terms, launch);
}

template <class Terms> struct terms_pack {
  float V[PACK] = {}, kappa[PACK] = {}, recalled[PACK] = {}, g[PACK] = {}, r[MEMORIES_MAX][PACK] = {};

  /* Calls get(to, field, its place among the terms) for each term that there is. */
  template <class Get> __device__ __forceinline__ void load(const kernel_terms &t, const Get &get) {
    if (Terms::density) get(V, t.density, 0);
    if (Terms::gradient) get(recalled, t.recalled, Terms::recalled), get(g, t.gradient, Terms::recalled + 1);
    if (Terms::memories) get(kappa, t.loss, Terms::loss);
#pragma unroll
    for (int l = 0; l < Terms::memories; l++) get(r[l], t.memory[l], Terms::memory + l);
  }

  /* Calls put(field, from) for each term that a step overwrites. */
  template <class Put> __device__ __forceinline__ void store(const kernel_terms &t, const Put &put) const {
    if (Terms::gradient) put(t.gradient, g);
#pragma unroll
    for (int l = 0; l < Terms::memories; l++) put(t.memory[l], r[l]);
  }

  /* Turns the sums of the pack into its new values. m: MEDIA factors, a pack each. layer_term: for the points whose
   * bits are set. */
  template <enum equation Q, int MEDIA>
  __device__ __forceinline__ void finish(float sum[PACK], const float m[][PACK], const float u[PACK],
                                         const float before[PACK], const kernel_terms &t,
                                         const float layer_term[PACK], unsigned points) {
#pragma unroll
    for (int i = 0; i < PACK; i++) {
      float here[EQUATION_MEDIA];
#pragma unroll
      for (int k = 0; k < MEDIA; k++) here[k] = m[k][i];
      terms_point p = {V[i], kappa[i], recalled[i], g[i], {r[0][i], r[1][i], r[2][i]}};
      const float stencil =
          terms_bracket(&t, Terms::density, Terms::memories, Terms::gradient, sum[i], u[i], &p);
      sum[i] = point_next(Q, stencil, here, u[i], before[i], 2.0f);
      if (points >> i & 1) {
        const float gain =
            terms_gain(&t, Terms::memories, Terms::gradient, point_gain(Q, here), layer_term[i], &p);
        sum[i] = __fmaf_rn(gain, layer_term[i], sum[i]);
      }
      g[i] = p.g;
#pragma unroll
      for (int l = 0; l < Terms::memories; l++) r[l][i] = p.r[l];
    }
  }
};

} // namespace stencil
#endif
