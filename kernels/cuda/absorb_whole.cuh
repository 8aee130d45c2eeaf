/* Whole points in absorbing layers along y and z: the star and the layer in one visit, 32 bytes a point instead of the
 * 16 of the sweep and 32 of a second visit. Blocks walk through the layers, inward (absorb_walk.cuh), with psi of four
 * rows in registers. A launch before has left what layers along x add (absorb_cuda_before). Walks run in the shadow of
 * the sweep on what it leaves free (bulk_tensor_launch.cuh: choose): along z first, of them those where layers cross,
 * which take longest. The last blocks store images in z, which would else cost a launch. */
#ifndef STENCIL_ABSORB_WHOLE_CUH
#define STENCIL_ABSORB_WHOLE_CUH

#include "absorb_walk.cuh"
#include "kernels/images.cuh"
#include "kernels/launch_behind.cuh"
#include "kernels/equations/terms.h"

namespace absorbing {

enum {
  WHOLE_MEDIA = 1, /* media of an equation, at most: there is room for the copies of one */
  WHOLE_PIECE = 7, /* points of a piece of a layer, at least: it begins with eight rows that it only reads */
  WHOLE_CROSSING = 5, /* the same where layers cross: a turn takes twice as long there */
  WHOLE_ENOUGH = 100  /* blocks: where there are fewer, layers are cut into pieces. More pieces read more. */
};

/* Two floats on 8 bytes. */
static __device__ __forceinline__ void load_pair(float v[2], const float *from) {
  const float2 p = *reinterpret_cast<const float2 *>(from);
  v[0] = p.x, v[1] = p.y;
}

/* Rows of a walk along z may lie in a layer along y, too, or be those of a stack (kernel_args.flat). */
enum row_kind { PLAIN, ACROSS, STACKED };

/* Which terms there are: none; density and absorption; on the way back, too. */
enum terms_of { NO_TERMS, FORWARD_TERMS, GRADIENT_TERMS };

/* Through a layer along AXIS. PACKS: rows are whole packs. */
template <enum equation Q, terms_of TERMS, int AXIS, int INWARD, bool PACKS, row_kind ROWS> struct march {
  static constexpr bool CROSSING = ROWS == ACROSS;
  static constexpr int TURNS = CROSSING ? 1 : 2; /* ahead: where layers cross, all room is for one turn */
  const absorb_args &a;
  const absorb_axis &s;
  walk<AXIS, INWARD, TURNS, ROWS == STACKED> w;
  ptrdiff_t state_step, state;        /* as step and at, of the state */
  ptrdiff_t addend_step, addend;      /* ... of the addends of layers along x */
  bool has_addend;                    /* has the pack points in a layer along x? */
  float psi[ABSORB_BEYOND + 1][PACK]; /* of this row and those after it */

  __device__ __forceinline__ march(const absorb_args &args, const walk_maps &m, const course &c,
                                   float *shared)
      : a(args), s(args.axis[AXIS]), w(args.field, m, c, shared) {
    const kernel_args &f = a.field;
    const absorb_axis &sx = a.axis[0];
    const ptrdiff_t nx = f.nx, state_stride = AXIS == 1 ? nx : nx * f.ny;
    const int x = w.x(), y = w.y(), z = w.z();
    const bool low = x < sx.lo;
    const absorb_addends addends = absorb_addends_of(&sx, a.width, f.nz);
    state_step = INWARD * state_stride;
    state = absorb_stored(&s, a.width, {c.i, INWARD}, c.i) * state_stride +
            (AXIS == 1 ? (ptrdiff_t)z * (s.lo + s.hi) * nx : y * nx) + x;
    addend = absorb_addend_at(&addends, f.ny, !low, {z, y, x});
    addend_step = INWARD * (ptrdiff_t)addends.pitch * (AXIS == 1 ? 1 : f.ny);
    has_addend = w.lanes > 0 && (low || (sx.hi > 0 && x + PACK > f.nx - sx.hi));
  }
  /* psi[i + k] of turn t before this step; past the layer its last, which counts 0 times. */
  __device__ __forceinline__ const float *remembered(int t, int k) const {
    return s.psi_in + (state + (min(w.c.i + t + k, a.width - 1) - w.c.i) * state_step);
  }
  /* CROSSING: starts the copies of what add_along_y reads. */
  __device__ __forceinline__ void ask_along_y(int t) const {
    const absorb_axis &sy = a.axis[1];
    const unsigned points = PACKS ? 0 : w.existing();
    if (t >= w.c.count || w.lanes < 1) return;
    w.ask(t, ZETA_Y, sy.zeta + state_along_y(t, 0), PACKS, points);
#pragma unroll
    for (int k = 0; k <= ABSORB_BEYOND; k++)
      w.ask(t, BEFORE_Y + k, sy.psi_in + state_along_y(t, k), PACKS, points);
  }
  __device__ __forceinline__ void ask_for(int t) const {
    const kernel_args &f = a.field;
    if (t < w.c.count && w.lanes > 0) {
      const unsigned points = PACKS ? 0 : w.existing();
      w.ask(t, BEFORE, remembered(t, ABSORB_BEYOND), PACKS, points);
      w.ask(t, ZETA, s.zeta + (state + t * state_step), PACKS, points);
      w.ask(t, OUT, (f.before ? f.before : f.out) + (w.at + t * w.step), PACKS, points);
      if (f.medium[0]) w.ask(t, MEDIUM, f.medium[0] + (w.at + t * w.step), PACKS, points);
      if (has_addend) w.ask(t, ADDEND, a.addends + (addend + t * addend_step), true, 0);
    }
    w.asked();
  }
  __device__ __forceinline__ void renew(int t, int k, const float before[PACK]) {
    const float *b = s.coefficients + (2 * a.width + w.c.i + t + k);
    const float psi_a = b[0], psi_b = b[a.width + ABSORB_BEYOND];
#pragma unroll
    for (int n = 0; n < PACK; n++)
      psi[k][n] = absorb_psi(psi_a, psi_b, a.difference, &w.u[RADIUS + k][n], PACK, before[n]);
  }
  /* CROSSING: the row's place in the layer along y; rows past the grid, which store nothing, have the last one's. */
  __device__ __forceinline__ absorb_place place_along_y() const {
    return absorb_locate(&a.axis[1], min(w.y(), a.field.ny - 1));
  }
  /* CROSSING: where psi[i + k] of the layer along y is, in turn t. */
  __device__ __forceinline__ ptrdiff_t state_along_y(int t, int k) const {
    const absorb_axis &sy = a.axis[1];
    const absorb_place p = place_along_y();
    const int row = (w.z() + t * INWARD) * (sy.lo + sy.hi) + absorb_stored(&sy, a.width, p, p.i + k);
    return (ptrdiff_t)row * a.field.nx + w.x();
  }
  /* CROSSING: adds what the layer along y adds, and stores its psi and zeta. Two points at a time: four would need too
   * many registers. */
  __device__ __forceinline__ void add_along_y(int t, float sum[PACK]) const {
    const absorb_axis &sy = a.axis[1];
    const absorb_place p = place_along_y();
    const int step = p.inward * TILE_X;
    const float *b = sy.coefficients + p.i;
    float psi_y[PACK], zeta_y[PACK];
#pragma unroll
    for (int first = 0; first < PACK; first += 2) {
      const float *u = w.tile(t + RADIUS) + first;
      float rows[2 * RADIUS + 1][2], before[ABSORB_BEYOND + 1][2], zeta[2];
#pragma unroll
      for (int r = -RADIUS; r <= RADIUS; r++) load_pair(rows[RADIUS + r], u + r * step);
#pragma unroll
      for (int k = 0; k <= ABSORB_BEYOND; k++) load_pair(before[k], w.operand(t, BEFORE_Y + k) + first);
      load_pair(zeta, w.operand(t, ZETA_Y) + first);
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const float *point = &rows[RADIUS][n];
        float renewed[ABSORB_BEYOND + 1];
#pragma unroll
        for (int k = 0; k <= ABSORB_BEYOND; k++)
          renewed[k] = absorb_psi(b[2 * a.width + k], b[3 * a.width + ABSORB_BEYOND + k], a.difference,
                                  point + 2 * k, 2, before[k][n]);
        const float slope = absorb_slope(&sy, renewed[0], renewed[1], renewed[2], renewed[3]);
        psi_y[first + n] = renewed[0];
        zeta_y[first + n] =
            absorb_zeta(b[0], b[a.width], absorb_second(&sy, a.field.wy, point, 2), slope, zeta[n]);
        sum[first + n] += slope + zeta_y[first + n];
      }
      asm volatile("" ::: "memory"); /* or all is loaded at once */
    }
    if (w.lanes < 1) return;
    const unsigned points = PACKS ? 0 : w.existing();
    const ptrdiff_t at = state_along_y(t, 0);
    w.put(sy.psi_out + at, psi_y, PACKS, points);
    w.put(sy.zeta + at, zeta_y, PACKS, points);
  }
  /* What layers along the axes before this one add. */
  __device__ __forceinline__ void look_up(float sum[PACK], int t) const {
    float addend_x[PACK] = {};
    if (has_addend) star::load(addend_x, w.operand(t, ADDEND));
#pragma unroll
    for (int n = 0; n < PACK; n++) sum[n] = addend_x[n];
  }
  /* TERMS: of a pack (terms.h). They come from global memory; lines of the next turn are asked for meanwhile. */
  struct terms_pack {
    float V[PACK], kappa[PACK], recalled[PACK], g[PACK], r[MEMORIES_MAX][PACK];
  };
  __device__ __forceinline__ void load_term(float to[PACK], const float *from, int t) const {
    const float *row = from + (w.at + t * w.step);
    if (t + 1 < w.c.count) asm volatile("prefetch.global.L2 [%0];" ::"l"(row + w.step));
    if (PACKS)
      star::load(to, row);
    else
#pragma unroll
      for (int n = 0; n < PACK; n++)
        if (n < w.lanes) to[n] = row[n];
  }
  __device__ __forceinline__ void load_terms(terms_pack &p, int t) const {
    const kernel_terms &k = a.field.terms;
    if (w.lanes < 1) return;
    if (k.density) load_term(p.V, k.density, t);
    if (TERMS == GRADIENT_TERMS) load_term(p.recalled, k.recalled, t), load_term(p.g, k.gradient, t);
    if (k.memories) load_term(p.kappa, k.loss, t);
#pragma unroll
    for (int l = 0; l < MEMORIES_MAX; l++)
      if (l < k.memories) load_term(p.r[l], k.memory[l], t);
  }
  __device__ __forceinline__ float with_terms(terms_pack &k, int n, float star, float x, const float m[],
                                              float u, float before) const {
    const kernel_terms &t = a.field.terms;
    constexpr bool G = TERMS == GRADIENT_TERMS;
    terms_point p = {k.V[n], k.kappa[n], k.recalled[n], k.g[n], {k.r[0][n], k.r[1][n], k.r[2][n]}};
    /* without density V is 0, which changes nothing; counts by branches that no warp divides at */
    const float with_V = t.density ? terms_bracket(&t, true, 0, false, star, u, &p) : star;
    const float bracket = G ? terms_bracket(&t, false, 0, true, with_V, u, &p) : with_V;
    float all = bracket, gain = terms_gain(&t, 0, G, point_gain(Q, m), x, &p);
    if (t.memories == 1)
      all = terms_bracket(&t, false, 1, false, bracket, u, &p), gain = terms_gain(&t, 1, false, gain, x, &p);
    else if (t.memories == 2)
      all = terms_bracket(&t, false, 2, false, bracket, u, &p), gain = terms_gain(&t, 2, false, gain, x, &p);
    else if (t.memories == 3)
      all = terms_bracket(&t, false, 3, false, bracket, u, &p), gain = terms_gain(&t, 3, false, gain, x, &p);
    k.g[n] = p.g;
#pragma unroll
    for (int l = 0; l < MEMORIES_MAX; l++) k.r[l][n] = p.r[l];
    return fmaf(gain, x, point_next(Q, all, m, u, before, 2.0f));
  }
  __device__ __forceinline__ void store_terms(const terms_pack &p, int t) const {
    const kernel_terms &k = a.field.terms;
    if (w.lanes < 1) return;
    if (TERMS == GRADIENT_TERMS)
      w.put(k.gradient + (w.at + t * w.step), p.g, PACKS, PACKS ? 0 : w.existing());
#pragma unroll
    for (int l = 0; l < MEMORIES_MAX; l++)
      if (l < k.memories) w.put(k.memory[l] + (w.at + t * w.step), p.r[l], PACKS, PACKS ? 0 : w.existing());
  }
  __device__ __forceinline__ void start() {
    float before[ABSORB_BEYOND][PACK] = {};
    w.open();
#pragma unroll
    for (int k = 0; k < ABSORB_BEYOND; k++)
#pragma unroll
      for (int n = 0; n < PACK; n++)
        if (n < w.lanes) before[k][n] = remembered(0, k)[n];
    for (int t = 0; t < TURNS; t++) {
      if (CROSSING) ask_along_y(t);
      ask_for(t);
    }
    w.start();
#pragma unroll
    for (int k = 0; k < ABSORB_BEYOND; k++) renew(0, k, before[k]);
  }
  __device__ __forceinline__ void turn(int t) {
    const kernel_args &f = a.field;
    const float *weights = AXIS == 1 ? f.wy : f.wz, *b = s.coefficients + (w.c.i + t);
    const float zeta_a = b[0], zeta_b = b[a.width];
    float in_row[PACK + 2 * RADIUS], sum[PACK];
    float before[PACK], zeta[PACK], out[PACK], medium[PACK], along[PACK];
    w.arrive(t);
    w.star_of(sum, in_row, t);
    if (CROSSING) {
      w.await_own();
      look_up(along, t);
      add_along_y(t, along);
      ask_along_y(t + TURNS); /* with the rest of that turn's group; here, to have more time */
    }
    w.release(t + RADIUS);
    w.await_own();
    star::load(before, w.operand(t, BEFORE));
    renew(t, ABSORB_BEYOND, before);
    star::load(zeta, w.operand(t, ZETA));
    star::load(out, w.operand(t, OUT));
    if (f.medium[0])
      star::load(medium, w.operand(t, MEDIUM));
    else
      medium[0] = medium[1] = medium[2] = medium[3] = f.scale[0];
    if (!CROSSING) look_up(along, t);
    terms_pack terms = {};
    if (TERMS) load_terms(terms, t);
#pragma unroll
    for (int n = 0; n < PACK; n++) {
      const float slope = absorb_slope(&s, psi[0][n], psi[1][n], psi[2][n], psi[3][n]);
      const float m[EQUATION_MEDIA] = {medium[n]}, u = w.u[RADIUS][n];
      zeta[n] =
          absorb_zeta(zeta_a, zeta_b, absorb_second(&s, weights, &w.u[RADIUS][n], PACK), slope, zeta[n]);
      const float x = along[n] + (slope + zeta[n]);
      if (TERMS)
        out[n] = with_terms(terms, n, sum[n], x, m, u, out[n]);
      else
        out[n] = fmaf(point_gain(Q, m), x, point_next(Q, sum[n], m, u, out[n], 2.0f));
    }
    if (TERMS) store_terms(terms, t);
    store(t, zeta, out);
    ask_for(t + TURNS);
    w.move_up();
#pragma unroll
    for (int n = 0; n < PACK; n++)
#pragma unroll
      for (int k = 0; k < ABSORB_BEYOND; k++) psi[k][n] = psi[k + 1][n];
  }
  __device__ __forceinline__ void store(int t, const float zeta[PACK], const float out[PACK]) const {
    if (w.lanes < 1) return;
    const unsigned points = PACKS ? 0 : w.existing();
    const int beyond = AXIS == 2 ? absorb_left(&a, {w.c.i + t, INWARD}, w.c.z + t * INWARD) : 0;
    w.put(s.psi_out + (state + t * state_step), psi[0], PACKS, points);
    w.put(s.zeta + (state + t * state_step), zeta, PACKS, points);
    w.put(a.field.out + (w.at + t * w.step), out, PACKS, points);
#pragma unroll
    for (int k = 1; k <= ABSORB_BEYOND; k++)
      if (k <= beyond) w.put(s.psi_out + (state + (t + k) * state_step), psi[k], PACKS, points);
  }
  /* Images in z of the rows that it has stored along y. */
  __device__ __forceinline__ void store_images() const {
    const kernel_args &f = a.field;
    if (w.lanes < 1 || !ghosts_touch(w.z(), f.nz, f.ghosts[FACE_Z_LO], f.ghosts[FACE_Z_HI])) return;
#pragma unroll 1
    for (int t = 0; t < w.c.count; t++) images::store_in_z(f, f.out + (w.at + t * w.step), w.z(), w.lanes);
  }
};

