/* The transpose of absorbing layers on the host: row by row, in loops of which the compiler makes vectors, once for each set of
 * instructions. At a point the order of operations is that of absorb_back_add. */
#include "absorb_back.h"
#include "kernels/host_share.h"
#include "base/isa.h"

enum {
  CHUNK = 256, /* points of a row at a time */
  MARGIN = 8,  /* beside them: what chi and phi of neighbours reach, rounded up */
  ROW = CHUNK + 2 * MARGIN
};
#define BACK_INLINE static inline __attribute__((always_inline))

/* Points [begin, end) of a row. */
typedef struct back_row {
  int z, y, begin, end;
} back_row;

/* What the layers along x share on all rows of a chunk, by point from MARGIN before its first: of the low one, of the high one. */
typedef struct back_profile {
  float a[ROW], b[ROW], phi_a[ROW], phi_b[ROW];
  int begin, end; /* its points */
} back_profile;

static back_profile back_profile_of(const absorb_args *l, int inward, int first) {
  const absorb_axis *s = &l->axis[0];
  const float *c = s->coefficients;
  const int width = l->width, points = inward > 0 ? s->lo : s->hi;
  back_profile p = {.begin = inward > 0 ? 0 : s->points - points, .end = inward > 0 ? points : s->points};
  for (int k = 0; k < ROW; k++) {
    const int x = first - MARGIN + k, i = inward > 0 ? x : s->points - 1 - x;
    if (x < p.begin || x >= p.end) continue;
    p.a[k] = c[i], p.b[k] = c[width + i];
    p.phi_a[k] = c[2 * width + i], p.phi_b[k] = c[3 * width + ABSORB_BEYOND + i];
  }
  return p;
}

/* chi after the step at the points of a chunk and 4 beside them; where a face reflects, also of their images. */
BACK_INLINE void back_chi_in_x(const absorb_args *l, const back_profile *p, int inward, int first,
                               const float *nu, const float *before, float chi[ROW]) {
  const int from = larger(p->begin, first - RADIUS), to = smaller(p->end, first + CHUNK + RADIUS),
            n = l->axis[0].points;
  const int opposite = l->field.ghosts[inward > 0];
  for (int k = 0; k < ROW; k++) chi[k] = 0;
#pragma GCC ivdep
  for (int x = from; x < to; x++) {
    const int k = x - first + MARGIN;
    chi[k] = absorb_back_chi(p->a[k], p->b[k], nu[x], before[x]);
  }
  for (int r = 1; r <= RADIUS && (opposite == GHOST_ODD || opposite == GHOST_EVEN); r++) {
    const int x = inward > 0 ? n - 1 + r : -r, of = inward > 0 ? n - 1 - r : r,
              i = inward > 0 ? of : n - 1 - of;
    if (i >= l->width || x < first - RADIUS || x >= first + CHUNK + RADIUS) continue;
    const float *c = l->axis[0].coefficients;
    chi[x - first + MARGIN] =
        absorb_back_chi(opposite == GHOST_ODD ? -c[i] : c[i], c[l->width + i], nu[x], before[of]);
  }
}

