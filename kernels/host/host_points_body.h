/* Sources and receivers between grid points (operation.h), for one instruction set. */

/* Adds to `sums` what a source adds in rows [y_begin, y_end) of a tile; sets the bits of those points. */
INLINE void add_source(const inject_args *a, const source_tile *t, const source_part *k, const int rows[2],
                       float sums[TILE_Y][TILE_X], uint32_t bits[TILE_Y]) {
  const point_weights *p = &a->places[k->place];
  for (int iy = 0; iy < p->ny; iy++) {
    const int y = points_at(p->y, iy, a->field.ny);
    if (y < rows[0] || y >= rows[1]) continue;
    /* The second iteration does the points at the other end of a periodic axis. */
    for (int x = p->x; x + p->nx > 0; x -= a->field.nx) {
      const int begin = larger(0, t->x - x), end = smaller(p->nx, smaller(t->x + TILE_X, a->field.nx) - x);
      if (begin >= end) continue;
      float *sum = sums[y - t->y] + x - t->x;
      for (int ix = begin; ix < end; ix++) sum[ix] = inject_add(a, k, t->z - p->z, iy, ix, sum[ix]);
      bits[y - t->y] |= (uint32_t)((UINT64_C(1) << (end - begin)) - 1) << (x + begin - t->x);
    }
  }
}

/* Adds the sources of a tile, one after the other. */
static void inject(const inject_args *a, const source_tile *t, int y_begin, int y_end) {
  float sums[TILE_Y][TILE_X] = {{0}};
  uint32_t bits[TILE_Y] = {0};
  const int rows[2] = {larger(t->y, y_begin), smaller(t->y + TILE_Y, y_end)};
  const source_part *const first = a->parts + t->first, *const end = first + t->count;
  for (const source_part *k = first; k < end; k++)
    if (k->signal >= 0) add_source(a, t, k, rows, sums, bits);
  for (int y = 0; y < TILE_Y; y++)
    for (uint32_t left = bits[y]; left; left &= left - 1) {
      const int x = __builtin_ctz(left);
      inject_store(a, t, t->y + y, t->x + x, sums[y][x]);
    }
  for (const source_part *k = first; k < end; k++) {
    const point_weights *p = &a->places[k->place];
    const float value = k->signal < 0 ? a->signal[~k->signal] : NAN;
    if (!isnan(value) && p->y >= rows[0] && p->y < rows[1]) inject_impose(&a->field, t->z, p->y, p->x, value);
  }
}

#ifdef SAMPLE
/* Columns of a receiver that lie side by side. */
INLINE void sample_columns(const sample_args *a, const point_weights *p, float *columns) {
  const ptrdiff_t over = a->sigma ? a->sigma - a->field : 0;
  ptrdiff_t rows[POINTS_MOST];
  for (int y = 0; y < p->ny; y++) rows[y] = (ptrdiff_t)a->pitch * points_at(p->y, y, a->ny) + p->x;
  for (int x = 0; x < p->nx; x += LANES) {
    const float *u = a->field + (ptrdiff_t)a->plane * p->z + x;
    const int lanes = smaller(p->nx - x, LANES);
    vec sum = vec_set(0);
    for (int z = 0; z < p->nz; z++, u += a->plane) {
      vec row = vec_set(0);
#pragma GCC unroll 8
      for (int y = 0; y < p->ny; y++) {
        vec v = load_lanes(u + rows[y], lanes);
        if (over) v = v / load_lanes(u + rows[y] + over, lanes);
        row = vec_fma(vec_set(p->wy[y]), v, row);
      }
      sum = vec_fma(vec_set(p->wz[z]), row, sum);
    }
    store_lanes(columns + x, sum, lanes);
  }
}

void SAMPLE(const sample_args *a, int begin, int end) {
  for (int i = begin; i < end; i++) {
    const point_weights *p = &a->receivers[i];
    float columns[POINTS_MOST], s = 0;
    if (!a->adjoint && p->x + p->nx <= a->nx)
      sample_columns(a, p, columns);
    else
      for (int x = 0; x < p->nx; x++) columns[x] = sample_column(a, p, x);
    for (int x = 0; x < p->nx; x++) s = fmaf(p->wx[x], columns[x], s);
    a->samples[i] = s;
  }
}
#endif