template <int AXIS, class March>
static __device__ __forceinline__ void go_through(const absorb_args &a, const walk_maps &m, const course &c,
                                                  float *shared) {
  March march(a, m, c, shared);
  march.start();
#pragma unroll 1
  for (int t = 0; t < c.count; t++) march.turn(t);
  if (AXIS == 1 && c.images) march.store_images();
}

template <enum equation Q, terms_of TERMS, int AXIS, bool PACKS, row_kind ROWS>
static __device__ __forceinline__ void march_inward(const absorb_args &a, const walk_maps &m, course c,
                                                    float *shared) {
  const absorb_place p = absorb_locate(&a.axis[AXIS], AXIS == 1 ? c.y : c.z);
  c.i = p.i;
  if (p.inward > 0)
    go_through<AXIS, march<Q, TERMS, AXIS, 1, PACKS, ROWS>>(a, m, c, shared);
  else
    go_through<AXIS, march<Q, TERMS, AXIS, -1, PACKS, ROWS>>(a, m, c, shared);
}

/* The layers along y and z of a launch. */
struct whole_shell {
  span y, z;
  unsigned tiles_x;
  unsigned low; /* tiles of rows in the low layer along y */
  layers crossing, along_z, along_y;
  unsigned image_rows; /* with images in z that the sweep has not stored: s.y.between(), or 0 */
  bool beside;         /* the launch before is of the same step, and of other points */
  __host__ __device__ unsigned walks() const {
    return crossing.blocks() + along_z.blocks() + along_y.blocks();
  }
};

