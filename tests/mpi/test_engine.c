/* An engine outlives its shots: many shots of one engine have the bits of runs of their own, take memory once, and choose
 * and measure once. Two engines, and two shots of one engine, can be under way at the same time. */
#include <ftw.h>
#include <hdf5.h>
#include <stdlib.h>
#include <unistd.h>
#include "survey/batch.h"
#include "io/disk.h"
#include "test.h"
#include "config_load.h"
#include "base/error_mpi.h"

enum { NX = 23, NY = 19, NZ = 44, FEW = 20, TEXT = 256 };
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SHOTS = FEW };
#else
enum { SHOTS = 100 };
#endif

static int rank;
static char *backend = (char *)"backend=host";
static char folder[64];
static run_log LOG = {.to = NULL};
static error E;

/* --- configurations --------------------------------------------------------------------------------------------- */

static const char WAVE[] = "[grid]\nnx = 23\nny = 19\nnz = 44\ndx = 2\ndy = 2\ndz = 2\n[time]\nsteps = 13\n"
                           "[equation]\ntype = wave\n[medium]\nvelocity = %s/m.h5:/v\n"
                           "[boundary]\nx_lo = absorbing\nz_hi = absorbing\ny = neumann\nwidth = 4\n"
                           "[output]\nevery = 5\n[report]\ncheck_every = 3\n",
                  JACOBI[] =
                      "[grid]\nnx = 31\nny = 12\nnz = 40\n[time]\nsteps = 9\n[equation]\ntype = jacobi\n"
                      "[initial]\nu = random\n[receivers]\npoints = 3.5 2 8\n";

