/* Every kernel of kernels.def gives the bits of the reference, through the device interface and on every
 * backend this machine has, own points and ghosts, and writes nothing else but padding; and the reference itself is
 * what the contract says. In the inputs own points and ghosts are random and everything else is NaN; outputs are NaN
 * before, or for the wave equation random at own points. The ghosts' rules are random on each face. */
#include "ghost_rules.h"
#include "device/device.h"
#include "base/nearest.h"
#include "halo/slab.h"
#include "kernels/host_simd.h"
#include "kernels/reference.h"
#include <math.h>
#include <stdio.h>

host_kernel jacobi_host_reference, heat_host_reference, wave_host_reference;
static host_kernel *const REFERENCE[EQUATION_COUNT] = {jacobi_host_reference, heat_host_reference,
                                                       wave_host_reference};

/* One launch: a slab, the range and weights in `args` (whose pointers are set for each run), fields and the
 * answer. */
typedef struct launch_case {
  slab s;
  size_t floats;
  float *in, *medium, *got;
  float *before[EQUATION_COUNT],
      *expected[EQUATION_COUNT]; /* the output before and after; the wave reads it first */
  kernel_args args;
} launch_case;

static float *new_field(size_t floats) {
  float *field = aligned_alloc(256, (floats * sizeof(float) + 255) / 256 * 256);
  assert_non_null(field);
  for (size_t i = 0; i < floats; i++) field[i] = NAN;
  return field;
}

/* Where the fields of a launch are, here or on a device. */
typedef struct launch_fields {
  float *in, *medium, *out;
} launch_fields;

static kernel_args with_fields(const launch_case *c, launch_fields f) {
  size_t first = slab_offset(&c->s, 0, 0, 0);
  kernel_args args = c->args;
  args.in = f.in + first;
  args.out = f.out + first;
  if (args.medium) args.medium = f.medium + first;
  return args;
}

static void fill_own(const launch_case *c, float *field, uint64_t *random) {
  for (int z = 0; z < c->s.nz; z++)
    for (int y = 0; y < c->s.ny; y++)
      for (int x = 0; x < c->s.nx; x++) field[slab_offset(&c->s, z, y, x)] = test_random(random);
}

static void set_args(launch_case *c, bool rules, int z_begin, int z_end, uint64_t *random) {
  const slab *s = &c->s;
  c->args = (kernel_args){.pitch = s->pitch, .plane = s->plane, .nx = s->nx, .ny = s->ny, .nz = s->nz};
  c->args.z_begin = z_begin;
  c->args.z_end = z_end;
  c->args.center = test_random(random);
  for (int r = 1; r <= 4; r++) {
    c->args.wx[r] = test_random(random);
    c->args.wy[r] = test_random(random);
    c->args.wz[r] = test_random(random);
  }
  c->args.scale = test_random(random);
  if (rules) random_rules(&c->args, random);
  c->args.medium = (s->nx + s->ny + z_end) % 4 ? c->medium : NULL; /* else scale is the medium */
}

/* A case with random rules, or one whose ghosts keep their value. */
static void new_case_of(launch_case *c, bool rules, const int n[3], int z_begin, int z_end,
                        uint64_t *random) {
  error e = {0};
  const slab_shape shape = {n[0], n[1], n[2] < RADIUS ? RADIUS : n[2], .ghost = RADIUS};
  assert_int_equal(slab_init(&c->s, &shape, 0, 1, &e), 0);
  c->floats = slab_floats(&c->s);
  c->in = new_field(c->floats);
  c->medium = new_field(c->floats);
  c->got = new_field(c->floats);
  for (int z = -RADIUS; z < c->s.nz + RADIUS; z++)
    for (int y = -4; y < n[1] + 4; y++)
      for (int x = -4; x < n[0] + 4; x++) c->in[slab_offset(&c->s, z, y, x)] = test_random(random);
  set_args(c, rules, z_begin, z_end, random);
  fill_own(c, c->medium, random);
  for (int q = 0; q < EQUATION_COUNT; q++) {
    c->before[q] = new_field(c->floats);
    if (q == EQUATION_WAVE) fill_own(c, c->before[q], random);
    c->expected[q] = new_field(c->floats);
    memcpy(c->expected[q], c->before[q], c->floats * sizeof(float));
    kernel_args args = with_fields(c, (launch_fields){c->in, c->medium, c->expected[q]});
    REFERENCE[q](&args, 0, 1);
  }
}

