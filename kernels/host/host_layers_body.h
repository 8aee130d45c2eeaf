/* The body of host_layers.h for one instruction set; host_simd_body.h includes it. */

typedef struct vec_axis {
  vec center, weight[5], slope[2], difference[2];
} vec_axis;

/* Coefficients of inward rows, or of points of a row: as absorb_axis has them. */
typedef struct vec_profile {
  vec a[GROUP], b[GROUP], psi_a[PSI_MOST], psi_b[PSI_MOST];
} vec_profile;

INLINE vec_axis axis_of(const absorb_args *a, int axis) {
  const float *const w[ABSORB_AXES] = {a->field.wx, a->field.wy, a->field.wz};
  const absorb_axis *s = &a->axis[axis];
  vec_axis c = {.center = vec_set(s->center)};
  for (int r = 1; r <= 4; r++) c.weight[r] = vec_set(w[axis][r]);
  for (int k = 0; k < 2; k++) c.slope[k] = vec_set(s->slope[k]), c.difference[k] = vec_set(a->difference[k]);
  return c;
}

/* psi and zeta, before a step and then after it, and the layer terms. */
typedef struct vec_state {
  vec psi[PSI_MOST], zeta[GROUP], layer_term[GROUP];
} vec_state;

/* d(psi)/ds from psi[0 .. 3]. */
INLINE vec slope_of(const vec_axis *c, const vec psi[]) {
  return vec_fma(c->slope[1], psi[3] - psi[0], c->slope[0] * (psi[2] - psi[1]));
}

/* The operations of absorb.h at `count` points of each lane; they lie `step` floats apart, inward from u. */
INLINE void add_along(const vec_axis *c, const vec_profile *p, const float *u, ptrdiff_t step,
                      const int count, vec_state *s) {
  vec *const psi = s->psi;
  const float *at = u - 4 * step;
  vec line[8 + GROUP], *const v = line + 4; /* points, from 4 before the first to 4 beyond the last */
#pragma GCC unroll 12
  for (int i = 0; i < 8 + count; i++, at += step) line[i] = vec_load(at);
#pragma GCC unroll 8
  for (int t = 0; t < count + ABSORB_BEYOND; t++) {
    const vec near = c->difference[0] * (v[t - 1] - v[t - 2]), far = v[t] - v[t - 3];
    psi[t] = vec_fma(p->psi_a[t], psi[t], p->psi_b[t] * vec_fma(c->difference[1], far, near));
  }
#pragma GCC unroll 4
  for (int k = 0; k < count; k++) {
    const vec slope = slope_of(c, psi + k);
    vec second = c->weight[4] * (v[k - 4] + v[k + 4]);
#pragma GCC unroll 3
    for (int r = 3; r >= 1; r--) second = vec_fma(c->weight[r], v[k - r] + v[k + r], second);
    second = vec_fma(c->center, v[k], second);
    s->zeta[k] = vec_fma(p->a[k], s->zeta[k], p->b[k] * (second + slope));
    s->layer_term[k] = slope + s->zeta[k];
  }
}

/* --- along y and z ---------------------------------------------------------------------------------------------- */

/* Adds to the layer terms of `lanes` points of one vector of inward rows, `x` points on. */
INLINE void add_inward_vector(const vec_axis *c, const vec_profile *p, const inward_rows *r, int x,
                              const int count, const int lanes) {
  vec_state s;
#pragma GCC unroll 8
  for (int t = 0; t < count + ABSORB_BEYOND; t++) s.psi[t] = load_lanes(r->psi_in[t] + x, lanes);
#pragma GCC unroll 4
  for (int k = 0; k < count; k++) s.zeta[k] = load_lanes(r->zeta[k] + x, lanes);
  add_along(c, p, r->u + x, r->step, count, &s);
#pragma GCC unroll 4
  for (int k = 0; k < count; k++) {
    store_lanes(r->psi_out[k] + x, s.psi[k], lanes);
    store_lanes(r->zeta[k] + x, s.zeta[k], lanes);
    vec_store(r->sum[k] + x, vec_load(r->sum[k] + x) + s.layer_term[k]);
  }
#pragma GCC unroll 4
  for (int k = 0; k < count; k++)
#pragma GCC unroll 1
    for (int i = 0; i < LANES; i += LINE) {
      prefetch(r->psi_in[r->newest + k] + r->ahead + x + i);
      prefetch(r->psi_out[k] + r->ahead + x + i);
      prefetch(r->zeta[k] + r->ahead + x + i);
    }
  for (int t = count; t < r->stored; t++) store_lanes(r->psi_out[t] + x, s.psi[t], lanes);
}

