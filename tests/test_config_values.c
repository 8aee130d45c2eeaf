/* The configuration: values, defaults and precedence; random configurations survive config_print and
 * config_load; damaged files give one line and never a crash. */
#include "config_harness.h"

static void test_defaults(void **state) {
  (void)state;
  config c = expect_taken(BASE, NULL);
  assert_string_equal(c.file, path);
  assert_int_equal(c.nx, 8);
  assert_int_equal(c.ny, 9);
  assert_int_equal(c.nz, 10);
  assert_int_equal(c.steps, 3);
  assert_true(c.dx == 1 && c.dy == 1 && c.dz == 1);
  assert_int_equal(c.equation, EQUATION_JACOBI);
  assert_true(c.jacobi_center == 0.4);
  static const double weights[4] = {0.04, 0.03, 0.02, 0.01};
  assert_memory_equal(c.jacobi_x, weights, sizeof weights);
  assert_memory_equal(c.jacobi_y, weights, sizeof weights);
  assert_memory_equal(c.jacobi_z, weights, sizeof weights);
  assert_int_equal(c.initial, INITIAL_ZERO);
  assert_string_equal(c.output_path, "output");
  assert_true(c.overlap);
  assert_string_equal(c.backend, "auto");
  assert_string_equal(c.kernel, "auto");
  assert_string_equal(c.report_file, "");
  assert_int_equal(c.threads, 0);
  assert_int_equal(c.check_every, 100);
  assert_int_equal(c.histogram, 0);
}

static void test_values_taken(void **state) {
  (void)state;
  config c =
      expect_taken(BASE "[jacobi]\nz = -1 2.5 +.5 3e-2\n[initial]\nu = in put.h5:/a/b#c;d ; not part of it\n"
                        "[output]\ncompress: 9\nevery=1.5e3\n[parallel]\noverlap = no\nschedule = steps\n"
                        "[report]\nhistogram = 4096\n",
                   "time.steps=9223372036854775807");
  assert_true(c.jacobi_z[0] == -1 && c.jacobi_z[1] == 2.5 && c.jacobi_z[2] == 0.5 && c.jacobi_z[3] == 3e-2);
  assert_int_equal(c.initial, INITIAL_FILE);
  assert_string_equal(c.initial_file, "in put.h5:/a/b#c;d");
  assert_int_equal(c.compress, 9);
  assert_int_equal(c.histogram, 4096);
  assert_int_equal(c.output_every, 1500);
  assert_false(c.overlap);
  assert_true(c.steps == INT64_MAX);

  c = expect_taken(BASE, "initial.u=-2.5e-1");
  assert_int_equal(c.initial, INITIAL_NUMBER);
  assert_true(c.initial_number == -0.25);
}

static void test_gaussian_defaults(void **state) {
  (void)state;
  config c = expect_taken(BASE "[initial]\nu = gaussian\n[grid]\norigin = 1 -2 5\ndx = 20\ndy = 0.5\n", NULL);
  assert_true(c.gaussian_center[0] == 1 + 70 && c.gaussian_center[1] == -2 + 2 &&
              c.gaussian_center[2] == 5 + 4.5);
  assert_true(c.gaussian_width == 20); /* 140 / 10 is less than one spacing */
  assert_true(c.gaussian_amplitude == 1);
  c = expect_taken(BASE "[initial]\nu = gaussian\n", "grid.nx=1001");
  assert_true(c.gaussian_width == 100);
}

static void test_overrides_replace(void **state) {
  (void)state;
  const char *overrides[] = {"grid.nx=20", "output.path=a.b=c", "grid.nx=30", "output.path= x y "};
  config c;
  error e = {0};
  write_file(BASE "[output]\npath = file\n", strlen(BASE "[output]\npath = file\n"));
  assert_int_equal(config_load(&c, path, 4, overrides, &e), 0);
  assert_int_equal(c.nx, 30);
  assert_string_equal(c.output_path, "x y");
  assert_int_equal(config_load(&c, path, 2, overrides, &e), 0);
  assert_int_equal(c.nx, 20);
  assert_string_equal(c.output_path, "a.b=c");
}

/* This version has one kind of boundary, so that precedence shows in the table only: keys act in its order.
 */
