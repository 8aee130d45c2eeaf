/* Receivers record what a plain interpolation gives, bit for bit and for every number of ranks. The file has them in
 * the user's order. */
#include "mpi_main.h"
#include "io/disk.h"
#include <dirent.h>
#include <hdf5.h>
#include <math.h>
#include <unistd.h>
#include "config/config.h"
#include "io/bytes/atomic_file.h"
#include "io/hdf5/field_io.h"
#include "acquisition/sampler.h"

static device *dev;
static char folder[64];

enum { NX = 14, NY = 9, NZ = 25 };
static const double DT = 0.25, H[3] = {0.1, 0.25, 2}, ORIGIN[3] = {-5.1, 3, 100};
static const run_meta ABOUT = {
    .step = 77, .time = 77 * 0.25, .dt = 0.25, .config_text = "[grid]\n", .equation = "wave"};
static const int N[3] = {NX, NY, NZ};

static config some_config(int count, int64_t every) {
  config c = {
      .nx = NX, .ny = NY, .nz = NZ, .dx = H[0], .dy = H[1], .dz = H[2], .receivers = RECEIVERS_POINTS};
  memcpy(c.origin, ORIGIN, sizeof c.origin);
  c.receivers_every = every;
  c.receivers_interpolation = INTERPOLATION_LINEAR; /* the studies compare sinc */
  c.receiver_count = count;
  c.receiver_positions = calloc((size_t)count, sizeof *c.receiver_positions);
  return c;
}

/* Random, among them points, every plane, and the last point of all axes. */
static config make_random(int count, int64_t every) {
  config c = some_config(count, every);
  uint64_t seed = 23;
  for (int i = 0; i < count; i++)
    for (int axis = 0; axis < 3; axis++) {
      double at = (0.5 + 0.5 * (double)test_random(&seed)) * (N[axis] - 1);
      if (i >> axis & 1) at = round(at);
      if (i % 10 == 9) at = N[axis] - 1;
      if (axis == 2 && i < NZ) at = i;
      c.receiver_positions[i][axis] = ORIGIN[axis] + at * H[axis];
    }
  return c;
}

