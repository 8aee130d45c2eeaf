/* A thread's part of a tile loop through absorbing layers along y and z: it updates its points, layer terms included
 * (absorb_whole.cuh). */
#ifndef STENCIL_ABSORB_UPDATE_CUH
#define STENCIL_ABSORB_UPDATE_CUH

#include "absorb_tile_loop.cuh"
#include "kernels/equations/terms.h"

namespace absorbing {

/* Loads two floats, aligned to 8 bytes. */
static __device__ __forceinline__ void load_pair(float v[2], const float *from) {
  const float2 p = *reinterpret_cast<const float2 *>(from);
  v[0] = p.x, v[1] = p.y;
}

/* The rows of a tile loop along z: in no other layer, in a layer along y too, or of a batch (kernel_args.flat). */
enum row_kind { PLAIN, ACROSS, BATCH_ROWS };

/* The terms of the equation: none; those of density and absorption; those of the adjoint, too. */
enum terms_of { NO_TERMS, FORWARD_TERMS, GRADIENT_TERMS };

/* Updates a thread's points in a layer along AXIS. PACKS: rows are whole packs. */
template <enum equation Q, terms_of TERMS, int AXIS, int INWARD, bool PACKS, row_kind ROWS>
struct layer_update {
  static constexpr bool CROSSING = ROWS == ACROSS;
  static constexpr int OPERAND_AHEAD =
      CROSSING ? 1 : 2; /* where layers cross, shared memory holds the operands of one iteration only */
  const absorb_args &a;
  const absorb_axis &s;
  tile_loop<AXIS, INWARD, OPERAND_AHEAD, ROWS == BATCH_ROWS> w;
  ptrdiff_t state_step, state;           /* stride and place of the state, as `step` and `at` of the field */
  ptrdiff_t layer_term_step, layer_term; /* stride and place of the layer terms along x */
  bool has_layer_term;                   /* has the pack points in a layer along x? */
  float psi[ABSORB_BEYOND + 1][PACK];    /* psi of this row and of those after it */

