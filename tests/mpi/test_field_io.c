/* Fields written and read back: every mode, rank count and block size, foreign types, the layout ParaView
 * reads; what is checked before a run. */
#include "field_fixture.h"
#include "io/bytes/atomic_file.h"
#include "io/checkpoint/checkpoint.h"
#include "io/output/gradient_file.h"
#include <fcntl.h>
#include <math.h>
#include <regex.h>
#include <time.h>
#include <utime.h>
#include "version.h"

static const hsize_t SHAPE[3] = {NZ, NY, NX};

static void write_then_read(fixture *x, const slab *s, const char *path, const int accesses[2], size_t block,
                            int compress) {
  char name[160], temporary[sizeof name + TEMPORARY_ENDING];
  field_io out = io_with(x, s, accesses[0], block), in = io_with(x, s, accesses[1], block);
  snprintf(name, sizeof name, "%s.00000042.hdf", path);
  temporary_name(temporary, sizeof temporary, name);
  field_meta meta = some_meta(s->ranks, compress);
  stream source = {s, 0, -1, 0}, sink = {s, 0, -1, 0};
  out.path = path;
  OK(field_write(&out, &meta, &(field_planes){random_source, &source}, NULL, &E));
  assert_int_equal(source.moved, s->nz);
  if (s->rank == 0) assert_int_equal(access(temporary, F_OK), -1);
  snprintf(name, sizeof name, "%s.00000042.hdf:/VTKHDF/PointData/u", path);
  OK(field_read(&in, name, QUANTITY_NONE, random_sink, &sink, &E));
  assert_int_equal(sink.moved, s->nz);
}