static void make_inputs(void) {
  char path[TEXT];
  uint64_t seed = 11;
  float v[NZ * NY * NX];
  const hsize_t shape[3] = {NZ, NY, NX};
  if (rank == 0) {
    assert_non_null(mkdtemp(strcpy(folder, "engine.XXXXXX")));
    for (int i = 0; i < NZ * NY * NX; i++) v[i] = 2000 + 500 * test_random(&seed);
    snprintf(path, sizeof path, "%s/m.h5", folder);
    const hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                space = H5Screate_simple(3, shape, NULL),
                d = H5Dcreate2(f, "v", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    assert_true(H5Dclose(d) >= 0 && H5Sclose(space) >= 0 && H5Fclose(f) >= 0);
    const char *const texts[2] = {WAVE, JACOBI}, *const names[2] = {"wave", "jacobi"};
    for (int i = 0; i < 2; i++) {
      snprintf(path, sizeof path, "%s/%s.ini", folder, names[i]);
      FILE *ini = fopen(path, "w");
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      assert_true(fprintf(ini, texts[i], folder) > 0 && fclose(ini) == 0);
    }
  }
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
}

/* The configuration NAME.ini with the output NAME.OUTPUT and what makes shot `shot` differ from others; 0: nothing. */
static config load(const char *name, const char *output, int shot) {
  uint64_t seed = 77 + 13 * (uint64_t)shot;
  char path[TEXT], text[16][TEXT];
  const char *all[16];
  int count = 0;
  config c = {.nx = 0};
  snprintf(path, sizeof path, "%s/%s.ini", folder, name);
  snprintf(text[count++], TEXT, "output.path=%s/%s.%s", folder, name, output);
  snprintf(text[count++], TEXT, "device.%s", backend);
  snprintf(text[count++], TEXT, "device.threads=2");
  for (int i = 0; shot && i < 1 + shot % 3; i++) {
    const double at[3] = {18 + 17 * (double)test_random(&seed), 18 + 17 * (double)test_random(&seed),
                          43 + 42 * (double)test_random(&seed)};
    snprintf(text[count++], TEXT, "source.%d.position=%g %g %g", i + 1, at[0], at[1], at[2]);
    snprintf(text[count++], TEXT, "source.%d.f0=%d", i + 1, 60 + 10 * (shot % 7));
  }
  if (shot % 4)
    snprintf(text[count++], TEXT, "receivers.line=1 1 2 %d 30 80 %d", 9 + shot % 30, 1 + shot * 37 % 61);
  if (shot)
    snprintf(text[count++], TEXT, "initial.u=%s", shot % 3 == 1 ? "random" : shot % 3 ? "zero" : "gaussian");
  if (shot)
    snprintf(text[count++], TEXT, "initial.%s=%d", shot % 3 == 1 ? "seed" : "width",
             shot % 3 == 2 ? 0 : shot);
  if (shot % 3 == 2) count--; /* zero has neither */
  for (int i = 0; i < count; i++) all[i] = text[i];
  assert_ok(config_load(&c, path, count, all, &E), &E);
  return c;
}

/* --- engines ---------------------------------------------------------------------------------------------------- */

typedef struct run {
  config c;
  files f;
  engine g;
  shot s;
  batch b;
} run;

static void open_engine(run *r, const char *name) {
  *r = (run){.c = load(name, "base", 0)};
  assert_ok(files_open(&r->f, MPI_COMM_WORLD, IO_COLLECTIVE, &files_on_disk, &E), &E);
  const engine_setup setup = {
      .config = &r->c, .files = &r->f, .log = &LOG, .beside = MPI_COMM_WORLD, .profile = true};
  assert_ok(engine_plan(&r->g, &setup, &E), &E);
  assert_ok(engine_open(&r->g, &E), &E);
  assert_ok(engine_load(&r->g, &E), &E);
}

static void close_engine(run *r) {
  batch_close(&r->b);
  shot_close(&r->s);
  engine_close(&r->g);
  files_close(&r->f);
  config_free(&r->c);
}

static void begin(batch *b, shot *s, engine *g, const config *c) {
  const shot_setup setup = {.config = c, .command = "test", .log = &LOG};
  const batch_setup of = {.log = &LOG, .on_stop = ON_STOP_CHECKPOINT};
  assert_ok(shot_plan(s, g, &setup, &E), &E);
  assert_ok(batch_plan(b, g, &s, 1, &of, &E), &E);
  assert_ok(batch_open(b, &E), &E);
  assert_ok(batch_begin(b, &E), &E);
}

static void finish(batch *b) {
  assert_ok(batch_steps(b, true, &E), &E);
  assert_ok(batch_finish(b, &E), &E);
  assert_ok(propagator_extra_steps(&b->p, &E), &E);
  assert_ok(batch_finish_traces(b, 0, &E), &E);
  assert_ok(batch_end(b, &E), &E);
}

static void run_alone(const char *name, const char *output, int number) {
  run r;
  config c = load(name, output, number);
  open_engine(&r, name);
  begin(&r.b, &r.s, &r.g, &c);
  finish(&r.b);
  close_engine(&r);
  config_free(&c);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

/* The values of a file's /u; the caller frees them. NULL without the file. */
static void *read_values(const char *path, size_t *bytes) {
  if (access(path, F_OK)) return NULL;
  const hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(f, "/u", H5P_DEFAULT);
  const hid_t space = H5Dget_space(d);
  *bytes = (size_t)H5Sget_simple_extent_npoints(space) * sizeof(float);
  void *values = malloc(*bytes ? *bytes : 1);
  assert_true(H5Dread(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  assert_true(H5Sclose(space) >= 0 && H5Dclose(d) >= 0 && H5Fclose(f) >= 0);
  return values;
}

/* The same files under both outputs, with the same bits. Returns how many there are. Removes them. */
static int expect_same(const char *name, const char *a, const char *b) {
  static const char *const ENDINGS[] = {"receivers.h5", "00000000.hdf", "00000005.hdf",
                                        "00000009.hdf", "00000010.hdf", "00000013.hdf"};
  int count = 0;
  for (size_t i = 0; rank == 0 && i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
    char paths[2][TEXT];
    size_t bytes[2] = {0, 0};
    snprintf(paths[0], TEXT, "%s/%s.%s.%s", folder, name, a, ENDINGS[i]);
    snprintf(paths[1], TEXT, "%s/%s.%s.%s", folder, name, b, ENDINGS[i]);
    void *values[2] = {read_values(paths[0], &bytes[0]), read_values(paths[1], &bytes[1])};
    assert_int_equal(values[0] == NULL, values[1] == NULL);
    assert_int_equal(bytes[0], bytes[1]);
    if (values[0]) assert_memory_equal(values[0], values[1], bytes[0]);
    count += values[0] != NULL;
    for (int k = 0; k < 2; k++) free(values[k]), unlink(paths[k]);
  }
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return count;
}

/* --- tests ------------------------------------------------------------------------------------------------------ */

TEST(shots_have_the_bits_of_runs_of_their_own) {
  run r;
  double copy_gbs = 0;
  size_t peak = 0;
  const kernel *k = NULL;
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int shots = ranks > 1 ? FEW : SHOTS;
  open_engine(&r, "wave");
  for (int n = 0; n < shots + 4; n++) {
    const int i = n < shots ? n + 1 : n - shots + 2;
    config c = load("wave", "one", i);
    begin(&r.b, &r.s, &r.g, &c);
    finish(&r.b);
    if (n >= shots) /* larger ones were there before: no memory is taken */
      assert_int_equal(r.g.dev->peak_bytes, peak);
    if (n > 0) assert_true(r.g.copy_gbs == copy_gbs && r.g.kernel == k);
    peak = r.g.dev->peak_bytes, copy_gbs = r.g.copy_gbs, k = r.g.kernel;
    config_free(&c);
    run_alone("wave", "own", i);
    assert_int_equal(expect_same("wave", "one", "own"), 4 + (i % 4 != 0));
  }
  assert_true(copy_gbs > 0);
  close_engine(&r);
}

/* Some steps of each in turn. */
static void advance_both(batch *a, batch *b) {
  const int64_t steps = 8;
  while (a->p.stepper.step < steps || b->p.stepper.step < steps) {
    if (a->p.stepper.step < steps) assert_ok(stepper_advance(&a->p.stepper, 1, &E), &E);
    if (b->p.stepper.step < steps) assert_ok(stepper_advance(&b->p.stepper, 1, &E), &E);
  }
}

TEST(engines_run_at_the_same_time) {
  run a, b;
  config of_a = load("wave", "one", 7), of_b = load("jacobi", "one", 0);
  of_a.output_every = 0;
  open_engine(&a, "wave");
  open_engine(&b, "jacobi");
  begin(&a.b, &a.s, &a.g, &of_a);
  begin(&b.b, &b.s, &b.g, &of_b);
  advance_both(&a.b, &b.b);
  finish(&b.b);
  finish(&a.b);
  close_engine(&b);
  close_engine(&a);
  config_free(&of_a);
  config_free(&of_b);
  run_alone("wave", "own", 7);
  run_alone("jacobi", "own", 0);
  if (rank == 0)
    for (int i = 0; i < 3; i++) { /* the steps of a run with output.every */
      char path[TEXT];
      snprintf(path, TEXT, "%s/wave.own.%08d.hdf", folder, 5 * i);
      assert_int_equal(unlink(path), 0);
    }
  assert_int_equal(expect_same("wave", "one", "own"), 2);
  assert_int_equal(expect_same("jacobi", "one", "own"), 2);
}

/* Each on a device object of its own. */
TEST(shots_of_an_engine_run_at_the_same_time) {
  int ranks;
  run r;
  shot other = {.engine = NULL};
  batch beside = {.count = 0};
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > 1) skip();
  config c[2] = {load("wave", "one", 5), load("wave", "two", 6)};
  c[0].output_every = c[1].output_every = 0;
  open_engine(&r, "wave");
  const device_options options = {.local_ranks = 1, .threads = 2, .profile = true};
  assert_ok(device_open(r.c.backend, &options, &beside.p.dev, &E), &E);
  device *const second = beside.p.dev;
  begin(&r.b, &r.s, &r.g, &c[0]);
  begin(&beside, &other, &r.g, &c[1]);
  advance_both(&r.b, &beside);
  finish(&beside);
  finish(&r.b);
  batch_close(&beside);
  shot_close(&other);
  second->table->close(second);
  close_engine(&r);
  for (int i = 0; i < 2; i++) {
    const char *const output = i ? "two" : "one";
    run own;
    config alone = load("wave", "own", 5 + i);
    alone.output_every = 0;
    open_engine(&own, "wave");
    begin(&own.b, &own.s, &own.g, &alone);
    finish(&own.b);
    close_engine(&own);
    config_free(&alone);
    assert_int_equal(expect_same("wave", output, "own"), 2);
    config_free(&c[i]);
  }
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where) {
  (void)status, (void)type, (void)where;
  return remove(path);
}

int main(int argc, char **argv) {
  char why[256];
  int level;
  if (argc > 1 && strcmp(argv[1], "cuda") == 0) backend = (char *)"backend=cuda";
  if (argc > 1 && device_cuda_count(why) == 0) return printf("no CUDA device, skipped: %s\n", why) < 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  field_io_start();
  make_inputs();
  if (RUN_TESTS("engine")) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  mpi_end();
  return 0;
}
