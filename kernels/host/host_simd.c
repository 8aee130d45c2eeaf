/* The host kernels `simd`: one body (host_simd_body.h), a file for each instruction set that includes it (host_avx2.c),
 * and the choice at run time. Its speed comes from, greatest gain first:
 *   - GROUP planes at a time: the nine planes of one point share all but one with those of the next plane, so
 * a group of four loads 15 z neighbours instead of 36;
 *   - VECTORS vectors of each plane at a time, in an order that needs few registers: 1.2 to 1.5 times as fast with the
 * 16 of AVX2, up to 1.1 with AVX-512;
 *   - the middle of rows in a function that does nothing else: up to 1.08 times as fast in the caches;
 *   - blocks of y and x small enough that the planes of a group stay in the L2 cache while the computation moves up
 * in z;
 *   - software prefetch of the planes that enter (host_prefetch.h): hardware prefetchers stop at every page;
 *   - stores that bypass the cache once a launch is too large to be found there by the next one. How large that is,
 *     the sizes of caches do not tell (others use them too), so `auto` also measures `simd_cached`, which never does;
 *   - columns of a block's rows, in kernels `simd_columns`: the 44 rows of a group's stencil stay in L1.
 *     Rows of 512 points 1.4 times as fast on Zen 5, rows of 200 0.75 times, so `auto` measures these, too;
 *   - x neighbours shifted out of vectors loaded once, instead of two loads each, half of which cross a line. */
#include "host_simd.h"
#include "host_images.h"
#include "kernels/host_range.h"

static void simd_each_block(const host_isa *isa, simd_launch *s, host_range range) {
  const kernel_args *a = s->args;
  host_block *const run = isa->block_of(s);
  find_x_images(s, isa->lanes);
  s->range = range;
  const int rows = host_block_rows(a->nx);
  for (int y = range.y_begin; y < range.y_end; y += rows)
    for (int x = 0; x < a->nx; x += BLOCK_X) {
      block b = {x, smaller(x + BLOCK_X, a->nx), y, smaller(y + rows, range.y_end), 0};
      run(s, b, range.z_begin, range.z_end);
    }
}

/* May a launch be too large for the next one to find it in the cache? */
static bool simd_is_large(const kernel_args *a) {
  return (size_t)(a->z_end - a->z_begin) * a->plane * sizeof(float) > HOST_SIMD_LARGE;
}

/* Does a part of a launch of one step, and prefetches the planes that enter a few rows ahead. */
void host_simd_launch(const host_isa *isa, enum host_form form, const kernel_args *a,
                      const absorb_args *layers, int part, int parts) {
  const equation_row *row = &EQUATIONS[a->equation];
  const size_t rows = (size_t)PREFETCH_ROWS * a->pitch;
  simd_launch s = {.args = a, .layers = layers, .columns = form == HOST_COLUMNS, .ahead_rows = PREFETCH_ROWS};
  s.large = form != HOST_CACHED && simd_is_large(a);
  /* With more levels, the values that are overwritten have just been read and are in the cache. */
  s.around_cache = s.large && row->levels == 1;
  s.ahead.array[0] = a->in + rows + 4 * a->plane;
  if (row->levels > 1) s.ahead.array[1] = a->out + rows;
  for (int i = 0; i < row->media; i++)
    if (a->medium[i]) s.ahead.array[2 + i] = a->medium[i] + rows;
  for (int l = 0; l < a->terms.memories; l++) s.ahead.array[AHEAD_MEMORIES + l] = a->terms.memory[l] + rows;
  simd_each_block(isa, &s, host_range_of(a, part, parts));
}

void host_simd_range(const host_isa *isa, const kernel_args *a, const absorb_args *layers, host_range range,
                     host_ahead ahead) {
  simd_launch s = {.args = a, .layers = layers, .ahead = ahead};
  simd_each_block(isa, &s, range);
}

const host_isa *host_isa_get(int index) {
  static const host_isa *const sets[] = {
#ifdef __x86_64__
      &host_isa_avx512, &host_isa_avx2,
#endif
      &host_isa_portable};
  const int count = (int)(sizeof sets / sizeof sets[0]) - isa_first();
  return index >= 0 && index < count ? sets[isa_first() + index] : NULL;
}

static int simd_layers_pieces(const void *args, int parts) {
  return host_range_pieces(&((const absorb_args *)args)->field, parts);
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