/* A plain HDF5 reader finds the same /u for every mode and number of ranks. */
static void check_values(fixture *x, const char *path) {
  static float values[POINTS];
  if (x->rank) return;
  const char *name = text_of("%s.00000042.hdf", path);
  hid_t f = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(f, "/u", H5P_DEFAULT);
  assert_true(H5Dread(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  for (int i = 0; i < POINTS; i++) assert_true(values[i] == random_value((uint64_t)i));
  H5Dclose(d);
  assert_true(H5Fclose(f) >= 0);
}

TEST_OF(test_round_trip, fixture *x) {
  const size_t blocks[] = {1, 3 * PLANE_BYTES + 1, 1 << 30}; /* one plane, three, all */
  const int levels[] = {0, 4};
  const char *path = text_of("%s/u", x->folder);
  for (int i = 0; i < ACCESSES * ACCESSES * 6; i++) {
    const int accesses[2] = {i / 6 % ACCESSES, i / 6 / ACCESSES};
    write_then_read(x, &x->s, path, accesses, blocks[i % 3], levels[i / 3 % 2]);
    check_values(x, path);
    MPI_Barrier(MPI_COMM_WORLD); /* until rank 0 has looked */
  }
}

/* Very different shapes, down to single points along an axis, and chunks narrower than a plane. */
TEST_OF(test_shapes, fixture *x) {
  const int shapes[][3] = {{1, 1, 16}, {1, 9, 17}, {13, 1, 23}, {600, 3, 18}, {3, 1030, 19}};
  const char *path = text_of("%s/shape", x->folder);
  for (int i = 0; i < COUNT(shapes) * 4; i++) {
    const int *n = shapes[i / 4];
    slab s;
    OK(slab_init(&s, &(slab_shape){.nx = n[0], .ny = n[1], .nz = n[2]}, x->rank, x->ranks, &E));
    const int accesses[2] = {i % ACCESSES, i / 4 % ACCESSES};
    write_then_read(x, &s, path, accesses, 20000, i & 2 ? 1 : 0);
  }
}

static void check_numbers(hid_t object, const char *name, hid_t type, int count, const void *expected) {
  char found[128];
  hid_t a = H5Aopen(object, name, H5P_DEFAULT), space = H5Aget_space(a), stored = H5Aget_type(a);
  assert_true(a >= 0);
  hsize_t n = 0;
  assert_int_equal(H5Sget_simple_extent_dims(space, &n, NULL), count ? 1 : 0);
  assert_int_equal(n, count);
  assert_true(H5Tequal(stored, type) > 0 && H5Aread(a, type, found) >= 0);
  assert_memory_equal(found, expected, (size_t)(count ? count : 1) * 8);
  assert_true(H5Tclose(stored) >= 0 && H5Sclose(space) >= 0 && H5Aclose(a) >= 0);
}

static void check_text(hid_t object, const char *name, const char *expected) {
  char *found = NULL;
  hid_t a = H5Aopen(object, name, H5P_DEFAULT), stored = H5Aget_type(a);
  assert_true(a >= 0 && H5Tis_variable_str(stored) > 0 && H5Tget_cset(stored) == H5T_CSET_UTF8);
  assert_true(H5Aread(a, stored, &found) >= 0);
  if (strncmp(expected, "regex:", 6)) {
    assert_string_equal(found, expected);
  } else {
    regex_t r;
    assert_int_equal(regcomp(&r, expected + 6, REG_EXTENDED), 0);
    assert_int_equal(regexec(&r, found, 0, NULL, 0), 0);
    regfree(&r);
  }
  assert_true(H5free_memory(found) >= 0 && H5Tclose(stored) >= 0 && H5Aclose(a) >= 0);
}

/* The exact types that VTK 9.1 and later insist on. */
static void check_image(hid_t f) {
  const int64_t version[] = {1, 0}, extent[] = {0, NX - 1, 0, NY - 1, 0, NZ - 1};
  const double origin[] = {1, -2, 3.5}, spacing[] = {0.25, 0.5, 2}, direction[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  char type[10] = "";
  hid_t image = H5Gopen2(f, "/VTKHDF", H5P_DEFAULT), a = H5Aopen(image, "Type", H5P_DEFAULT),
        t = H5Aget_type(a);
  assert_true(H5Tget_class(t) == H5T_STRING && H5Tis_variable_str(t) == 0 && H5Tget_size(t) == 9);
  assert_true(H5Tget_cset(t) == H5T_CSET_ASCII && H5Tget_strpad(t) == H5T_STR_NULLPAD);
  assert_true(H5Aread(a, t, type) >= 0);
  assert_string_equal(type, "ImageData");
  check_numbers(image, "Version", H5T_NATIVE_INT64, 2, version);
  check_numbers(image, "WholeExtent", H5T_NATIVE_INT64, 6, extent);
  check_numbers(image, "Origin", H5T_NATIVE_DOUBLE, 3, origin);
  check_numbers(image, "Spacing", H5T_NATIVE_DOUBLE, 3, spacing);
  check_numbers(image, "Direction", H5T_NATIVE_DOUBLE, 9, direction);
  assert_true(H5Tclose(t) >= 0 && H5Aclose(a) >= 0 && H5Gclose(image) >= 0);
}

static void check_dataset(hid_t f, int compress) {
  hsize_t shape[3];
  H5O_info_t info[2];
  const char *const names[] = {"/u", "/VTKHDF/PointData/u"};
  for (int i = 0; i < 2; i++) {
    hid_t d = H5Dopen2(f, names[i], H5P_DEFAULT), space = H5Dget_space(d), type = H5Dget_type(d);
    hid_t list = H5Dget_create_plist(d);
    assert_int_equal(H5Sget_simple_extent_dims(space, shape, NULL), 3);
    assert_memory_equal(shape, SHAPE, sizeof shape);
    assert_true(H5Tequal(type, H5T_IEEE_F32LE) > 0);
    assert_int_equal(H5Pget_layout(list), compress ? H5D_CHUNKED : H5D_CONTIGUOUS);
    assert_int_equal(H5Pget_nfilters(list), compress ? 2 : 0);
#if H5_VERSION_GE(1, 12, 0)
    assert_true(H5Oget_info(d, &info[i], H5O_INFO_BASIC) >= 0);
#else
    assert_true(H5Oget_info(d, &info[i]) >= 0);
#endif
    assert_int_equal(info[i].rc, 2); /* two names */
    assert_true(H5Pclose(list) >= 0 && H5Tclose(type) >= 0 && H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
  }
}

TEST_OF(test_layout, fixture *x) {
  const int64_t step = 42, ranks = x->ranks;
  const double time = 0.125, dt = 0.5;
  char path[128], name[160], *text = malloc(200001); /* beyond the 64 KiB of an object header */
  memset(text, 'c', 200000);
  text[200000] = 0;
  snprintf(path, sizeof path, "%s/layout", x->folder);
  snprintf(name, sizeof name, "%s.00000042.hdf", path);
  for (int i = 0; i < 2 * ACCESSES; i++) {
    field_io io = io_with(x, &x->s, i / 2, 1 << 20);
    field_meta meta = some_meta(x->ranks, i % 2);
    stream source = {&x->s, 0, -1, 0};
    meta.run.config_text = text;
    io.path = path;
    OK(field_write(&io, &meta, &(field_planes){random_source, &source}, NULL, &E));
    if (x->rank == 0) {
      hid_t f = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
      assert_true(f >= 0);
      check_image(f);
      check_dataset(f, i % 2);
      check_numbers(f, "step", H5T_NATIVE_INT64, 0, &step);
      check_numbers(f, "mpi_ranks", H5T_NATIVE_INT64, 0, &ranks);
      check_numbers(f, "time", H5T_NATIVE_DOUBLE, 0, &time);
      check_numbers(f, "dt", H5T_NATIVE_DOUBLE, 0, &dt);
      check_text(f, "created_by", "stencil " STENCIL_VERSION);
      check_text(f, "creation_date",
                 "regex:^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z$");
      check_text(f, "git_hash", STENCIL_GIT_HASH);
      check_text(f, "config", text);
      check_text(f, "command", "stencil a.ini");
      check_text(f, "backend", "host");
      check_text(f, "kernel", "simd");
      check_text(f, "transport", "sendrecv");
      check_text(f, "equation", "jacobi");
      assert_true(H5Fclose(f) >= 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  free(text);
}

static void expect_text(const char *path, const char *ending, const char *expected) {
  char file[160], text[8192] = "";
  snprintf(file, sizeof file, "%s%s", path, ending);
  FILE *f = fopen(file, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  assert_string_equal(text, expected);
}

TEST_OF(test_series, fixture *x) {
  static const char paraview[] =
      "{\n  \"file-series-version\": \"1.0\",\n  \"files\": [\n"
      "    {\"name\": \"a&<b>\\\"\\\\\\u0009.00000003.hdf\", \"time\": 0.375},\n"
      "    {\"name\": \"a&<b>\\\"\\\\\\u0009.00000010.hdf\", \"time\": 1.25}\n  ]\n}\n";
  static const char xdmf[] =
      "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Xdmf Version=\"3.0\">\n  <Domain>\n"
      "    <Grid Name=\"series\" GridType=\"Collection\" CollectionType=\"Temporal\">\n"
      "      <Grid Name=\"step 3\" GridType=\"Uniform\">\n"
      "        <Time Value=\"0.375\"/>\n"
      "        <Topology TopologyType=\"3DCoRectMesh\" Dimensions=\"17 5 7\"/>\n"
      "        <Geometry GeometryType=\"ORIGIN_DXDYDZ\">\n"
      "          <DataItem Format=\"XML\" NumberType=\"Float\" Precision=\"8\" Dimensions=\"3\">3.5 -2 "
      "1</DataItem>\n"
      "          <DataItem Format=\"XML\" NumberType=\"Float\" Precision=\"8\" Dimensions=\"3\">2 0.5 "
      "0.25</DataItem>\n"
      "        </Geometry>\n"
      "        <Attribute Name=\"u\" AttributeType=\"Scalar\" Center=\"Node\">\n"
      "          <DataItem Format=\"HDF\" NumberType=\"Float\" Precision=\"4\" Dimensions=\"17 5 7\">"
      "a&amp;&lt;b&gt;&quot;\\\t.00000003.hdf:/u</DataItem>\n"
      "        </Attribute>\n      </Grid>\n    </Grid>\n  </Domain>\n</Xdmf>\n";
  const int64_t steps[] = {3, 10};
  field_meta meta = some_meta(1, 0);
  meta.run.dt = 0.125;
  char path[128];
  error e = {0};
  if (x->rank) return;
  snprintf(path, sizeof path, "%s/a&<b>\"\\\t", x->folder);
  assert_int_equal(series_write(path, steps, 2, &x->s, &meta, &e), 0);
  expect_text(path, ".hdf.series", paraview);
  assert_int_equal(series_write(path, steps, 1, &x->s, &meta, &e), 0); /* replaces the earlier list */
  expect_text(path, ".xdmf", xdmf);
  snprintf(path, sizeof path, "%s/none/a", x->folder);
  const char *text = text_of("%s.xdmf: cannot write: No such file or directory", path);
  assert_int_equal(series_write(path, steps, 1, &x->s, &meta, &e), ERROR_FILE_WRITE);
  assert_string_equal(e.text, text);
}

static named_path output_path(const char *path) {
  return (named_path){"[output] path", path, false};
}

static void expect_path(const char *path, const char *reason) {
  const char *text = text_of("[output] path = %s: cannot be written: %s", path, reason);
  FAILS(path_check_writable(output_path(path), &E), ERROR_PATH_UNUSABLE, text);
}

TEST_OF(test_check_writable, fixture *x) {
  char path[160], reason[256];
  error e = {0};
  if (x->rank) return;
  const char *folder = text_of("%s/empty", x->folder);
  assert_int_equal(mkdir(folder, 0777), 0);
  snprintf(path, sizeof path, "%s/u", folder);
  assert_int_equal(path_check_writable(output_path(path), &e), 0);
  assert_int_equal(rmdir(folder), 0); /* so nothing was left in it */
  assert_int_equal(path_check_writable(output_path("field"), &e), 0);

  bool missing = false;
  assert_int_equal(path_check_writable(output_path(path), &e), 0); /* it can be made */
  for (int i = 0; i < 4; i++) {                                    /* twice dry, and twice not */
    assert_int_equal(path_make_folder(path, i < 2, &missing, &e), 0);
    assert_int_equal(missing, i < 3);
  }
  assert_int_equal(rmdir(folder), 0);
  snprintf(path, sizeof path, "%s/a/u", folder);
  snprintf(reason, sizeof reason, "folder '%s': No such file or directory", folder);
  expect_path(path, reason);
  assert_int_equal(path_make_folder(path, false, &missing, &e), ERROR_FILE_WRITE);
  snprintf(path, sizeof path, "%s/u", folder);
  fclose(fopen(folder, "w"));
  snprintf(reason, sizeof reason, "folder '%s': Not a directory", folder);
  expect_path(path, reason);
  snprintf(path, sizeof path, "%s/a/b", folder);
  snprintf(reason, sizeof reason, "folder '%s/a': Not a directory", folder);
  expect_path(path, reason);
  snprintf(path, sizeof path, "%s/", x->folder);
  expect_path(path, "expected the beginning of a file name, not a folder");
  snprintf(path, sizeof path, "%s/..", x->folder);
  expect_path(path, "expected the beginning of a file name, not a folder");
  expect_path(".", "expected the beginning of a file name, not a folder");
  expect_path("/proc/u", "folder '/proc': No such file or directory");
  expect_path("", "expected the beginning of a file name, not a folder");
}

/* A field's name is refused beforehand if its temporary name would be too long. */
TEST_OF(test_check_longest_name, fixture *x) {
  char path[512], ending[128];
  error e = {0};
  if (x->rank) return;
  temporary_name(ending, sizeof ending, ".00000000.hdf");
  const size_t most = 255 - strlen(ending);
  const int folder = snprintf(path, sizeof path, "%s/", x->folder);
  memset(path + folder, 'x', most + 1);
  path[folder + most + 1] = 0;
  assert_int_equal(path_check_writable(output_path(path), &e), ERROR_PATH_UNUSABLE);
  assert_non_null(strstr(e.text, "File name too long"));
  e = (error){0};
  path[folder + most] = 0;
  assert_int_equal(path_check_writable(output_path(path), &e), 0);
}

typedef struct leftover {
  const char *name, *host;
  bool old, removed;
} leftover;

/* Files half written by processes that are gone, as 99999999 is here. */
static void leave(const char *path, const leftover *left, int count) {
  const struct utimbuf hours = {time(NULL) - 7200, time(NULL) - 7200};
  for (int i = 0; i < count; i++) {
    const char *name = text_of("%s%s.tmp.%s.99999999", path, left[i].name, left[i].host);
    const int fd = open(name, O_CREAT | O_WRONLY, 0666);
    assert_true(fd >= 0 && close(fd) == 0);
    if (left[i].old) assert_int_equal(utime(name, &hours), 0);
  }
}

static void expect_left(const char *path, const leftover *left, int count) {
  for (int i = 0; i < count; i++) {
    const char *name = text_of("%s%s.tmp.%s.99999999", path, left[i].name, left[i].host);
    assert_int_equal(access(name, F_OK), left[i].removed ? -1 : 0);
  }
}

/* What killed runs left half written goes, of any step and of all other files. */
TEST_OF(test_abandoned, fixture *x) {
  char host[65];
  assert_int_equal(gethostname(host, sizeof host), 0);
  const leftover left[] = {{".00000007.hdf", host, false, true},
                           {".00000042.hdf", host, false, true},
                           {".xdmf", host, false, true},
                           {".hdf.series", host, false, true},
                           {".00000008.hdf", "another", true, true},
                           {".00000009.hdf", "another", false, false},
                           {".xdmf", "another", false, false},
                           {".maps.hdf", host, false, true},
                           {".gradient.h5", "another", true, true},
                           {".receivers.h5", host, false, true},
                           {".report.json", host, false, false},
                           {".7.hdf", host, false, false},
                           {".00000007.txt", host, false, false},
                           {"x.00000007.hdf", host, false, false}};
  const int count = x->rank ? 0 : sizeof left / sizeof *left;
  const char *path = text_of("%s/left", x->folder);
  leave(path, left, count);
  if (x->rank == 0) temporary_remove(path, ".hdf", OUTPUT_ENDINGS);
  expect_left(path, left, count);
}

/* Ranks near the first one write its file themselves, even those that do not look for its name; others do not. */
TEST_OF(test_lent, fixture *x) {
  for (int way = 0; way < ACCESSES; way++) {
    new_file f = {.fd = -1};
    if (x->rank == 0) {
      snprintf(f.plan.temporary, sizeof f.plan.temporary, "%s/lent", x->folder);
      assert_int_equal(close(open(f.plan.temporary, O_CREAT | O_WRONLY, 0666)), 0);
    }
    OK(rows_open_new(&x->accesses[way], &f, &E));
    assert_int_equal(f.direct, way < 3 || x->ranks == 1);
    assert_int_equal(f.fd >= 0, way < 3 || x->rank == 0);
    OK(rows_close_new(&f, true, &E));
  }
}

/* `auto` follows what the ranks see. */
TEST_OF(test_modes, fixture *x) {
  const enum io_kind modes[] = {IO_COLLECTIVE, IO_GATHER, IO_SERVER};
  field_io io;
  for (int way = 0; way < ACCESSES; way++) {
    field_io_init(&io, &x->accesses[way], &x->s, IO_AUTO);
    assert_int_equal(io.mode, way < 2 ? IO_COLLECTIVE : IO_GATHER);
    for (int i = 0; i < 3; i++) {
      field_io_init(&io, &x->accesses[way], &x->s, modes[i]);
      assert_int_equal(io.mode, modes[i]);
    }
  }
}

/* Random values times this power of 2. */
typedef struct scaled {
  stream of;
  float sign;
  int exponent;
} scaled;

static int scaled_source(void *context, int z, int planes, float *values, error *e) {
  scaled *t = context;
  TRY(random_source(&t->of, z, planes, values, e));
  for (int i = 0; i < planes * NX * NY; i++) values[i] = t->sign * ldexpf(values[i], t->exponent);
  return 0;
}

/* The gradient of shot `name`: two fields, signals and a misfit. */
static void write_gradient(fixture *x, int way, const char *survey, const char *name,
                           const scaled values[2]) {
  static const float signals[] = {1, 2.5f, -3, 4, 0.25f, 6};
  const double misfit = name[0] + 0.5;
  scaled sources[2] = {values[0], values[1]};
  const field_planes parts[] = {{scaled_source, &sources[0]}, {scaled_source, &sources[1]}};
  const field_name names[] = {GRADIENT_NAMES[GRADIENT_VELOCITY], GRADIENT_NAMES[GRADIENT_IMAGE]};
  const gradient_meta g = {1, &name, &misfit, 2, 3, signals, NULL};
  field_meta meta = some_meta(1, 0);
  field_io io = io_with(x, &x->s, way, 2 * PLANE_BYTES);
  meta.ending = GRADIENT_ENDING, meta.fields = 2, meta.names = names, meta.gradient = &g;
  io.path = text_of("%s/%s", survey, name);
  OK(field_write(&io, &meta, parts, NULL, &E));
}

static void read_values(const char *file, const char *name, hid_t type, void *values) {
  hid_t f = H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(f, name, H5P_DEFAULT);
  assert_true(H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  H5Dclose(d);
  assert_true(H5Fclose(f) >= 0);
}

/* Of a, b and -a, where b is lost in any sum of floating-point numbers with a, exactly b is left, in any order. */
TEST_OF(test_gradients, fixture *x) {
  static const char *const orders[3][3] = {{"1", "2", "3"}, {"3", "1", "2"}, {"2", "3", "1"}};
  static float values[2][POINTS];
  const char *survey = text_of("%s/survey", x->folder), *file = text_of("%s" GRADIENT_ENDING, survey);
  const config c = {.nx = NX, .ny = NY, .nz = NZ};
  if (x->rank == 0) assert_int_equal(mkdir(survey, 0777), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 3; i++) {
    const scaled large = {{&x->s, 0, -1, 0}, i == 2 ? -1 : 1, 90}, small = {{&x->s, 0, -1, 0}, 1, -30};
    const scaled shot[2] = {i == 1 ? small : large, small};
    write_gradient(x, i, survey, orders[0][i], shot);
  }
  for (int i = 0; i < 3 && x->rank == 0; i++) {
    const gradient_meta g = {.shots = 3, .names = orders[i]};
    field_meta meta = some_meta(1, 0);
    double misfit[3];
    meta.gradient = &g;
    OK(gradient_sum(survey, &c, &meta, &E));
    read_values(file, "/velocity", H5T_NATIVE_FLOAT, values[0]);
    read_values(file, "/VTKHDF/PointData/image", H5T_NATIVE_FLOAT, values[1]);
    read_values(file, "/misfit", H5T_NATIVE_DOUBLE, misfit);
    for (int k = 0; k < POINTS; k++) {
      const float b = ldexpf(random_value((uint64_t)k), -30);
      assert_true(values[0][k] == b && values[1][k] == 3 * b);
    }
    for (int k = 0; k < 3; k++) assert_true(misfit[k] == orders[i][k][0] + 0.5);
  }
  if (x->rank) return;
  float signals[6];
  read_values(text_of("%s/2" GRADIENT_ENDING, survey), "/signals", H5T_NATIVE_FLOAT, signals);
  assert_true(signals[1] == 2.5f && signals[5] == 6);
  unlink(text_of("%s/2" GRADIENT_ENDING, survey));
  const gradient_meta g = {.shots = 3, .names = orders[0]};
  field_meta meta = some_meta(1, 0);
  meta.gradient = &g, E = (error){0};
  assert_int_equal(gradient_sum(survey, &c, &meta, &E), ERROR_FIELD_FILE);
  E = (error){0};
}

FIXTURE_MAIN