static void new_case(launch_case *c, int nx, int ny, int nz, int z_begin, int z_end, uint64_t *random) {
  new_case_of(c, false, (const int[3]){nx, ny, nz}, z_begin, z_end, random);
}

static void free_case(launch_case *c) {
  free(c->in);
  free(c->medium);
  free(c->got);
  for (int q = 0; q < EQUATION_COUNT; q++) {
    free(c->before[q]);
    free(c->expected[q]);
  }
}

/* Lets the padding, which a kernel may write, be as expected: what lies between the ghosts of a row and of the next. */
static void forgive_padding(const launch_case *c, const float *expected) {
  const slab *s = &c->s;
  for (int z = -s->ghost; z < s->nz + s->ghost; z++)
    for (int y = -RADIUS; y < s->ny + RADIUS; y++) {
      size_t first = slab_offset(s, z, y, s->nx + RADIUS);
      memcpy(c->got + first, expected + first, (s->pitch - (size_t)s->nx - 2 * RADIUS) * sizeof(float));
    }
}

/* The whole allocation but padding is compared: the answer in the range, its images, and NaN everywhere else. */
static void check_case(const launch_case *c, enum equation equation, const char *who) {
  const float *expected = c->expected[equation];
  const unsigned char *g = c->args.ghosts;
  forgive_padding(c, expected);
  if (memcmp(c->got, expected, c->floats * sizeof(float)) == 0) return;
  size_t i = 0;
  while (memcmp(&c->got[i], &expected[i], sizeof(float)) == 0) i++;
  ptrdiff_t from_first = (ptrdiff_t)i - (ptrdiff_t)slab_offset(&c->s, 0, 0, 0);
  ptrdiff_t row = from_first + 4 + 4 * (ptrdiff_t)c->s.pitch + 4 * (ptrdiff_t)c->s.plane;
  fail_msg("%s %s, %d x %d points, planes [%d, %d) of %d, rules %d %d %d %d %d %d: first difference at float "
           "%td from "
           "point 0 (z %td y %td x %td): %a, expected %a",
           equation_name(equation), who, c->s.nx, c->s.ny, c->args.z_begin, c->args.z_end, c->s.nz, g[0],
           g[1], g[2], g[3], g[4], g[5], from_first, row / (ptrdiff_t)c->s.plane - 4,
           row % (ptrdiff_t)c->s.plane / (ptrdiff_t)c->s.pitch - 4, row % (ptrdiff_t)c->s.pitch - 4,
           (double)c->got[i], (double)expected[i]);
}

/* --- who runs a case: each instruction set called directly, each kernel through a device
 * ---------------------- */

static void run_instruction_sets(launch_case *c) {
  static const int parts[] = {1, 2, 3, 7};
  const host_isa *isa;
  for (int i = 0; (isa = host_isa_get(i)); i++) {
    host_kernel *const *kernels = isa->launch;
    for (int q = 0; q < EQUATION_COUNT; q++) {
      int n = parts[(c->s.nx + c->s.ny + c->args.z_begin) % 4];
      memcpy(c->got, c->before[q], c->floats * sizeof(float));
      kernel_args args = with_fields(c, (launch_fields){c->in, c->medium, c->got});
      for (int part = n - 1; part >= 0; part--) kernels[q](&args, part, n);
      check_case(c, (enum equation)q, isa->name);
    }
  }
}

