/* The absorbing layers on the host. A block of rows is gone through plane by plane inward: along y and z a psi is
 * computed once and rows are vectors; along x the ends of a block's rows become lines of whole vectors. */
#include <stdbool.h>
#include "absorb_lines.h"

enum { RING = ABSORB_BEYOND + 1 }; /* psi that a point needs */

/* Before a loop: what it stores is not what it loads at another x. More pointers than compilers compare. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* A thread's own. */
typedef struct scratch {
  _Alignas(64) float sum[ROWS][CHUNK]; /* of the plane at hand */
  float psi_y[ROWS + ABSORB_BEYOND][CHUNK];
  float psi_z[RING][ROWS][CHUNK]; /* of the plane at hand and the next ones, plane k in place k % RING */
  lines lines;
} scratch;

/* Asks for what is soon to be read: processors do not see such rows coming. */
INLINE void expect(const float *at, int count) {
  for (int x = 0; x < count; x += HALF) __builtin_prefetch(at + x);
}

/* --- along y and z -------------------------------------------------------------------------------------- */

/* Rows of `count` points through the layer of an axis, inward: row 0 is in place p. */
typedef struct course {
  absorb_axis axis;
  absorb_place p;
  const float *coefficients, *weights, *difference;
  const float *u, *out;                /* row 0 */
  ptrdiff_t step, state, state_stride; /* state: from the first value stored along the axis to row 0's */
  int width, count;
} course;

INLINE course course_of(const absorb_args *a, int axis, int z, int y, int begin, int count) {
  const kernel_args *f = &a->field;
  const ptrdiff_t at = (ptrdiff_t)f->plane * z + (ptrdiff_t)f->pitch * y + begin, nx = f->nx;
  course c = {.axis = a->axis[axis],
              .difference = a->difference,
              .u = f->in + at,
              .out = f->out + at,
              .width = a->width,
              .count = count};
  c.p = absorb_locate(&a->axis[axis], axis == 1 ? y : z);
  c.coefficients = c.axis.coefficients + c.p.i;
  c.weights = axis == 1 ? f->wy : f->wz;
  c.step = c.p.inward * (ptrdiff_t)(axis == 1 ? f->pitch : f->plane);
  c.state = (axis == 1 ? (ptrdiff_t)z * (c.axis.lo + c.axis.hi) : y) * nx + begin;
  c.state_stride = axis == 1 ? nx : nx * f->ny;
  return c;
}

INLINE ptrdiff_t state_of(const course *c, int row) {
  return c->state + absorb_stored(&c->axis, c->width, c->p, c->p.i + row) * c->state_stride;
}

/* The new psi of a row; stored too if it is one's own. */
INLINE void renew(const course *c, int row, bool own, float *restrict psi) {
  const float *psi_a = c->coefficients + 2 * c->width + row;
  const float a = psi_a[0], b = psi_a[c->width + ABSORB_BEYOND], d[2] = {c->difference[0], c->difference[1]};
  const ptrdiff_t step = c->step, state = state_of(c, row), next = c->p.inward * c->state_stride;
  const float *restrict u = c->u + row * step, *restrict before = c->axis.psi_in + state;
  const int count = c->count;
  expect(before + next, count);
  if (own) expect(c->axis.psi_out + state + next, count);
  INDEPENDENT
  for (int x = 0; x < count; x++) psi[x] = absorb_psi(a, b, d, u + x, step, before[x]);
  if (own) memcpy(c->axis.psi_out + state, psi, (size_t)count * sizeof(float));
}

/* Adds to the sums of a row; psi0: its new psi, the others: those of the rows after it. */
INLINE void add_row(const course *c, int row, const float *restrict psi0, const float *restrict psi1,
                    const float *restrict psi2, const float *restrict psi3, float *restrict sum) {
  const absorb_axis axis = c->axis; /* copies: nothing that the loop stores can be one of them */
  const float a = c->coefficients[row], b = c->coefficients[c->width + row];
  const float w[5] = {0, c->weights[1], c->weights[2], c->weights[3], c->weights[4]};
  const ptrdiff_t step = c->step;
  const float *restrict u = c->u + row * step;
  float *restrict zeta = c->axis.zeta + state_of(c, row);
  const int count = c->count;
  expect(u + (GHOST_REACH + 1) * step, count);
  expect(zeta + c->p.inward * c->state_stride, count);
  expect(c->out + (row + 1) * step, count);
  INDEPENDENT
  for (int x = 0; x < count; x++) {
    const float slope = absorb_slope(&axis, psi0[x], psi1[x], psi2[x], psi3[x]);
    zeta[x] = absorb_zeta(a, b, absorb_second(&axis, w, u + x, step), slope, zeta[x]);
    sum[x] += slope + zeta[x];
  }
}

/* Adds to the sums of plane z. */
INLINE void add_along_y(const absorb_args *a, const block *b, int z, int begin, int count, scratch *t) {
  const course c = course_of(a, 1, z, b->y, begin, count);
  if (!c.p.inward) return;
  for (int r = 0; r < ABSORB_BEYOND; r++) renew(&c, r, r < b->rows, t->psi_y[r]);
  for (int r = 0; r < b->rows; r++) {
    const int last = r + ABSORB_BEYOND;
    renew(&c, last, last < b->rows, t->psi_y[last]);
    add_row(&c, r, t->psi_y[r], t->psi_y[r + 1], t->psi_y[r + 2], t->psi_y[last], t->sum[r]);
  }
}