template <enum equation Q, terms_of TERMS, bool PACKS, row_kind ROWS>
static __device__ __forceinline__ void walk_along_z(const absorb_args &a, const whole_shell &s,
                                                    const walk_maps &m, unsigned block, float *shared) {
  const piece p(ROWS == ACROSS ? s.crossing : s.along_z, s.z, block);
  const int x = (int)(p.tile % s.tiles_x) * TILE_X, tile = (int)(p.tile / s.tiles_x);
  const bool low = ROWS == ACROSS && tile < (int)s.low, high = ROWS == ACROSS && !low;
  const int begin = low ? s.y.begin : high ? s.y.hi : s.y.lo, end = low ? s.y.lo : high ? s.y.end : s.y.hi;
  const int y = begin + (high ? tile - (int)s.low : tile) * WALK_WARPS;
  if (p.count > 0)
    march_inward<Q, TERMS, 2, PACKS, ROWS>(a, m, {0, p.count, p.at, y, x, end - y, false}, shared);
}

template <enum equation Q, terms_of TERMS, bool PACKS>
static __device__ __forceinline__ void walk_along_y(const absorb_args &a, const whole_shell &s,
                                                    const walk_maps &m, unsigned block, float *shared) {
  const piece p(s.along_y, s.y, block);
  const int x = (int)(p.tile % s.tiles_x) * TILE_X, z = s.z.lo + (int)(p.tile / s.tiles_x) * WALK_WARPS;
  if (p.count > 0)
    march_inward<Q, TERMS, 1, PACKS, PLAIN>(a, m, {0, p.count, z, p.at, x, s.z.hi - z, s.image_rows > 0},
                                            shared);
}