/* Adds what one layer along x has for points of a row. */
BACK_INLINE void back_add_in_x(const absorb_back_args *a, const back_profile *p, const int inward, int first,
                               back_row row, float *sum) {
  const absorb_args *l = &a->layers;
  const kernel_args *f = &l->field;
  const absorb_axis *s = &l->axis[0];
  const int reach = p->end - p->begin ? RADIUS : 0;
  const int from = larger(row.begin, p->begin - (inward < 0 ? reach : 0)),
            to = smaller(row.end, p->end + (inward > 0 ? reach : 0));
  if (from >= to) return;
  const ptrdiff_t stored = absorb_back_state(l, 0, (absorb_point){row.z, row.y, 0}) +
                           (inward > 0 ? -s->lo_first : s->hi_last - (s->points - 1));
  const float *nu = f->in + ((ptrdiff_t)f->plane * row.z + (ptrdiff_t)f->pitch * row.y);
  float chi[ROW], v[ROW],
      phi[ROW], *const phi_out = s->psi_out + stored, *const chi_out = a->chi_out[0] + stored;
  const float *const phi_in = s->psi_in + stored;
  back_chi_in_x(l, p, inward, first, nu, s->zeta + stored, chi);
  const int inside = larger(from, p->begin), outside = smaller(to, p->end), /* those in the layer itself */
      beyond = ABSORB_BEYOND, last = smaller(outside + (inward > 0 ? beyond : 0), p->end),
            begin = larger(inside - (inward < 0 ? beyond : 0), p->begin);
  for (int k = 0; k < ROW; k++) phi[k] = 0;
  for (int x = begin - beyond; x < last + beyond; x++)
    v[x - first + MARGIN] = nu[x] + chi[x - first + MARGIN];
#pragma GCC ivdep
  for (int x = begin; x < last; x++) {
    const int k = x - first + MARGIN;
    const float values[4] = {v[k], v[k - inward], v[k - 2 * inward], v[k - 3 * inward]};
    phi[k] = absorb_back_phi(p->phi_a[k], p->phi_b[k], l->difference, values, phi_in[x]);
  }
#pragma GCC ivdep
  for (int x = from; x < to; x++) {
    const int k = x - first + MARGIN;
    const float second = absorb_back_second(s, f->wx, chi + k);
    const float slope = absorb_slope(s, phi[k], phi[k + inward], phi[k + 2 * inward], phi[k + 3 * inward]);
    sum[x - first] += x >= p->begin && x < p->end ? second + slope : second;
  }
  for (int x = inside; x < outside; x++) {
    chi_out[x] = chi[x - first + MARGIN];
    phi_out[x] = phi[x - first + MARGIN];
  }
}

/* Adds what one layer along y or z has for points of a row, all of the same i; axis and inside are constants. */
BACK_INLINE void back_add_row(const absorb_back_args *a, const int axis, const bool inside, absorb_place p,
                              back_row row, float *sum) {
  const absorb_args *l = &a->layers;
  const kernel_args *f = &l->field;
  const absorb_axis *s = &l->axis[axis];
  const absorb_back_line n = absorb_back_line_of(l, axis, p);
  const ptrdiff_t state = absorb_back_state(l, axis, (absorb_point){row.z, row.y, row.begin});
  const float *nu = f->in + ((ptrdiff_t)f->plane * row.z + (ptrdiff_t)f->pitch * row.y + row.begin);
  const float *const chi = s->zeta + state, *const phi = s->psi_in + state;
  float *const chi_out = a->chi_out[axis] + state + n.chi[RADIUS], *const phi_out =
                                                                       s->psi_out + state + n.phi[0];
#pragma GCC ivdep
  for (int x = 0; x < row.end - row.begin; x++) {
    absorb_back_values now;
    sum[x] += absorb_back_point(l, axis, &n, inside, nu + x, chi + x, phi + x, &now);
    if (inside) chi_out[x] = now.chi[RADIUS], phi_out[x] = now.phi[0];
  }
}

/* Stores what rows at the slab's ends along z know besides. */
BACK_INLINE void back_store_beyond(const absorb_back_args *a, absorb_place p, back_row row) {
  const absorb_args *l = &a->layers;
  const kernel_args *f = &l->field;
  const int beside = absorb_back_beside(f, p.inward, row.z);
  if (!beside || (beside < 0 && p.i == 0) || (beside > 0 && p.i + 1 >= l->width)) return;
  const absorb_back_line n = absorb_back_line_of(l, 2, p);
  for (int x = row.begin; x < row.end; x++) {
    const absorb_point at = {row.z, row.y, x};
    const ptrdiff_t state = absorb_back_state(l, 2, at);
    const float *nu = f->in + ((ptrdiff_t)f->plane * row.z + (ptrdiff_t)f->pitch * row.y + x);
    absorb_back_values now;
    absorb_back_point(l, 2, &n, n.inside, nu, l->axis[2].zeta + state, l->axis[2].psi_in + state, &now);
    absorb_back_store_beyond(a, &n, p, at, &now);
  }
}

BACK_INLINE void back_add_lines(const absorb_back_args *a, const int axis, back_row row, float *sum) {
  const int at = axis == 1 ? row.y : row.z;
#pragma GCC unroll 1
  for (int inward = 1; inward >= -1; inward -= 2) {
    const absorb_place p = {absorb_back_locate(&a->layers.axis[axis], inward, at), inward};
    if (p.i < 0) continue;
    if (p.i < a->layers.width)
      back_add_row(a, axis, true, p, row, sum);
    else
      back_add_row(a, axis, false, p, row, sum);
    if (axis == 2) back_store_beyond(a, p, row);
  }
}

