/* Wavelets are their formulas; sources add the same bits to the field as a plain loop over all of them does, for every
 * number of ranks and cut of the planes. */
#include "mpi_main.h"
#include <hdf5.h>
#include <math.h>
#include <unistd.h>
#include "config/config.h"
#include "io/hdf5/field_io.h"
#include "acquisition/injector.h"
#include "acquisition/wavelet.h"

static char file[64]; /* of wavelets; made by rank 0 */

enum { NX = 13, NY = 9, NZ = 24, FLAT = 40, WIDE = 5 };
static const double DT = 0.001;
static double flat[FLAT];
static const double wide[WIDE][2] = {{0.0005, 2}, {0.0025, -1}, {0.0045, 0.5}, {0.0065, 8}, {0.0085, 3}};

/* --- files of wavelets ------------------------------------------------------------------------------------------ */

static void put(hid_t f, const char *name, int dimensions, hsize_t rows, hsize_t columns,
                const double *values) {
  const hsize_t shape[2] = {rows, columns};
  hid_t space = H5Screate_simple(dimensions, shape, NULL);
  hid_t d = H5Dcreate2(f, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(d >= 0 && H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  assert_true(H5Dclose(d) >= 0 && H5Sclose(space) >= 0);
}

/* A Ricker wavelet of 15 Hz in steps of 4 or 8 ms, from before it begins, or from its peak on; times as files round them. */
enum { TABULATED = 5, MOST_ROWS = 100 };
typedef struct tabulated {
  const char *name;
  double apart, digit, from;
  double off; /* how far it may be from the wavelet, over the peak */
} tabulated;
static const tabulated tables_of_ricker[TABULATED] = {{"even4", 0.004, 0, 0, 1e-5},
                                                      {"even8", 0.008, 0, 0, 1e-4},
                                                      {"third", 0.01 / 3, 1e-6, 0, 1e-4},
                                                      {"late4", 0.004, 0, 0.09, 2e-2},
                                                      {"peak4", 0.004, 0, 0.1, 2e-2}};

static long double ricker(long double time) {
  const long double a = powl(3.14159265358979323846L * 15 * (time - 0.1L), 2);
  return (1 - 2 * a) * expl(-a);
}

static hsize_t tabulate(const tabulated *t, double rows[MOST_ROWS][2]) {
  hsize_t n = 0;
  for (; t->from + (double)n * t->apart < 0.25; n++) {
    const double time = t->from + t->apart * (double)n;
    rows[n][0] = t->digit > 0 ? t->digit * round(time / t->digit) : time;
    rows[n][1] = (double)ricker(time);
  }
  return n;
}

static void make_file(void) {
  const double back[3][2] = {{0, 1}, {2, 1}, {2, 1}}, bad[2] = {1, NAN}, big[2] = {1, -1e39};
  const double jitter[4][2] = {{0, 1}, {0.1, 2}, {0.2002, 3}, {0.3, 4}};
  uint64_t seed = 3;
  for (int i = 0; i < FLAT; i++) flat[i] = (double)test_random(&seed);
  strcpy(file, "wavelets.XXXXXX");
  if (rank == 0) {
    assert_true(mkstemp(file) >= 0);
    hid_t f = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put(f, "flat", 1, FLAT, 0, flat);
    put(f, "wide", 2, WIDE, 2, wide[0]);
    for (hsize_t n = 1; n <= 3; n++)
      put(f, (const char *[]){"rows1", "rows2", "rows3"}[n - 1], 2, n, 2, wide[0]);
    for (int i = 0; i < TABULATED; i++) {
      double rows[MOST_ROWS][2];
      const hsize_t n = tabulate(&tables_of_ricker[i], rows);
      put(f, tables_of_ricker[i].name, 2, n, 2, rows[0]);
    }
    put(f, "jitter", 2, 4, 2, jitter[0]);
    put(f, "big", 1, 2, 0, big);
    put(f, "three", 2, 2, 3, flat);
    put(f, "back", 2, 3, 2, back[0]);
    put(f, "bad", 1, 2, 0, bad);
    assert_true(H5Fclose(f) >= 0);
  }
  MPI_Bcast(file, sizeof file, MPI_CHAR, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

static source_config file_source(const char *dataset, double amplitude) {
  source_config s = {.wavelet = WAVELET_FILE, .amplitude = amplitude};
  snprintf(s.wavelet_file, sizeof s.wavelet_file, "%s:/%s", file, dataset);
  return s;
}

/* --- tables in parts -------------------------------------------------------------------------------------------- */

enum { MANY = 500001 };

static double many_value(int64_t i) {
  return (double)(i % 977) - 0.5 * (double)(i % 13);
}

/* More numbers than a part has, in chunks that end with neither rows nor columns. */
static void make_many(void) {
  const hsize_t shape[2] = {MANY, 3}, chunk[2] = {1000, 2};
  double *values = malloc(3 * MANY * sizeof *values);
  for (int64_t i = 0; i < 3 * MANY; i++) values[i] = many_value(i);
  hid_t f = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate_simple(2, shape, NULL),
        list = H5Pcreate(H5P_DATASET_CREATE);
  assert_true(H5Pset_chunk(list, 2, chunk) >= 0);
  hid_t d = H5Dcreate2(f, "many", H5T_IEEE_F64LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  assert_true(d >= 0 && H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  assert_true(H5Dclose(d) >= 0 && H5Pclose(list) >= 0 && H5Sclose(space) >= 0 && H5Fclose(f) >= 0);
  free(values);
}

typedef struct many_taken {
  int64_t numbers, parts, fails; /* fails: the part with which it does */
} many_taken;

static int take_many(void *context, const table *t, const table_part *p, error *e) {
  many_taken *n = context;
  assert_true(t->rows == MANY && t->columns == 3 && !t->values);
  for (int64_t i = 0; i < p->rows * p->columns; i++)
    assert_true(p->values[i] == many_value((p->row + i / p->columns) * 3 + p->column + i % p->columns));
  n->numbers += p->rows * p->columns;
  return ++n->parts == n->fails ? FAIL(e, OUT_OF_MEMORY, (size_t)7, "a part") : 0;
}

/* Every rank gets every number once; where one fails with a part, all do. */
static void tables_come_in_parts(void) {
  many_taken n = {0};
  const table_sink parts = {take_many, &n};
  table t;
  if (rank == 0) make_many();
  MPI_Barrier(MPI_COMM_WORLD);
  request read = {FILES_READ_TABLE, .path = text_of("%s:/many", file), .form = {.columns = 3, .parts = true},
                  .own.table = &t, .own.parts = &parts};
  OK(files_do(&WORLD, &read, &E));
  assert_true(n.numbers == 3 * MANY && n.parts > 1);
  n = (many_taken){.fails = rank == ranks - 1};
  error e = {0};
  assert_int_equal(files_do(&WORLD, &read, &e), ERROR_OUT_OF_MEMORY);
  assert_true(n.parts == 1 && e.rank == ranks - 1);
  read.form.parts = false;
  OK(files_do(&WORLD, &read, &E));
  for (int64_t i = 0; i < 3 * MANY; i++) assert_true(t.values[i] == many_value(i));
  table_free(&t);
}

/* --- wavelets --------------------------------------------------------------------------------------------------- */

/* t: the table of a source of a file. */
static float value_of(const source_config *s, const wavelet_table *t, double dt, int64_t step) {
  const wavelet w = wavelet_of(s);
  if (!t) return wavelet_value(&w, dt, step);
  const wavelet_place at = wavelet_find(t, dt, step);
  return (float)(s->amplitude * wavelet_sum(t, &at, 0, 0));
}

static void formulas_are_right(void) {
  source_config s = {.f0 = 25, .t0 = 0.06, .amplitude = -3};
  for (int step = 0; step < 300; step++) {
    const long double a = powl(3.14159265358979323846L * 25 * (step * (long double)DT - 0.06L), 2);
    s.wavelet = WAVELET_RICKER;
    assert_true(fabsl(value_of(&s, NULL, DT, step) + 3 * (1 - 2 * a) * expl(-a)) <= 3e-7L);
    s.wavelet = WAVELET_GAUSSIAN;
    assert_true(fabsl(value_of(&s, NULL, DT, step) + 3 * expl(-a)) <= 2e-7L);
  }
  s.wavelet = WAVELET_RICKER;
  assert_true(value_of(&s, NULL, DT, 60) == -3);
  s.f0 = 1e200; /* so far from t0 that a overflows */
  assert_true(value_of(&s, NULL, DT, 0) == 0 && value_of(&s, NULL, DT, INT64_MAX) == 0);
}

static wavelet_table read_table(const char *dataset) {
  wavelet_table t;
  const source_config s = file_source(dataset, 1);
  OK(wavelet_read(&WORLD, s.wavelet_file, &t, &E));
  return t;
}

static void values_of_steps_are_taken(void) {
  source_config s = file_source("flat", 2);
  wavelet_table t = read_table("flat");
  for (int i = 0; i < FLAT + 10; i++)
    assert_true(value_of(&s, &t, DT, i) == (i < FLAT ? (float)(2 * flat[i]) : 0));
  table_free(&t.rows);
}

static void tables_are_near(void) {
  const double dt = 0.0001;
  for (int i = 0; i < TABULATED; i++) {
    const tabulated *want = &tables_of_ricker[i];
    wavelet_table t = read_table(want->name);
    const source_config s = file_source(want->name, 1);
    const double first = t.first, last = t.first + (double)(t.rows.rows - 1) * t.apart;
    long double off = 0;
    for (int step = 0; step < 2600; step++) {
      const double time = step * dt, value = value_of(&s, &t, dt, step);
      if (time >= first && time <= last) off = fmaxl(off, fabsl(value - ricker(time)));
      if (time < first - dt || time > last + dt) assert_true(value == 0);
    }
    if (off > want->off) fail_msg("%s: off by %Lg", want->name, off);
    table_free(&t.rows);
  }
}

/* Rows are hit, and few rows do; a constant and a line stay what they are, to the ends. */
static void tables_of_few_rows(void) {
  const double dt = 0.00025; /* rows of `wide` are at steps 2, 10, 18, 26 and 34 */
  for (int n = 1; n <= WIDE; n++) {
    const source_config s =
        file_source(n < 4 ? (const char *[]){"rows1", "rows2", "rows3"}[n - 1] : "wide", 1);
    wavelet_table t = read_table(strrchr(s.wavelet_file, '/') + 1);
    const int rows = (int)t.rows.rows;
    for (int i = 0; i < 60; i++) {
      const float value = value_of(&s, &t, dt, i);
      if (i < 2 || i > 2 + 8 * (rows - 1)) assert_true(value == 0);
      if (i % 8 == 2 && i / 8 < rows) assert_true(fabs((double)value - wide[i / 8][1]) < 1e-5);
      assert_true(fabsf(value) < 20);
    }
    table_free(&t.rows);
  }
  double line[20];
  wavelet_table t = {
      .rows = {.values = line, .rows = 20, .columns = 1}, .timed = true, .first = 0.002, .apart = 0.001};
  for (int i = 0; i < 20; i++) line[i] = 3 - 0.2 * i;
  for (int i = 20; i <= 210; i++) {
    const wavelet_place at = wavelet_find(&t, 0.0001, i);
    assert_true(fabs(wavelet_sum(&t, &at, 0, NAN) - (3 - 0.02 * (i - 20))) < 2e-5);
  }
}

/* Of tables as of the formula that they were made of; the steps for which they have values. */
static void spectra_are_right(void) {
  const struct {
    const char *name;
    double dt;
    int64_t count, begin, end;
    double dominant, highest;
  } cases[] = {{"even4", 0.001, 300, 0, 249, 15, 37.5},
               {"even4", 0.0021, 3000, 0, 119, 15, 37.5},
               {"even8", 0.0005, 1 << 20, 0, 497, 15, 37.5},
               {"even4", 0.001, 100, 0, 100, 0, 0},
               {"peak4", 0.001, 1000, 100, 249, 0, 0},
               {"flat", 0.01, 1000, 0, FLAT, 0, 0},
               {"flat", 0.01, 30, 0, 30, 0, 0},
               {"wide", 0.001, 9, 1, 9, 0, 0},
               {"wide", 0.011, 9, 1, 1, 0, 0}};
  for (int i = 0; i < COUNT(cases); i++) {
    const int column = 0;
    wavelet_table t = read_table(cases[i].name);
    wavelet_use u;
    OK(wavelet_study_columns(&t, &column, 1, (wavelet_steps){cases[i].dt, cases[i].count, 0}, &u, &E));
    if (u.begin != cases[i].begin || u.end != cases[i].end)
      fail_msg("case %zu: steps %d to %d", i, (int)u.begin, (int)u.end);
    if (cases[i].dominant > 0 && !(fabs(u.dominant - 15) < 1 && fabs(u.highest - 37.5) < 1))
      fail_msg("case %zu: %g Hz, %g Hz", i, u.dominant, u.highest);
    table_free(&t.rows);
  }
  const source_config s = {.wavelet = WAVELET_RICKER, .f0 = 20, .t0 = 0.05, .amplitude = 3};
  const wavelet w = wavelet_of(&s);
  const wavelet_use u = wavelet_study(&w, (wavelet_steps){DT, 10, 0});
  assert_true(u.begin == 0 && u.end == 10 && u.highest == 50 && u.dominant == 20);
  assert_true(fabs(u.start - fabs((double)value_of(&s, NULL, DT, 0)) / 3) < 1e-7);
}

/* The same words on every rank. */
static void expect_refused(const char *dataset, int id, const char *words) {
  source_config s = file_source(dataset, 1);
  config c = {.nx = NX, .ny = NY, .nz = NZ, .dx = 1, .dy = 1, .dz = 1, .source_count = 1, .sources = &s};
  slab b;
  sources planned = {0};
  const problem on = {NULL, &b, &c, &WORLD, NULL};
  error e = {0};
  const char *text = text_of("%s%s%s", file, words[0] == ':' ? "" : ":/", words);
  OK(slab_init(&b, &(slab_shape){.nx = NX, .ny = NY, .nz = NZ}, rank, ranks, &E));
  if (!sources_plan(&planned, &on, (wavelet_steps){DT, 7, 0}, &e)) sources_check(&planned, &c, &e);
  assert_memory_equal(e.text, text, strlen(text)); /* a list of datasets may follow */
  assert_int_equal(e.id, id);
  assert_int_equal(error_exit_code(id), EXIT_CODE_FILE);
  sources_close(&planned);
}

static void bad_files_are_refused(void) {
  expect_refused("three", ERROR_TABLE_SHAPE,
                 "three: expected shape (n,) or (n, 2) with n >= 1, found (2, 3)");
  expect_refused("back", ERROR_WAVELET_TIMES, "back: row 2: expected ascending times, found 2 s after 2 s");
  expect_refused("jitter", ERROR_WAVELET_UNEVEN,
                 "jitter: row 2: expected even times, here 0.2 s, found 0.2002 s");
  expect_refused("bad", ERROR_TABLE_NO_VALUE, "bad: NaN in row 1");
  expect_refused("big", ERROR_WAVELET_SIZE,
                 "big: row 1: expected numbers of a size of at most 3e+38, found -1e+39");
  expect_refused("peak4", ERROR_WAVELET_UNUSED,
                 "peak4: none of its times falls on a step of the run, from 0 to 0.006 s");
  expect_refused("none", ERROR_FIELD_NO_DATASET, ": no dataset /none");
}

/* --- sources ---------------------------------------------------------------------------------------------------- */

/* Sources on points (the last of all axes and both sides of every cut between ranks included) and between points;
 * several at one place, far more than wavelets; some on faces that are held or neumann; along z, which is periodic, some
 * between the last plane and the first, or a period off. */
static source_config *make_sources(int count) {
  source_config *list = calloc((size_t)count, sizeof *list);
  uint64_t seed = 11;
  for (int i = 0; i < count; i++) {
    source_config *s = &list[i];
    const int n[3] = {NX, NY, NZ};
    *s = i % 5 == 3   ? file_source("flat", 1 + i % 3)
         : i % 5 == 4 ? file_source("wide", 1)
                      : (source_config){0};
    if (!s->wavelet_file[0])
      *s = (source_config){.wavelet = i % 5 == 0 ? WAVELET_GAUSSIAN : WAVELET_RICKER,
                           .f0 = 30,
                           .t0 = 0.01 * (i % 4),
                           .amplitude = 1 + i % 2};
    s->number = i + 1;
    for (int axis = 0; axis < 3; axis++) {
      double at = (0.5 + 0.5 * (double)test_random(&seed)) * (n[axis] - 1);
      if (i % 7 < 3 || (i % 7 == 3 && axis == 2)) at = round(at);
      if (i % 11 == 0) at = n[axis] - 1;
      if (i % 11 == 1) at = 0;
      s->position[axis] = 0.1 * at - 5;
    }
    if (i > 3 && i % 6 == 5) memcpy(s->position, list[i - 3].position, sizeof s->position);
    if (i >= NZ) continue;
    s->position[2] = 0.1 * i - 5; /* every plane */
    if (i % 3 == 1) s->position[2] = 0.1 * (NZ - 1 + (i % 2 ? 0.6 : 0.25 + 2 * NZ)) - 5;
  }
  return list;
}

/* What one step adds, on the whole grid, source after source. */
static void expect_step(const config *c, const wavelet_table tables[2], const kernel_args *a, int step,
                        float *u) {
  static float sums[NZ][NY][NX];
  memset(sums, 0, sizeof sums);
  for (int i = 0; i < c->source_count; i++) {
    const source_config *s = &c->sources[i];
    const wavelet_table *t = s->wavelet != WAVELET_FILE        ? NULL
                             : strstr(s->wavelet_file, "flat") ? &tables[0]
                                                               : &tables[1];
    double f[3];
    int at[3];
    for (int axis = 0; axis < 3; axis++) {
      double p = (s->position[axis] + 5) / 0.1;
      while (axis == 2 && p > NZ) p -= NZ;
      const double near = round(p);
      at[axis] = (int)(fabs(p - near) < 1e-12 ? near : p);
      f[axis] = fabs(p - near) < 1e-12 ? 0 : p - at[axis];
    }
    for (int k = 0; k < 8; k++) {
      const int dz = k >> 2, dy = k >> 1 & 1, dx = k & 1;
      const float wz = (float)(dz ? f[2] : 1 - f[2]),
                  wy = (float)((dy ? f[1] : 1 - f[1]) * (at[1] + dy == 0 || at[1] + dy == NY - 1 ? 2 : 1)),
                  wx = (float)((dx ? f[0] : 1 - f[0]) * (at[0] + dx == NX - 1 ? 2 : 1));
      const float w = (wz * wy) * wx;
      if (w == 0) continue;
      float *sum = &sums[(at[2] + dz) % NZ][at[1] + dy][at[0] + dx];
      *sum = fmaf(w, value_of(s, t, DT, step), *sum);
    }
  }
  for (int i = 0; i < NX * NY * NZ; i++) {
    const bool held = a->ghosts[FACE_X_LO] == GHOST_ODD && i % NX == 0;
    if ((&sums[0][0][0])[i] != 0) u[i] = held ? 0 : fmaf(a->scale[0], (&sums[0][0][0])[i], u[i]);
  }
}

static device_event *done[2][STREAM_COUNT]; /* of the last two steps */

/* One step as the step loop does it: cut at `lo` and `hi`, two passes ahead at most. */
static void apply_step(device *dev, injector *s, const kernel_args *args, int lo, int hi, int64_t step) {
  const int cuts[][3] = {
      {STREAM_INTERIOR, lo, hi}, {STREAM_BOUNDARY, 0, lo}, {STREAM_BOUNDARY, hi, args->nz}};
  device_event *const *own = done[step & 1], *const *before = done[!(step & 1)];
  for (int stream = 0; stream < STREAM_COUNT; stream++) {
    OK(dev->table->sync_event(dev, own[stream], &E));
    OK(dev->table->wait(dev, stream, before[!stream], &E));
  }
  for (int i = 0; i < 3; i++) {
    kernel_args a = *args;
    a.z_begin = cuts[i][1], a.z_end = cuts[i][2];
    if (a.z_begin < a.z_end) OK(injector_apply(s, cuts[i][0], &a, step, &E));
  }
  for (int stream = 0; stream < STREAM_COUNT; stream++) OK(dev->table->record(dev, stream, own[stream], &E));
}

static void check_planes(device *dev, const slab *b, const float *memory, const float *expected) {
  const size_t bytes = slab_floats(b) * sizeof(float);
  float *back;
  OK(dev->table->alloc(dev, (void **)&back, bytes, MEMORY_PINNED, &E));
  for (int s = 0; s < STREAM_COUNT; s++) OK(dev->table->sync(dev, s, &E));
  OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){back, memory, bytes, COPY_TO_HOST}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
  for (int z = 0; z < b->nz; z++)
    for (int y = 0; y < NY; y++)
      assert_memory_equal(back + slab_offset(b, z, y, 0), expected + ((b->z0 + z) * NY + y) * NX,
                          NX * sizeof(float));
  OK(dev->table->free(dev, back, MEMORY_PINNED, &E));
}

static void run_sources(device *dev, config *c, int lo, int hi, int steps) {
  float *expected = calloc(NX * NY * NZ, sizeof *expected), *memory;
  wavelet_table tables[2] = {read_table("flat"), read_table("wide")};
  slab b;
  sources s = {0};
  injector j = {0};
  const problem on = {dev, &b, c, &WORLD, NULL};
  OK(slab_init(&b, &(slab_shape){.nx = NX, .ny = NY, .nz = NZ}, rank, ranks, &E));
  const size_t bytes = slab_floats(&b) * sizeof(float), device_before = dev->bytes,
               pinned_before = dev->pinned_bytes;
  float *zeros = calloc(slab_floats(&b), sizeof *zeros);
  size_t on_device, pinned;
  OK(sources_plan(&s, &on, (wavelet_steps){DT, steps, 0}, &E));
  OK(injector_plan(&j, &(sources *){&s}, 1, &on, NY, &E));
  injector_bytes(&j, &on_device, &pinned);
  OK(injector_open(&j, &E));
  assert_int_equal(dev->bytes - device_before, on_device);
  assert_int_equal(dev->pinned_bytes - pinned_before, pinned);
  OK(dev->table->alloc(dev, (void **)&memory, bytes, MEMORY_DEVICE, &E));
  OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){memory, zeros, bytes, COPY_TO_DEVICE}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
  kernel_args args = {
      .out = memory + slab_offset(&b, 0, 0, 0), .scale = {0.7f}, .pitch = b.pitch, .plane = b.plane};
  args.nx = NX, args.ny = NY, args.nz = b.nz;
  args.ghosts[FACE_X_LO] = GHOST_ODD;
  for (int step = 0; step < steps; step++) {
    apply_step(dev, &j, &args, lo, b.nz - hi, step);
    expect_step(c, tables, &args, step, expected);
  }
  check_planes(dev, &b, memory, expected);
  injector_close(&j);
  sources_close(&s);
  OK(dev->table->free(dev, memory, MEMORY_DEVICE, &E));
  assert_int_equal(dev->bytes, device_before);
  table_free(&tables[0].rows);
  table_free(&tables[1].rows);
  free(zeros);
  free(expected);
}

static void all_sources(device *dev) {
  const int counts[] = {3000, 60, 1};
  for (int i = 0; i < 3; i++) {
    config c = {.nx = NX, .ny = NY, .nz = NZ, .dx = 0.1, .dy = 0.1, .dz = 0.1, .origin = {-5, -5, -5}};
    c.sources_interpolation = INTERPOLATION_LINEAR; /* the studies compare sinc */
    c.boundary[FACE_X_LO] = BOUNDARY_DIRICHLET;
    c.boundary[FACE_X_HI] = c.boundary[FACE_Y_LO] = c.boundary[FACE_Y_HI] = BOUNDARY_NEUMANN;
    c.boundary[FACE_Z_LO] = c.boundary[FACE_Z_HI] = BOUNDARY_PERIODIC;
    c.source_count = counts[i];
    c.sources = make_sources(counts[i]);
    run_sources(dev, &c, 0, 0, 3);
    run_sources(dev, &c, 2, 1, 100); /* several times round the ring of signals */
    free(c.sources);
  }
}

TEST_OF(all_tests, const char *backend) {
  const device_options options = {.local_rank = rank, .local_ranks = ranks, .threads = 2};
  device *dev;
  OK(device_open(backend, &options, &dev, &E));
  OK(dev->table->make_events(dev, done[0], 2 * STREAM_COUNT, false, &E));
  field_io_start();
  make_file();
  tables_come_in_parts();
  formulas_are_right();
  values_of_steps_are_taken();
  tables_are_near();
  tables_of_few_rows();
  spectra_are_right();
  bad_files_are_refused();
  all_sources(dev);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) assert_int_equal(unlink(file), 0);
  dev->table->unmake_events(dev, done[0], 2 * STREAM_COUNT);
  dev->table->close(dev);
}

MPI_MAIN