  __device__ __forceinline__ layer_update(const absorb_args &args, const tile_maps &m, const tile_range &c,
                                          float *shared)
      : a(args), s(args.axis[AXIS]), w(args.field, m, c, shared) {
    const kernel_args &f = a.field;
    const absorb_axis &sx = a.axis[0];
    const ptrdiff_t nx = f.nx, state_stride = AXIS == 1 ? nx : nx * f.ny;
    const int x = w.x(), y = w.y(), z = w.z();
    const bool low = x < sx.lo;
    const absorb_layer_terms layer_terms = absorb_layer_terms_of(&sx, a.width, f.nz);
    state_step = INWARD * state_stride;
    state = absorb_stored(&s, a.width, {c.i, INWARD}, c.i) * state_stride +
            (AXIS == 1 ? (ptrdiff_t)z * (s.lo + s.hi) * nx : y * nx) + x;
    layer_term = absorb_layer_term_at(&layer_terms, f.ny, !low, {z, y, x});
    layer_term_step = INWARD * (ptrdiff_t)layer_terms.pitch * (AXIS == 1 ? 1 : f.ny);
    has_layer_term = w.lanes > 0 && (low || (sx.hi > 0 && x + PACK > f.nx - sx.hi));
  }
  /* psi[i + k] of iteration t before this step; past the layer the last value, whose coefficient is 0. */
  __device__ __forceinline__ const float *remembered(int t, int k) const {
    return s.psi_in + (state + (min(w.c.i + t + k, a.width - 1) - w.c.i) * state_step);
  }
  /* CROSSING: starts the copies of the operands of add_along_y. */
  __device__ __forceinline__ void copy_along_y(int t) const {
    const absorb_axis &sy = a.axis[1];
    const unsigned points = PACKS ? 0 : w.existing();
    if (t >= w.c.count || w.lanes < 1) return;
    w.copy_own(t, ZETA_Y, sy.zeta + state_along_y(t, 0), PACKS, points);
#pragma unroll
    for (int k = 0; k <= ABSORB_BEYOND; k++)
      w.copy_own(t, BEFORE_Y + k, sy.psi_in + state_along_y(t, k), PACKS, points);
  }
  __device__ __forceinline__ void copy_operands(int t) const {
    const kernel_args &f = a.field;
    if (t < w.c.count && w.lanes > 0) {
      const unsigned points = PACKS ? 0 : w.existing();
      w.copy_own(t, BEFORE, remembered(t, ABSORB_BEYOND), PACKS, points);
      w.copy_own(t, ZETA, s.zeta + (state + t * state_step), PACKS, points);
      w.copy_own(t, OUT, (f.before ? f.before : f.out) + (w.at + t * w.step), PACKS, points);
      if (f.medium[0]) w.copy_own(t, MEDIUM, f.medium[0] + (w.at + t * w.step), PACKS, points);
      if (has_layer_term)
        w.copy_own(t, LAYER_TERM, a.layer_terms + (layer_term + t * layer_term_step), true, 0);
    }
    w.commit_own();
  }
  __device__ __forceinline__ void renew(int t, int k, const float before[PACK]) {
    const float *b = s.coefficients + (2 * a.width + w.c.i + t + k);
    const float psi_a = b[0], psi_b = b[a.width + ABSORB_BEYOND];
#pragma unroll
    for (int n = 0; n < PACK; n++)
      psi[k][n] = absorb_psi(psi_a, psi_b, a.difference, &w.u[RADIUS + k][n], PACK, before[n]);
  }
  /* CROSSING: the row's place in the layer along y. Rows past the grid store nothing and get the last row's place. */
  __device__ __forceinline__ absorb_place place_along_y() const {
    return absorb_locate(&a.axis[1], min(w.y(), a.field.ny - 1));
  }
  /* CROSSING: the place of psi[i + k] of the layer along y, in iteration t. */
  __device__ __forceinline__ ptrdiff_t state_along_y(int t, int k) const {
    const absorb_axis &sy = a.axis[1];
    const absorb_place p = place_along_y();
    const int row = (w.z() + t * INWARD) * (sy.lo + sy.hi) + absorb_stored(&sy, a.width, p, p.i + k);
    return (ptrdiff_t)row * a.field.nx + w.x();
  }
  /* CROSSING: adds the layer term along y and stores its psi and zeta. It does two points at a time: four need too many
   * registers. */
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
      asm volatile("" ::: "memory"); /* or the compiler loads all at once */
    }
    if (w.lanes < 1) return;
    const unsigned points = PACKS ? 0 : w.existing();
    const ptrdiff_t at = state_along_y(t, 0);
    w.put(sy.psi_out + at, psi_y, PACKS, points);
    w.put(sy.zeta + at, zeta_y, PACKS, points);
  }
  /* Sets `sum` to the layer terms along x. */
  __device__ __forceinline__ void look_up(float sum[PACK], int t) const {
    float layer_term_x[PACK] = {};
    if (has_layer_term) stencil::load(layer_term_x, w.operand(t, LAYER_TERM));
#pragma unroll
    for (int n = 0; n < PACK; n++) sum[n] = layer_term_x[n];
  }
  /* TERMS: the terms of a pack (terms.h), from global memory. The lines of the next iteration are prefetched. */
  struct terms_pack {
    float V[PACK], kappa[PACK], recalled[PACK], g[PACK], r[MEMORIES_MAX][PACK];
  };
  __device__ __forceinline__ void load_term(float to[PACK], const float *from, int t) const {
    const float *row = from + (w.at + t * w.step);
    if (t + 1 < w.c.count) asm volatile("prefetch.global.L2 [%0];" ::"l"(row + w.step));
    if (PACKS)
      stencil::load(to, row);
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
  __device__ __forceinline__ float with_terms(terms_pack &k, int n, float stencil, float layer_term,
                                              const float m[], float u, float before) const {
    const kernel_terms &t = a.field.terms;
    constexpr bool G = TERMS == GRADIENT_TERMS;
    terms_point p = {k.V[n], k.kappa[n], k.recalled[n], k.g[n], {k.r[0][n], k.r[1][n], k.r[2][n]}};
    /* without density V is 0, which changes nothing; the branches on counts are uniform */
    const float with_V = t.density ? terms_bracket(&t, true, 0, false, stencil, u, &p) : stencil;
    const float bracket = G ? terms_bracket(&t, false, 0, true, with_V, u, &p) : with_V;
    float all = bracket, gain = terms_gain(&t, 0, G, point_gain(Q, m), layer_term, &p);
    if (t.memories == 1)
      all = terms_bracket(&t, false, 1, false, bracket, u, &p),
      gain = terms_gain(&t, 1, false, gain, layer_term, &p);
    else if (t.memories == 2)
      all = terms_bracket(&t, false, 2, false, bracket, u, &p),
      gain = terms_gain(&t, 2, false, gain, layer_term, &p);
    else if (t.memories == 3)
      all = terms_bracket(&t, false, 3, false, bracket, u, &p),
      gain = terms_gain(&t, 3, false, gain, layer_term, &p);
    k.g[n] = p.g;
#pragma unroll
    for (int l = 0; l < MEMORIES_MAX; l++) k.r[l][n] = p.r[l];
    return fmaf(gain, layer_term, point_next(Q, all, m, u, before, 2.0f));
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
    for (int t = 0; t < OPERAND_AHEAD; t++) {
      if (CROSSING) copy_along_y(t);
      copy_operands(t);
    }
    w.start();
#pragma unroll
    for (int k = 0; k < ABSORB_BEYOND; k++) renew(0, k, before[k]);
  }
  __device__ __forceinline__ void iterate(int t) {
    const kernel_args &f = a.field;
    const float *weights = AXIS == 1 ? f.wy : f.wz, *b = s.coefficients + (w.c.i + t);
    const float zeta_a = b[0], zeta_b = b[a.width];
    float in_row[PACK + 2 * RADIUS], sum[PACK];
    float before[PACK], zeta[PACK], out[PACK], medium[PACK], along[PACK];
    w.arrive(t);
    w.stencil_of(sum, in_row, t);
    if (CROSSING) {
      w.await_own();
      look_up(along, t);
      add_along_y(t, along);
      copy_along_y(t + OPERAND_AHEAD); /* part of that iteration's group; issued here, to have more time */
    }
    w.release(t + RADIUS);
    w.await_own();
    stencil::load(before, w.operand(t, BEFORE));
    renew(t, ABSORB_BEYOND, before);
    stencil::load(zeta, w.operand(t, ZETA));
    stencil::load(out, w.operand(t, OUT));
    if (f.medium[0])
      stencil::load(medium, w.operand(t, MEDIUM));
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
      const float layer_term = along[n] + (slope + zeta[n]);
      if (TERMS)
        out[n] = with_terms(terms, n, sum[n], layer_term, m, u, out[n]);
      else
        out[n] = fmaf(point_gain(Q, m), layer_term, point_next(Q, sum[n], m, u, out[n], 2.0f));
    }
    if (TERMS) store_terms(terms, t);
    store(t, zeta, out);
    copy_operands(t + OPERAND_AHEAD);
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
  /* Stores images in z of the rows of a loop along y. */
  __device__ __forceinline__ void store_images() const {
    const kernel_args &f = a.field;
    if (w.lanes < 1 || !ghosts_touch(w.z(), f.nz, f.ghosts[FACE_Z_LO], f.ghosts[FACE_Z_HI])) return;
#pragma unroll 1
    for (int t = 0; t < w.c.count; t++) images::store_in_z(f, f.out + (w.at + t * w.step), w.z(), w.lanes);
  }
};

template <int AXIS, class Update>
static __device__ __forceinline__ void run_update(const absorb_args &a, const tile_maps &m,
                                                  const tile_range &c, float *shared) {
  Update update(a, m, c, shared);
  update.start();
#pragma unroll 1
  for (int t = 0; t < c.count; t++) update.iterate(t);
  if (AXIS == 1 && c.images) update.store_images();
}

template <enum equation Q, terms_of TERMS, int AXIS, bool PACKS, row_kind ROWS>
static __device__ __forceinline__ void update_inward(const absorb_args &a, const tile_maps &m, tile_range c,
                                                     float *shared) {
  const absorb_place p = absorb_locate(&a.axis[AXIS], AXIS == 1 ? c.y : c.z);
  c.i = p.i;
  if (p.inward > 0)
    run_update<AXIS, layer_update<Q, TERMS, AXIS, 1, PACKS, ROWS>>(a, m, c, shared);
  else
    run_update<AXIS, layer_update<Q, TERMS, AXIS, -1, PACKS, ROWS>>(a, m, c, shared);
}

} // namespace absorbing
#endif