/* Adds to the sums of plane k of the block; planes follow each other. */
INLINE void add_along_z(const absorb_args *a, const block *b, int k, int begin, int count, scratch *t) {
  for (int r = 0; r < b->rows; r++) {
    const course c = course_of(a, 2, b->z, b->y + r * b->dy, begin, count);
    if (!c.p.inward) return;
    const absorb_place last = {c.p.i + b->planes - 1, c.p.inward};
    const int own = b->planes + absorb_left(a, last, b->z + (b->planes - 1) * b->dz);
    for (int i = k ? k + ABSORB_BEYOND : 0; i <= k + ABSORB_BEYOND; i++)
      renew(&c, i, i < own, t->psi_z[i % RING][r]);
    add_row(&c, k, t->psi_z[k % RING][r], t->psi_z[(k + 1) % RING][r], t->psi_z[(k + 2) % RING][r],
            t->psi_z[(k + 3) % RING][r], t->sum[r]);
  }
}

/* --- all axes ------------------------------------------------------------------------------------------- */

/* Points [begin, end) have no images. */
INLINE void store_plain(const kernel_args *f, ptrdiff_t row, int begin, int end, const float *restrict sum) {
  const float *restrict medium = f->medium ? f->medium + row : NULL;
  float *restrict out = f->out + row;
  const float scale = f->scale;
  const int halves[2] = {begin, end - HALF};
  float done[2][HALF];
  if (end - begin < HALF || end - begin > LINE) {
    for (int x = begin; x < end; x++) out[x] = fmaf(medium ? medium[x] : scale, sum[x - begin], out[x]);
    return;
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0, x = halves[i]; j < HALF; j++, x++)
      done[i][j] = fmaf(medium ? medium[x] : scale, sum[x - begin], out[x]);
  for (int i = 0; i < 2; i++) memcpy(out + halves[i], done[i], sizeof done[i]);
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

/* Points [begin, end) of a block's rows, at most CHUNK, each of them in a layer. */
INLINE void piece(const absorb_args *a, const block *b, int begin, int end, scratch *t) {
  const int count = end - begin;
  for (int k = 0; k < b->planes; k++) {
    const int z = b->z + k * b->dz;
    for (int r = 0; r < b->rows; r++) memset(t->sum[r], 0, (size_t)count * sizeof(float));
    set_along_x(a, b, z, begin, end, &t->lines, t->sum);
    add_along_y(a, b, z, begin, count, t);
    add_along_z(a, b, k, begin, count, t);
    for (int r = 0; r < b->rows; r++) store(&a->field, z, b->y + r * b->dy, begin, end, t->sum[r]);
  }
}

/* Asks for the ends of the rows that this thread takes next, as far as lines read them. */
INLINE void expect_ends(const absorb_args *a, const block *b, int ahead) {
  enum { READ = LINE + 2 * GHOST_REACH };
  const kernel_args *f = &a->field;
  const int lo = a->axis[0].lo, hi = a->axis[0].hi;
  for (int y = b->y + ahead; y < b->y + ahead + b->rows && y < f->ny; y++) {
    const ptrdiff_t low = (ptrdiff_t)f->plane * b->z + (ptrdiff_t)f->pitch * y, high = low + f->nx - hi;
    if (lo) expect(f->in + low - GHOST_REACH, READ);
    if (hi) expect(f->in + high - ABSORB_BEYOND - GHOST_REACH, READ);
    expect(f->out + low, lo);
    expect(f->out + high, hi);
  }
}

/* How many points of [at, end), at most so many, lie in the layer of `at`, or in none as it does. */
INLINE int together(const absorb_axis *s, int at, int end, int most) {
  const int inward = absorb_locate(s, at).inward;
  int count = 1;
  while (count < most && at + count < end && absorb_locate(s, at + count).inward == inward) count++;
  return count;
}

/* Blocks are dealt out in turn: the layers at the ends of y and z are most of the work. */
INLINE void rows(const absorb_args *a, int part, int parts) {
  const absorb_axis *sx = &a->axis[0];
  const kernel_args *f = &a->field;
  const int fair = f->ny / (2 * parts), most = fair < 1 ? 1 : fair < ROWS ? fair : ROWS;
  scratch t;
  memset(&t.lines, 0, sizeof t.lines);
  for (int z = f->z_begin, planes = 1; z < f->z_end; z += planes) {
    const int dz = absorb_locate(&a->axis[2], z).inward;
    planes = dz ? together(&a->axis[2], z, f->z_end, f->nz) : 1;
    for (int y = 0, count = 1, turn = z; y < f->ny; y += count, turn++) {
      const int dy = absorb_locate(&a->axis[1], y).inward < 0 ? -1 : 1;
      const bool whole = dz || absorb_locate(&a->axis[1], y).inward;
      count = together(&a->axis[1], y, f->ny, most);
      if (turn % parts != part) continue;
      const block b = {dz < 0 ? z + planes - 1 : z, planes, dz, dy < 0 ? y + count - 1 : y, count, dy};
      const int ends[2] = {whole ? f->nx : sx->lo, f->nx}, begins[2] = {0, whole ? f->nx : f->nx - sx->hi};
      if (!whole) expect_ends(a, &b, parts * count);
      for (int i = 0; i < 2; i++)
        for (int x = begins[i]; x < ends[i]; x += CHUNK)
          piece(a, &b, x, x + CHUNK < ends[i] ? x + CHUNK : ends[i], &t);
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
