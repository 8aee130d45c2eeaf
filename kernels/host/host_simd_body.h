/* The host kernels `simd` for one instruction set. A file that includes this has defined LANES, VECTORS, X_LOADS, vec,
 * vec_*, settle, prefetch, prefetch_near and leave; its compiler knows the instructions. A vector at the end of a row
 * loads lanes of `in` and `medium` past nx + 3 and drops them. It reads padding or the next row there; rows y + 1 and y
 * - 1 always exist. Loads and stores of `out` are masked there. */
#include <math.h>
#include <stdbool.h>
#include "host_prefetch.h"
#include "host_images.h"
#include "kernels/equations/terms.h"

/* One function with everything inlined makes the update fast; with a sanitizer's checks gcc takes minutes for it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif
/* Hides the origin of a pointer from the compiler. */
#define opaque(p) __asm__ volatile("" : "+r"(p))
#define ISA(name) vec_##name

INLINE vec load_lanes(const float *p, int lanes) {
  return lanes < LANES ? vec_load_some(p, (1u << lanes) - 1) : vec_load(p);
}

INLINE void store_lanes(float *p, vec v, int lanes) {
  if (lanes < LANES)
    vec_store_some(p, v, (1u << lanes) - 1);
  else
    vec_store(p, v);
}

#include "host_layers_body.h"
#include "kernels/equations/point_body.h"

typedef struct vec_weights {
  vec center, x[5], y[5], z[5], scale[EQUATION_MEDIA], two;
} vec_weights;

/* Up to GROUP planes of VECTORS vectors are summed at once: so many independent chains of additions keep two
 * multiply-adders of four cycles' latency busy. Values that they share are loaded once. Pointers advance by one stride
 * at a time and are opaque(). Else the compiler keeps more addresses than there are registers and spills them. */

INLINE void load_vecs(vec v[VECTORS], const float *at, const int vectors) {
#pragma GCC unroll 2
  for (int i = 0; i < vectors; i++) {
    v[i] = vec_load(at + i * LANES);
    settle(v[i]);
  }
}

/* Adds the part of the canonical order in planes z - 4 .. z: the weights of z - 4 .. z - 1 and the centre. */
INLINE void below(const vec_weights *w, const float *u, ptrdiff_t plane, const int planes, const int vectors,
                  vec acc[GROUP][VECTORS]) {
  const float *at = u - 4 * plane;
  vec weight[5] = {w->center, w->z[1], w->z[2], w->z[3], w->z[4]};
#pragma GCC unroll 5
  for (int r = 0; r <= 4; r++) settle(weight[r]);
#pragma GCC unroll 8
  for (int j = 0; j < planes + 4; j++, at += plane) {
    vec v[VECTORS];
    opaque(at);
    load_vecs(v, at, vectors);
#pragma GCC unroll 4
    for (int k = larger(j - 4, 0); k < smaller(j + 1, planes); k++)
#pragma GCC unroll 2
      for (int i = 0; i < vectors; i++)
        acc[k][i] = k == j ? (vec)(weight[4] * v[i]) : vec_fma(weight[4 - (j - k)], v[i], acc[k][i]);
  }
}

/* Adds the part of planes z + 1 .. z + 4. */
INLINE void above(const vec_weights *w, const float *u, ptrdiff_t plane, const int planes, const int vectors,
                  vec acc[GROUP][VECTORS]) {
  const float *at = u + plane;
  vec weight[5] = {w->center, w->z[1], w->z[2], w->z[3], w->z[4]};
#pragma GCC unroll 4
  for (int r = 1; r <= 4; r++) settle(weight[r]);
#pragma GCC unroll 8
  for (int j = 1; j < planes + 4; j++, at += plane) {
    vec v[VECTORS];
    opaque(at);
    load_vecs(v, at, vectors);
#pragma GCC unroll 4
    for (int k = larger(j - 4, 0); k < smaller(j, planes); k++)
#pragma GCC unroll 2
      for (int i = 0; i < vectors; i++) acc[k][i] = vec_fma(weight[j - k], v[i], acc[k][i]);
  }
}

