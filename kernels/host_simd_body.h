/* The body of the host kernels `simd` for one instruction set. host_simd.c defines ISA, TARGET, LANES, vec, vec_*, settle,
 * prefetch and leave and includes this file once for each; all are undefined again at the end. A
 * vector at the end of a row loads lanes of `in` and `medium` past nx + 3 and drops them: what they read is padding or
 * the next row, and rows y + 1 and y - 1 always exist. Loads and stores of `out` are masked there. */

TARGET INLINE vec ISA(load_lanes)(const float *p, int lanes) {
  return lanes < LANES ? vec_load_some(p, (1u << lanes) - 1) : vec_load(p);
}

TARGET INLINE void ISA(store_lanes)(float *p, vec v, int lanes) {
  if (lanes < LANES)
    vec_store_some(p, v, (1u << lanes) - 1);
  else
    vec_store(p, v);
}

#include "host_layers_body.h"

typedef struct ISA(weights) {
  vec center, x[5], y[5], z[5], scale, two;
} ISA(weights);

/* Terms are summed for up to GROUP planes of ROWS rows at once, one vector of each: as many chains of additions as keep
 * two multiply-adders busy, which wait four cycles for each other's result. What they share is loaded once, by pointers
 * that are opaque(): else the compiler keeps more values and addresses than there are registers, on the stack. */

TARGET INLINE void ISA(load)(vec v[ROWS], const float *at, ptrdiff_t row, const int rows) {
#pragma GCC unroll 2
  for (int i = 0; i < rows; i++) {
    v[i] = vec_load(at + i * row);
    settle(v[i]);
  }
}

/* The share of the canonical order that lies in planes z - 4 .. z: the weights of z - 4 .. z - 1 and the centre. */
TARGET INLINE void ISA(below)(const ISA(weights) * w, const piece *p, const int planes, const int rows,
                              vec acc[GROUP][ROWS]) {
  const float *at = p->u - 4 * p->plane;
  vec weight[5] = {w->center, w->z[1], w->z[2], w->z[3], w->z[4]};
#pragma GCC unroll 5
  for (int r = 0; r <= 4; r++) settle(weight[r]);
#pragma GCC unroll 8
  for (int j = 0; j < planes + 4; j++, at += p->plane) {
    vec v[ROWS];
    opaque(at);
    ISA(load)(v, at, p->row, rows);
#pragma GCC unroll 4
    for (int k = larger(j - 4, 0); k < smaller(j + 1, planes); k++)
#pragma GCC unroll 2
      for (int i = 0; i < rows; i++)
        acc[k][i] = k == j ? vec_mul(weight[4], v[i]) : vec_fma(weight[4 - (j - k)], v[i], acc[k][i]);
  }
}

/* Of planes z + 1 .. z + 4. */
TARGET INLINE void ISA(above)(const ISA(weights) * w, const piece *p, const int planes, const int rows,
                              vec acc[GROUP][ROWS]) {
  const float *at = p->u + p->plane;
  vec weight[5] = {w->center, w->z[1], w->z[2], w->z[3], w->z[4]};
#pragma GCC unroll 4
  for (int r = 1; r <= 4; r++) settle(weight[r]);
#pragma GCC unroll 8
  for (int j = 1; j < planes + 4; j++, at += p->plane) {
    vec v[ROWS];
    opaque(at);
    ISA(load)(v, at, p->row, rows);
#pragma GCC unroll 4
    for (int k = larger(j - 4, 0); k < smaller(j, planes); k++)
#pragma GCC unroll 2
      for (int i = 0; i < rows; i++) acc[k][i] = vec_fma(weight[j - k], v[i], acc[k][i]);
  }
}