typedef struct test_device {
  device *dev;
  char name[32];
  launch_fields fields; /* device memory */
  size_t floats;
} test_device;

static void test_device_open(test_device *d, const char *backend, int threads, size_t floats) {
  error e = {0};
  device_options options = {.local_ranks = 1, .threads = threads};
  *d = (test_device){.floats = floats};
  assert_ok(device_open(backend, &options, &d->dev, &e), &e);
  snprintf(d->name, sizeof d->name, "%s, %d threads", backend, threads);
  float **const all[] = {&d->fields.in, &d->fields.medium, &d->fields.out};
  for (int i = 0; i < 3; i++)
    assert_ok(d->dev->table->alloc(d->dev, (void **)all[i], floats * sizeof(float), MEMORY_DEVICE, &e), &e);
}

static void test_device_close(test_device *d) {
  error e = {0};
  float *const all[] = {d->fields.in, d->fields.medium, d->fields.out};
  for (int i = 0; i < 3; i++) assert_ok(d->dev->table->free(d->dev, all[i], MEMORY_DEVICE, &e), &e);
  d->dev->table->close(d->dev);
}

static void transfer(test_device *d, const launch_case *c, float *to, const float *from,
                     copy_direction direction) {
  error e = {0};
  assert_ok(d->dev->table->copy(d->dev, STREAM_INTERIOR, to, from, c->floats * sizeof(float), direction, &e),
            &e);
}

static void run_kernel(test_device *d, launch_case *c, const kernel *k) {
  error e = {0};
  const device_table *t = d->dev->table;
  assert_true(c->floats <= d->floats);
  kernel_args args = with_fields(c, d->fields);
  transfer(d, c, d->fields.in, c->in, COPY_TO_DEVICE);
  transfer(d, c, d->fields.medium, c->medium, COPY_TO_DEVICE);
  transfer(d, c, d->fields.out, c->before[k->equation], COPY_TO_DEVICE);
  if (t->launch(d->dev, STREAM_INTERIOR, k, &args, &e) == ERROR_KERNEL_UNSUPPORTED) return;
  assert_ok(e.id, &e);
  transfer(d, c, c->got, d->fields.out, COPY_TO_HOST);
  assert_ok(t->sync(d->dev, STREAM_INTERIOR, &e), &e);
  char who[128];
  snprintf(who, sizeof who, "kernel %s on %s", k->name, d->name);
  check_case(c, k->equation, who);
}

static const char *only_kernel; /* the name of a kernel; NULL: all */

static void run_device(test_device *d, launch_case *c) {
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel *k = &kernel_table[i];
    if (c->args.virtual_x && !kernel_virtual_x(k, &c->args)) continue;
    if (only_kernel && strcmp(k->name, only_kernel) != 0) continue;
    if (k->backend == d->dev->table->backend && (k->host || k->cuda)) run_kernel(d, c, k);
  }
}

/* Ghosts in x, of own rows, that are images: as in `from`, or NaN. */
static void set_x_images(const launch_case *c, float *field, const float *from) {
  for (int z = 0; z < c->s.nz; z++)
    for (int y = 0; y < c->s.ny; y++)
      for (int depth = 0; depth < 2 * RADIUS; depth++) {
        bool upper = depth >= RADIUS;
        size_t at = slab_offset(&c->s, z, y, upper ? c->s.nx + depth - RADIUS : depth - RADIUS);
        if (c->args.ghosts[upper ? FACE_X_HI : FACE_X_LO] != GHOST_KEEP) field[at] = from ? from[at] : NAN;
      }
}

