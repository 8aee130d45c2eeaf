/* Every kernel of kernels.def gives the bits of the reference, through the device interface and on every backend this
 * machine has, own points and ghosts, and writes nothing else but padding. The ghosts' rules are random on each face. */
#include "device/device.h"
#include "kernels/host/host_prefetch.h"
#include "kernels/host/host_simd.h"
#include "launch_case.h"

/* --- who runs a case: each instruction set called directly, each kernel through a device ------------------------- */

static void run_instruction_sets(launch_case *c) {
  static const int parts[] = {1, 2, 3, 7};
  const host_isa *isa;
  for (int i = 0; (isa = host_isa_get(i)); i++) {
    for (int q = 0; q < EQUATION_COUNT; q++) {
      const enum host_form form = (c->s.ny + q) % 2 ? HOST_SIMD : HOST_COLUMNS;
      int n = parts[(c->s.nx + c->s.ny + c->args.z_begin) % 4];
      memcpy(c->got, c->before[q], c->floats * sizeof(float));
      kernel_args args = with_fields(c, (enum equation)q, (launch_fields){c->in, c->got, c->medium});
      for (int part = n - 1; part >= 0; part--) host_simd_launch(isa, form, &args, NULL, part, n);
      check_case(c, (enum equation)q, isa->name);
    }
  }
}

/* The same in parts with prefetches, as in a wavefront: prefetches change no bit. */
static void run_parts(launch_case *c) {
  const host_range all = {0, c->s.ny, c->args.z_begin, c->args.z_end};
  const host_isa *isa;
  for (int i = 0; (isa = host_isa_get(i)); i++) {
    const enum equation q = (enum equation)((c->s.ny + c->args.z_begin) % EQUATION_COUNT);
    memcpy(c->got, c->before[q], c->floats * sizeof(float));
    const kernel_args args = with_fields(c, q, (launch_fields){c->in, c->got, c->medium});
    host_simd_range(isa, &args, NULL, all, (host_ahead){{args.in, args.out, args.medium[0]}});
    check_case(c, q, "part that asks");
  }
}

typedef struct test_device {
  device *dev;
  char name[32];
  float *medium[EQUATION_MEDIA];
  launch_fields fields; /* device memory */
  size_t floats;
} test_device;

static void test_device_open(test_device *d, const char *backend, int threads, size_t floats) {
  device_options options = {.local_ranks = 1, .threads = threads};
  *d = (test_device){.floats = floats};
  OK(device_open(backend, &options, &d->dev, &E));
  snprintf(d->name, sizeof d->name, "%s, %d threads", backend, threads);
  float **const all[] = {&d->fields.in, &d->fields.out};
  for (int i = 0; i < 2 + EQUATION_MEDIA; i++)
    assert_ok(d->dev->table->alloc(d->dev, (void **)(i < 2 ? all[i] : &d->medium[i - 2]),
                                   floats * sizeof(float), MEMORY_DEVICE, &E),
              &E);
  d->fields.medium = d->medium;
}

static void test_device_close(test_device *d) {
  float *const all[] = {d->fields.in, d->fields.out};
  for (int i = 0; i < 2 + EQUATION_MEDIA; i++)
    assert_ok(d->dev->table->free(d->dev, i < 2 ? all[i] : d->medium[i - 2], MEMORY_DEVICE, &E), &E);
  d->dev->table->close(d->dev);
}

static void transfer(test_device *d, const launch_case *c, float *to, const float *from,
                     copy_direction direction) {
  OK(d->dev->table->copy(d->dev, STREAM_INTERIOR,
                         &(copy_args){to, from, c->floats * sizeof(float), direction}, &E));
}

static void run_kernel(test_device *d, launch_case *c, const kernel *k, enum equation equation) {
  error e = {0};
  const device_table *t = d->dev->table;
  assert_true(c->floats <= d->floats);
  kernel_args args = with_fields(c, equation, d->fields);
  transfer(d, c, d->fields.in, c->in, COPY_TO_DEVICE);
  for (int i = 0; i < EQUATION_MEDIA; i++) transfer(d, c, d->medium[i], c->medium[i], COPY_TO_DEVICE);
  transfer(d, c, d->fields.out, c->before[equation], COPY_TO_DEVICE);
  if (t->launch(d->dev, STREAM_INTERIOR, k, &args, &e) == ERROR_KERNEL_UNSUPPORTED) return;
  assert_ok(e.id, &e);
  transfer(d, c, c->got, d->fields.out, COPY_TO_HOST);
  assert_ok(t->sync(d->dev, STREAM_INTERIOR, &e), &e);
  const char *who = text_of("kernel %s on %s", k->name, d->name);
  check_case(c, equation, who);
}

