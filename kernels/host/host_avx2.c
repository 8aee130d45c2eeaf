/* The host kernels `simd` with AVX2 and FMA (host_simd.c). */
#include <immintrin.h>
#include "host_simd.h"

#define SAMPLE           host_sample_avx2
#define LANES            8
#define vec              __m256
#define vec_set(a)       _mm256_set1_ps(a)
#define vec_load(p)      _mm256_loadu_ps(p)
#define vec_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vec_bits         _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128)
#define vec_mask(bits)                                                                                       \
  _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)(bits)), vec_bits), vec_bits)
#define vec_keep(v, bits)          _mm256_and_ps(v, _mm256_castsi256_ps(vec_mask(bits)))
#define vec_where(bits, a, b)      _mm256_blendv_ps(b, a, _mm256_castsi256_ps(vec_mask(bits)))
#define vec_pick(v, from)          _mm256_permutevar8x32_ps(v, _mm256_loadu_si256((const __m256i *)(from)))
#define vec_load_some(p, bits)     _mm256_maskload_ps(p, vec_mask(bits))
#define vec_store(p, v)            _mm256_storeu_ps(p, v)
#define vec_stream(p, v)           _mm256_stream_ps(p, v)
#define vec_store_some(p, v, bits) _mm256_maskstore_ps(p, vec_mask(bits), v)
#define prefetch(p)                _mm_prefetch((const char *)(p), _MM_HINT_T1)
#define prefetch_near(p)           _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define leave()                    (_mm_sfence(), _mm256_zeroupper())
#define settle(v)                  __asm__ volatile("" : "+x"(v))
/* 8 lanes from lane 4 - r or r on of what was loaded 4 floats apart: within each half of a vector, shifts are cheap. */
#define vec_shift(low, high, r)                                                                              \
  ((r) == 0   ? (low)                                                                                        \
   : (r) == 4 ? (high)                                                                                       \
              : _mm256_castsi256_ps(                                                                         \
                    _mm256_alignr_epi8(_mm256_castps_si256(high), _mm256_castps_si256(low), 4 * (r))))
#define VECTORS          2
#define X_LOADS(vectors) (2 * (vectors) + 1)
#define vec_x_load(u, i) vec_load((u) + ((i)-1) * 4)
#define vec_x_pair(x, i, r)                                                                                  \
  (vec_shift(x[2 * i], x[2 * i + 1], 4 - (r)) + vec_shift(x[2 * i + 1], x[2 * i + 2], r))
#include "host_simd_body.h"

const host_isa host_isa_avx2 = {"AVX2+FMA", LANES, block_of, inject, host_sample_avx2};