/* Turns a case into one whose images in x are in no field. False where no kernel is up to it. */
static bool make_virtual(launch_case *c) {
  bool any = false;
  for (int i = 0; i < kernel_table_size; i++) any = any || kernel_virtual_x(&kernel_table[i], &c->args);
  if (!any) return false;
  rules_image(&c->s, &c->args, FACE_X_LO, c->in);
  rules_image(&c->s, &c->args, FACE_X_HI, c->in);
  for (int q = 0; q < EQUATION_COUNT; q++) {
    memcpy(c->expected[q], c->before[q], c->floats * sizeof(float));
    kernel_args args = with_fields(c, (launch_fields){c->in, c->medium, c->expected[q]});
    REFERENCE[q](&args, 0, 1);
    set_x_images(c, c->expected[q], c->before[q]);
  }
  set_x_images(c, c->in, NULL);
  c->args.virtual_x = 1;
  return true;
}

enum { DEVICES_MAX = 3 };
static bool only_cuda; /* the argument "cuda" */

/* Opens every device this machine has, for fields of `floats`; returns how many. */
static int open_devices(test_device d[DEVICES_MAX], size_t floats) {
  char why[256] = "";
  int count = 0;
  if (!only_cuda) {
    test_device_open(&d[count++], "host", 1, floats);
    test_device_open(&d[count++], "host", 3, floats);
  }
  if (device_cuda_count(why) > 0) test_device_open(&d[count++], "cuda", 1, floats);
  return count;
}

static size_t floats_of(int nx, int ny, int nz) {
  slab s;
  error e = {0};
  assert_int_equal(slab_init(&s, &(slab_shape){nx, ny, nz, .ghost = RADIUS}, 0, 1, &e), 0);
  return slab_floats(&s);
}

static void run_case(test_device *d, int devices, const int n[3], int z_begin, int z_end, uint64_t *random) {
  launch_case c;
  new_case_of(&c, true, n, z_begin, z_end, random);
  if (!only_cuda && !only_kernel) run_instruction_sets(&c);
  for (int i = 0; i < devices; i++) run_device(&d[i], &c);
  if (make_virtual(&c)) {
    const kernel simd = {.backend = BACKEND_HOST, .flags = KERNEL_VIRTUAL_X};
    if (!only_cuda && !only_kernel && kernel_virtual_x(&simd, &c.args)) run_instruction_sets(&c);
    for (int i = 0; i < devices; i++) run_device(&d[i], &c);
  }
  free_case(&c);
}

/* How much of the sizes to try: all of them, or where a sanitizer makes it slow every n-th in each axis.
 * STENCIL_TEST_SMALL is for sanitizers that the compiler does not know of. */
static size_t stride(void) {
#if defined __SANITIZE_THREAD__
  return 40;
#elif defined __SANITIZE_ADDRESS__
  return 16;
#else
  return getenv("STENCIL_TEST_SMALL") ? 5 : 1;
#endif
}

/* Every how many-th z of the small sizes goes with an x and a y: 5 leave every pair of sizes along two of the axes.
 * STENCIL_TEST_ALL asks for all. */
static size_t stride_z(void) {
  return stride() > 1 ? stride() : getenv("STENCIL_TEST_ALL") ? 1 : 5;
}

/* The first of the large sizes is enough to see threads meet. */
static size_t large_stride(void) {
#if defined __SANITIZE_THREAD__
  return 99;
#else
  return (stride() + 3) / 4;
#endif
}

static void every_kernel_small_sizes(void **unused) {
  (void)unused;
  static const int xs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130};
  static const int ys[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33};
  static const int zs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12};
  uint64_t random = 20240229u;
  test_device d[DEVICES_MAX];
  int devices = open_devices(d, floats_of(130, 33, 12));
  const size_t step = stride(), step_z = stride_z();
  for (size_t i = 0; i < sizeof xs / sizeof xs[0]; i++)
    for (size_t j = i % step; j < sizeof ys / sizeof ys[0]; j += step)
      for (size_t k = (i + j) % step_z; k < sizeof zs / sizeof zs[0]; k += step_z) {
        int n[3] = {xs[i], ys[j], zs[k]};
        int begin = random_below(&random, n[2]);
        run_case(d, devices, n, begin, begin + 1 + random_below(&random, n[2] - begin), &random);
      }
  for (int i = 0; i < devices; i++) test_device_close(&d[i]);
}