/* Of plane k of them: the neighbours along y and x. */
TARGET INLINE void ISA(within)(const ISA(weights) * w, const piece *p, const int k, const int rows,
                               vec acc[ROWS]) {
  const ptrdiff_t row = p->row;
  const float *u = p->u + k * p->plane, *const near = p->near ? p->near[k] : NULL;
  opaque(u);
  const float *at = u - 4 * row;
  opaque(at);
  vec y[8 + ROWS], before[ROWS], after[ROWS];
#pragma GCC unroll 10
  for (int j = 0; j < 8 + rows; j++, at += row) y[j] = vec_load(at);
#pragma GCC unroll 2
  for (int i = 0; i < rows; i++) {
    const float *x = near ? near : u + i * row;
    before[i] = vec_before(x);
    after[i] = vec_after(x);
    settle(before[i]);
    settle(after[i]);
  }
#define RING(r)                                                                                              \
  {                                                                                                          \
    vec wy = w->y[r], wx = w->x[r];                                                                          \
    settle(wy);                                                                                              \
    for (int i = 0; i < rows; i++) acc[i] = vec_fma(wy, vec_add(y[4 + i - (r)], y[4 + i + (r)]), acc[i]);    \
    settle(wx);                                                                                              \
    for (int i = 0; i < rows; i++)                                                                           \
      acc[i] = vec_fma(wx, vec_x_pair(near ? near : u + i * row, before[i], y[4 + i], after[i], r), acc[i]); \
  }
  RING(1)
  RING(2)
  RING(3)
  RING(4)
#undef RING
}

/* What the equation makes of the star of plane k, row i. */
TARGET INLINE vec ISA(advance)(const ISA(weights) * w, const piece *p, const enum equation equation,
                               const int k, const int i, vec star) {
  if (equation == EQUATION_JACOBI) return star;
  const ptrdiff_t at = k * p->plane + i * p->row;
  vec m = p->medium ? vec_load(p->medium + at) : w->scale, u = vec_load(p->u + at);
  if (equation == EQUATION_HEAT) return vec_fma(m, star, u);
  vec next = vec_fma(m, star, vec_fms(w->two, u, ISA(load_lanes)(p->out + at, p->lanes)));
  return p->added[i] ? vec_fma(m, vec_load(p->added[i] + k * SUMS_ROW), next) : next;
}

/* New points of a piece of `planes` planes and `rows` rows (constants, at most GROUP and ROWS). */
TARGET INLINE void ISA(update)(const ISA(weights) * w, const piece *p, const enum equation equation,
                               const int planes, const int rows, vec acc[GROUP][ROWS]) {
  ISA(below)(w, p, planes, rows, acc);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) ISA(within)(w, p, k, rows, acc[k]);
  ISA(above)(w, p, planes, rows, acc);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++)
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++) acc[k][i] = ISA(advance)(w, p, equation, k, i, acc[k][i]);
#pragma GCC unroll 3
  for (int n = 0; n < AHEAD_STREAMS; n++) {
    if (!p->ahead[n]) continue;
#pragma GCC unroll 4
    for (int k = 0; k < planes; k++)
#pragma GCC unroll 2
      for (int i = 0; i < rows; i++) prefetch(p->ahead[n] + k * p->plane + i * p->row);
  }
}

/* `points` points (whole vectors) of ROWS rows of each plane, without images: nearly all there is to do. Each form is a
 * function of its own, which keeps pointers and strides in registers. */
TARGET INLINE void ISA(middle)(const ISA(weights) * w, const piece *first, const enum equation equation,
                               const bool layers, const int planes, int points) {
  const piece from = *first;
  for (int x = 0; x < points; x += LANES) {
    piece p = from;
    piece_move(&p, x);
    if (!layers) p.added[0] = p.added[1] = NULL;
    p.near = NULL;
    vec acc[GROUP][ROWS];
    ISA(update)(w, &p, equation, planes, ROWS, acc);
    float *out = p.out;
#pragma GCC unroll 4
    for (int k = 0; k < planes; k++, out += p.plane)
#pragma GCC unroll 2
      for (int i = 0; i < ROWS; i++) {
        if (p.stream)
          vec_stream(out + i * p.row, acc[k][i]);
        else
          vec_store(out + i * p.row, acc[k][i]);
      }
  }
}

typedef void ISA(middle_form)(const ISA(weights) * w, const piece *first, int points);

/* A sweep's equation, and its middle of 1 or GROUP planes, without and with layers. */
typedef struct ISA(form) {
  enum equation equation;
  ISA(middle_form) * single[2], *group[2];
} ISA(form);

