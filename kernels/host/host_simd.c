/* The host kernels `simd`: one body (host_simd_body.h), compiled once for each instruction set and chosen at
 * run time. What makes it fast, in order of what it gained:
 *   - GROUP planes at a time: the nine planes of one point share all but one with those of the next plane, so
 * a group of four loads 15 z neighbours instead of 36;
 *   - VECTORS vectors of each plane at a time, in an order that needs few registers: 1.2 to 1.5 times as fast with the
 * 16 of AVX2, up to 1.1 with AVX-512;
 *   - the middle of rows in a function that does nothing else: up to 1.08 times as fast in the caches;
 *   - blocks of y and x small enough that the planes of a group stay in the L2 cache while the sweep moves up
 * in z;
 *   - software prefetch of the planes that enter (host_ask.h): rows are short, hardware prefetchers stop at every page;
 *   - stores that bypass the cache once a launch is too large to be found there by the next one. How large that is,
 *     the sizes of caches do not tell (others use them too), so `auto` also measures `simd_cached`, which never does;
 *   - columns of a block's rows, in kernels `simd_columns`: the 44 rows of a group's star stay in the first-level cache.
 *     Rows of 512 points 1.4 times as fast on Zen 5, rows of 200 0.75 times, so `auto` measures these, too;
 *   - x neighbours shifted out of vectors loaded once, instead of two loads each, half of which cross a line. */
#include "host_simd.h"
#include "host_ask.h"
#include "host_images.h"
#include "kernels/host_share.h"
#include "kernels/equations/terms.h"
#include <math.h>
#include <stdbool.h>

enum {
  PREFETCH_ROWS = 1 /* how far ahead of the computation a plane that enters is asked for */
};

/* Sweeps over the blocks of a share. */
static void simd_each_block(const host_isa *isa, sweep *s, host_share share) {
  const kernel_args *a = s->args;
  host_block *const run = isa->block_of(s);
  find_x_images(s, isa->lanes);
  s->share = share;
  const int rows = host_block_rows(a->nx);
  for (int y = share.y_begin; y < share.y_end; y += rows)
    for (int x = 0; x < a->nx; x += BLOCK_X) {
      block b = {x, smaller(x + BLOCK_X, a->nx), y, smaller(y + rows, share.y_end), 0};
      run(s, b, share.z_begin, share.z_end);
    }
}

/* May a launch be too large to be found in the cache by the next one? */
static bool simd_is_large(const kernel_args *a) {
  return (size_t)(a->z_end - a->z_begin) * a->plane * sizeof(float) > HOST_SIMD_LARGE;
}

/* A launch by itself asks for the planes that enter, a few rows ahead. */
void host_simd_launch(const host_isa *isa, enum host_form form, const kernel_args *a,
                      const absorb_args *layers, int part, int parts) {
  const equation_row *row = &EQUATIONS[a->equation];
  const size_t rows = (size_t)PREFETCH_ROWS * a->pitch;
  sweep s = {.args = a, .layers = layers, .columns = form == HOST_COLUMNS, .ahead_rows = PREFETCH_ROWS};
  s.large = form != HOST_CACHED && simd_is_large(a);
  s.stream = s.large && row->levels == 1; /* what is overwritten has just been read: it is in the cache */
  s.ahead.stream[0] = a->in + rows + 4 * a->plane;
  if (row->levels > 1) s.ahead.stream[1] = a->out + rows;
  for (int i = 0; i < row->media; i++)
    if (a->medium[i]) s.ahead.stream[2 + i] = a->medium[i] + rows;
  for (int l = 0; l < a->terms.memories; l++) s.ahead.stream[AHEAD_MEMORIES + l] = a->terms.memory[l] + rows;
  simd_each_block(isa, &s, host_share_of(a, part, parts));
}

void host_simd_share(const host_isa *isa, const kernel_args *a, const absorb_args *layers, host_share share,
                     host_ahead ahead) {
  sweep s = {.args = a, .layers = layers, .ahead = ahead};
  simd_each_block(isa, &s, share);
}

/* --- points between points -------------------------------------------------------------------------------------- */

