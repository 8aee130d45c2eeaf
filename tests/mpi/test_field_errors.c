/* What field I/O says when something is wrong: the exact line, the same on every rank, nothing left behind,
 * no hang. */
#include "field_fixture.h"
#include "io/bytes/atomic_file.h"
#include "io/hdf5/disk_driver.h"
#include <fcntl.h>
#include <math.h>

static const hsize_t SHAPE[3] = {NZ, NY, NX};
enum { BLOCK = 2 * PLANE_BYTES };

static float *random_field(void) {
  float *values = malloc(POINTS * sizeof *values);
  assert_non_null(values);
  for (int i = 0; i < POINTS; i++) values[i] = random_value((uint64_t)i);
  return values;
}

static void make_float_input(fixture *x, const char *file, const char *dataset, int rank,
                             const hsize_t *shape) {
  float *values = random_field();
  make_input(x, file, dataset, H5T_IEEE_F32LE, rank, shape, NULL, H5T_NATIVE_FLOAT, values);
  free(values);
}

/* Reading `name` fails in every mode, on every rank, with these words. */
static void expect_read(fixture *x, const char *name, int id, const char *text) {
  for (int i = 0; i < ACCESSES; i++) {
    field_io io = io_with(x, &x->s, i, BLOCK);
    stream sink = {&x->s, 0, -1, 0};
    FAILS(field_read(&io, name, QUANTITY_NONE, random_sink, &sink, &E), id, text);
  }
}

TEST_OF(test_names, fixture *x) {
  const char *const names[] = {"", "u.h5", "u.h5:u", ":/u", "u.h5:/"};
  for (int i = 0; i < COUNT(names); i++) {
    const char *text = text_of("'%s': expected FILE:/path, a file and a dataset in it", names[i]);
    expect_read(x, names[i], ERROR_FIELD_NAME, text);
  }
  assert_int_equal(error_exit_code(ERROR_FIELD_NAME), EXIT_CODE_CONFIG);
}