#define MIDDLE(name, equation, layers, planes)                                                               \
  TARGET static __attribute__((noinline)) void ISA(name)(const ISA(weights) * w, const piece *first,         \
                                                         int points) {                                       \
    ISA(middle)(w, first, equation, layers, planes, points);                                                 \
  }
MIDDLE(jacobi_single, EQUATION_JACOBI, false, 1)
MIDDLE(jacobi_group, EQUATION_JACOBI, false, GROUP)
MIDDLE(heat_single, EQUATION_HEAT, false, 1)
MIDDLE(heat_group, EQUATION_HEAT, false, GROUP)
MIDDLE(wave_single, EQUATION_WAVE, false, 1)
MIDDLE(wave_group, EQUATION_WAVE, false, GROUP)
MIDDLE(wave_layers_single, EQUATION_WAVE, true, 1)
MIDDLE(wave_layers_group, EQUATION_WAVE, true, GROUP)
#undef MIDDLE

TARGET INLINE void ISA(store)(float *out, vec v, int lanes, bool around_cache) {
  if (lanes == LANES && around_cache)
    vec_stream(out, v);
  else
    ISA(store_lanes)(out, v, lanes);
}

/* Stores new points of rows with images along y or z from registers to every place where they belong, since
 * what was stored around the cache is dear to read back. Points of held rows become 0. */
TARGET INLINE void ISA(store_images)(const sweep *s, const strip *t, float *out, const int planes, int lanes,
                                     vec acc[GROUP][ROWS]) {
  const kernel_args *a = s->args;
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++, out += a->plane) {
    const row_images *r = &t->rows[k];
    acc[k][0] = vec_keep(acc[k][0], r->held ? 0 : ~0u);
    for (int i = 0; i < r->count; i++) {
      const vec v = r->to[i].negated ? vec_negate(acc[k][0]) : acc[k][0];
      ISA(store)(out + r->to[i].distance, v, lanes, s->large);
    }
  }
}

/* Stores the whole line beside row `out` that holds images of vector `v`. */
TARGET INLINE void ISA(store_line)(const ghost_line *l, float *out, vec v, bool around_cache) {
  for (int i = 0; i < LINE; i += LANES) {
    vec line = vec_keep(vec_pick(v, l->from + i), l->kept >> i);
    ISA(store)(out + l->to + i, l->negated ? vec_negate(line) : line, LANES, around_cache);
  }
}

enum { ISA(BESIDE) = LANES > GHOST_REACH ? LANES : GHOST_REACH };

/* Copies the vector at an end of a row, with what is beside it and images in place of ghosts, to `copy`, where the
 * vector's first point is number BESIDE. */
TARGET INLINE void ISA(copy_end)(const sweep *s, const float *row, int x, float *copy) {
  const ghost_line *left = &s->left, *right = &s->right;
  if (LANES < GHOST_REACH) {
    for (int i = -GHOST_REACH; i < LANES + GHOST_REACH; i++)
      copy[GHOST_REACH + i] = point_or_image(s->args, row, x + i);
    return;
  }
  vec before = vec_load(row + x - LANES), after = vec_load(row + x + LANES);
  if (left->some && x == 0) before = vec_pick(vec_load(row + left->source), left->from + LINE - LANES);
  if (right->some && x + LANES == s->args->nx) after = vec_pick(vec_load(row + right->source), right->from);
  vec_store(copy, left->negated && x == 0 ? vec_negate(before) : before);
  vec_store(copy + LANES, vec_load(row + x));
  vec_store(copy + 2 * LANES, right->negated && x + LANES == s->args->nx ? vec_negate(after) : after);
}

