/* What kernel = auto measures and remembers. A cache file that is missing, damaged, foreign or read-only costs a
 * measurement and nothing else. */
#include "test.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "step/tune.h"

static char folder[] = "/tmp/stencil-tune-XXXXXX";
static char path[1024], interior[64], boundary[64];

static int make_folder(void **state) {
  (void)state;
  assert_non_null(mkdtemp(folder));
  setenv("XDG_CACHE_HOME", folder, 1);
  assert_true(tune_cache_path(path));
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  const char *part = text_of("%s/stencil", folder);
  unlink(path);
  return rmdir(part) || rmdir(folder); /* fails if a temporary file was left behind */
}

static void write_text(const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

TEST(remembers_one_choice_a_key) {
  assert_false(tune_recall(path, "a", interior, boundary));
  assert_true(tune_remember(path, "a", "wide", "thin"));
  assert_true(tune_remember(path, "b \"quoted\"", "tall", "flat"));
  assert_true(tune_remember(path, "a", "wider", "thinner"));
  assert_true(tune_recall(path, "a", interior, boundary));
  assert_string_equal(interior, "wider");
  assert_string_equal(boundary, "thinner");
  assert_true(tune_recall(path, "b \"quoted\"", interior, boundary));
  assert_string_equal(interior, "tall");
  assert_string_equal(boundary, "flat");
  assert_false(tune_recall(path, "c", interior, boundary));
}

TEST(a_damaged_file_is_like_none) {
  const char *const texts[] = {"",
                               "{",
                               "[1, 2]",
                               "{\"a\": 3}",
                               "{\"a\": {\"interior\": \"x\"}}",
                               "{\"a\": {\"interior\": \"x\", \"boundary\": 7}}",
                               "\x01\x02\xff"};
  for (int i = 0; i < COUNT(texts); i++) {
    write_text(texts[i]);
    assert_false(tune_recall(path, "a", interior, boundary));
    assert_true(tune_remember(path, "a", "wide", "thin"));
    assert_true(tune_recall(path, "a", interior, boundary));
    assert_string_equal(interior, "wide");
  }
  unlink(path);
  assert_int_equal(mkfifo(path, 0600), 0); /* nobody ever writes to it */
  assert_false(tune_recall(path, "a", interior, boundary));
}

TEST(a_build_for_other_gpus_measures_anew) {
  device dev = {.description = "a card"};
  slab s;
  halo h = {.mapped = true};
  char key[512], code[64];
  assert_int_equal(slab_init(&s, &(slab_shape){.nx = 9, .ny = 9, .nz = 9}, 0, 1, &(error){0}), 0);
  tune_key(key, &(stepper){.dev = &dev, .slab = &s, .halo = &h}, EQUATION_JACOBI);
  device_cuda_version(code);
  assert_non_null(strstr(key, code));
}

TEST(an_endless_name_is_refused) {
  char name[200];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = 0;
  assert_true(tune_remember(path, "a", name, "thin"));
  assert_false(tune_recall(path, "a", interior, boundary));
}

TEST(the_file_does_not_grow_for_ever) {
  char key[32];
  unlink(path);
  for (int i = 0; i < 1010; i++) {
    snprintf(key, sizeof key, "key %d", i);
    assert_true(tune_remember(path, key, "wide", "thin"));
  }
  assert_false(tune_recall(path, "key 9", interior, boundary)); /* the oldest are gone */
  assert_true(tune_recall(path, "key 10", interior, boundary));
  assert_true(tune_recall(path, "key 1009", interior, boundary));
}

TEST(an_unwritable_place_is_no_error) {
  const char *below = text_of("%s/kernels.json", path); /* a folder that is a file: refuses root as well */
  assert_false(tune_remember(below, "a", "wide", "thin"));
  assert_false(tune_recall(below, "a", interior, boundary));
}

TEST(measures_kernels_of_one_step) {
  static const struct {
    const char *name;
    bool measured;
  } known[] = {{"simd", true},
               {"simd_cached", true},
               {"simd_columns", true},
               {"reference", false},
               {"wavefront", false}};
  for (int q = 0; q < EQUATION_COUNT; q++)
    for (int i = 0; i < COUNT(known); i++) {
      const enum equation equation = (enum equation)q;
      const kernel *k;
      OK(kernel_find(known[i].name, equation, BACKEND_HOST, &k, &E));
      assert_int_equal(tune_candidate(k, equation, BACKEND_HOST), known[i].measured);
      kernel others = *k;
      others.equations &= ~(1u << q);
      assert_false(tune_candidate(&others, equation, BACKEND_HOST));
      assert_false(tune_candidate(k, equation, BACKEND_CUDA));
    }
}

TEST_MAIN("tune", make_folder, remove_folder)