/* Adds the part of the point's own plane: neighbours along y and x; for flat rows (kernel_args.flat) only along x. */
INLINE void within(const vec_weights *w, const float *u, ptrdiff_t row, const bool flat, const int vectors,
                   vec acc[VECTORS]) {
  const float *lower = u, *upper = u;
  vec x[X_LOADS(VECTORS)];
#pragma GCC unroll 5
  for (int i = 0; i < X_LOADS(vectors); i++) {
    x[i] = vec_x_load(u, i);
    settle(x[i]);
  }
#define RING(r)                                                                                              \
  {                                                                                                          \
    vec wy = w->y[r], wx = w->x[r], sum[VECTORS];                                                            \
    if (flat) {                                                                                              \
      for (int i = 0; i < vectors; i++) acc[i] = acc[i] + vec_set(0);                                        \
    } else {                                                                                                 \
      lower -= row, upper += row;                                                                            \
      opaque(lower);                                                                                         \
      opaque(upper);                                                                                         \
      for (int i = 0; i < vectors; i++) sum[i] = vec_load(lower + i * LANES) + vec_load(upper + i * LANES);  \
      settle(wy);                                                                                            \
      for (int i = 0; i < vectors; i++) acc[i] = vec_fma(wy, sum[i], acc[i]);                                \
    }                                                                                                        \
    for (int i = 0; i < vectors; i++) sum[i] = vec_x_pair(x, i, r);                                          \
    settle(wx);                                                                                              \
    for (int i = 0; i < vectors; i++) acc[i] = vec_fma(wx, sum[i], acc[i]);                                  \
  }
  RING(1)
  RING(2)
  RING(3)
  RING(4)
#undef RING
}

/* Does what `advance` does, with terms (terms.h). */
INLINE vec advance_terms(const vec_weights *w, const kernel_args *a, const enum equation equation,
                         ptrdiff_t at, int lanes, vec stencil, const vec *m, vec u, vec before,
                         const float *layer_terms) {
  const kernel_terms *t = &a->terms;
  const vec x = layer_terms ? vec_load(layer_terms) : vec_set(0), one = vec_set(1);
  vec gain = vec_gain(equation, m), kappa = one, sum = one, strength = one;
  if (t->density) stencil = vec_fma(-vec_load(t->density + at), u, stencil);
  if (t->recalled) {
    const vec recalled = vec_load(t->recalled + at);
    vec g = vec_fma(recalled, stencil, load_lanes(t->gradient + at, lanes));
    if (layer_terms) g = vec_fma(recalled, x, g);
    store_lanes(t->gradient + at, g, lanes);
  }
  if (t->memories) kappa = vec_load(t->loss + at);
  for (int l = 0; l < t->memories; l++) {
    const vec b = vec_set(t->b[l]) * kappa;
    vec r = vec_fma(vec_set(t->a[l]), load_lanes(t->memory[l] + at, lanes), b * stencil);
    sum = l ? (vec)(sum + r) : r;
    strength = l ? (vec)(strength + vec_set(t->b[l])) : vec_set(t->b[l]);
    if (layer_terms) r = vec_fma(b, x, r);
    store_lanes(t->memory[l] + at, r, lanes);
  }
  if (t->memories) {
    stencil = stencil - sum;
    gain = gain * vec_fma(-kappa, strength, one);
  }
  const vec next = vec_next(equation, stencil, m, u, before, w->two);
  return layer_terms ? vec_fma(gain, x, next) : next;
}

/* Returns the new value of points from their stencil. `at` is the first point's place in its field. layer_terms: of
 * the points, or NULL. */
