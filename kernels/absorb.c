/* The absorbing layers on the host: row by row, x fastest, so that layers along y and z become vectors. */
#include "absorb.h"
#include <stdbool.h>

enum {
  CHUNK = 256,    /* points of a row at a time: their sums stay in the L1 cache */
  ROWS_A_TURN = 8 /* neighbouring rows that one thread takes: they share their neighbours */
};

#define INLINE static inline __attribute__((always_inline))

/* Before a loop: what it stores is not what it loads at another x. More pointers than compilers compare. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Along y or z: adds to sum[x] of `count` points of a row, the first at u; state: where the state has that
 * one. left: absorb_left. Copies: nothing that the loop stores can be one of them. */
INLINE void add_along_row(const absorb_args *a, int axis, const absorb_line *l, const float *w,
                          const float *restrict u, ptrdiff_t state, int left, int count,
                          float *restrict sum) {
  const absorb_axis *s = &a->axis[axis];
  const absorb_line line = *l;
  const absorb_axis copy = *s;
  const float difference[2] = {a->difference[0], a->difference[1]};
  const float weight[5] = {0, w[1], w[2], w[3], w[4]};
  const float *restrict psi_in = s->psi_in + state;
  float *restrict psi_out = s->psi_out + state, *restrict zeta = s->zeta + state;
  INDEPENDENT
  for (int x = 0; x < count; x++)
    sum[x] += absorb_add(&copy, &line, difference, weight, u + x, psi_in + x, psi_out + x, zeta + x);
  for (int x = 0; x < count && left > 0; x++)
    absorb_add_beyond(&line, left, difference, u + x, psi_in + x, psi_out + x);
}

/* Along x: adds to the sums of points [first, last) of a layer, counted from its outer edge, at most CHUNK.
 * u, sum: the layer's outermost point; row: the row's state. What a layer needs is turned to run inward, so
 * that vectors of points have vectors of coefficients; each psi is computed once. */
INLINE void add_inward(const absorb_args *a, absorb_place p, int first, int last, const float *u, size_t row,
                       float *sum) {
  const absorb_axis s = a->axis[0];
  const float difference[2] = {a->difference[0], a->difference[1]}, *c = s.coefficients + first;
  const float *const w = a->field.wx;
  const int count = last - first, width = a->width, inward = p.inward;
  float v[CHUNK + 2 * GHOST_REACH], before[CHUNK + ABSORB_BEYOND], psi[CHUNK + ABSORB_BEYOND], zeta[CHUNK];
  const size_t state = row * (size_t)(s.lo + s.hi) + (size_t)absorb_stored(&s, width, p, first);
  for (int i = 0; i < count + 2 * GHOST_REACH; i++) v[i] = u[inward * (first - GHOST_REACH + i)];
  for (int k = 0; k < count; k++) before[k] = (s.psi_in + state)[inward * k];
  for (int k = count; k < count + ABSORB_BEYOND; k++)
    before[k] = (s.psi_in + row * (size_t)(s.lo + s.hi))[absorb_stored(&s, width, p, first + k)];
  for (int k = 0; k < count + ABSORB_BEYOND; k++)
    psi[k] = absorb_psi(c[2 * width + k], c[3 * width + ABSORB_BEYOND + k], difference, v + GHOST_REACH + k,
                        1, before[k]);
  for (int i = 0; i < count; i++) {
    const float slope = absorb_slope(&s, psi[i], psi[i + 1], psi[i + 2], psi[i + 3]);
    zeta[i] = absorb_zeta(c[i], c[width + i], absorb_second(&s, w, v + GHOST_REACH + i, 1), slope,
                          (s.zeta + state)[inward * i]);
    v[i] = slope + zeta[i]; /* in place of a point that nothing needs any more */
  }
  for (int i = 0; i < count; i++) {
    (s.psi_out + state)[inward * i] = psi[i];
    (s.zeta + state)[inward * i] = zeta[i];
    sum[inward * (first + i)] += v[i];
  }
}

/* Along x: those of points [begin, end) of a row that lie in a layer. u: the row's first point; sum: of
 * `begin`. */
INLINE void add_across(const absorb_args *a, const float *u, size_t row, int begin, int end, float *sum) {
  const absorb_axis *s = &a->axis[0];
  const int last = s->points - 1, low = end < s->lo ? end : s->lo, high = last - begin + 1;
  if (begin < low) add_inward(a, (absorb_place){0, 1}, begin, low, u, row, sum - begin);
  if (last - end + 1 < s->hi)
    add_inward(a, (absorb_place){0, -1}, last - end + 1, high < s->hi ? high : s->hi, u + last, row,
               sum + (last - begin));
}

/* Points [begin, end) have no images. */
INLINE void store_plain(const kernel_args *f, ptrdiff_t row, int begin, int end, const float *sum) {
  const float *restrict medium = f->medium ? f->medium + row : NULL;
  float *restrict out = f->out + row;
  const float scale = f->scale;
  for (int x = begin; x < end; x++) out[x] = fmaf(medium ? medium[x] : scale, sum[x - begin], out[x]);
}