/* Images in z of what the sweep has stored, a pack a thread. */
static __device__ __forceinline__ void store_images(const absorb_args &a, const whole_shell &s,
                                                    unsigned block) {
  const kernel_args &f = a.field;
  const int packs = (f.nx + PACK - 1) / PACK, i = (int)(block * WALK_THREADS + threadIdx.x),
            x = i % packs * PACK, y = s.y.lo + i / packs;
  await_launch_before();
  if (y >= s.y.hi) return;
  for (int n = 0; n < images::NEAR_FACES; n++) {
    const int z = images::plane_near_face(n, f.nz);
    if (z >= s.z.lo && z < s.z.hi)
      images::store_in_z(f, f.out + ((ptrdiff_t)f.plane * z + (ptrdiff_t)f.pitch * y + x), z, f.nx - x);
  }
}

/* u in boxes across y and across z. */
struct whole_maps {
  walk_maps along_y, along_z;
};

/* --- launches ----------------------------------------------------------------------------------------------- */

/* Where it runs `beside` the launch before it, it is still done after that one. It admits no other launch: blocks of
 * absorb_cuda_before that start beside its own have no more of the L1 cache than these leave, to their end. */
template <enum equation Q, terms_of TERMS, bool PACKS, bool STACK>
static __global__ void __launch_bounds__(WALK_THREADS, WALK_BLOCKS)
    whole(const __grid_constant__ absorb_args a, const __grid_constant__ whole_shell s,
          const __grid_constant__ whole_maps m) {
  extern __shared__ __align__(128) float shared[];
  const unsigned crossing = s.crossing.blocks(), along_z = crossing + s.along_z.blocks(), walks = s.walks();
  admit_next_launch();
  if (!s.beside) await_launch_before();
  if (!STACK && blockIdx.x < crossing)
    walk_along_z<Q, TERMS, PACKS, ACROSS>(a, s, m.along_z, blockIdx.x, shared);
  else if (blockIdx.x < along_z)
    walk_along_z<Q, TERMS, PACKS, STACK ? STACKED : PLAIN>(a, s, m.along_z, blockIdx.x - crossing, shared);
  else if (!STACK && blockIdx.x < walks)
    walk_along_y<Q, TERMS, PACKS>(a, s, m.along_y, blockIdx.x - along_z, shared);
  else
    store_images(a, s, blockIdx.x - walks);
  if (s.beside && blockIdx.x == gridDim.x - 1) await_launch_before();
}