/* A vector at an end of its rows, or of rows with images along y or z. */
TARGET INLINE void ISA(edge)(const ISA(weights) * w, const sweep *s, const enum equation equation, strip *t,
                             int x, const float *added, const int planes) {
  const kernel_args *a = s->args;
  const ptrdiff_t at = t->first + x;
  const int lanes = smaller(a->nx - x, LANES);
  const unsigned kept = lanes_kept(s, x);
  const bool one_by_one = s->x_count > 0 && !s->whole && is_end(s, x, LANES), stream = s->stream;
  const bool left = s->whole && s->left.some && x == s->left.source,
             right = s->whole && s->right.some && x == s->right.source;
  const bool copied = a->virtual_x && is_end(s, x, LANES);
  _Alignas(64) float copies[GROUP][3 * ISA(BESIDE)];
  const float *near[GROUP];
  vec acc[GROUP][ROWS];
  piece p = piece_at(s, at);
  p.lanes = lanes;
  p.added[0] = added;
  p.near = near;
  for (int k = 0; k < planes; k++) {
    near[k] = copied ? copies[k] + ISA(BESIDE) : p.u + k * p.plane;
    if (copied) ISA(copy_end)(s, p.u - x + k * p.plane, x, copies[k]);
  }
  ISA(update)(w, &p, equation, planes, 1, acc);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) acc[k][0] = vec_keep(acc[k][0], kept);
  if (t->row_images) ISA(store_images)(s, t, p.out, planes, lanes, acc);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) {
    float *row = p.out - x + k * p.plane;
    ISA(store)(row + x, acc[k][0], lanes, stream);
    if (one_by_one) vec_store(t->ends[k] + (x - t->x_begin), acc[k][0]);
    if (left) ISA(store_line)(&s->left, row, acc[k][0], s->large);
    if (right) ISA(store_line)(&s->right, row, acc[k][0], s->large);
  }
}

/* Asks for the lines beside the strip's rows where ghosts are stored one by one: else the stores wait for
 * memory. */
TARGET INLINE void ISA(prefetch_ghosts)(const kernel_args *a, const strip *t, const int planes) {
  const float *row = a->out + t->first + PREFETCH_ROWS * (ptrdiff_t)a->pitch;
  for (int k = 0; k < planes; k++, row += a->plane) {
    prefetch(row - 1);
    prefetch(row + a->nx);
  }
}

/* The vectors of a strip that are not in its middle. sums: what layers add, or NULL. */
TARGET INLINE void ISA(edges)(const ISA(weights) * w, const sweep *s, const enum equation equation, strip *t,
                              const layer_sums *sums, const int planes) {
  const bool one_by_one = s->x_count > 0 && !s->whole;
  if (one_by_one) ISA(prefetch_ghosts)(s->args, t, planes);
  for (int x = strip_edge(t, t->x_begin); x < t->x_end; x = strip_edge(t, x + LANES))
    ISA(edge)(w, s, equation, t, x, sums ? layer_sums_at(sums, x - t->x_begin, LANES) : NULL, planes);
  if (one_by_one) store_x_images(t, s, planes);
}

/* The middle of a strip's last ROWS rows; where layers add to it and where not, in turns. */
TARGET INLINE void ISA(middles)(const ISA(weights) * w, const sweep *s, ISA(middle_form) *const form[2],
                                const strip *t, const layer_sums *sums) {
  const ptrdiff_t first = t->first - (ROWS - 1) * (ptrdiff_t)s->args->pitch;
  for (int x = t->middle_begin, end; x < t->middle_end; x = end) {
    piece p = piece_at(s, first + x);
    for (int i = 0; sums && i < ROWS; i++) p.added[i] = layer_sums_at(&sums[i], x - t->x_begin, LANES);
    end = sums ? x + LANES : t->middle_end;
    while (end < t->middle_end && !layer_sums_at(sums, end - t->x_begin, LANES) == !p.added[0]) end += LANES;
    form[p.added[0] != NULL](w, &p, end - x);
  }
}

/* sums: of ROWS rows, or NULL. */
TARGET INLINE void ISA(rows)(const ISA(weights) * w, const sweep *s, const ISA(form) * form, block b, int z,
                             const int planes, layer_sums *sums) {
  strip t;
  strip_init(&t, s, z, planes, b.x_begin, b.x_end);
  for (int y = b.y_begin; y < b.y_end; y += ROWS) {
    const int count = smaller(ROWS, b.y_end - y);
    for (int i = 0; sums && i < count; i++) ISA(add_layers)(s->layers, b, z, planes, y + i, &sums[i]);
    strip_find_middle(&t, s, y, count, sums, LANES);
    for (int i = 0; i < count; i++) {
      strip_find_row(&t, s->args, y + i, planes);
      ISA(edges)(w, s, form->equation, &t, sums ? &sums[i] : NULL, planes);
    }
    ISA(middles)(w, s, planes == 1 ? form->single : form->group, &t, sums);
  }
}