/* Odd sizes, several blocks of y and of x (nx > 1024), and launches large enough to store
 * around the cache, on whole lines and not. */
static void every_kernel_large_sizes(void **unused) {
  (void)unused;
  static const int n[][3] = {{131, 67, 29},  {2083, 21, 7}, {323, 170, 45}, {288, 160, 48},
                             {288, 160, 48}, {512, 77, 31}, {512, 77, 31},  {772, 37, 9},
                             {640, 20, 40},  {384, 75, 48}, {512, 90, 40}};
  static const int range[][2] = {{0, 29}, {1, 7}, {0, 45}, {0, 48}, {0, 48}, {0, 31},
                                 {0, 31}, {2, 9}, {0, 40}, {0, 48}, {0, 40}};
  uint64_t random = 77u;
  test_device d[DEVICES_MAX];
  int devices = open_devices(d, floats_of(323, 170, 48));
  for (size_t i = 0; i < sizeof n / sizeof n[0]; i += large_stride())
    run_case(d, devices, n[i], range[i][0], range[i][1], &random);
  for (int i = 0; i < devices; i++) test_device_close(&d[i]);
}

/* Rules of all faces where a kernel's packs of 4 points and its tiles meet faces in every way: rows that do and do not
 * end with a pack, that end with the first pack of a tile, with free padding beside their ghosts and without. */
static void every_kernel_and_rule(void **unused) {
  (void)unused;
  static const int xs[] = {5,  7,  8,   12,  16,  20,  24,  28,  32,  36, 64,
                           68, 96, 100, 119, 120, 124, 128, 132, 133, 260};
  static const int ys[] = {4, 5, 6, 7, 9, 13, 39, 41, 73}, zs[] = {4, 5, 6, 7, 9, 13, 29};
  const int count = (int)(sizeof xs / sizeof xs[0]);
  uint64_t random = 4711u;
  test_device d[DEVICES_MAX];
  int devices = open_devices(d, floats_of(260, 73, 29));
  for (int i = 0; i < 10 * count; i += (int)stride()) {
    int n[3] = {xs[i % count], ys[random_below(&random, 9)], zs[random_below(&random, 7)]};
    int begin = random_below(&random, 2) ? 0 : random_below(&random, n[2]);
    int end = random_below(&random, 2) ? n[2] : begin + 1 + random_below(&random, n[2] - begin);
    run_case(d, devices, n, begin, end, &random);
  }
  for (int i = 0; i < devices; i++) test_device_close(&d[i]);
}

/* --- the reference itself
 * ------------------------------------------------------------------------------------- */

/* Rounding: 25 products and sums, each off by at most half a unit of 2^-23 of the largest partial sum. */
static void reference_is_near_float64(void **unused) {
  (void)unused;
  uint64_t random = 5u;
  launch_case c;
  new_case(&c, 37, 19, 11, 0, 11, &random);
  kernel_args args = with_fields(&c, (launch_fields){c.in, c.medium, c.expected[EQUATION_JACOBI]}),
              magnitude = args;
  float *magnitudes = new_field(c.floats);
  for (size_t i = 0; i < c.floats; i++) magnitudes[i] = fabsf(c.in[i]);
  magnitude.in = magnitudes + slab_offset(&c.s, 0, 0, 0);
  magnitude.center = fabsf(args.center);
  for (int r = 1; r <= 4; r++) {
    magnitude.wx[r] = fabsf(args.wx[r]);
    magnitude.wy[r] = fabsf(args.wy[r]);
    magnitude.wz[r] = fabsf(args.wz[r]);
  }
  for (int z = 0; z < 11; z++)
    for (int y = 0; y < 19; y++)
      for (int x = 0; x < 37; x++) {
        double exact = jacobi_reference_f64(&args, z, y, x);
        double bound = 25 * 0x1p-24 * jacobi_reference_f64(&magnitude, z, y, x);
        double off = fabs((double)c.expected[EQUATION_JACOBI][slab_offset(&c.s, z, y, x)] - exact);
        if (!(off <= bound)) fail_msg("z %d y %d x %d: off by %g, bound %g", z, y, x, off, bound);
      }
  free(magnitudes);
  free_case(&c);
}