static void make_positions(const char *name, hid_t type, int rows, int columns, const double *values) {
  const hsize_t shape[2] = {(hsize_t)rows, (hsize_t)columns};
  if (rank == 0) {
    hid_t f = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
          space = H5Screate_simple(2, shape, NULL);
    hid_t d = H5Dcreate2(f, "r", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(d >= 0 && H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    assert_true(H5Dclose(d) >= 0 && H5Sclose(space) >= 0 && H5Fclose(f) >= 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Runs the tests with a device and a folder, which they leave empty. */
static void with_folder(const char *backend, void (*tests)(void)) {
  const device_options options = {.local_rank = rank, .local_ranks = ranks, .threads = 2};
  strcpy(folder, "receivers.XXXXXX");
  if (rank == 0) assert_non_null(mkdtemp(folder));
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  field_io_start();
  OK(device_open(backend, &options, &dev, &E));
  tests();
  dev->table->close(dev);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) assert_int_equal(rmdir(folder), 0);
}

/* --- fields ----------------------------------------------------------------------------------------------------- */

typedef float field_values(int64_t step, int z, int y, int x);

static float random_values(int64_t step, int z, int y, int x) {
  uint64_t state = ((uint64_t)step * 1000003 + (uint64_t)((z * NY + y) * NX + x) + 1) * 0x9E3779B97F4A7C15u;
  test_random(&state);
  return test_random(&state);
}

/* Exact in float32 at all the places that `make_dyadic` chooses. */
static float linear_values(int64_t step, int z, int y, int x) {
  return (float)step + 3 * z - 2 * y + 0.5f * (float)x;
}

static bool wraps; /* are all axes periodic? */

/* This step's field after an exchange: own planes and those of the neighbours; NaN elsewhere, in ghosts along x and y
 * too. */
static void load_field(const slab *b, float *memory, float *staging, int64_t step, field_values *values) {
  for (size_t i = 0; i < slab_floats(b); i++) staging[i] = NAN;
  for (int z = -RADIUS; z < b->nz + RADIUS; z++)
    for (int y = 0; y < NY && (wraps || (b->z0 + z >= 0 && b->z0 + z < NZ)); y++)
      for (int x = 0; x < NX; x++)
        staging[slab_offset(b, z, y, x)] = values(step, (b->z0 + z + NZ) % NZ, y, x);
  const size_t bytes = slab_floats(b) * sizeof(float);
  OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){memory, staging, bytes, COPY_TO_DEVICE}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
}

/* --- places ----------------------------------------------------------------------------------------------------- */

static config make_dyadic(int count, int64_t every) {
  config c = some_config(count, every);
  uint64_t seed = 29;
  for (int i = 0; i < count; i++)
    for (int axis = 1; axis < 3; axis++) /* in x, spacing 0.1, on the points */
      c.receiver_positions[i][axis] =
          ORIGIN[axis] + H[axis] * floor((0.5 + 0.5 * (double)test_random(&seed)) * (N[axis] - 1) * 64) / 64;
  for (int i = 0; i < count; i++) c.receiver_positions[i][0] = ORIGIN[0] + i % NX * H[0];
  return c;
}

/* Anywhere within some periods, often between the last point and the first. */
static config make_around(int count, int64_t every) {
  config c = make_random(count, every);
  for (int i = 0; i < count; i++)
    for (int axis = 0; axis < 3; axis++) {
      double *p = &c.receiver_positions[i][axis];
      if ((i + axis) % 3 == 0) *p = ORIGIN[axis] + H[axis] * (N[axis] - 1 + i % 16 / 16.0);
      *p += (i % 5 - 2) * N[axis] * H[axis];
    }
  for (int face = 0; face < FACE_COUNT; face++) c.boundary[face] = BOUNDARY_PERIODIC;
  return c;
}

/* At `index` and `fraction` of each axis. */
static void locate(const double position[3], int index[3], float fraction[3]) {
  for (int axis = 0; axis < 3; axis++) {
    double at = (position[axis] - ORIGIN[axis]) / H[axis];
    at = wraps ? at - N[axis] * floor(at / N[axis] + 1e-12) : fmin(at, N[axis] - 1);
    const double near = round(at);
    const bool on = fabs(at - near) < 1e-11;
    index[axis] = (int)(on ? near : floor(at));
    fraction[axis] = (float)(on ? 0 : at - index[axis]);
  }
}

static float expected_at(const double position[3], int64_t step, field_values *values) {
  int i[3];
  float f[3], s = 0;
  locate(position, i, f);
  for (int x = 0; x < 2; x++) {
    float column = 0;
    for (int z = 0; z < 2; z++) {
      float row = 0;
      for (int y = 0; y < 2; y++)
        if ((!x || f[0] > 0) && (!z || f[2] > 0) && (!y || f[1] > 0))
          row =
              fmaf(y ? f[1] : 1 - f[1], values(step, (i[2] + z) % NZ, (i[1] + y) % NY, (i[0] + x) % NX), row);
      column = fmaf(z ? f[2] : 1 - f[2], row, column);
    }
    s = fmaf(x ? f[0] : 1 - f[0], column, s);
  }
  return s;
}

/* --- recording and reading back --------------------------------------------------------------------------------- */

typedef struct recording {
  int64_t first, last, end; /* steps: of the run, and the first that is no longer done */
  int64_t buffer_rows;      /* 0: as it comes */
  int pass;                 /* steps between which a wavefront samples, but for the last */
  field_values *values;
  int64_t held; /* bytes that may be in memory: more lie in a file; 0: as it comes */
  bool removed; /* dispersion: then steps after `last` are extra ones */
} recording;

static void check_memory(const sampler *m, size_t device_before, size_t pinned_before) {
  size_t on_device, pinned;
  sampler_bytes(m, &on_device, &pinned);
  assert_int_equal(dev->bytes - device_before, on_device);
  assert_int_equal(dev->pinned_bytes - pinned_before, pinned);
}

/* The receivers are in order, and the lists that a wavefront gets describe them. */
static void check_order(const sampler *m) {
  const receivers *r = m->of[0];
  const slab *b = r->slab;
  const size_t bytes = (size_t)r->local * sizeof(point_weights);
  point_weights *places = malloc(bytes + 1);
  if (r->local)
    OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){places, m->places, bytes, COPY_TO_HOST}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
  assert_true(r->layer_begin[0] == 0 && r->layer_begin[2 * b->nz] == r->local);
  for (int layer = 0; layer < 2 * b->nz; layer++)
    for (int i = r->layer_begin[layer]; i < r->layer_begin[layer + 1]; i++) {
      const point_weights *p = &places[i];
      assert_true(p->z == layer / 2 && p->nz == 1 + layer % 2);
      assert_true(r->row[i] == (p->y + p->ny <= NY ? p->y + p->ny - 1 : NY - 1));
      assert_true(i == r->layer_begin[layer] || r->row[i] >= r->row[i - 1]);
    }
  free(places);
}

/* Samples as a wavefront does between `steps` steps from `step` on: after each but the last. */
static void record_pass(sampler *m, int64_t step, int steps, float *memory, float *staging,
                        field_values *values) {
  const receivers *r = m->of[0];
  wavefront_receivers pass;
  OK(sampler_of_pass(m, step, steps, &pass, &E));
  assert_true(m->buffered <= m->buffer_rows);
  assert_true(pass.places == m->places && pass.row == r->row && pass.layer_begin == r->layer_begin);
  for (int k = 0; k < steps; k++)
    assert_true(!pass.samples[k] || (sampler_due(m, step + k + 1) && k < steps - 1));
  for (int k = 0; k < steps - 1; k++) {
    const sample_args sample = {.field = memory + slab_offset(r->slab, 0, 0, 0),
                                .pitch = r->slab->pitch,
                                .plane = r->slab->plane,
                                .ny = NY,
                                .nx = NX,
                                .receivers = m->places,
                                .count = m->local,
                                .samples = pass.samples[k]};
    load_field(r->slab, memory, staging, step + k + 1, values);
    if (!pass.samples[k]) continue;
    OK(dev->table->apply(dev, STREAM_INTERIOR, &operation_sample, &sample, &E));
    OK(dev->table->sync(dev, STREAM_INTERIOR, &E));
  }
}

/* There is nothing in the folder. */
static void check_empty(void) {
  int others = 0;
  DIR *open = opendir(folder);
  assert_non_null(open);
  for (const struct dirent *d; (d = readdir(open));) others += d->d_name[0] != '.';
  closedir(open);
  assert_int_equal(others, 0);
}

/* Traces that are too many lie in a file that has no name, in blocks. */
static void check_held(const receivers *r, recording how) {
  assert_true(r->in_file == (how.held > 0) && (r->held.mapped > 0) == (r->in_file && r->local > 0));
  assert_true(r->in_file ? r->local == 0 || r->width * r->capacity * (int64_t)sizeof(float) <= how.held ||
                               r->width == 1
                         : r->width >= r->local);
  if (how.held) check_empty();
}

/* Restores a checkpoint's traces to other receivers, which then sample on. */
static void check_restored(sampler *m) {
  receivers *r = m->of[0];
  checkpoint_array array;
  receivers_sampled part;
  OK(sampler_flush(m, &E));
  receivers_array(r, &array, &part);
  const size_t bytes = (size_t)(array.count * array.shape[1]) * sizeof(float);
  float *values = malloc(bytes + 1), *again = malloc(bytes + 1);
  const traces t = receivers_traces(r);
  OK(array.source(array.context, array.first, array.count, values, &E));
  for (int64_t i = 0; i < array.count; i++)
    for (int64_t k = 0; k < array.shape[1]; k++) {
      assert_memory_equal(&values[i * array.shape[1] + k], traces_at(&t, k, i), sizeof *values);
      *traces_at(&t, k, i) = NAN;
    }
  OK(array.sink(array.context, array.first, array.count, values, &E));
  OK(array.source(array.context, array.first, array.count, again, &E));
  assert_memory_equal(values, again, bytes);
  free(values);
  free(again);
}

static void record(const config *c, recording how, const char *path) {
  slab b;
  receivers r = {0};
  sampler m = {0};
  files opened;
  OK(files_open(&opened, MPI_COMM_WORLD, how.held % 8 ? IO_GATHER : IO_AUTO, &files_on_disk, &E));
  const problem on = {dev, &b, c, &opened, NULL};
  const receivers_span span = {.pass = how.pass, .first = how.first, .last = how.last, .held = how.held};
  float *memory, *staging;
  OK(slab_init(&b, &(slab_shape){.nx = NX, .ny = NY, .nz = NZ}, rank, ranks, &E));
  const size_t bytes = slab_floats(&b) * sizeof(float), device_before = dev->bytes,
               pinned_before = dev->pinned_bytes;
  const exact_time time = {.removed = how.removed,
                           .every = c->receivers_every,
                           .extra = how.removed ? how.end - 1 - how.last : 0,
                           .threads = 2};
  OK(receivers_plan(&r, &on, &time, span, &E));
  OK(sampler_plan(&m, &(receivers *){&r}, 1, &on, NY, &E));
  OK(sampler_open(&m, &E));
  MPI_Barrier(MPI_COMM_WORLD); /* no rank has a file with a name any more: check_held */
  check_order(&m);
  check_memory(&m, device_before, pinned_before);
  if (how.buffer_rows && how.buffer_rows < m.buffer_rows) m.buffer_rows = how.buffer_rows;
  OK(dev->table->alloc(dev, (void **)&memory, bytes, MEMORY_DEVICE, &E));
  OK(dev->table->alloc(dev, (void **)&staging, bytes, MEMORY_PINNED, &E));
  for (int64_t step = how.first; step < how.end; step++) {
    const int64_t left = how.end - step;
    const int steps = left < how.pass ? (int)left : how.pass;
    if (steps > 1) record_pass(&m, step - 1, steps, memory, staging, how.values);
    if (steps > 1) step += steps - 1;
    assert_int_equal(sampler_due(&m, step), step % c->receivers_every == 0 && step <= how.last + time.extra);
    load_field(&b, memory, staging, step, how.values);
    OK(sampler_sample(&m, memory + slab_offset(&b, 0, 0, 0), step, &E));
    assert_true(m.buffered <= m.buffer_rows);
  }
  check_held(&r, how);
  check_restored(&m);
  MPI_Barrier(MPI_COMM_WORLD);
  OK(receivers_write(&r, path, &ABOUT, &E));
  if (!how.removed) OK(receivers_write(&r, path, &ABOUT, &E)); /* over the file that is there */
  sampler_close(&m);
  receivers_close(&r);
  OK(dev->table->free(dev, memory, MEMORY_DEVICE, &E));
  OK(dev->table->free(dev, staging, MEMORY_PINNED, &E));
  assert_int_equal(dev->bytes, device_before);
  files_close(&opened);
}

static void *read_back(hid_t f, const char *name, hid_t on_disk, hid_t type, int dimensions, hsize_t rows,
                       hsize_t columns) {
  hsize_t shape[2] = {0, 1};
  hid_t d = H5Dopen2(f, name, H5P_DEFAULT), space = H5Dget_space(d), stored = H5Dget_type(d);
  assert_int_equal(H5Sget_simple_extent_dims(space, shape, NULL), dimensions);
  assert_true(shape[0] == rows && shape[1] == columns && H5Tequal(stored, on_disk) > 0);
  void *values = malloc(rows * columns * 8 + 1);
  assert_true(H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  assert_true(H5Tclose(stored) >= 0 && H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
  return values;
}

static void check_attributes(hid_t f, int64_t expected_every) {
  double dt = 0;
  int64_t every = 0;
  hid_t a = H5Aopen(f, "dt", H5P_DEFAULT), b = H5Aopen(f, "every", H5P_DEFAULT);
  assert_true(H5Aread(a, H5T_NATIVE_DOUBLE, &dt) >= 0 && H5Aread(b, H5T_NATIVE_INT64, &every) >= 0);
  assert_true(dt == DT && every == expected_every && H5Aclose(a) >= 0 && H5Aclose(b) >= 0);
  assert_true(H5Aexists(f, "created_by") > 0 && H5Aexists(f, "git_hash") > 0 &&
              H5Aexists(f, "creation_date") > 0);
}

/* Rank 0 checks the file; rows of steps before `first` are NaN. */
static void check_file(const char *path, const config *c, recording how) {
  const hsize_t rows = (hsize_t)((how.end > how.last ? how.last : how.end - 1) / c->receivers_every + 1);
  const int count = c->receiver_count;
  char name[128], temporary[sizeof name + TEMPORARY_ENDING];
  if (rank != 0) return;
  snprintf(name, sizeof name, "%s.receivers.h5", path);
  temporary_name(temporary, sizeof temporary, name);
  assert_int_equal(access(temporary, F_OK), -1);
  hid_t f = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(f >= 0);
  float *u = read_back(f, "u", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, rows, (hsize_t)count);
  double *position = read_back(f, "position", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, (hsize_t)count, 3);
  double *time = read_back(f, "time", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 1, rows, 1);
  assert_memory_equal(position, c->receiver_positions, (size_t)count * sizeof *c->receiver_positions);
  for (int64_t row = 0, step = 0; row < (int64_t)rows; row++, step += c->receivers_every) {
    assert_true(time[row] == (double)step * DT);
    for (int i = 0; i < count; i++) {
      const float expected = expected_at(c->receiver_positions[i], step, how.values),
                  got = u[row * count + i];
      assert_true(step < how.first ? isnan(got) : memcmp(&got, &expected, sizeof got) == 0);
    }
  }
  check_attributes(f, c->receivers_every);
  assert_true(H5Fclose(f) >= 0 && unlink(name) == 0);
  free(u);
  free(position);
  free(time);
}

static void record_and_check(config c, recording how) {
  const char *path = text_of("%s/out", folder);
  snprintf(c.output_path, sizeof c.output_path, "%s", path);
  wraps = c.boundary[FACE_X_LO] == BOUNDARY_PERIODIC;
  record(&c, how, path);
  check_file(path, &c, how);
  MPI_Barrier(MPI_COMM_WORLD);
  free(c.receiver_positions);
  wraps = false;
}

static void lists_are_recorded(void) {
  record_and_check(make_around(300, 1), (recording){0, 20, 21, 0, 5, random_values, 0, false});
  record_and_check(make_random(200, 1), (recording){0, 20, 21, 0, 1, random_values, 0, false});
  record_and_check(make_random(201, 3),
                   (recording){0, 40, 43, 4, 1, random_values, 0, false}); /* many batches, a part of one */
  record_and_check(make_random(7, 3), (recording){0, 1000, 38, 13, 1, random_values, 0,
                                                  false}); /* ended early, batch just full */
  record_and_check(make_random(1, 2),
                   (recording){5, 20, 21, 2, 1, random_values, 0, false}); /* after a restart */
  record_and_check(make_dyadic(300, 5), (recording){0, 10, 11, 0, 1, linear_values, 0, false});
  record_and_check(make_random(120, 1),
                   (recording){0, 60, 61, 7, 8, random_values, 0, false}); /* a pass fills a batch */
  record_and_check(make_random(121, 1),
                   (recording){3, 70, 64, 9, 4, random_values, 0, false}); /* a pass turns it over */
  record_and_check(make_random(9, 2), (recording){0, 90, 91, 5, 6, random_values, 0, false});
  record_and_check(make_random(300000, 1),
                   (recording){0, 7, 8, 0, 8, random_values, 0, false}); /* rows of a MiB */
  record_and_check(make_random(50, 3), (recording){1, 90, 80, 6, 8, random_values, 0, false});
}

/* Traces lie in files, in blocks of one receiver and of several, in all modes; a batch is behind. */
static void long_runs_are_recorded(void) {
  record_and_check(make_random(300, 1), (recording){0, 50, 51, 0, 1, random_values, 4800, false});
  record_and_check(make_random(310, 2), (recording){0, 90, 91, 3, 1, random_values, 9001, false});
  record_and_check(make_random(120, 1), (recording){0, 60, 61, 7, 8, random_values, 7000, false});
  record_and_check(make_random(7, 3), (recording){0, 1000, 380, 13, 4, random_values, 220, false});
}

/* Dispersion is removed from traces in files as from those in memory. */
static void blocks_are_transformed(void) {
  config c = make_random(300, 1);
  const int64_t held[] = {0, 7000, 4801};
  float *u[3] = {NULL};
  for (int i = 0; i < 3; i++) {
    const char *path = text_of("%s/out", folder);
    snprintf(c.output_path, sizeof c.output_path, "%s", path);
    record(&c, (recording){0, 56, 61, 0, 1, random_values, held[i], true}, path);
    if (rank != 0) continue;
    hid_t f = H5Fopen(text_of("%s.receivers.h5", path), H5F_ACC_RDONLY, H5P_DEFAULT);
    u[i] = read_back(f, "u", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, 57, 300);
    assert_true(H5Fclose(f) >= 0 && unlink(text_of("%s.receivers.h5", path)) == 0);
    assert_memory_equal(u[i], u[0], 57 * 300 * sizeof **u);
    assert_true(u[i][31 * 300] != expected_at(c.receiver_positions[0], 31, random_values));
  }
  for (int i = 0; i < 3; i++) free(u[i]);
  free(c.receiver_positions);
}

/* The linear field is the receivers' own positions. */
static void linear_fields_are_exact(void) {
  config c = make_dyadic(300, 1);
  for (int i = 0; i < c.receiver_count; i++) {
    const double *p = c.receiver_positions[i];
    const double y = (p[1] - ORIGIN[1]) / H[1], z = (p[2] - ORIGIN[2]) / H[2];
    assert_true(expected_at(p, 7, linear_values) == 7 + 3 * z - 2 * y + 0.5 * (i % NX));
  }
  free(c.receiver_positions);
}

/* --- positions from a file -------------------------------------------------------------------------------------- */

/* 10^5 of them, in float32: some on the last points lie outside by their rounding, and are recorded there. */
static void files_are_recorded(void) {
  config c = make_random(100000, 1);
  const recording how = {0, 2, 3, 2, 1, random_values, 0, false};
  int outside = 0;
  for (int i = 0; i < c.receiver_count; i++)
    for (int axis = 0; axis < 3; axis++) {
      volatile float rounded =
          (float)c.receiver_positions[i][axis]; /* gcc 12 forgets to round without volatile */
      c.receiver_positions[i][axis] = rounded;
      outside += (c.receiver_positions[i][axis] - ORIGIN[axis]) / H[axis] > N[axis] - 1;
    }
  assert_true(outside > 1000);
  const char *name = text_of("%s/positions.h5", folder);
  const char *path = text_of("%s/many", folder);
  make_positions(name, H5T_IEEE_F32LE, c.receiver_count, 3, c.receiver_positions[0]);
  config from_file = c;
  from_file.receivers = RECEIVERS_FILE, from_file.receiver_positions = NULL, from_file.receiver_count = 0;
  snprintf(from_file.receivers_file, sizeof from_file.receivers_file, "%s:/r", name);
  record(&from_file, how, path);
  check_file(path, &c, how);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) assert_int_equal(unlink(name), 0);
  free(c.receiver_positions);
}

static void all_tests(void) {
  linear_fields_are_exact();
  lists_are_recorded();
  long_runs_are_recorded();
  blocks_are_transformed();
  files_are_recorded();
}

TEST_OF(receivers_are_recorded, const char *backend) {
  with_folder(backend, all_tests);
}

MPI_MAIN