TARGET INLINE void ISA(sweep_block)(const sweep *s, const ISA(form) * form, block b, int z_begin, int z_end,
                                    layer_sums *sums) {
  const kernel_args *a = s->args;
  ISA(weights) weights = {.center = vec_set(a->center), .scale = vec_set(a->scale), .two = vec_set(2)};
  for (int r = 1; r <= 4; r++) {
    weights.x[r] = vec_set(a->wx[r]);
    weights.y[r] = vec_set(a->wy[r]);
    weights.z[r] = vec_set(a->wz[r]);
  }
  const ISA(weights) *w = &weights;
  int z = z_begin;
  for (; z + GROUP <= z_end; z += GROUP) ISA(rows)(w, s, form, b, z, GROUP, sums);
  for (; z < z_end; z++) ISA(rows)(w, s, form, b, z, 1, sums);
  leave();
}

#define EQUATION(name, equation)                                                                             \
  TARGET static void ISA(name##_block)(const sweep *s, block b, int z_begin, int z_end) {                    \
    static const ISA(form) form = {equation, {ISA(name##_single)}, {ISA(name##_group)}};                     \
    ISA(sweep_block)(s, &form, b, z_begin, z_end, NULL);                                                     \
  }                                                                                                          \
  static void ISA(name)(const kernel_args *a, int part, int parts) {                                         \
    const sweep s = {.args = a, .large = is_large(a)};                                                       \
    launch_share(s, equation, LANES, part, parts, ISA(name##_block));                                        \
  }                                                                                                          \
  static void ISA(name##_cached)(const kernel_args *a, int part, int parts) {                                \
    launch_share((sweep){.args = a}, equation, LANES, part, parts, ISA(name##_block));                       \
  }                                                                                                          \
  static void ISA(name##_share)(const kernel_args *a, host_share share, host_ahead ahead) {                  \
    sweep s = {.args = a, .ahead = ahead};                                                                   \
    for_each_block(&s, LANES, share, ISA(name##_block));                                                     \
  }
EQUATION(jacobi, EQUATION_JACOBI)
EQUATION(heat, EQUATION_HEAT)
EQUATION(wave, EQUATION_WAVE)

TARGET static void ISA(wave_layers_block)(const sweep *s, block b, int z_begin, int z_end) {
  layer_sums sums[ROWS];
  for (int i = 0; i < ROWS; i++) layer_sums_init(&sums[i], s->layers, b.x_begin, b.x_end);
  static const ISA(form) form = {
      EQUATION_WAVE, {ISA(wave_single), ISA(wave_layers_single)}, {ISA(wave_group), ISA(wave_layers_group)}};
  ISA(sweep_block)(s, &form, b, z_begin, z_end, sums);
}
static void ISA(wave_layers)(const void *args, int part, int parts) {
  const absorb_args *a = args;
  const sweep s = {.args = &a->field, .layers = a, .large = is_large(&a->field)};
  launch_share(s, EQUATION_WAVE, LANES, part, parts, ISA(wave_layers_block));
}
static void ISA(wave_layers_cached)(const void *args, int part, int parts) {
  const absorb_args *a = args;
  launch_share((sweep){.args = &a->field, .layers = a}, EQUATION_WAVE, LANES, part, parts,
               ISA(wave_layers_block));
}
static void ISA(wave_layers_share)(const absorb_args *a, host_share share, host_ahead ahead) {
  sweep s = {.args = &a->field, .layers = a, .ahead = ahead};
  for_each_block(&s, LANES, share, ISA(wave_layers_block));
}

#undef EQUATION
#undef ISA
#undef TARGET
#undef LANES
#undef vec
#undef vec_set
#undef vec_load
#undef vec_sub
#undef vec_where
#undef vec_load_some
#undef vec_add
#undef vec_mul
#undef vec_fma
#undef vec_fms
#undef vec_negate
#undef vec_keep
#undef vec_pick
#undef vec_store
#undef vec_stream
#undef vec_store_some
#undef vec_before
#undef vec_after
#undef vec_x_pair
#undef settle
#undef prefetch
#undef leave
