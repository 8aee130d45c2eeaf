/* Positions that are refused, and files that cannot be written: the exact line, the same on every rank, nothing left
 * behind. */
#include "io/atomic_file.h"
#include "receivers_fixture.h"

static void expect_refused(const char *dataset, int id, const char *words) {
  config c = some_config(0, 1);
  slab b;
  receivers r = {0};
  const problem on = {dev, &b, &c, &WORLD, NULL};
  c.receivers = RECEIVERS_FILE;
  snprintf(c.receivers_file, sizeof c.receivers_file, "%s/bad.h5:/%s", folder, dataset);
  const char *text = text_of("%s/bad.h5%s", folder, words);
  OK(slab_init(&b, &(slab_shape){.nx = NX, .ny = NY, .nz = NZ}, rank, ranks, &E));
  FAILS(receivers_plan(&r, &on, (receivers_span){.pass = 1, .last = 10}, &E), id, text);
  assert_int_equal(error_exit_code(id), EXIT_CODE_FILE);
  receivers_close(&r);
  free(c.receiver_positions);
}

static void bad_positions_are_refused(void) {
  const char *name = text_of("%s/bad.h5", folder);
  const double good[3] = {ORIGIN[0], ORIGIN[1], ORIGIN[2]};
  double values[9], integers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int axis = 0; axis < 3; axis++)
    for (int side = 0; side < 2; side++) {
      for (int i = 0; i < 9; i++) values[i] = good[i % 3];
      values[6 + axis] = ORIGIN[axis] + H[axis] * (side ? N[axis] - 0.99 : -0.01);
      make_positions(name, H5T_IEEE_F64LE, 3, 3, values);
      const char *text = text_of(":/r: row 2: (x, y, z) = (%g, %g, %g) m is outside the grid", values[6],
                                 values[7], values[8]);
      expect_refused("r", ERROR_RECEIVERS_OUTSIDE, text);
    }
  values[4] = NAN;
  make_positions(name, H5T_IEEE_F64LE, 3, 3, values);
  expect_refused("r", ERROR_TABLE_NO_VALUE, ":/r: NaN in row 1");
  expect_refused("s", ERROR_FIELD_NO_DATASET, ": no dataset /s: its 2D datasets are /r");
  make_positions(name, H5T_STD_I16LE, 2, 4, integers);
  expect_refused("r", ERROR_TABLE_SHAPE, ":/r: expected shape (n, 3) with n >= 1, found (2, 4)");
  make_positions(name, H5T_STD_I16LE, 0, 3, integers);
  expect_refused("r", ERROR_TABLE_SHAPE, ":/r: expected shape (n, 3) with n >= 1, found (0, 3)");
  if (rank == 0) assert_int_equal(unlink(name), 0);
}

/* The disk is full from the start, or the folder is missing: one line, the same on every rank, and no file. */
static void a_full_disk_is_an_error(void) {
  const rlim_t limits[] = {0, 100, 3000, 6000, RLIM_INFINITY};
  config c = make_random(100, 1);
  slab b;
  receivers r = {0};
  const problem on = {dev, &b, &c, &WORLD, NULL};
  char name[160], temporary[sizeof name + TEMPORARY_ENDING];
  OK(slab_init(&b, &(slab_shape){.nx = NX, .ny = NY, .nz = NZ}, rank, ranks, &E));
  OK(receivers_plan(&r, &on, (receivers_span){.pass = 1, .first = 200, .last = 300},
                    &E)); /* 200 rows that are NaN */
  OK(receivers_open(&r, &E));
  for (int i = 0; i < COUNT(limits); i++) {
    const bool none = limits[i] == RLIM_INFINITY;
    error e = {0};
    const char *path = text_of("%s%s/full", folder, none ? "/none" : "");
    snprintf(name, sizeof name, "%s.receivers.h5", path);
    const char *text =
        text_of("%s: cannot write: %s", name, none ? "No such file or directory" : "File too large");
    limit_file_size(limits[i]);
    const int id = receivers_write(&r, path, &ABOUT, &e);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(id, ERROR_FILE_WRITE);
    assert_string_equal(e.text, text);
    if (rank == 0) assert_int_equal(access(name, F_OK), -1);
    temporary_name(temporary, sizeof temporary, name);
    if (rank == 0) assert_int_equal(access(temporary, F_OK), -1);
    MPI_Barrier(MPI_COMM_WORLD); /* before rank 0 tries again */
  }
  receivers_close(&r);
  free(c.receiver_positions);
}

static void all_tests(void) {
  bad_positions_are_refused();
  a_full_disk_is_an_error();
}

TEST_OF(errors, const char *backend) {
  with_folder(backend, all_tests);
}

MPI_MAIN
