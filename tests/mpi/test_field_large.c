/* Fields of more than 2^31 points, more than 4 GiB: planes made and checked on the fly, so that neither memory nor, the
 * values being few and compressed, the disk holds them. */
#include "field_fixture.h"

enum { LARGE_NX = 1600, LARGE_NY = 1400, LARGE_NZ = 1000, PERIOD = 8, SPARSE_PLANES = 3 };
#define LARGE_PLANE ((uint64_t)LARGE_NX * LARGE_NY)
_Static_assert((uint64_t)LARGE_NX *LARGE_NY *LARGE_NZ > (UINT64_C(1) << 31),
               "larger than 32-bit signed numbers");

/* Repeats within a row, which compresses well. A few points of every plane, at different places, have its number, so
 * that misplaced planes and rows are detected. */
static float base_value(int x) {
  return 0.5f + (float)(x % PERIOD);
}

static uint64_t mark_at(int z, int i) {
  return (random_bits((uint64_t)z * 64 + (uint64_t)i) % LARGE_PLANE + (uint64_t)i) % LARGE_PLANE;
}

static float mark_value(int z) {
  return -1.0f - (float)z;
}

enum { MARKS = 5 }; /* a plane */

static void fill_plane(float *values, int z) {
  for (int x = 0; x < LARGE_NX; x++) values[x] = base_value(x);
  for (int y = 1; y < LARGE_NY; y++) memcpy(values + (size_t)y * LARGE_NX, values, LARGE_NX * sizeof *values);
  for (int i = 0; i < MARKS; i++) values[mark_at(z, i)] = mark_value(z);
  values[LARGE_PLANE - 1] = mark_value(z);
}

static int large_source(void *context, int z, int planes, float *values, error *e) {
  const stream *t = context;
  for (int i = 0; i < planes; i++) fill_plane(values + (size_t)i * LARGE_PLANE, t->s->z0 + z + i);
  return stream_advance(context, z, planes, e);
}

static int large_sink(void *context, int z, int planes, float *values, error *e) {
  const stream *t = context;
  float *expected = malloc(LARGE_PLANE * sizeof *expected);
  for (int i = 0; i < planes; i++) {
    fill_plane(expected, t->s->z0 + z + i);
    if (memcmp(expected, values + (size_t)i * LARGE_PLANE, LARGE_PLANE * sizeof *expected) != 0)
      stream_check(false, "a plane differs", t->s->z0 + z + i);
  }
  free(expected);
  return stream_advance(context, z, planes, e);
}

static slab large_slab(const fixture *x) {
  slab s;
  OK(slab_init(&s, &(slab_shape){.nx = LARGE_NX, .ny = LARGE_NY, .nz = LARGE_NZ}, x->rank, x->ranks, &E));
  return s;
}

/* Written compressed, read back in every mode. */
TEST_OF(test_round_trip, fixture *x) {
  const slab s = large_slab(x);
  field_meta meta = some_meta(x->ranks, 1);
  stream source = {&s, 0, -1, 0};
  field_io out = io_with(x, &s, 0, 64 << 20);
  const char *path = text_of("%s/large", x->folder);
  out.path = path;
  OK(field_write(&out, &meta, &(field_planes){large_source, &source}, NULL, &E));
  const char *name = text_of("%s.00000042.hdf:/u", path);
  for (int i = 0; i < ACCESSES; i++) {
    stream sink = {&s, 0, -1, 0};
    field_io in = io_with(x, &s, i, 64 << 20);
    OK(field_read(&in, name, QUANTITY_NONE, large_sink, &sink, &E));
    assert_int_equal(sink.moved, s.nz);
  }
}

/* The planes of a sparse file that are not 0. */
static int sparse_plane(int i) {
  const int planes[SPARSE_PLANES] = {1, 958 /* holds point 2^31 */, LARGE_NZ - 1};
  return planes[i];
}

static void write_plane(hid_t dataset, int z, const float *values) {
  const hsize_t start[3] = {(hsize_t)z, 0, 0}, block[3] = {1, LARGE_NY, LARGE_NX};
  hid_t disk = H5Dget_space(dataset), memory = H5Screate_simple(3, block, NULL);
  assert_true(H5Sselect_hyperslab(disk, H5S_SELECT_SET, start, NULL, block, NULL) >= 0);
  assert_true(H5Dwrite(dataset, H5T_NATIVE_FLOAT, memory, disk, H5P_DEFAULT, values) >= 0);
  assert_true(H5Sclose(memory) >= 0 && H5Sclose(disk) >= 0);
}

/* Rank 0: a contiguous dataset of which the file system holds three planes, and nothing for the rest. */
static void make_sparse(fixture *x, const char *file) {
  if (x->rank == 0) {
    const hsize_t shape[3] = {LARGE_NZ, LARGE_NY, LARGE_NX};
    float *values = malloc(LARGE_PLANE * sizeof *values);
    hid_t f = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
          space = H5Screate_simple(3, shape, NULL);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0);
    hid_t d = H5Dcreate2(f, "u", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    for (int i = 0; i < SPARSE_PLANES; i++) {
      fill_plane(values, sparse_plane(i));
      write_plane(d, sparse_plane(i), values);
    }
    free(values);
    assert_true(H5Dclose(d) >= 0 && H5Pclose(list) >= 0 && H5Sclose(space) >= 0 && H5Fclose(f) >= 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static int sparse_sink(void *context, int z, int planes, float *values, error *e) {
  const stream *t = context;
  float *expected = malloc(LARGE_PLANE * sizeof *expected);
  for (int i = 0; i < planes; i++) {
    const int plane = t->s->z0 + z + i;
    memset(expected, 0, LARGE_PLANE * sizeof *expected);
    for (int k = 0; k < SPARSE_PLANES; k++)
      if (plane == sparse_plane(k)) fill_plane(expected, plane);
    if (memcmp(expected, values + (size_t)i * LARGE_PLANE, LARGE_PLANE * sizeof *expected) != 0)
      stream_check(false, "a plane of the sparse file differs", plane);
  }
  free(expected);
  return stream_advance(context, z, planes, e);
}

/* A contiguous file, whose values are found by their offset. */
TEST_OF(test_contiguous, fixture *x) {
  const slab s = large_slab(x);
  const char *file = text_of("%s/sparse.h5", x->folder);
  const char *name = text_of("%s:/u", file);
  make_sparse(x, file);
  stream sink = {&s, 0, -1, 0};
  field_io in = io_with(x, &s, 1, 64 << 20);
  OK(field_read(&in, name, QUANTITY_NONE, sparse_sink, &sink, &E));
  assert_int_equal(sink.moved, s.nz);
}

FIXTURE_MAIN