/* Adds to `sums` what a source's share has in rows [y_begin, y_end) of a tile; sets the bits of those points. */
static inline __attribute__((always_inline)) void simd_add_share(const inject_args *a, const source_tile *t,
                                                                 const source_share *k, const int rows[2],
                                                                 float sums[TILE_Y][TILE_X],
                                                                 uint32_t bits[TILE_Y]) {
  const point_weights *p = &a->places[k->place];
  for (int iy = 0; iy < p->ny; iy++) {
    const int y = points_at(p->y, iy, a->field.ny);
    if (y < rows[0] || y >= rows[1]) continue;
    /* The second time: those that lie at the other end of a periodic axis. */
    for (int x = p->x; x + p->nx > 0; x -= a->field.nx) {
      const int begin = larger(0, t->x - x), end = smaller(p->nx, smaller(t->x + TILE_X, a->field.nx) - x);
      if (begin >= end) continue;
      float *sum = sums[y - t->y] + x - t->x;
      for (int ix = begin; ix < end; ix++) sum[ix] = inject_add(a, k, t->z - p->z, iy, ix, sum[ix]);
      bits[y - t->y] |= (uint32_t)((UINT64_C(1) << (end - begin)) - 1) << (x + begin - t->x);
    }
  }
}

/* The sources of a tile, one after the other. */
static inline __attribute__((always_inline)) void simd_inject(const inject_args *a, const source_tile *t,
                                                              int y_begin, int y_end) {
  float sums[TILE_Y][TILE_X] = {{0}};
  uint32_t bits[TILE_Y] = {0};
  const int rows[2] = {larger(t->y, y_begin), smaller(t->y + TILE_Y, y_end)};
  const source_share *const first = a->shares + t->first, *const end = first + t->count;
  for (const source_share *k = first; k < end; k++)
    if (k->signal >= 0) simd_add_share(a, t, k, rows, sums, bits);
  for (int y = 0; y < TILE_Y; y++)
    for (uint32_t left = bits[y]; left; left &= left - 1) {
      const int x = __builtin_ctz(left);
      inject_store(a, t, t->y + y, t->x + x, sums[y][x]);
    }
  for (const source_share *k = first; k < end; k++) {
    const point_weights *p = &a->places[k->place];
    const float value = k->signal < 0 ? a->signal[~k->signal] : NAN;
    if (!isnan(value) && p->y >= rows[0] && p->y < rows[1]) inject_impose(&a->field, t->z, p->y, p->x, value);
  }
}

/* Everything in one function makes the sweep fast; a sanitizer's checks make such functions take gcc minutes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif
#define STENCIL_JOIN(a, b) a##b
/* Takes from the compiler what it knows of a pointer. */
#define opaque(p)          __asm__ volatile("" : "+r"(p))

#ifdef __x86_64__
#include <immintrin.h>

/* leave(), the end of a sweep: orders streaming stores before whatever tells others that the launch is done,
 * and clears the registers' upper halves, without which scalar code crawls from then on (compilers see to it
 * by themselves only from -O2). */

#define ISA(name)        STENCIL_JOIN(name, _avx512)
#define TARGET           __attribute__((target("avx512f")))
#define LANES            16
#define vec              __m512
#define vec_set(a)       _mm512_set1_ps(a)
#define vec_load(p)      _mm512_loadu_ps(p)
#define vec_add(a, b)    _mm512_add_ps(a, b)
#define vec_mul(a, b)    _mm512_mul_ps(a, b)
#define vec_sub(a, b)    _mm512_sub_ps(a, b)
#define vec_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define vec_fms(a, b, c) _mm512_fmsub_ps(a, b, c)
#define vec_negate(v)                                                                                        \
  _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(v), _mm512_set1_epi32((int)0x80000000)))
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
#define vec_x_pair(x, i, r) vec_add(vec_shift(x[i], x[i + 1], LANES - (r)), vec_shift(x[i + 1], x[i + 2], r))
#include "host_simd_body.h"
#undef vec_shift