/* Layers of `width` points, cut as if there were two of them into pieces of at least so many. */
inline layers marches(const span &s, unsigned tiles, int width, int least) {
  layers l = {s.boxes(), tiles, 1};
  while (2 * l.tiles * l.pieces < WHOLE_ENOUGH && (int)(l.pieces + 1) * least <= width) l.pieces++;
  return l;
}

inline whole_shell whole_shell_of(const absorb_args &a) {
  const kernel_args &f = a.field;
  whole_shell s = {};
  s.y = span_of(a.axis[1], 0, f.ny), s.z = span_of(a.axis[2], f.z_begin, f.z_end);
  s.tiles_x = blocks_for(f.nx, TILE_X);
  s.low = blocks_for(s.y.lo, WALK_WARPS);
  const unsigned crossing = s.low + blocks_for(s.y.end - s.y.hi, WALK_WARPS);
  s.crossing = marches(s.z, s.tiles_x * crossing, a.width, WHOLE_CROSSING);
  s.along_z = marches(s.z, s.tiles_x * blocks_for(s.y.between(), WALK_WARPS), a.width, WHOLE_PIECE);
  s.along_y = marches(s.y, s.tiles_x * blocks_for(s.z.between(), WALK_WARPS), a.width, WHOLE_PIECE);
  if (images::in_z_alone(f, s.z.lo, s.z.hi)) s.image_rows = (unsigned)s.y.between();
  return s;
}