static void test_boundary_keys(void **state) {
  (void)state;
  static const char *const faces[] = {"x_lo", "x_hi", "y_lo", "y_hi", "z_lo", "z_hi"};
  int named = 0;
  for (const config_key *k = config_keys; k < config_keys + config_key_count; k++) {
    if (k->kind != VALUE_FACES) continue;
    for (const config_key *later = k + 1; later < config_keys + config_key_count; later++)
      if (later->kind == VALUE_FACES) assert_int_not_equal(k->faces | later->faces, later->faces);
    for (int f = 0; f < FACE_COUNT; f++) {
      bool belongs = strcmp(k->name, "all") == 0 || strncmp(k->name, faces[f], strlen(k->name)) == 0;
      assert_int_equal(k->faces >> f & 1, belongs);
    }
    named++;
  }
  assert_int_equal(named, 10);
  config c = expect_taken(BASE "[boundary]\nx_lo = fixed\nall = fixed\nz = fixed\nvalue = -3\n", NULL);
  for (int f = 0; f < FACE_COUNT; f++) assert_int_equal(c.boundary[f], BOUNDARY_FIXED);
  assert_true(c.boundary_value == -3);
}

static void test_shipped_examples(void **state) {
  (void)state;
  static const char *const examples[] = {TEST_DATA "/../config/jacobi.ini",
                                         TEST_DATA "/../config/quickstart.ini"};
  for (int i = 0; i < COUNT(examples); i++) {
    config c;
    error e = {0};
    if (config_load(&c, examples[i], 0, NULL, &e)) fail_msg("%s", e.text);
  }
}

/* --- random ------------------------------------------------------------------------------------ */

static uint64_t random_state = 0x9E3779B97F4A7C15u;

static uint64_t random_bits(void) { /* xorshift64* */
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 0x2545F4914F6CDD1Du;
}

static int random_below(int n) {
  return (int)(random_bits() % (uint64_t)n);
}

/* A double of any magnitude within the limits. */
static double random_number(const range *r) {
  for (;;) {
    uint64_t bits = random_bits();
    double number;
    memcpy(&number, &bits, sizeof number);
    if (number >= r->low && number <= r->high) return number; /* NaN is neither */
  }
}

/* "section.key=VALUE" with a value that the key takes. */
static void random_override(char text[CONFIG_TEXT], const config_key *k) {
  int length = snprintf(text, CONFIG_TEXT, "%s.%s=", k->section, k->name);
  char *value = text + length;
  size_t room = CONFIG_TEXT - (size_t)length;
  const choice *choices = k->choices;
  int known = 0;
  while (choices && choices[known].name && choices[known].value != CHOICE_LATER) known++;
  if (k->kind == VALUE_NUMBERS || (k->kind == VALUE_INITIAL && random_below(2))) {
    size_t count = k->kind == VALUE_NUMBERS ? k->size / sizeof(double) : 1;
    for (; count > 0; count--) value += snprintf(value, room / 8, "%.17g ", random_number(k->range));
  } else if (known > 0) {
    snprintf(value, room, "%s", choices[random_below(known)].name);
  } else if (k->kind == VALUE_INTEGER) {
    uint64_t span = (uint64_t)(k->max - k->min) >> random_below(60);
    snprintf(value, room, "%lld", (long long)(k->min + (int64_t)(random_bits() % (span + 1))));
  } else {
    for (int i = 1 + random_below((int)k->size - 1 < 900 ? (int)k->size - 1 : 900); i > 0; i--)
      *value++ = (char)('!' + random_below('~' - '!'));
    *value = '\0';
    if (value[-1] == '#' || value[-1] == ';') value[-1] = 'x';
    char *first = text + length;
    if (*first == '#' || *first == ';') *first = 'x';
  }
}

/* config_print's text read back gives the same struct, and its length is what it says. */
static void expect_round_trip(const config *c) {
  char text[16384];
  size_t length = config_print(c, text, sizeof text);
  assert_true(length < sizeof text && strlen(text) == length);
  config again;
  error e;
  if (load(&again, text, NULL, &e)) fail_msg("%s\n%s", e.text, text);
  assert_memory_equal(&again, c, sizeof again);
}