static float weight_at(const kernel_args *a, int dz, int dy, int dx) {
  if (!dx && !dy && !dz) return a->center;
  if (!dy && !dz && abs(dx) <= 4) return a->wx[abs(dx)];
  if (!dx && !dz && abs(dy) <= 4) return a->wy[abs(dy)];
  if (!dx && !dy && abs(dz) <= 4) return a->wz[abs(dz)];
  return 0;
}

/* The response to a single 1 is the weights themselves, exactly, at 25 points and 0 at all others. */
static void reference_reproduces_its_weights(void **unused) {
  (void)unused;
  uint64_t random = 9u;
  launch_case c;
  new_case(&c, 13, 11, 12, 0, 12, &random);
  const int at[3] = {6, 5, 7}; /* z y x */
  memset(c.in, 0, c.floats * sizeof(float));
  c.in[slab_offset(&c.s, at[0], at[1], at[2])] = 1;
  kernel_args args = with_fields(&c, (launch_fields){c.in, c.medium, c.got});
  jacobi_host_reference(&args, 0, 1);
  int nonzero = 0;
  for (int z = 0; z < 12; z++)
    for (int y = 0; y < 11; y++)
      for (int x = 0; x < 13; x++) {
        float got = c.got[slab_offset(&c.s, z, y, x)];
        float weight = weight_at(&args, z - at[0], y - at[1], x - at[2]);
        assert_true(got == weight);
        assert_true(jacobi_reference_f64(&args, z, y, x) == (double)weight);
        nonzero += got != 0;
      }
  assert_int_equal(nonzero, 25);
  free_case(&c);
}

/* u = x^2 + 2 y^2 + 3 z^2 + xyz with whole weights: every intermediate is a whole number below 2^24, hence
 * exact, and by hand the sum of w (u[-r] + u[+r]) along an axis with coefficient k of its square is w (2 u +
 * 2 k r^2). */
static void reference_of_a_polynomial(void **unused) {
  (void)unused;
  uint64_t random = 1u;
  launch_case c;
  new_case(&c, 9, 8, 7, 0, 7, &random);
  c.args.center = -3;
  int sum = -3, curvature = 0;
  for (int r = 1; r <= 4; r++) {
    int wx = r + 1, wy = 7 - 2 * r, wz = 3 * r - 5;
    c.args.wx[r] = (float)wx, c.args.wy[r] = (float)wy, c.args.wz[r] = (float)wz;
    sum += 2 * (wx + wy + wz);
    curvature += 2 * r * r * (wx + 2 * wy + 3 * wz);
  }
  for (int z = -4; z < 11; z++)
    for (int y = -4; y < 12; y++)
      for (int x = -4; x < 13; x++)
        c.in[slab_offset(&c.s, z, y, x)] = (float)(x * x + 2 * y * y + 3 * z * z + x * y * z);
  kernel_args args = with_fields(&c, (launch_fields){c.in, c.medium, c.got});
  jacobi_host_reference(&args, 0, 1);
  for (int z = 0; z < 7; z++)
    for (int y = 0; y < 8; y++)
      for (int x = 0; x < 9; x++) {
        int u = x * x + 2 * y * y + 3 * z * z + x * y * z;
        assert_true(c.got[slab_offset(&c.s, z, y, x)] == (float)(sum * u + curvature));
      }
  free_case(&c);
}