TEST_OF(test_files, fixture *x) {
  char file[128], name[160], text[512];
  snprintf(file, sizeof file, "%s/a:/b", x->folder); /* the last ":/" counts */
  snprintf(name, sizeof name, "%s:/u", file);
  snprintf(text, sizeof text, "%s: cannot open: No such file or directory", name);
  expect_read(x, name, ERROR_FIELD_FILE, text);
  assert_int_equal(error_exit_code(ERROR_FIELD_FILE), EXIT_CODE_FILE);

  snprintf(name, sizeof name, "%s:/u", x->folder);
  snprintf(text, sizeof text, "%s: cannot open: Is a directory", name);
  expect_read(x, name, ERROR_FIELD_FILE, text);

  snprintf(file, sizeof file, "%s/text.h5", x->folder);
  FILE *f = x->rank ? NULL : fopen(file, "w");
  if (f) fprintf(f, "this is no HDF5\n"), fclose(f);
  MPI_Barrier(MPI_COMM_WORLD);
  snprintf(name, sizeof name, "%s:/u", file);
  snprintf(text, sizeof text, "%s: not an HDF5 file", name);
  expect_read(x, name, ERROR_FIELD_NOT_HDF5, text);

  snprintf(file, sizeof file, "%s/short.h5", x->folder);
  make_float_input(x, file, "u", 3, SHAPE);
  struct stat s;
  assert_int_equal(stat(file, &s), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  if (x->rank == 0) assert_int_equal(truncate(file, s.st_size - 100), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  snprintf(name, sizeof name, "%s:/u", file);
  snprintf(text, sizeof text,
           "%s: truncated HDF5 file (truncated file: eof = %lld, sblock->base_addr = 0, stored_eof = %lld)",
           name, (long long)s.st_size - 100, (long long)s.st_size);
  expect_read(x, name, ERROR_FIELD_TRUNCATED, text);
}

TEST_OF(test_datasets, fixture *x) {
  char name[160], text[512];
  const char *file = text_of("%s/many.h5", x->folder);
  make_float_input(x, file, "/a/deep/v", 3, SHAPE);
  if (x->rank == 0) {
    hsize_t flat[2] = {3, 4};
    hid_t f = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT), s = H5Screate_simple(2, flat, NULL);
    H5Dclose(H5Dcreate2(f, "flat", H5T_IEEE_F32LE, s, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    assert_true(H5Lcreate_soft("/", f, "loop", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_soft("/nowhere", f, "dangling", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_hard(f, "/a/deep/v", f, "/b", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Sclose(s) >= 0 && H5Fclose(f) >= 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const char *const missing[] = {"/u", "/a/u", "/no/such/group", "/b/under/a/dataset"};
  for (int i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "%s:%s", file, missing[i]);
    /* once, though it has two names */
    snprintf(text, sizeof text, "%s: no dataset %s: its 3D datasets are /a/deep/v", file, missing[i]);
    expect_read(x, name, ERROR_FIELD_NO_DATASET, text);
  }
  snprintf(name, sizeof name, "%s:/a/deep", file);
  snprintf(text, sizeof text, "%s: /a/deep is a group, not a dataset", file);
  expect_read(x, name, ERROR_FIELD_NOT_DATASET, text);
  snprintf(name, sizeof name, "%s:/flat", file);
  snprintf(text, sizeof text, "%s: expected shape (nz, ny, nx) = (17, 5, 7), found (3, 4)", name);
  expect_read(x, name, ERROR_FIELD_SHAPE, text);

  make_float_input(x, file, "flat", 1, (hsize_t[]){12});
  snprintf(name, sizeof name, "%s:/u", file);
  snprintf(text, sizeof text, "%s: no dataset /u: it holds no 3D dataset", file);
  expect_read(x, name, ERROR_FIELD_NO_DATASET, text);
}

TEST_OF(test_shapes, fixture *x) {
  const hsize_t shapes[][4] = {{NX, NY, NZ}, {NZ, NY, NX, 1}, {POINTS}, {0}};
  const int ranks[] = {3, 4, 1, 0};
  const char *const found[] = {"(7, 5, 17)", "(17, 5, 7, 1)", "(595,)", "a scalar"};
  const char *file = text_of("%s/shape.h5", x->folder);
  const char *name = text_of("%s:/u", file);
  for (int i = 0; i < 4; i++) {
    make_float_input(x, file, "u", ranks[i], shapes[i]);
    const char *text = text_of("%s: expected shape (nz, ny, nx) = (17, 5, 7), found %s", name, found[i]);
    expect_read(x, name, ERROR_FIELD_SHAPE, text);
  }
}

TEST_OF(test_types, fixture *x) {
  hid_t compound = H5Tcreate(H5T_COMPOUND, 8), enumeration = H5Tenum_create(H5T_NATIVE_INT8);
  H5Tinsert(compound, "re", 0, H5T_IEEE_F32LE);
  H5Tinsert(compound, "im", 4, H5T_IEEE_F32LE);
  H5Tenum_insert(enumeration, "FALSE", (signed char[]){0}); /* what h5py stores booleans as */
  const hid_t types[] = {H5T_C_S1, compound, enumeration};
  const char *const found[] = {"strings", "compound values", "enumerated values"};
  char file[128];
  snprintf(file, sizeof file, "%s/type.h5", x->folder);
  const char *name = text_of("%s:/u", file);
  for (int i = 0; i < 3; i++) {
    make_input(x, file, "u", types[i], 3, SHAPE, NULL, types[i], NULL);
    const char *text = text_of("%s: expected integers or floating-point numbers, found %s", name, found[i]);
    expect_read(x, name, ERROR_FIELD_TYPE, text);
  }
  H5Tclose(compound);
  H5Tclose(enumeration);
}

/* Several bad values in slabs of several ranks: the message names the first in the order of the file. */
TEST_OF(test_nonfinite, fixture *x) {
  const double bad[] = {NAN, INFINITY, -INFINITY, 1e300};
  const char *const named[] = {"NaN", "Inf, or a value beyond float32,", "Inf, or a value beyond float32,",
                               "Inf, or a value beyond float32,"};
  const int points[][3] = {{0, 0, 0}, {NZ - 1, NY - 1, NX - 1}, {9, 3, 5}, {2, 4, 1}};
  double *values = malloc(POINTS * sizeof *values);
  const char *file = text_of("%s/nan.h5", x->folder);
  const char *name = text_of("%s:/u", file);
  for (int i = 0; i < 16; i++) {
    const int *p = points[i / 4];
    for (int k = 0; k < POINTS; k++) values[k] = (double)random_value((uint64_t)k);
    values[POINTS - 1] = NAN;
    values[(p[0] * NY + p[1]) * NX + p[2]] = bad[i % 4];
    make_input(x, file, "u", H5T_IEEE_F64LE, 3, SHAPE, NULL, H5T_NATIVE_DOUBLE, values);
    const char *text = text_of("%s: %s at (z, y, x) = (%d, %d, %d)", name, named[i % 4], p[0], p[1], p[2]);
    expect_read(x, name, ERROR_FIELD_NO_VALUE, text);
  }
  free(values);
}

/* One chunk in the slab of the last rank cannot be decoded. */
TEST_OF(test_bad_chunk, fixture *x) {
  const hsize_t chunk[3] = {1, NY, NX}, at[3] = {NZ - 1, 0, 0};
  float *values = random_field();
  char file[128];
  snprintf(file, sizeof file, "%s/chunk.h5", x->folder);
  const char *name = text_of("%s:/u", file);
  make_input(x, file, "u", H5T_IEEE_F32LE, 3, SHAPE, chunk, H5T_NATIVE_FLOAT, values);
  if (x->rank == 0) {
    hid_t f = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT), d = H5Dopen2(f, "u", H5P_DEFAULT);
    assert_true(H5Dwrite_chunk(d, H5P_DEFAULT, 0, at, 100, values) >= 0);
    assert_true(H5Dclose(d) >= 0 && H5Fclose(f) >= 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < ACCESSES; i++) {
    field_io io = io_with(x, &x->s, i, 1); /* plane by plane */
    stream sink = {&x->s, 0, -1, 0};
    error e = {0};
    assert_int_equal(field_read(&io, name, QUANTITY_NONE, random_sink, &sink, &e), ERROR_INPUT_ROWS);
    const char *text = text_of("%s: cannot read rows %d to %d (", name, NZ - 1, NZ - 1);
    assert_memory_equal(e.text, text,
                        strlen(text)); /* and why, which each version of HDF5 says in its own words */
  }
  free(values);
}

/* Neither the file nor its temporary is there. */
static void expect_nothing(fixture *x, const char *path) {
  char name[160], temporary[sizeof name + TEMPORARY_ENDING];
  MPI_Barrier(MPI_COMM_WORLD);
  snprintf(name, sizeof name, "%s.00000042.hdf", path);
  if (x->rank == 0) assert_int_equal(access(name, F_OK), -1);
  temporary_name(temporary, sizeof temporary, name);
  if (x->rank == 0) assert_int_equal(access(temporary, F_OK), -1);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* The sink or the source of one rank alone fails, at its first and its last plane, with small blocks and
 * large. */
TEST_OF(test_one_rank_fails, fixture *x) {
  const size_t blocks[] = {1, BLOCK, 1 << 20};
  char name[160];
  const char *path = text_of("%s/fails", x->folder);
  snprintf(name, sizeof name, "%s/good.h5:/u", x->folder);
  *strrchr(name, ':') = 0;
  make_float_input(x, name, "u", 3, SHAPE);
  strcat(name, ":/u");
  for (int i = 0; i < x->ranks * 2 * 3 * ACCESSES * 2; i++) {
    int rank = i % x->ranks, rest = i / x->ranks, z = rest % 2 ? x->s.nz - 1 : 0;
    field_io io = io_with(x, &x->s, rest / 6 % ACCESSES, blocks[rest / 2 % 3]);
    field_meta meta = some_meta(x->ranks, rest / 6 / ACCESSES % 2);
    stream t = {&x->s, 0, rank, z};
    error e = {0}, r = {0};
    io.path = path;
    assert_int_equal(field_write(&io, &meta, &(field_planes){random_source, &t}, NULL, &e),
                     ERROR_DEVICE_FAILED);
    assert_string_equal(e.text, "test device: a copy failed: on purpose");
    expect_nothing(x, path);
    t.moved = 0;
    assert_int_equal(field_read(&io, name, QUANTITY_NONE, random_sink, &t, &r), ERROR_DEVICE_FAILED);
    assert_string_equal(r.text, e.text);
  }
}

/* HDF5 may read its own records through the driver: it reads what it wrote, and 0 elsewhere. */
TEST_OF(test_driver_reads, fixture *x) {
  enum { ROWS = 128 }; /* more bytes than HDF5 keeps in a buffer of its own */
  const hsize_t shape[] = {ROWS, POINTS};
  char name[128];
  new_hdf5 f = {.name = name};
  static float found[ROWS][POINTS];
  memset(found, 1, sizeof found);
  float *values = random_field();
  snprintf(name, sizeof name, "%s/driver.%d", x->folder, x->rank);
  new_hdf5_create(&f, name, 0);
  hid_t list = H5Pcreate(H5P_DATASET_CREATE), file_space = H5Screate_simple(2, shape, NULL);
  assert_true(H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) >= 0 &&
              H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0);
  hid_t row = H5Screate_simple(1, shape + 1, NULL);
  hid_t u = H5Dcreate2(f.file, "u", H5T_NATIVE_FLOAT, file_space, H5P_DEFAULT, list, H5P_DEFAULT);
  assert_true(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, (hsize_t[]){1, 0}, NULL, (hsize_t[]){1, POINTS},
                                  NULL) >= 0);
  assert_true(H5Dwrite(u, H5T_NATIVE_FLOAT, row, file_space, H5P_DEFAULT, values) >= 0);
  assert_true(H5Dread(u, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found) >= 0);
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < POINTS; i++) assert_float_equal(found[r][i], r == 1 ? values[i] : 0, 0);
  H5Dclose(u), H5Sclose(row), H5Sclose(file_space), H5Pclose(list);
  OK(new_hdf5_close(&f, &E));
  free(values);
}

FIXTURE_MAIN