INLINE vec advance(const vec_weights *w, const kernel_args *a, const enum equation equation, const bool terms,
                   ptrdiff_t at, int lanes, vec stencil, const float *layer_terms) {
  const equation_row *row = &EQUATIONS[equation];
  vec m[EQUATION_MEDIA], u = stencil, before = stencil;
  for (int i = 0; i < EQUATION_MEDIA; i++)
    m[i] = i < row->media && a->medium[i] ? vec_load(a->medium[i] + at) : w->scale[i];
  if (row->flags & READS_U) u = vec_load(a->in + at);
  if (row->levels > 1) before = load_lanes(a->out + at, lanes);
  if (terms && (row->flags & HAS_TERMS))
    return advance_terms(w, a, equation, at, lanes, stencil, m, u, before, layer_terms);
  const vec next = vec_next(equation, stencil, m, u, before, w->two);
  return layer_terms ? vec_fma(vec_gain(equation, m), vec_load(layer_terms), next) : next;
}

/* Prefetches the lines of `vectors` vectors of each plane from `next` on. */
INLINE void prefetch_lines(const float *next, ptrdiff_t plane, const int planes, const int vectors) {
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++, next += plane) {
    opaque(next);
#pragma GCC unroll 2
    for (int x = 0; x < vectors * LANES; x += LINE) {
      prefetch_near(next + x);
      prefetch_near(next + x + vectors * LANES);
    }
  }
}

/* Computes new points from place `at` on: `vectors` vectors of each of `planes` planes (constants, at most VECTORS
 * and GROUP). Of a single vector it computes only `lanes`. layer_terms: of the first plane, each next plane's
 * LAYER_TERM_ROW further on; or NULL. */
INLINE void update(const vec_weights *w, const simd_launch *s, const enum equation equation, const bool terms,
                   ptrdiff_t at, const float *layer_terms, const int planes, const int vectors,
                   const int lanes, vec acc[GROUP][VECTORS]) {
  const kernel_args *a = s->args;
  ptrdiff_t row = (ptrdiff_t)a->pitch, plane = (ptrdiff_t)a->plane;
  const float *u = a->in + at;
  const bool flat = terms && a->flat;
  below(w, u, plane, planes, vectors, acc);
  const float *in_plane = u;
  opaque(in_plane);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) {
    within(w, in_plane, row, flat, vectors, acc[k]);
    in_plane += plane;
    opaque(in_plane);
  }
  above(w, u, plane, planes, vectors, acc);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++)
#pragma GCC unroll 2
    for (int i = 0; i < vectors; i++)
      acc[k][i] = advance(w, a, equation, terms, at + k * plane + i * LANES, lanes, acc[k][i],
                          layer_terms ? layer_terms + k * LAYER_TERM_ROW + i * LANES : NULL);
  for (int i = 0; i < s->prefetch_list.count; i++)
    prefetch_lines(s->prefetch_list.from[i] + at, plane, planes, vectors);
}

/* Updates `points` points without images of a row of each plane, VECTORS whole vectors at a time. This is nearly all
 * the work. The launch is copied, so that no store can change it and it stays in registers. relaxing: the number of
 * relaxations as a constant, 1.13 to 1.15 times as fast; 0: any number. */
INLINE void update_middle(const vec_weights *w, const simd_launch *of, const enum equation equation,
                          const bool terms, const int relaxing, ptrdiff_t at, const float *layer_terms,
                          const int planes, int points) {
  kernel_args args = *of->args;
  if (relaxing) args.terms.memories = relaxing, args.terms.recalled = NULL, args.flat = false;
  const simd_launch s = {.args = &args,
                         .around_cache = of->around_cache,
                         .ahead = of->ahead,
                         .prefetch_list = of->prefetch_list};
  for (const ptrdiff_t end = at + points; at < end; at += VECTORS * LANES) {
    float *out = args.out + at;
    vec acc[GROUP][VECTORS];
    update(w, &s, equation, terms, at, layer_terms, planes, VECTORS, LANES, acc);
#pragma GCC unroll 4
    for (int k = 0; k < planes; k++, out += args.plane) {
      opaque(out);
#pragma GCC unroll 2
      for (int i = 0; i < VECTORS; i++) {
        if (s.around_cache) /* NOLINT(bugprone-branch-clone): one store where a set of instructions has no other */
          vec_stream(out + i * LANES, acc[k][i]);
        else
          vec_store(out + i * LANES, acc[k][i]);
      }
    }
    if (layer_terms) layer_terms += VECTORS * LANES;
  }
}

