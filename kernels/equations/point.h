/* The update of one point, for C and CUDA. host_simd_body.h has the same with vectors. */
#ifndef STENCIL_POINT_H
#define STENCIL_POINT_H

#include <math.h>
#include "kernels/ghosts.h"

#define vec       float
#define INLINE    GHOSTS_INLINE
#define ISA(name) point_##name
#ifdef __CUDA_ARCH__ /* fmaf gives the same bits but uses other registers */
#define vec_fma(a, b, c) __fmaf_rn(a, b, c)
#else
#define vec_fma(a, b, c) fmaf(a, b, c)
#endif
#include "point_body.h"
#undef vec
#undef INLINE
#undef ISA
#undef vec_fma

/* The media's factors at a place of the fields. */
GHOSTS_INLINE void point_media(const kernel_args *a, ptrdiff_t at, float m[EQUATION_MEDIA]) {
  for (int i = 0; i < EQUATION_MEDIA; i++) m[i] = a->medium[i] ? a->medium[i][at] : a->scale[i];
}

/* What multiplies the stencil at a place of the fields. */
GHOSTS_INLINE float point_gain_at(const kernel_args *a, ptrdiff_t at) {
  float m[EQUATION_MEDIA];
  point_media(a, at, m);
  return point_gain(a->equation, m);
}

#endif