/* Adds the sums to the field and to the gradient, as terms_add does, and stores images again. */
BACK_INLINE void back_finish(const kernel_args *f, back_row row, const float *sum) {
  const unsigned char *g = f->ghosts;
  const kernel_terms *t = &f->terms;
  const ptrdiff_t at = (ptrdiff_t)f->plane * row.z + (ptrdiff_t)f->pitch * row.y + row.begin;
  const int count = row.end - row.begin;
  float gain[CHUNK], *const out = f->out + at;
  const bool images = g[FACE_X_LO] != GHOST_KEEP || g[FACE_X_HI] != GHOST_KEEP ||
                      ghosts_touch(row.y, f->ny, g[FACE_Y_LO], g[FACE_Y_HI]) ||
                      ghosts_touch(row.z, f->nz, g[FACE_Z_LO], g[FACE_Z_HI]);
  for (int x = 0; x < count; x++) gain[x] = point_gain_at(f, at + x);
  if (t->memories) {
    for (int x = 0; x < count; x++) out[x] = terms_add(f, at + x, gain[x], sum[x], out[x]);
  } else {
    for (int x = 0; x < count && t->recalled; x++)
      t->gradient[at + x] = fmaf(t->recalled[at + x], sum[x], t->gradient[at + x]);
    for (int x = 0; x < count; x++) out[x] = fmaf(gain[x], sum[x], out[x]);
  }
  for (int x = 0; x < count && images; x++) ghosts_store(f, row.z, row.y, row.begin + x, out[x]);
}

BACK_INLINE void back_do_row(const absorb_back_args *a, const back_profile profile[2], int first,
                             back_row row) {
  float sums[CHUNK], *const sum = sums + (row.begin - first);
  if (row.begin >= row.end) return;
  for (int x = 0; x < CHUNK; x++) sums[x] = 0;
  back_add_in_x(a, &profile[0], 1, first, row, sums);
  back_add_in_x(a, &profile[1], -1, first, row, sums);
  back_add_lines(a, 1, row, sum);
  back_add_lines(a, 2, row, sum);
  back_finish(&a->layers.field, row, sum);
}

/* Of rows that no layer along y or z reaches, the ends alone. */
BACK_INLINE void back_do_chunk(const absorb_back_args *a, host_share share, int first) {
  const absorb_axis *s = a->layers.axis;
  const back_profile profile[2] = {back_profile_of(&a->layers, 1, first),
                                   back_profile_of(&a->layers, -1, first)};
  const int end = smaller(first + CHUNK, s[0].points), low = smaller(s[0].lo ? s[0].lo + RADIUS : 0, end),
            high = larger(s[0].points - (s[0].hi ? s[0].hi + RADIUS : 0), first);
  for (int z = share.z_begin; z < share.z_end; z++)
    for (int y = share.y_begin; y < share.y_end; y++) {
      bool whole = low >= high;
      for (int inward = 1; inward >= -1; inward -= 2)
        whole |= absorb_back_locate(&s[1], inward, y) >= 0 || absorb_back_locate(&s[2], inward, z) >= 0;
      const back_row rows[2] = {{z, y, first, whole ? end : low}, {z, y, whole ? end : high, end}};
#pragma GCC unroll 1
      for (int k = 0; k < 2; k++) back_do_row(a, profile, first, rows[k]);
    }
}

#define BACK_SHARE(isa, target)                                                                              \
  target static void back_share_##isa(const absorb_back_args *a, host_share share) {                         \
    for (int x = 0; x < a->layers.field.nx; x += CHUNK) back_do_chunk(a, share, x);                          \
  }
HOST_ISAS(BACK_SHARE)

static void absorb_back_host(const void *args, int part, int parts) {
  const absorb_back_args *a = args;
  HOST_ISA_OF(back_share)(a, host_share_of(&a->layers.field, part, parts));
}

OPERATION(absorb_back, "absorbing layers on the way back", absorb_back_args, .host = absorb_back_host)
