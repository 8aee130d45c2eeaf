/* The body of the host kernel `simd` for one instruction set. host_simd.c defines ISA, TARGET, LANES, vec and
 * vec_* and includes this file once for each; all are undefined again at the end. A vector at the end of a
 * row loads lanes past nx + 3 and drops them: what they read is padding or the next row, and rows y + 1 and y
 * - 1 always exist. The store is masked. */

typedef struct ISA(weights) {
  vec center, x[5], y[5], z[5];
} ISA(weights);

/* The share of the canonical order that lies in planes z-4 .. z: the weights of z-4 .. z-1 and the centre. */
TARGET INLINE vec ISA(below)(const ISA(weights) * w, const vec column[5]) {
  vec acc = vec_mul(w->z[4], column[0]);
  acc = vec_fma(w->z[3], column[1], acc);
  acc = vec_fma(w->z[2], column[2], acc);
  acc = vec_fma(w->z[1], column[3], acc);
  return vec_fma(w->center, column[4], acc);
}

TARGET INLINE vec ISA(within)(const ISA(weights) * w, const float *u, ptrdiff_t row, vec acc) {
  vec_x_begin(u);
#define RING(r)                                                                                              \
  acc = vec_fma(w->y[r], vec_add(vec_load(u - r * row), vec_load(u + r * row)), acc);                        \
  acc = vec_fma(w->x[r], vec_x_pair(u, r), acc)
  RING(1);
  RING(2);
  RING(3);
  RING(4);
#undef RING
  return acc;
}

TARGET INLINE vec ISA(above)(const ISA(weights) * w, const vec column[4], vec acc) {
  for (int r = 1; r <= 4; r++) acc = vec_fma(w->z[r], column[r - 1], acc);
  return acc;
}

/* `lanes` points of `planes` (a constant, at most GROUP) planes: u and out are at the first point. */
TARGET INLINE void ISA(update)(const ISA(weights) * w, const sweep *s, const float *u, float *out,
                               const int planes, const int lanes) {
  ptrdiff_t row = (ptrdiff_t)s->args->pitch, plane = (ptrdiff_t)s->args->plane;
  vec acc[GROUP], column[GROUP + 8];
#pragma GCC unroll 12
  for (int k = 0; k < planes + 8; k++) column[k] = vec_load(u + (k - 4) * plane);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) acc[k] = ISA(below)(w, column + k);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) acc[k] = ISA(within)(w, u + k * plane, row, acc[k]);
#pragma GCC unroll 4
  for (int k = 0; k < planes; k++) {
    acc[k] = ISA(above)(w, column + k + 5, acc[k]);
    if (lanes < LANES)
      vec_store_first(out + k * plane, acc[k], lanes);
    else if (s->stream)
      vec_stream(out + k * plane, acc[k]);
    else
      vec_store(out + k * plane, acc[k]);
    prefetch(u + (k + 4) * plane + PREFETCH_ROWS * row);
  }
}

TARGET INLINE void ISA(rows)(const ISA(weights) * w, const sweep *s, block b, int z, const int planes) {
  const kernel_args *a = s->args;
  for (int y = b.y_begin; y < b.y_end; y++) {
    ptrdiff_t first = z * (ptrdiff_t)a->plane + y * (ptrdiff_t)a->pitch;
    const float *u = a->in + first;
    float *out = a->out + first;
    int x = b.x_begin;
    for (; x + LANES <= b.x_end; x += LANES) ISA(update)(w, s, u + x, out + x, planes, LANES);
    if (x < b.x_end) ISA(update)(w, s, u + x, out + x, planes, b.x_end - x);
  }
}

TARGET static void ISA(sweep_block)(const sweep *s, block b, int z_begin, int z_end) {
  const kernel_args *a = s->args;
  ISA(weights) w = {.center = vec_set(a->center)};
  for (int r = 1; r <= 4; r++) {
    w.x[r] = vec_set(a->wx[r]);
    w.y[r] = vec_set(a->wy[r]);
    w.z[r] = vec_set(a->wz[r]);
  }
  int z = z_begin;
  for (; z + GROUP <= z_end; z += GROUP) ISA(rows)(&w, s, b, z, GROUP);
  for (; z < z_end; z++) ISA(rows)(&w, s, b, z, 1);
  leave();
}

static void ISA(jacobi)(const kernel_args *a, int part, int parts) {
  for_each_block(a, part, parts, ISA(sweep_block));
}

#undef ISA
#undef TARGET
#undef LANES
#undef vec
#undef vec_set
#undef vec_load
#undef vec_add
#undef vec_mul
#undef vec_fma
#undef vec_store
#undef vec_stream
#undef vec_store_first
#undef vec_x_begin
#undef vec_x_pair
#undef prefetch
#undef leave