/* What walks are to the sweep whose shadow they run in. */
inline bulk_tensor::followers walks_of(const whole_shell &s, int width) {
  constexpr double ROW = 800; /* ns of a walk, in a shadow */
  const layers *const kinds[] = {&s.crossing, &s.along_z, &s.along_y};
  double all = 0;
  for (const layers *l : kinds) all += l->blocks() * ROW * ((double)width / l->pieces + 2 * RADIUS);
  return {(int)s.walks(), WALK_BLOCKS, all / std::max(1u, s.walks())};
}

/* u with its ghosts, but for those beyond the layer at the low or high end of an axis; *at: point 0 along it. */
inline void leave_out(bool low, bool high, ptrdiff_t stride, size_t *points, const float **first, int *at) {
  *at = low ? 0 : RADIUS;
  if (low) *first += RADIUS * stride, *points -= RADIUS;
  if (high) *points -= RADIUS;
}

inline cudaError_t make_whole_maps(const bulk_tensor::encoder &e, whole_maps *m, const absorb_args &a) {
  constexpr int G = RADIUS, ROWS_ACROSS = WALK_WARPS, READ = ROWS_ACROSS + 2 * G;
  const absorb_axis &x = a.axis[0], &y = a.axis[1], &z = a.axis[2];
  const bool stack = kernel_is_stack(&a.field);
  bulk_tensor::tensor u = bulk_tensor::with_ghosts(a.field, 0, a.field.nz);
  walk_maps &w = m->along_y;
  leave_out(x.lo > 0, x.hi > 0, 1, &u.nx, &u.first, &w.x);
  leave_out(y.lo > 0, y.hi > 0, (ptrdiff_t)u.pitch, &u.ny, &u.first, &w.y);
  leave_out(z.lo > 0 && z.origin == 0, z.hi > 0 && z.origin + a.field.nz == z.points, (ptrdiff_t)u.plane,
            &u.nz, &u.first, &w.z);
  m->along_z = w;
  cudaError_t status = make_map(e, &m->along_y.plane, u, {TILE_X, 1, READ});
  if (status == cudaSuccess) status = make_map(e, &m->along_y.side, u, {G, 1, ROWS_ACROSS});
  if (status == cudaSuccess) status = make_map(e, &m->along_z.plane, u, {TILE_X, stack ? ROWS_ACROSS : READ});
  if (status == cudaSuccess) status = make_map(e, &m->along_z.side, u, {G, ROWS_ACROSS});
  return status;
}

