/* The table of kernels: look-ups by name, what each can do, and names that are nearly right. */
#include "base/nearest.h"
#include "kernels/kernel.h"
#include "test.h"

TEST(kernels_are_found_by_name) {
  const kernel *k = NULL;
  OK(kernel_find("auto", EQUATION_JACOBI, BACKEND_HOST, &k, &E));
  assert_string_equal(k->name, "simd");
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel *want = &kernel_table[i];
    for (int q = 0; q < EQUATION_COUNT; q++) {
      error why = {0};
      int id = kernel_find(want->name, (enum equation)q, want->backend, &k, &why);
      if (!kernel_does(want, (enum equation)q, want->backend)) {
        assert_int_equal(id, ERROR_KERNEL_UNKNOWN);
        continue;
      }
      if (want->host || want->cuda) assert_ptr_equal(k, want);
      assert_int_equal(id, want->host || want->cuda ? 0 : ERROR_KERNEL_NOT_COMPILED);
    }
    assert_false(want->host && want->cuda);
  }
}

TEST(nearest_names) {
  static const char *const names[] = {"nx", "ny", "transport", NULL, "overlap", ""};
  const int count = sizeof names / sizeof names[0];
  assert_string_equal(nearest_name("mx", names, count), "nx");
  assert_string_equal(nearest_name("NY", names, count), "ny");
  assert_string_equal(nearest_name("trasnport", names, count), "transport"); /* swapped */
  assert_string_equal(nearest_name("overlaps", names, count), "overlap");    /* one more */
  assert_string_equal(nearest_name("ovelap", names, count), "overlap");      /* one less */
  assert_null(nearest_name("schedule", names, count));
  assert_null(nearest_name("q", names, count));
  assert_null(nearest_name("", names, count));
  assert_null(nearest_name("nx", names, 0));
  char *endless = malloc(1000001);
  assert_non_null(endless);
  memset(endless, 'n', 1000000);
  endless[1000000] = 0;
  assert_null(nearest_name(endless, names, count));
  endless[64] = 0;
  assert_null(nearest_name(endless, names, count));
  free(endless);
}

TEST_MAIN("registry", NULL, NULL)