/* Adds to the layer terms of `points` points of inward rows; count: r->count, as a constant. */
INLINE void add_rows(const absorb_args *a, int axis, const inward_rows *r, int points, const int count) {
  const vec_axis c = axis_of(a, axis);
  vec_profile p;
  for (int k = 0; k < count; k++)
    p.a[k] = vec_set(r->coefficients[k]), p.b[k] = vec_set(r->coefficients[a->width + k]);
  for (int t = 0; t < count + ABSORB_BEYOND; t++) {
    p.psi_a[t] = vec_set(r->coefficients[2 * a->width + t]);
    p.psi_b[t] = vec_set(r->coefficients[3 * a->width + ABSORB_BEYOND + t]);
  }
  int x = 0;
  for (; x + LANES <= points; x += LANES) add_inward_vector(&c, &p, r, x, count, LANES);
  if (x < points) add_inward_vector(&c, &p, r, x, count, points - x);
}

static __attribute__((noinline)) void add_row(const absorb_args *a, int axis, const inward_rows *r,
                                              int points) {
  add_rows(a, axis, r, points, 1);
}

static __attribute__((noinline)) void add_group(const absorb_args *a, int axis, const inward_rows *r,
                                                int points) {
  add_rows(a, axis, r, points, GROUP);
}

/* --- along x ---------------------------------------------------------------------------------------------------- */

/* Sets the layer terms of a vector in the layer `l` along x, and its other lanes to their initial value. inward and
 * whole are constants. whole: all lanes are points, and all their psi are in the layer. It loads the layer terms of the
 * next plane before it stores this plane's. They may lie at the same offset of another page, which processors mistake
 * for the same address. */
INLINE void add_x(const absorb_args *a, const vec_axis *c, const int inward, const bool whole, x_layer l,
                  row_points at, layer_term_rows *layer_terms) {
  const absorb_axis *axis = &a->axis[0];
  const kernel_args *f = &a->field;
  const absorb_layer_terms t = absorb_layer_terms_of(axis, a->width, f->nz);
  const ptrdiff_t layers = axis->lo + axis->hi, plane = layers * f->ny,
                  layer_terms_plane = (ptrdiff_t)t.pitch * f->ny;
  const int lanes = whole ? LANES : at.count, first = x_stored(axis, inward, at.x),
            last = x_inmost(axis, inward);
  const unsigned own = (1u << lanes) - 1;
  const float(*profile)[LAYER_TERM_ROW] = layer_terms->profile[inward < 0];
  const int place = ABSORB_BEYOND + at.x - l.begin;
  unsigned inside[ABSORB_BEYOND + 1];
  vec_profile p = {.a = {vec_load(profile[PROFILE_A] + place)}, .b = {vec_load(profile[PROFILE_B] + place)}};
#pragma GCC unroll 4
  for (int i = 0; i <= ABSORB_BEYOND; i++) {
    p.psi_a[i] = vec_load(profile[PROFILE_PSI_A] + place + i * inward);
    p.psi_b[i] = vec_load(profile[PROFILE_PSI_B] + place + i * inward);
    const int beyond = larger(inward > 0 ? first + lanes - 1 + i - last : last + i - first, 0);
    inside[i] = beyond >= lanes ? 0 : inward > 0 ? own >> beyond : own & ~0u << beyond;
  }
  const ptrdiff_t state = at.z * plane + at.y * layers + first;
  const float *u = f->in + (ptrdiff_t)f->plane * at.z + (ptrdiff_t)f->pitch * at.y + at.x,
              *psi_in = axis->psi_in + state;
  float *psi_out = axis->psi_out + state,
        *stored =
            a->layer_terms + absorb_layer_term_at(&t, f->ny, inward < 0, (absorb_point){at.z, at.y, at.x}),
        *sum = layer_terms->row[0] + (at.x - layer_terms->x_begin);
  vec next = load_lanes(stored, lanes);
  for (int k = 0; k < at.planes; k++, u += f->plane, psi_in += plane, psi_out += plane,
           stored += layer_terms_plane, sum += LAYER_TERM_ROW) {
    vec_state s;
    const vec now = next;
    prefetch(psi_in + LAYERS_AHEAD * layers), prefetch(psi_out + LAYERS_AHEAD * layers);
    prefetch(stored + LAYERS_AHEAD * t.pitch);
#pragma GCC unroll 4
    for (int i = 0; i <= ABSORB_BEYOND; i++) {
      const float *psi = psi_in + i * inward;
      s.psi[i] = whole ? vec_load(psi) : vec_load_some(psi, inside[i]);
    }
    if (k + 1 < at.planes) next = load_lanes(stored + layer_terms_plane, lanes);
    s.zeta[0] = now - slope_of(c, s.psi);
    add_along(c, &p, u, inward, 1, &s);
    const vec layer_term = vec_set(0) + s.layer_term[0];
    store_lanes(psi_out, s.psi[0], lanes);
    store_lanes(stored, layer_term, lanes);
    vec_store(sum, whole ? layer_term : vec_where(own, layer_term, vec_set(layer_terms->start[k])));
  }
}

