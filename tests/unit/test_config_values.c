/* The configuration: values, defaults and precedence. */
#include "config_harness.h"

TEST(test_values_taken) {
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

TEST(test_gaussian_defaults) {
  config c = expect_taken(BASE "[initial]\nu = gaussian\n[grid]\norigin = 1 -2 5\ndx = 20\ndy = 0.5\n", NULL);
  assert_true(c.gaussian_center[0] == 1 + 70 && c.gaussian_center[1] == -2 + 2 &&
              c.gaussian_center[2] == 5 + 4.5);
  assert_true(c.gaussian_width == 20); /* 140 / 10 is less than one spacing */
  assert_true(c.gaussian_amplitude == 1);
  c = expect_taken(BASE "[initial]\nu = gaussian\n", "grid.nx=1001");
  assert_true(c.gaussian_width == 100);
}

TEST(test_overrides_replace) {
  const char *overrides[] = {"grid.nx=20", "output.path=~a.b=c", "grid.nx=30", "output.path= x y "};
  config c;
  write_file(BASE "[output]\npath = file\n", strlen(BASE "[output]\npath = file\n"));
  OK(config_load(&c, path, 4, overrides, &E));
  assert_int_equal(c.nx, 30);
  assert_string_equal(c.output_path, "x y");
  OK(config_load(&c, path, 2, overrides, &E));
  assert_int_equal(c.nx, 20);
  assert_string_equal(c.output_path, "~a.b=c");
}

/* Keys act in the order of the table: wider ones first. */
TEST(test_boundary_keys) {
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

TEST(test_heat_and_wave_values) {
  config c = expect_taken(GRID "[time]\nend_time = 2.5e-3\ndt = 1e-4\ncfl = 3\nallow_unstable = yes\n"
                               "[equation]\ntype = wave\nspace_order = 4\n[medium]\nvelocity = m.h5:/a/v\n"
                               "[initial]\nprevious = p q.h5:/u\n",
                          NULL);
  assert_true(c.steps == -1 && c.end_time == 2.5e-3 && c.dt == 1e-4 && c.cfl == 3 && c.allow_unstable);
  assert_int_equal(c.space_order, 4);
  assert_string_equal(c.media[MEDIUM_VELOCITY].file, "m.h5:/a/v");
  assert_int_equal(c.previous, PREVIOUS_FILE);
  assert_string_equal(c.previous_file, "p q.h5:/u");
  c = expect_taken(WAVE, "medium.velocity=2.5e3");
  assert_true(c.media[MEDIUM_VELOCITY].number == 2500 && !c.media[MEDIUM_VELOCITY].file[0]);
  c = expect_taken(HEAT, "medium.diffusivity=in.h5:/d");
  assert_string_equal(c.media[MEDIUM_DIFFUSIVITY].file, "in.h5:/d");
  c = expect_taken(BASE, "time.dt=0.5"); /* jacobi: the label of a step */
  assert_true(c.dt == 0.5);
}

/* The most specific key wins, in whatever order they stand. */
TEST(test_boundaries_taken) {
  config c = expect_taken(WAVE "[boundary]\nx_lo = dirichlet\nz_hi = neumann\nall = absorbing\nx = fixed\n"
                               "y = periodic\nwidth = 9\nvalue = 2\n",
                          NULL);
  static const enum boundary_kind expected[FACE_COUNT] = {BOUNDARY_DIRICHLET, BOUNDARY_FIXED,
                                                          BOUNDARY_PERIODIC,  BOUNDARY_PERIODIC,
                                                          BOUNDARY_ABSORBING, BOUNDARY_NEUMANN};
  assert_memory_equal(c.boundary, expected, sizeof expected);
  assert_int_equal(c.boundary_width, 9);
  assert_true(c.boundary_value == 2);
  c = expect_taken(HEAT "[boundary]\nz_hi = periodic\nz_lo = periodic\nz = dirichlet\n",
                   "boundary.y=neumann");
  assert_int_equal(c.boundary[FACE_Z_LO], BOUNDARY_PERIODIC);
  assert_int_equal(c.boundary[FACE_Z_HI], BOUNDARY_PERIODIC);
  assert_int_equal(c.boundary[FACE_Y_LO], BOUNDARY_NEUMANN);
  assert_int_equal(c.boundary[FACE_X_LO], BOUNDARY_FIXED);
}

TEST(test_sources) {
  config c =
      expect_taken(WAVE "[source.10]\nposition = -100 0 7\nf0 = 25\n" /* the wavelet's default */
                        "[source.2147483647]\nposition = 530 320 137\nwavelet = sig.h5:/s\namplitude = -3\n"
                        "[source.2]\nf0 = 8\nt0 = -1\nwavelet = gaussian\nposition = 0.5 1.25 33\n",
                   "source.10.f0=30");
  static const int numbers[] = {2, 10, INT32_MAX};
  assert_int_equal(c.source_count, 3);
  for (int i = 0; i < 3; i++) assert_int_equal(c.sources[i].number, numbers[i]);
  const source_config *s = c.sources;
  assert_int_equal(s[0].wavelet, WAVELET_GAUSSIAN);
  assert_true(s[0].f0 == 8 && s[0].t0 == -1 && s[0].amplitude == 1);
  assert_true(s[0].position[0] == 0.5 && s[0].position[1] == 1.25 && s[0].position[2] == 33);
  assert_int_equal(s[1].wavelet, WAVELET_RICKER);
  assert_true(s[1].f0 == 30 && s[1].t0 == 1.5 / 30);
  assert_int_equal(s[2].wavelet, WAVELET_FILE);
  assert_string_equal(s[2].wavelet_file, "sig.h5:/s");
  assert_true(s[2].f0 == 0 && s[2].t0 == 0 && s[2].amplitude == -3);
  config_free(&c);
  assert_null(c.sources);
}

/* Many sources, in no order, come out in order. */
TEST(test_many_sources) {
  enum { MANY = 2000, STRIDE = 777 }; /* coprime: every number once */
  static char text[MANY * 80 + sizeof WAVE];
  size_t length = (size_t)sprintf(text, "%s", WAVE);
  for (int i = 0; i < MANY; i++) {
    int n = 1 + i * STRIDE % MANY;
    length += (size_t)sprintf(text + length, "[source.%d]\nposition = %g 0 7\nwavelet = ricker\nf0 = %d\n", n,
                              n / 4.0, n);
  }
  config c = expect_taken(text, "source.5.amplitude=7");
  assert_int_equal(c.source_count, MANY);
  for (int i = 0; i < MANY; i++) {
    assert_int_equal(c.sources[i].number, i + 1);
    assert_true(c.sources[i].f0 == i + 1 && c.sources[i].position[0] == (i + 1) / 4.0);
    assert_true(c.sources[i].amplitude == (i == 4 ? 7 : 1));
  }
  config_free(&c);
}

static void expect_position(const config *c, int i, double x, double y, double z) {
  const double *p = c->receiver_positions[i];
  if (p[0] != x || p[1] != y || p[2] != z) fail_msg("receiver %d at %g %g %g", i, p[0], p[1], p[2]);
}

TEST(test_receivers) {
  config c = expect_taken(BASE, "receivers.points=1 2 3, 0 0 0 ,\t7 8 9");
  assert_int_equal(c.receivers, RECEIVERS_POINTS);
  assert_int_equal(c.receiver_count, 3);
  expect_position(&c, 0, 1, 2, 3);
  expect_position(&c, 1, 0, 0, 0);
  expect_position(&c, 2, 7, 8, 9);
  assert_int_equal(c.receivers_every, 1);
  config_free(&c);

  c = expect_taken(BASE "[receivers]\nevery = 4\nline = 1 8 0.3 5 0 0.7 5", NULL);
  assert_int_equal(c.receivers, RECEIVERS_LINE);
  assert_int_equal(c.receiver_count, 5);
  assert_int_equal(c.receivers_every, 4);
  expect_position(&c, 0, 1, 8, 0.3);
  expect_position(&c, 1, 2, 6, 0.3 + (0.7 - 0.3) / 4);
  expect_position(&c, 4, 5, 0, 0.7);
  config_free(&c);

  c = expect_taken(BASE, "receivers.line=1 2 3 99 99 99 1"); /* the first point alone */
  assert_int_equal(c.receiver_count, 1);
  expect_position(&c, 0, 1, 2, 3);
  config_free(&c);

  c = expect_taken(HEAT, "receivers.positions=r.h5:/position");
  assert_int_equal(c.receivers, RECEIVERS_FILE);
  assert_string_equal(c.receivers_file, "r.h5:/position");
  assert_true(c.receiver_count == 0 && !c.receiver_positions);
}

TEST_MAIN("config_values", enter_folder, leave_folder)