#define ISA(name)        STENCIL_JOIN(name, _avx2)
#define TARGET           __attribute__((target("avx2,fma")))
#define LANES            8
#define vec              __m256
#define vec_set(a)       _mm256_set1_ps(a)
#define vec_load(p)      _mm256_loadu_ps(p)
#define vec_add(a, b)    _mm256_add_ps(a, b)
#define vec_mul(a, b)    _mm256_mul_ps(a, b)
#define vec_sub(a, b)    _mm256_sub_ps(a, b)
#define vec_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define vec_fms(a, b, c) _mm256_fmsub_ps(a, b, c)
#define vec_negate(v)    _mm256_xor_ps(v, _mm256_set1_ps(-0.0f))
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
  vec_add(vec_shift(x[2 * i], x[2 * i + 1], 4 - (r)), vec_shift(x[2 * i + 1], x[2 * i + 2], r))
#include "host_simd_body.h"
#undef vec_bits
#undef vec_mask
#undef vec_shift
#endif

/* One point at a time; a compiler whose target has fused multiply-add makes vectors of it by itself. */
#define ISA(name) STENCIL_JOIN(name, _portable)
#define TARGET
#define LANES                      1
#define vec                        float
#define vec_set(a)                 (a)
#define vec_load(p)                (*(p))
#define vec_add(a, b)              ((a) + (b))
#define vec_mul(a, b)              ((a) * (b))
#define vec_sub(a, b)              ((a) - (b))
#define vec_fma(a, b, c)           fmaf(a, b, c)
#define vec_fms(a, b, c)           fmaf(a, b, -(c))
#define vec_negate(v)              (-(v))
#define vec_keep(v, bits)          ((bits)&1 ? (v) : 0)
#define vec_pick(v, from)          ((void)(from), (v))
#define vec_where(bits, a, b)      ((bits)&1 ? (a) : (b))
#define vec_load_some(p, bits)     ((bits)&1 ? *(p) : 0)
#define vec_store(p, v)            (*(p) = (v))
#define vec_stream(p, v)           (*(p) = (v))
#define vec_store_some(p, v, bits) ((bits)&1 ? (void)(*(p) = (v)) : (void)0)
#define prefetch(p)                ((void)(p))
#define prefetch_near(p)           ((void)(p))
#define leave()                    ((void)0)
#define settle(v)                  ((void)0)
#define VECTORS                    1
#define X_LOADS(vectors)           (2 * RADIUS + 1)
#define vec_x_load(u, i)           vec_load((u) + (i)-RADIUS)
#define vec_x_pair(x, i, r)        vec_add(x[i + RADIUS - (r)], x[i + RADIUS + (r)])
#include "host_simd_body.h"

const host_isa *host_isa_get(int index) {
  static const host_isa sets[] = {
  /* the 8 columns of a receiver are a vector of AVX2 */
#ifdef __x86_64__
      {"AVX-512", lanes_avx512, block_of_avx512, inject_avx512, sample_avx2},
      {"AVX2+FMA", lanes_avx2, block_of_avx2, inject_avx2, sample_avx2},
#endif
      {"portable C", lanes_portable, block_of_portable, inject_portable, sample_portable},
  };
  const int count = (int)(sizeof sets / sizeof sets[0]) - isa_first();
  return index >= 0 && index < count ? &sets[isa_first() + index] : NULL;
}

static int simd_layers_pieces(const void *args, int shares) {
  return host_share_pieces(&((const absorb_args *)args)->field, shares);
}

#define KERNEL(kernel, form)                                                                                 \
  host_kernel host_##kernel;                                                                                 \
  void host_##kernel(const kernel_args *args, int part, int parts) {                                         \
    host_simd_launch(host_isa_get(0), form, args, NULL, part, parts);                                        \
  }                                                                                                          \
  static void simd_layers_##form(const void *args, int part, int parts) {                                    \
    host_simd_launch(host_isa_get(0), form, &((const absorb_args *)args)->field, args, part, parts);         \
  }                                                                                                          \
  const operation host_##kernel##_layers = {.name = #kernel,                                                 \
                                            .args_bytes = sizeof(absorb_args),                               \
                                            .host = simd_layers_##form,                                      \
                                            .pieces = simd_layers_pieces};
KERNEL(simd, HOST_SIMD)
KERNEL(simd_cached, HOST_CACHED)
KERNEL(simd_columns, HOST_COLUMNS)