/* The middle of a group, as separate functions. Inlined among the code for ends of rows, the loop takes more
 * instructions. */
#define MIDDLE(name, equation, terms, relaxing, from)                                                        \
  static __attribute__((noinline)) void name(const vec_weights *w, const simd_launch *s, ptrdiff_t at,       \
                                             const float *layer_terms, int points) {                         \
    (void)layer_terms;                                                                                       \
    update_middle(w, s, equation, terms, relaxing, at, from, GROUP, points);                                 \
  }
#define EQUATION(constant, name, ...)                                                                        \
  MIDDLE(name##_middle, EQUATION_##constant, false, 0, NULL)                                                 \
  MIDDLE(name##_layers_middle, EQUATION_##constant, false, 0, layer_terms)                                   \
  MIDDLE(name##_terms_middle, EQUATION_##constant, true, 0, layer_terms)                                     \
  MIDDLE(name##_relaxing_1, EQUATION_##constant, true, 1, layer_terms)                                       \
  MIDDLE(name##_relaxing_2, EQUATION_##constant, true, 2, layer_terms)                                       \
  MIDDLE(name##_relaxing_3, EQUATION_##constant, true, 3, layer_terms)
#include "kernels/equations.def"
#undef MIDDLE

INLINE void middle_of(const vec_weights *w, const simd_launch *s, const enum equation equation,
                      const bool terms, ptrdiff_t at, const float *layer_terms, const int planes,
                      int points) {
  const kernel_args *a = s->args;
  const int relaxing = a->flat || a->terms.recalled ? 0 : a->terms.memories;
  if (planes < GROUP) {
    update_middle(w, s, equation, terms, 0, at, layer_terms, planes, points);
    return;
  }
  switch (equation) {
#define EQUATION(constant, name, ...)                                                                        \
  case EQUATION_##constant:                                                                                  \
    if (!terms)                                                                                              \
      (layer_terms ? name##_layers_middle : name##_middle)(w, s, at, layer_terms, points);                   \
    else                                                                                                     \
      (relaxing == 1   ? name##_relaxing_1                                                                   \
       : relaxing == 2 ? name##_relaxing_2                                                                   \
       : relaxing == 3 ? name##_relaxing_3                                                                   \
                       : name##_terms_middle)(w, s, at, layer_terms, points);                                \
    break;
#include "kernels/equations.def"
  default:;
  }
}

INLINE void store_vec(float *out, vec v, int lanes, bool around_cache) {
  if (lanes == LANES && around_cache)
    vec_stream(out, v);
  else
    store_lanes(out, v, lanes);
}

/* Stores new points of rows with images along y or z from registers to all their places, since values stored around
 * the cache are slow to read back. Points of held rows become 0. */
INLINE void store_images(const simd_launch *s, const strip *t, float *out, const int planes, int lanes,
                         vec acc[GROUP][VECTORS]) {
  const kernel_args *a = s->args;
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++, out += a->plane) {
    const row_images *r = &t->rows[k];
    acc[k][0] = vec_keep(acc[k][0], r->held ? 0 : ~0u);
    for (int i = 0; i < r->count; i++) {
      const vec v = r->to[i].negated ? -acc[k][0] : acc[k][0];
      store_vec(out + r->to[i].distance, v, lanes, s->large);
    }
  }
}

/* Stores the whole line beside row `out` that holds images of vector `v`. */
INLINE void store_line(const ghost_line *l, float *out, vec v, bool around_cache) {
  for (int i = 0; i < LINE; i += LANES) {
    vec line = vec_keep(vec_pick(v, l->from + i), l->kept >> i);
    store_vec(out + l->to + i, l->negated ? -line : line, LANES, around_cache);
  }
}

/* Updates a vector at an end of its rows, or of rows with images along y or z. */
INLINE void update_edge(const vec_weights *w, const simd_launch *s, const enum equation equation,
                        const bool terms, strip *t, int x, const float *layer_terms, const int planes) {
  const kernel_args *a = s->args;
  const ptrdiff_t at = t->first + x;
  const int lanes = smaller(a->nx - x, LANES);
  const unsigned kept = lanes_kept(s, x);
  const bool one_by_one = s->x_count > 0 && !s->whole && is_end(s, x, LANES), around_cache = s->around_cache;
  const bool left = s->whole && s->left.some && x == s->left.source,
             right = s->whole && s->right.some && x == s->right.source;
  const ptrdiff_t plane = (ptrdiff_t)a->plane;
  vec acc[GROUP][VECTORS];
  update(w, s, equation, terms, at, layer_terms, planes, 1, lanes, acc);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) acc[k][0] = vec_keep(acc[k][0], kept);
  if (t->row_images) store_images(s, t, a->out + at, planes, lanes, acc);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) {
    float *row = a->out + t->first + k * plane;
    store_vec(row + x, acc[k][0], lanes, around_cache);
    if (one_by_one) vec_store(t->ends[k] + (x - t->x_begin), acc[k][0]);
    if (left) store_line(&s->left, row, acc[k][0], s->large);
    if (right) store_line(&s->right, row, acc[k][0], s->large);
  }
}

/* Prefetches the lines beside the strip's rows where ghosts are stored one by one, so that the stores need not wait for
 * memory. */
INLINE void prefetch_ghosts(const kernel_args *a, const strip *t, const int planes) {
  const float *row = a->out + t->first + PREFETCH_ROWS * (ptrdiff_t)a->pitch;
  for (int k = 0; k < planes; k++, row += a->plane) {
    prefetch(row - 1);
    prefetch(row + a->nx);
  }
}

/* Prefetches the last line of the rows, where vectors end beyond it. */
INLINE void prefetch_last(const kernel_args *a, const strip *t, const int planes) {
  const float *last = a->out + t->first + PREFETCH_ROWS * (ptrdiff_t)a->pitch + a->nx - 1;
  for (int k = 0; k < planes; k++, last += a->plane) prefetch_near(last);
}

INLINE void update_rows(const vec_weights *w, const simd_launch *of, const enum equation equation,
                        const bool terms, block b, int z, const int planes, layer_term_rows *layer_terms) {
  const kernel_args *a = of->args;
  const bool one_by_one = of->x_count > 0 && !of->whole;
  const bool last_in_part = of->around_cache && b.x_end == a->nx && a->nx % LANES;
  simd_launch now = *of;
  const simd_launch *s = &now;
  strip t;
  strip_init(&t, of, z, planes, b.x_begin, b.x_end);
  for (int y = b.y_begin; y < b.y_end; y++) {
    now.prefetch_list = prefetch_list_at(of, b, z, y);
    t.first = z * (ptrdiff_t)a->plane + y * (ptrdiff_t)a->pitch;
    find_row_images(&t, a, y, planes);
    if (one_by_one) prefetch_ghosts(a, &t, planes);
    if (last_in_part) prefetch_last(a, &t, planes);
    if (layer_terms) add_layers(s->layers, b, z, planes, y, layer_terms);
    int x = b.x_begin, begin = t.row_images ? b.x_end : (s->x_middle_begin + LINE - 1) / LINE * LINE,
        end = smaller(b.x_end, s->x_middle_end);
#define LAYER_TERMS(vectors)                                                                                 \
  (layer_terms ? layer_terms_at(layer_terms, x - b.x_begin, (vectors)*LANES) : NULL)
    for (; x < smaller(begin, b.x_end); x += LANES)
      update_edge(w, s, equation, terms, &t, x, LAYER_TERMS(1), planes);
    const int step = VECTORS * LANES;
    for (int next; x + step <= end; x = next) {
      next = x + (layer_terms ? layer_terms_run(layer_terms, x - b.x_begin, end - x, step)
                              : (end - x) / step * step);
      middle_of(w, s, equation, terms, t.first + x, LAYER_TERMS(VECTORS), planes, next - x);
    }
    for (; x < b.x_end; x += LANES) update_edge(w, s, equation, terms, &t, x, LAYER_TERMS(1), planes);
#undef LAYER_TERMS
    if (one_by_one) store_x_images(&t, s, planes);
  }
}

INLINE void update_block(const simd_launch *s, const enum equation equation, const bool terms, block b,
                         int z_begin, int z_end, layer_term_rows *layer_terms) {
  const kernel_args *a = s->args;
  vec_weights weights = {.center = vec_set(a->center), .two = vec_set(2)};
  for (int i = 0; i < EQUATION_MEDIA; i++) weights.scale[i] = vec_set(a->scale[i]);
  for (int r = 1; r <= 4; r++) {
    weights.x[r] = vec_set(a->wx[r]);
    weights.y[r] = vec_set(a->wy[r]);
    weights.z[r] = vec_set(a->wz[r]);
  }
  const vec_weights *w = &weights;
  opaque(w);
  const int columns = s->columns ? host_columns(b) : 1;
  for (int z = z_begin, planes; z < z_end; z += planes) {
    planes = z + GROUP <= z_end ? GROUP : 1;
    for (int i = 0; i < columns; i++) {
      const block c = host_column(a, b, i, columns);
      if (layer_terms && (columns > 1 || z == z_begin))
        layer_terms_init(layer_terms, s->layers, c.x_begin, c.x_end);
      if (planes == GROUP)
        update_rows(w, s, equation, terms, c, z, GROUP, layer_terms);
      else
        update_rows(w, s, equation, terms, c, z, 1, layer_terms);
    }
  }
  leave();
}

/* Functions with terms or flat rows are separate, since they take registers from the others. */
#define EQUATION(constant, name, ...)                                                                        \
  static void name##_block(const simd_launch *s, block b, int z_begin, int z_end) {                          \
    update_block(s, EQUATION_##constant, false, b, z_begin, z_end, NULL);                                    \
  }                                                                                                          \
  static void name##_layers_block(const simd_launch *s, block b, int z_begin, int z_end) {                   \
    layer_term_rows layer_terms;                                                                             \
    update_block(s, EQUATION_##constant, false, b, z_begin, z_end, &layer_terms);                            \
  }                                                                                                          \
  static void name##_terms_block(const simd_launch *s, block b, int z_begin, int z_end) {                    \
    layer_term_rows layer_terms;                                                                             \
    update_block(s, EQUATION_##constant, true, b, z_begin, z_end, s->layers ? &layer_terms : NULL);          \
  }
#include "kernels/equations.def"

static host_block *block_of(const simd_launch *s) {
  const bool terms = terms_any(&s->args->terms) || s->args->flat;
  switch (s->args->equation) {
#define EQUATION(constant, name, ...)                                                                        \
  case EQUATION_##constant:                                                                                  \
    return equation_has(EQUATION_##constant, HAS_TERMS) && terms        ? name##_terms_block                 \
           : equation_has(EQUATION_##constant, HAS_LAYERS) && s->layers ? name##_layers_block                \
                                                                        : name##_block;
#include "kernels/equations.def"
  default:
    return NULL;
  }
}

#include "host_points_body.h"
