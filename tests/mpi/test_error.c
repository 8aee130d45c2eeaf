/* Errors as values, and how ranks agree on one. */
#include "mpi_main.h"
#include "base/error_mpi.h"

TEST(the_first_failure_is_kept) {
  error e = {0};
  assert_int_equal(FAIL(&e, SLAB_TOO_THIN, 2, 4), ERROR_SLAB_TOO_THIN);
  assert_int_equal(FAIL(&e, MPI_FAILED, "MPI_Send", "lost"), ERROR_SLAB_TOO_THIN);
  assert_string_equal(e.text, "[grid] nz = 2: at least 4 planes are needed");
}

/* Was it found in this file, at this line and function? */
static void expect_place(const error *e, int line, const char *function) {
  const char *expected = text_of("mpi/test_error.c:%d %s", line, function);
  assert_string_equal(e->place, expected);
}

static int fails_in_mpi(error *e) {
  MPI_TRY(e, MPI_Send(NULL, 1, MPI_INT, ranks + 5, 0, MPI_COMM_WORLD));
  return 0;
}

TEST(errors_say_where) {
  error e = {0}, mpi = {0};
  FAIL(&e, SLAB_TOO_THIN, 2, 4);
  expect_place(&e, __LINE__ - 1, __func__);
  FAIL(&e, SLAB_TOO_THIN, 3, 4);
  expect_place(&e, __LINE__ - 3, __func__);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int line = __LINE__ - 11; /* of MPI_TRY above */
  assert_int_equal(fails_in_mpi(&mpi), ERROR_MPI_FAILED);
  expect_place(&mpi, line, "fails_in_mpi");
}

TEST(messages_are_one_bounded_line) {
  error e = {0};
  char *text = malloc(3 * ERROR_TEXT);
  memset(text, 'x', 3 * ERROR_TEXT - 1);
  text[3 * ERROR_TEXT - 1] = 0;
  text[2] = '\n';
  FAIL(&e, MPI_FAILED, "MPI_Send", text);
  assert_null(strchr(e.text, '\n'));
  assert_int_equal(strlen(e.text), ERROR_TEXT - 1);
  free(text);
}

TEST(every_id_has_a_name_and_an_exit_code) {
  assert_int_equal(error_exit_code(ERROR_NONE), 0);
  for (int id = 1; id < ERROR_COUNT; id++) {
    int code = error_exit_code(id);
    assert_true((code >= 1 && code <= 4) || code == 75);
    assert_true(strlen(error_name(id)) > 3);
  }
}

TEST(all_ranks_get_the_error_of_the_lowest) {
  for (int failing = 0; failing < ranks; failing++) {
    error e = {0};
    if (rank >= failing) FAIL(&e, SLAB_TOO_THIN, 100 + rank, 4);
    assert_int_equal(error_agree(&e, MPI_COMM_WORLD), ERROR_SLAB_TOO_THIN);
    const char *expected = text_of("[grid] nz = %d: at least 4 planes are needed", 100 + failing);
    assert_string_equal(e.text, expected);
    assert_int_equal(e.rank, failing);
    assert_int_equal(error_agree(&e, MPI_COMM_WORLD), ERROR_SLAB_TOO_THIN);
    assert_int_equal(e.rank, failing); /* not the lowest that knows it by now */
  }
  error e = {0};
  assert_int_equal(error_agree(&e, MPI_COMM_WORLD), 0);
}

TEST(mpi_errors_are_named) {
  error e = {0};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rc = MPI_Send(NULL, 1, MPI_INT, ranks + 5, 0, MPI_COMM_WORLD);
  assert_int_equal(error_from_mpi(&e, rc, "MPI_Send(NULL, 1, MPI_INT)"), ERROR_MPI_FAILED);
  assert_int_equal(strncmp(e.text, "MPI_Send failed: MPI_ERR_RANK", 29), 0);
  expect_place(&e, __LINE__ - 2, __func__);
}

MPI_MAIN