static void test_round_trip(void **state) {
  (void)state;
  int taken = 0;
  for (int round = 0; round < 2000; round++) {
    char texts[100][CONFIG_TEXT];
    const char *overrides[100];
    int count = 0;
    for (int i = 0; i < config_key_count; i++) {
      if (config_keys[i].kind == VALUE_LATER || random_below(3) == 0) continue;
      if (config_keys[i].only_with != INITIAL_ZERO && random_below(8)) continue;
      random_override(texts[count], &config_keys[i]);
      overrides[count] = texts[count];
      count++;
    }
    write_file(BASE, strlen(BASE));
    config c;
    error e = {0};
    int id = config_load(&c, path, count, overrides, &e);
    if (id == ERROR_CONFIG_ONLY_WITH || id == ERROR_CONFIG_TOO_MANY_POINTS) continue;
    if (id) fail_msg("%s", e.text);
    expect_round_trip(&c);
    taken++;
  }
  assert_true(taken > 500);
}

static void test_print_is_cut_like_snprintf(void **state) {
  (void)state;
  char whole[16384], part[100];
  config c = expect_taken(BASE, "initial.u=gaussian");
  size_t length = config_print(&c, whole, sizeof whole);
  assert_int_equal(config_print(&c, part, sizeof part), length);
  assert_int_equal(strlen(part), sizeof part - 1);
  assert_memory_equal(part, whole, sizeof part - 1);
  assert_int_equal(config_print(&c, NULL, 0), length);
  assert_non_null(strstr(
      whole, "\n[initial]\nu = gaussian\ncenter = 3.5 4 4.5\nwidth = 1\namplitude = 1\n\n[boundary]\n"));
}

/* One random change to `text` of *size bytes, which has room for 64 more. */
static void mutate(char *text, size_t *size) {
  static const char *const words[] = {"[",
                                      "]",
                                      "=",
                                      "\n",
                                      "\r",
                                      ";",
                                      " #",
                                      "\xEF\xBB\xBF",
                                      "[grid]\n",
                                      "nx",
                                      "1e308",
                                      "-",
                                      "9999999999999999999",
                                      "nan",
                                      "u = gaussian\n",
                                      "width = 1\n",
                                      ":/",
                                      "seed",
                                      ".",
                                      "%s%n"};
  const char *word = words[random_below(COUNT(words))];
  size_t at = random_bits() % (*size + 1), length = strlen(word), rest = *size - at;
  switch (random_below(4)) {
  case 0: /* insert */
    memmove(text + at + length, text + at, rest);
    memcpy(text + at, word, length);
    *size += length;
    break;
  case 1: /* delete */
    length = random_bits() % (rest < 40 ? rest + 1 : 40);
    memmove(text + at, text + at + length, rest - length);
    *size -= length;
    break;
  case 2: /* overwrite one byte */
    if (rest > 0) text[at] = (char)random_bits();
    break;
  default: /* copy a piece of the text over another */
    length = rest < 30 ? rest : 30;
    memmove(text + at, text + random_bits() % (*size - length + 1), length);
  }
}

static void test_mutations(void **state) {
  (void)state;
  static const char valid[] = "; c\n[grid]\nnx = 12\nny = 13\nnz = 14 ; c\ndx = 0.5\norigin = 1 2 "
                              "3\n[time]\nsteps = 7\n[jacobi]\ncenter = 0.4\n"
                              "x = 1 2 3 4\n[initial]\nu = gaussian\nwidth = 3\n[boundary]\nall = "
                              "fixed\nvalue = 2\n[output]\npath = out\n"
                              "compress = 3\n[parallel]\ntransport = auto\noverlap = off\n[device]\nthreads "
                              "= 2\n[report]\nprogress = on\n";
  int taken = 0;
  for (int round = 0; round < 20000; round++) {
    char text[4096];
    size_t size = sizeof valid - 1;
    memcpy(text, valid, size);
    for (int i = random_below(3) ? 0 : random_below(8); i >= 0; i--) mutate(text, &size);
    write_file(text, size);
    config c;
    error e;
    if (load_file(&c, NULL, &e)) continue;
    expect_round_trip(&c);
    taken++;
  }
  assert_true(taken > 500 && taken < 15000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults),          cmocka_unit_test(test_values_taken),
      cmocka_unit_test(test_gaussian_defaults), cmocka_unit_test(test_overrides_replace),
      cmocka_unit_test(test_boundary_keys),     cmocka_unit_test(test_shipped_examples),
      cmocka_unit_test(test_round_trip),        cmocka_unit_test(test_print_is_cut_like_snprintf),
      cmocka_unit_test(test_mutations),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