static const char *only_kernel; /* the name of a kernel; NULL: all */

static void run_device(test_device *d, launch_case *c) {
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel *k = &kernel_table[i];
    if (only_kernel && strcmp(k->name, only_kernel) != 0) continue;
    for (int q = 0; q < EQUATION_COUNT && (k->host || k->cuda); q++)
      if (kernel_does(k, (enum equation)q, d->dev->table->backend)) run_kernel(d, c, k, (enum equation)q);
  }
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
  OK(slab_init(&s, &(slab_shape){.nx = nx, .ny = ny, .nz = nz}, 0, 1, &E));
  return slab_floats(&s);
}

static void run_case(test_device *d, int devices, const int n[3], int z_begin, int z_end, uint64_t *random) {
  launch_case c;
  new_case_of(&c, true, n, z_begin, z_end, random);
  if (!only_cuda && !only_kernel) {
    run_instruction_sets(&c);
    run_parts(&c);
  }
  for (int i = 0; i < devices; i++) run_device(&d[i], &c);
  free_case(&c);
}

/* Which sizes to try: all, or every n-th of each axis where a sanitizer makes the test slow. STENCIL_TEST_SMALL is for
 * sanitizers that the compiler does not know. */
static size_t stride(void) {
#if defined __SANITIZE_THREAD__
  return 40;
#elif defined __SANITIZE_ADDRESS__
  return 16;
#else
  return getenv("STENCIL_TEST_SMALL") ? 10 : 1;
#endif
}

/* Of the small sizes, an x and a y go with every n-th z. With 5 every pair of sizes along two axes remains.
 * STENCIL_TEST_ALL tries all. */
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

TEST(every_kernel_small_sizes) {
  static const int xs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130};
  static const int ys[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33};
  static const int zs[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12};
  uint64_t random = 20240229u;
  test_device d[DEVICES_MAX];
  int devices = open_devices(d, floats_of(130, 33, 12));
  const size_t step = stride(), step_z = stride_z();
  for (size_t i = 0; i < COUNT(xs); i++)
    for (size_t j = i % step; j < COUNT(ys); j += step)
      for (size_t k = (i + j) % step_z; k < COUNT(zs); k += step_z) {
        int n[3] = {xs[i], ys[j], zs[k]};
        int begin = random_below(&random, n[2]);
        run_case(d, devices, n, begin, begin + 1 + random_below(&random, n[2] - begin), &random);
      }
  for (int i = 0; i < devices; i++) test_device_close(&d[i]);
}

/* Odd sizes, several blocks of y and of x (nx > 1024), and launches large enough to store
 * around the cache, on whole lines and not. */
TEST(every_kernel_large_sizes) {
  static const int n[][3] = {{131, 67, 29}, {2083, 21, 7}, {323, 170, 45}, {288, 160, 48}, {512, 77, 31},
                             {772, 37, 9},  {640, 20, 40}, {384, 75, 48},  {512, 90, 40}};
  uint64_t random = 77u;
  test_device d[DEVICES_MAX];
  int devices = open_devices(d, floats_of(323, 170, 48));
  for (size_t i = 0; i < COUNT(n); i += large_stride())
    run_case(d, devices, n[i], i % 4 == 1, n[i][2], &random);
  for (int i = 0; i < devices; i++) test_device_close(&d[i]);
}

/* Launches of so many tiles that blocks of bulk_tensor keep step: tiles as high as their shape and lower, chunks of
 * different lengths, two launches of which the second begins where blocks of the first have ended. Heat has tiles of
 * 64 x 64 at 260 x 600 x 55 and of 128 x 40 at 65 x 4776 x 26. */
TEST(cuda_kernels_long_chunks) {
  static const int n[][3] = {{260, 600, 55}, {20, 4400, 55}, {1025, 833, 25}, {65, 4776, 26}};
  uint64_t random = 801u;
  test_device d;
  char why[256] = "";
  if (!only_cuda || stride() > 1 || device_cuda_count(why) == 0) skip();
  test_device_open(&d, "cuda", 1, floats_of(1025, 833, 25));
  for (size_t i = 0; i < COUNT(n); i++) run_case(&d, 1, n[i], 0, n[i][2], &random);
  test_device_close(&d);
}