INLINE void store_with_images(const kernel_args *f, ptrdiff_t row, int z, int y, int begin, int end,
                              const float *sum) {
  for (int x = begin; x < end; x++)
    ghosts_store(f, z, y, x,
                 fmaf(f->medium ? f->medium[row + x] : f->scale, sum[x - begin], f->out[row + x]));
}

INLINE void store(const kernel_args *f, int z, int y, int begin, int end, const float *sum) {
  const unsigned char *g = f->ghosts;
  const ptrdiff_t row = (ptrdiff_t)f->plane * z + (ptrdiff_t)f->pitch * y;
  const bool apart = !ghosts_touch(z, f->nz, g[FACE_Z_LO], g[FACE_Z_HI]) &&
                     !ghosts_touch(y, f->ny, g[FACE_Y_LO], g[FACE_Y_HI]);
  int plain = begin, rest = begin; /* points [plain, rest) have no images */
  while (apart && plain < end && ghosts_touch(plain, f->nx, g[FACE_X_LO], g[FACE_X_HI])) plain++;
  if (apart) rest = end;
  while (rest > plain && ghosts_touch(rest - 1, f->nx, g[FACE_X_LO], g[FACE_X_HI])) rest--;
  store_with_images(f, row, z, y, begin, plain, sum);
  store_plain(f, row, plain, rest, sum + (plain - begin));
  store_with_images(f, row, z, y, rest, end, sum + (rest - begin));
}

/* Points [begin, end) of a row, each of them in a layer. */
INLINE void piece(const absorb_args *a, int z, int y, int begin, int end) {
  const kernel_args *f = &a->field;
  const absorb_axis *sy = &a->axis[1], *sz = &a->axis[2];
  const absorb_place py = absorb_locate(sy, y), pz = absorb_locate(sz, z);
  const ptrdiff_t pitch = (ptrdiff_t)f->pitch, plane = (ptrdiff_t)f->plane, nx = f->nx;
  const float *u = f->in + plane * z + pitch * y;
  float sum[CHUNK];
  for (int x = 0; x < end - begin; x++) sum[x] = 0;
  add_across(a, u, (size_t)z * (size_t)f->ny + (size_t)y, begin, end, sum);
  if (py.inward) {
    const absorb_line l = absorb_line_of(sy, a->width, py, pitch, nx);
    add_along_row(a, 1, &l, f->wy, u + begin, (ptrdiff_t)z * (sy->lo + sy->hi) * nx + begin, 0, end - begin,
                  sum);
  }
  if (pz.inward) {
    const absorb_line l = absorb_line_of(sz, a->width, pz, plane, nx * f->ny);
    add_along_row(a, 2, &l, f->wz, u + begin, y * nx + begin, absorb_left(a, pz, z), end - begin, sum);
  }
  store(f, z, y, begin, end, sum);
}

INLINE void pieces(const absorb_args *a, int z, int y, int begin, int end) {
  for (int x = begin; x < end; x += CHUNK) piece(a, z, y, x, x + CHUNK < end ? x + CHUNK : end);
}

/* Rows are dealt out in turn: the layers at the ends of y and z are most of the work. */
INLINE void rows(const absorb_args *a, int part, int parts) {
  const absorb_axis *sx = &a->axis[0];
  const kernel_args *f = &a->field;
  for (int z = f->z_begin; z < f->z_end; z++)
    for (int y = 0; y < f->ny; y++) {
      if ((z + y / ROWS_A_TURN) % parts != part) continue;
      if (absorb_locate(&a->axis[1], y).inward || absorb_locate(&a->axis[2], z).inward) {
        pieces(a, z, y, 0, f->nx);
      } else {
        pieces(a, z, y, 0, sx->lo);
        pieces(a, z, y, f->nx - sx->hi, f->nx);
      }
    }
}

/* The same in the instructions of this machine: what is fused says so, hence the same bits. */
#ifdef __x86_64__
static __attribute__((target("avx512f,avx512vl,fma"))) void rows_avx512(const absorb_args *a, int part,
                                                                        int parts) {
  rows(a, part, parts);
}
static __attribute__((target("avx2,fma"))) void rows_avx2(const absorb_args *a, int part, int parts) {
  rows(a, part, parts);
}
#endif

void absorb_host(const void *args, int part, int parts) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    rows_avx512(args, part, parts);
    return;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    rows_avx2(args, part, parts);
    return;
  }
#endif
  rows(args, part, parts);
}

const operation operation_absorb = {.name = "absorbing layers",
                                    .args_bytes = sizeof(absorb_args),
                                    .host = absorb_host,
#ifdef STENCIL_HAVE_CUDA
                                    .cuda = absorb_cuda
#endif
};