/* heat and wave are the star of jacobi and one or two more roundings (docs/DESIGN.md, the order of operations at a point). */
static void reference_of_each_equation(void **unused) {
  (void)unused;
  uint64_t random = 3u;
  launch_case c;
  for (int nx = 12; nx <= 15; nx++) { /* with a medium and with a scale */
    new_case(&c, nx, 7, 6, 1, 5, &random);
    for (int z = 1; z < 5; z++)
      for (int y = 0; y < 7; y++)
        for (int x = 0; x < nx; x++) {
          size_t i = slab_offset(&c.s, z, y, x);
          float star = c.expected[EQUATION_JACOBI][i], m = c.args.medium ? c.medium[i] : c.args.scale;
          assert_true(c.expected[EQUATION_HEAT][i] == fmaf(m, star, c.in[i]));
          assert_true(c.expected[EQUATION_WAVE][i] ==
                      fmaf(m, star, 2 * c.in[i] - c.before[EQUATION_WAVE][i]));
        }
    free_case(&c);
  }
}

/* The oracle's ghosts, one point after another, are those that the rules ask for, one ghost after another. */
static void reference_of_each_rule(void **unused) {
  (void)unused;
  uint64_t random = 31u;
  for (int turn = 0; turn < 60; turn++) {
    launch_case c;
    int n[3] = {4 + random_below(&random, 12), 4 + random_below(&random, 8), 4 + random_below(&random, 8)};
    int begin = random_below(&random, n[2]), end = begin + 1 + random_below(&random, n[2] - begin);
    new_case_of(&c, true, n, begin, end, &random);
    for (int q = 0; q < EQUATION_COUNT; q++) {
      memcpy(c.got, c.before[q], c.floats * sizeof(float));
      kernel_args args = with_fields(&c, (launch_fields){c.in, c.medium, c.got});
      memset(args.ghosts, GHOST_KEEP, sizeof args.ghosts);
      REFERENCE[q](&args, 0, 1);
      rules_apply(&c.s, &c.args, c.got);
      check_case(&c, (enum equation)q, "reference");
    }
    free_case(&c);
  }
}

/* --- the table and look-ups by name
 * --------------------------------------------------------------------------- */

static void who_can_do_without_ghosts_in_x(void **unused) {
  (void)unused;
  error e = {0};
  const kernel *able = NULL, *plain = NULL;
  assert_ok(kernel_find("reference", EQUATION_WAVE, BACKEND_HOST, &plain, &e), &e);
  for (int i = 0; i < kernel_table_size; i++)
    if (strcmp(kernel_table[i].name, "bulk_tensor") == 0) able = &kernel_table[i];
  assert_non_null(able);
  kernel_args args = {.nx = 12, .ghosts = {[FACE_X_HI] = GHOST_ODD}};
  assert_true(kernel_virtual_x(able, &args));
  assert_false(kernel_virtual_x(plain, &args));
  for (args.nx = 1; args.nx < 20; args.nx++)
    assert_int_equal(kernel_virtual_x(able, &args), args.nx == 8 || args.nx == 12 || args.nx == 16);
  const kernel simd = {.backend = BACKEND_HOST, .flags = KERNEL_VIRTUAL_X};
  for (args.nx = 1; args.nx < 40; args.nx++)
    assert_int_equal(kernel_virtual_x(&simd, &args), args.nx == 16 || args.nx == 32);
  args = (kernel_args){.nx = 12, .ghosts = {[FACE_Y_LO] = GHOST_ODD, [FACE_Z_HI] = GHOST_EVEN}};
  assert_false(kernel_virtual_x(able, &args));
}