/* All rules on sizes where packs of 4 points and tiles meet the faces differently: rows that end with a pack or not,
 * that end with the first pack of a tile, with padding beside their ghosts or without. */
TEST(every_kernel_and_rule) {
  static const int xs[] = {5,  7,  8,   12,  16,  20,  24,  28,  32,  36, 64,
                           68, 96, 100, 119, 120, 124, 128, 132, 133, 260};
  static const int ys[] = {4, 5, 6, 7, 9, 13, 39, 41, 73}, zs[] = {4, 5, 6, 7, 9, 13, 29};
  const int count = (int)(COUNT(xs));
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

/* A block's groups prefetch each row of the next planes once: those of the block and four on either side. The last row
 * of a column prefetches the first row of the next column; in the last column that of the next planes, where the first
 * column begins. */
static void check_column(int column, int columns) {
  enum { PITCH = 96, PLANE = 40 * PITCH, Z = 8 };
  static float field[16 * PLANE];
  const kernel_args args = {.in = field, .pitch = PITCH, .plane = PLANE};
  const block b = host_column(&args, (block){0, 64, 8, 24, 0}, column, columns);
  const bool last = column == columns - 1;
  assert_int_equal(b.x_begin, 64 * column / columns);
  assert_int_equal(b.x_end, 64 * (column + 1) / columns);
  const simd_launch s = {.args = &args, .ahead = {.array = {field + 4 * PLANE + PITCH}}, .ahead_rows = 1};
  int rows[40] = {0};
  for (int y = b.y_begin; y < b.y_end; y++) {
    const prefetch_list to = prefetch_list_at(&s, b, Z - 4, y);
    for (int i = 0; i < to.count; i++) {
      const ptrdiff_t at = to.from[i] + (Z - 4) * PLANE + y * PITCH + b.x_begin - field;
      const int x = (int)(at % PITCH);
      if (y == b.y_end - 1 && (x != b.x_begin || at / PLANE != Z)) {
        assert_int_equal(at / PLANE, last ? Z + 4 : Z);
        assert_int_equal(at % PLANE / PITCH, b.y_begin);
        assert_int_equal(x, last ? 0 : b.x_end);
      } else {
        assert_int_equal(at / PLANE, Z);
        assert_int_equal(x, b.x_begin);
        rows[at % PLANE / PITCH]++;
      }
    }
  }
  for (int y = 0; y < 40; y++) /* the first row is what the group before asked for */
    assert_int_equal(rows[y], y != b.y_begin && y >= b.y_begin - 4 && y < b.y_end + 4);
}

/* The columns of a block follow each other, none is empty or wider than COLUMN_X. */
TEST(columns_fit) {
  const kernel_args args = {.plane = 1};
  for (int width = 1; width <= BLOCK_X; width++) {
    const block whole = {BLOCK_X, BLOCK_X + width, 0, 1, 0};
    const int columns = host_columns(whole);
    int end = BLOCK_X;
    for (int i = 0; i < columns; i++) {
      const block c = host_column(&args, whole, i, columns);
      assert_int_equal(c.x_begin, end);
      assert_in_range(c.x_end - c.x_begin, 1, COLUMN_X);
      end = c.x_end;
    }
    assert_int_equal(end, BLOCK_X + width);
  }
}

TEST(every_row_that_enters_is_asked_for) {
  for (int columns = 1; columns <= 2; columns++)
    for (int i = 0; i < columns; i++) check_column(i, columns);
}

/* test_kernels [cuda] [KERNEL]: on every device, or on CUDA alone; all kernels, or one. */
int main(int argc, char **argv) {
  char why[256] = "";
  bool cuda = device_cuda_count(why) > 0;
  only_cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  if (argc > 1 + only_cuda) {
    only_kernel = argv[1 + only_cuda];
    int i = 0;
    while (i < kernel_table_size && strcmp(kernel_table[i].name, only_kernel) != 0) i++;
    if (i == kernel_table_size)
      return fprintf(stderr, "test_kernels: no kernel is called %s\n", only_kernel), 1;
  }
  if (!cuda) printf("no CUDA device, %s: %s\n", only_cuda ? "skipped" : "host kernels only", why);
  return only_cuda && !cuda ? 0 : RUN_TESTS("kernels");
}
