/* The host kernels `simd` with AVX-512 (host_simd.c). */
#include <immintrin.h>
#include "host_simd.h"

#define LANES                      16
#define vec                        __m512
#define vec_set(a)                 _mm512_set1_ps(a)
#define vec_load(p)                _mm512_loadu_ps(p)
#define vec_fma(a, b, c)           _mm512_fmadd_ps(a, b, c)
#define vec_keep(v, bits)          _mm512_maskz_mov_ps((__mmask16)(bits), v)
#define vec_pick(v, from)          _mm512_permutexvar_ps(_mm512_loadu_si512(from), v)
#define vec_where(bits, a, b)      _mm512_mask_blend_ps((__mmask16)(bits), b, a)
#define vec_load_some(p, bits)     _mm512_maskz_loadu_ps((__mmask16)(bits), p)
#define vec_store(p, v)            _mm512_storeu_ps(p, v)
#define vec_stream(p, v)           _mm512_stream_ps(p, v)
#define vec_store_some(p, v, bits) _mm512_mask_storeu_ps(p, (__mmask16)(bits), v)
#define prefetch(p)                _mm_prefetch((const char *)(p), _MM_HINT_T1)
#define prefetch_near(p)           _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define leave()                    (_mm_sfence(), _mm256_zeroupper())
#define settle(v)                  __asm__ volatile("" : "+v"(v))
/* 16 lanes from lane `k` of the 32 of low:high. */
#define vec_shift(low, high, k)                                                                              \
  _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(high), _mm512_castps_si512(low), k))
#define VECTORS             2
#define X_LOADS(vectors)    ((vectors) + 2)
#define vec_x_load(u, i)    vec_load((u) + ((i)-1) * LANES)
#define vec_x_pair(x, i, r) (vec_shift(x[i], x[i + 1], LANES - (r)) + vec_shift(x[i + 1], x[i + 2], r))
#include "host_simd_body.h"

const host_isa host_isa_avx512 = {"AVX-512", LANES, block_of, inject, host_sample_avx2};