/* Sets the layer terms of the rows' points in the layer along x at one face, whole vectors from the face on. */
INLINE void add_end(const absorb_args *a, const vec_axis *c, const int inward, row_points rows,
                    layer_term_rows *layer_terms) {
  const x_layer l = x_layer_of(a, inward, rows.x, rows.x + rows.count);
  const int last = x_inmost(&a->axis[0], inward), rest = (l.end - l.begin) % LANES;
  row_points at = rows;
  for (at.x = l.begin; at.x < l.end; at.x += at.count) {
    const int first = x_stored(&a->axis[0], inward, at.x);
    const bool inside =
        inward > 0 ? first + LANES - 1 + ABSORB_BEYOND <= last : first - ABSORB_BEYOND >= last;
    at.count = inward < 0 && at.x == l.begin && rest ? rest : smaller(l.end - at.x, LANES);
    if (inside && at.count == LANES)
      add_x(a, c, inward, true, l, at, layer_terms);
    else
      add_x(a, c, inward, false, l, at, layer_terms);
  }
}

static __attribute__((noinline)) void add_ends(const absorb_args *a, row_points rows,
                                               layer_term_rows *layer_terms) {
  const vec_axis c = axis_of(a, 0);
  add_end(a, &c, 1, rows, layer_terms);
  add_end(a, &c, -1, rows, layer_terms);
}

/* --- all axes --------------------------------------------------------------------------------------------------- */

/* Adds to the rows the layer terms of layers along z; places: of each row. */
INLINE void add_planes(const absorb_args *a, row_points rows, const absorb_place places[],
                       float *const sum[]) {
  const absorb_place first = places[0], last = places[rows.planes - 1];
  inward_rows c;
  if (rows.planes == GROUP && first.inward && first.inward == last.inward) {
    inward_rows_find(&c, a, 2, first.inward > 0 ? first : last, rows, sum);
    add_group(a, 2, &c, rows.count);
    return;
  }
  row_points one = rows;
  one.planes = 1;
  for (int k = 0; k < rows.planes; k++, one.z++) {
    if (!places[k].inward) continue;
    inward_rows_find(&c, a, 2, places[k], one, sum + k);
    add_row(a, 2, &c, rows.count);
  }
}

/* Sets points [begin, end) of a row of layer terms, and what vectors hold beyond; end may be less than begin. */
INLINE void fill_sums(float *row, int begin, int end, float value) {
  const vec v = vec_set(value);
  for (int x = begin; x < end; x += LANES) vec_store(row + x, v);
}

/* Initialises the layer terms of `planes` rows: all of them, or those beside layers along x. */
INLINE void start_layer_terms(layer_term_rows *s, const int planes) {
  const int low = s->whole ? s->points : smaller(s->low_end + LAYER_TERM_SLACK, s->points),
            high = s->whole ? s->points : larger(s->high_begin - LAYER_TERM_SLACK, 0);
  if (s->blank && !s->whole) return;
  s->blank = !s->whole;
  for (int k = 0; k < planes; k++) {
    fill_sums(s->row[k], 0, low, s->start[k]);
    fill_sums(s->row[k], high, s->points, s->start[k]);
  }
}

/* Finds the layer terms of rows y of `planes` planes from z on. */
INLINE void add_layers(const absorb_args *a, block b, int z, const int planes, int y,
                       layer_term_rows *layer_terms) {
  const absorb_place at_y = absorb_locate(&a->axis[1], y);
  const row_points rows = {z, y, b.x_begin, b.x_end - b.x_begin, planes};
  row_points one = rows;
  absorb_place at_z[GROUP];
  float *sum[GROUP];
  inward_rows c;
  layer_terms->whole = at_y.inward != 0;
  for (int k = 0; k < planes; k++) {
    at_z[k] = absorb_locate(&a->axis[2], z + k);
    layer_terms->start[k] = at_y.inward || at_z[k].inward ? 0.0f : -0.0f;
    sum[k] = layer_terms->row[k];
    layer_terms->whole |= at_z[k].inward != 0;
  }
  start_layer_terms(layer_terms, planes);
  add_ends(a, rows, layer_terms);
  one.planes = 1;
  for (int k = 0; k < planes && at_y.inward; k++, one.z++) {
    inward_rows_find(&c, a, 1, at_y, one, sum + k);
    add_row(a, 1, &c, rows.count);
  }
  add_planes(a, rows, at_z, sum);
}