static void kernels_are_found_by_name(void **unused) {
  (void)unused;
  const kernel *k = NULL;
  error e = {0};
  assert_int_equal(kernel_find("auto", EQUATION_JACOBI, BACKEND_HOST, &k, &e), 0);
  assert_string_equal(k->name, "simd");
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel *want = &kernel_table[i];
    error why = {0};
    int id = kernel_find(want->name, want->equation, want->backend, &k, &why);
    if (want->host || want->cuda) assert_ptr_equal(k, want);
    assert_int_equal(id, want->host || want->cuda ? 0 : ERROR_KERNEL_NOT_COMPILED);
    assert_false(want->host && want->cuda);
  }
}

static void unknown_kernels_are_explained(void **unused) {
  (void)unused;
  const kernel *k = NULL;
  error e = {0};
  assert_int_equal(kernel_find("smid", EQUATION_JACOBI, BACKEND_HOST, &k, &e), ERROR_KERNEL_UNKNOWN);
  assert_non_null(strstr(e.text, "'smid' on the host device (did you mean 'simd'?)"));
  e = (error){0};
  assert_int_equal(kernel_find("naive", EQUATION_JACOBI, BACKEND_HOST, &k, &e), ERROR_KERNEL_UNKNOWN);
  assert_null(strstr(e.text, "did you mean"));
  e = (error){0};
  assert_int_equal(kernel_find("", EQUATION_JACOBI, BACKEND_CUDA, &k, &e), ERROR_KERNEL_UNKNOWN);
  assert_null(k);
}

static void nearest_names(void **unused) {
  (void)unused;
  static const char *const names[] = {"nx", "ny", "transport", NULL, "overlap", ""};
  const int count = sizeof names / sizeof names[0];
  assert_string_equal(nearest_name("mx", names, count), "nx");
  assert_string_equal(nearest_name("NY", names, count), "ny");
  assert_string_equal(nearest_name("trasnport", names, count), "transport"); /* swapped */
  assert_string_equal(nearest_name("overlaps", names, count), "overlap");    /* one more */
  assert_string_equal(nearest_name("ovelap", names, count), "overlap");      /* one less */
  assert_null(nearest_name("schedule", names, count));
  assert_null(nearest_name("q", names, count));
  assert_null(nearest_name("", names, count));
  assert_null(nearest_name("nx", names, 0));
  char *endless = malloc(1000001);
  assert_non_null(endless);
  memset(endless, 'n', 1000000);
  endless[1000000] = 0;
  assert_null(nearest_name(endless, names, count));
  endless[64] = 0;
  assert_null(nearest_name(endless, names, count));
  free(endless);
}

/* test_kernels [cuda] [KERNEL]: on every device, or on CUDA alone; all tests, or one kernel beside the oracle. */
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reference_reproduces_its_weights),
      cmocka_unit_test(reference_of_a_polynomial),
      cmocka_unit_test(reference_is_near_float64),
      cmocka_unit_test(reference_of_each_equation),
      cmocka_unit_test(reference_of_each_rule),
      cmocka_unit_test(every_kernel_small_sizes),
      cmocka_unit_test(every_kernel_and_rule),
      cmocka_unit_test(every_kernel_large_sizes),
      cmocka_unit_test(who_can_do_without_ghosts_in_x),
      cmocka_unit_test(kernels_are_found_by_name),
      cmocka_unit_test(unknown_kernels_are_explained),
      cmocka_unit_test(nearest_names),
  };
  char why[256] = "";
  bool cuda = device_cuda_count(why) > 0;
  only_cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  if (argc > 1 + only_cuda) {
    only_kernel = argv[1 + only_cuda];
    int i = 0;
    while (i < kernel_table_size && strcmp(kernel_table[i].name, only_kernel) != 0) i++;
    if (i == kernel_table_size)
      return fprintf(stderr, "test_kernels: no kernel is called %s\n", only_kernel), 1;
    cmocka_set_test_filter("every_kernel*");
  }
  if (!cuda) printf("no CUDA device, %s: %s\n", only_cuda ? "skipped" : "host kernels only", why);
  return only_cuda && !cuda ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