/* whole<...> with the shared memory it needs. */
struct whole_kernel {
  const void *function;
  cudaError_t status;
  explicit whole_kernel(const void *f)
      : function(f),
        status(cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)WALK_SHARED)) {}
};

template <enum equation Q, terms_of TERMS, bool STACK>
cudaError_t launch_whole(const absorb_args &args, const whole_shell &shell, cudaStream_t stream) {
  static const bulk_tensor::encoder e;
  static const whole_kernel packs(reinterpret_cast<const void *>(whole<Q, TERMS, true, STACK>)),
      points(reinterpret_cast<const void *>(whole<Q, TERMS, false, STACK>));
  const whole_kernel &kernel = args.field.nx % PACK ? points : packs;
  const long long image_packs = (long long)shell.image_rows * blocks_for(args.field.nx, PACK);
  const unsigned blocks = shell.walks() + blocks_for(image_packs, WALK_THREADS);
  if (blocks == 0) return cudaSuccess;
  absorb_args a = args;
  whole_shell s = shell;
  whole_maps m = {};
  void *parameters[] = {&a, &s, &m};
  cudaError_t status = e.status == cudaSuccess ? kernel.status : e.status;
  if (status == cudaSuccess) status = make_whole_maps(e, &m, a);
  return status == cudaSuccess
             ? launch_behind(kernel.function, dim3(blocks), WALK_THREADS, WALK_SHARED, stream, parameters)
             : status;
}

} // namespace absorbing
#endif
