/* What the tests of receivers share: a grid, lists of positions in it, and what surrounds a run of tests. */
#ifndef STENCIL_RECEIVERS_FIXTURE_H
#define STENCIL_RECEIVERS_FIXTURE_H

#include "mpi_main.h"
#include <hdf5.h>
#include <math.h>
#include <unistd.h>
#include "config/config.h"
#include "io/field_io.h"
#include "physics/receiver.h"

static device *dev;
static char folder[64];

enum { NX = 14, NY = 9, NZ = 25 };
static const double DT = 0.25, H[3] = {0.1, 0.25, 2}, ORIGIN[3] = {-5.1, 3, 100};
static const run_meta ABOUT = {
    .step = 77, .time = 77 * 0.25, .dt = 0.25, .config_text = "[grid]\n", .equation = "wave"};
static const int N[3] = {NX, NY, NZ};

static inline config some_config(int count, int64_t every) {
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
static inline config make_random(int count, int64_t every) {
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

static inline void make_positions(const char *name, hid_t type, int rows, int columns, const double *values) {
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
static inline void with_folder(const char *backend, void (*tests)(void)) {
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

#endif
