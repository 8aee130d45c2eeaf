/* The configuration: every rule that concerns several keys, and values of the heat and wave equations that are
 * refused. */
#include <unistd.h>
#include "config_harness.h"
#include "config_same.h"

/* As small as boundaries allow. */
TEST(test_small_grids) {
  static const char small[] = "[grid]\nnx = 4\nny = 5\nnz = 6\n[time]\nsteps = 1\n[equation]\ntype = wave\n"
                              "[boundary]\nx = periodic\ny_lo = neumann\ny_hi = dirichlet\nz_lo = dirichlet\n"
                              "z_hi = absorbing\nwidth = 5\n";
  config c = expect_taken(small, NULL);
  assert_int_equal(c.boundary_width, 5);
  expect_refused(small, "grid.nx=3", "&: expected an integer >= 4 where x_lo is periodic, got 3");
  expect_refused(small, "grid.ny=4", "&: expected an integer >= 5 where y_lo is neumann, got 4");
  expect_refused(small, "grid.nz=4", "&: expected an integer >= 5 where z_lo is dirichlet, got 4");
  expect_refused(small, "boundary.width=6",
                 "& = 6: with nz = 6 no point is left between the absorbing layers");
}

/* An axis of one point has no faces, no spacing and no outside; a 1D run has two of them. */
TEST(test_axes_of_one_point) {
  static const refused cases[] = {
      {WAVE "[boundary]\nz = periodic\ny_lo = neumann\n", "grid.ny=1",
       "t.ini:15: [boundary] y_lo: only where ny > 1"},
      {"[grid]\nnx = 1\nny = 1\nnz = 9\n[time]\nsteps = 1\n", "boundary.x=fixed",
       "command line: [boundary] x: only where nx > 1"},
      {BASE, "grid.nx=1",
       "& = 1 with ny = 9: a 2D run is a section along x, with ny = 1: swap the axes x and y"},
      {"[grid]\nnx = 1\nny = 4\nnz = 9\n[time]\nsteps = 1\n[boundary]\nx = periodic\n", NULL,
       "t.ini:2: [grid] nx = 1 with ny = 4: a 2D run is a section along x, with ny = 1: swap the axes x and "
       "y"},
  };
  static const char *const all[] = {"fixed", "dirichlet", "neumann", "periodic", "absorbing"};
  run_refused(cases, COUNT(cases));
  for (int i = 0; i < COUNT(all); i++)
    for (int nx = 1; nx < 50; nx += 48) {
      char text[512];
      snprintf(text, sizeof text,
               "[equation]\ntype = wave\n[grid]\nnx = %d\nny = 1\nnz = 49\ndy = 1e9\n[time]\nsteps = "
               "1\n[boundary]\n"
               "all = %s\n[source.1]\nposition = 0 1e20 0\nf0 = 1\n[receivers]\npoints = 0 -1e20 7\n",
               nx, all[i]);
      config c = expect_taken(text, "initial.u=gaussian");
      assert_true(c.boundary[FACE_Y_LO] == BOUNDARY_NONE && c.boundary[FACE_Y_HI] == BOUNDARY_NONE);
      assert_int_equal(c.boundary[FACE_X_HI], nx == 1 ? BOUNDARY_NONE : i);
      assert_int_equal(c.boundary[FACE_Z_HI], i);
      assert_true(config_layer_width(&c, FACE_Y_LO) == 0 && c.gaussian_width == 4.8 &&
                  config_coarsest(&c) == 1);
      config_free(&c);
    }
}

/* Along a periodic axis every place is inside. */
TEST(test_positions_modulo_the_period) {
  config c = expect_taken(BASE "[boundary]\nx = periodic\nz = periodic\n",
                          "receivers.points=7.5 0 9.999, -1e9 8 1e12, 8 1 10");
  assert_int_equal(c.receiver_count, 3);
  config_free(&c);
}

/* Faces belong to the grid, also where rounding moves them: 7 * 0.7 < 4.9. */
TEST(test_positions_on_faces) {
  static const char sevenths[] = "[grid]\nnx = 4\nny = 31\nnz = 8\ndx = 0.1\ndy = 0.1\ndz = 0.7\n"
                                 "origin = 0 -0.3 0\n[time]\nsteps = 1\n";
  config c = expect_taken(sevenths, "receivers.points=0.3 2.7 4.9, 0 -0.3 0");
  assert_int_equal(c.receiver_count, 2);
  config_free(&c);
  expect_refused(sevenths, "receivers.points=0.3 2.7 0, 0.30001 0 0",
                 "&: receiver 2 of 2, at 0.30001 0 0 is outside the grid, where x is from 0 to 0.3");
}

/* Refused gradients, and sizes of memory. */
TEST(test_gradient) {
#define GRADIENT WAVE "[gradient]\nobserved = d.h5:/u\n[receivers]\npoints = 7 8 9\n"
  static const refused cases[] = {
      {GRADIENT, "receivers.points=", "t.ini:14: [gradient] observed: only with [receivers]"},
      {GRADIENT, "gradient.adjoint_source=r.h5:/r", "&: only without observed"},
      {GRADIENT, "gradient.observed=d/{name}.h5:/u",
       "command line: [gradient] observed: only with {name} in a survey, whose shots have names"},
      {GRADIENT, "initial.previous=p.h5:/u",
       "t.ini:14: [gradient] observed: only with [initial] previous = rest"},
      {GRADIENT, "checkpoint.every_steps=9",
       "t.ini:14: [gradient] observed: only without [checkpoint] every_steps and every_seconds: it begins "
       "anew"},
      {GRADIENT, "parallel.schedule=persistent", "& = persistent: only without [gradient]"},
      {GRADIENT, "gradient.memory=0", "&: expected auto or a size as 64MB or 40GB, got @"},
      {GRADIENT, "gradient.memory=64 MB", "&: expected auto or a size as 64MB or 40GB, got @"},
      {GRADIENT, "gradient.host_memory=4XB", "&: expected auto or a size as 64MB or 40GB, got @"},
      {GRADIENT, "gradient.file_memory=1iB", "&: expected auto or a size as 64MB or 40GB, got @"},
      {HEAT, "gradient.observed=d.h5:/u", "&: only with type = wave"},
      {BASE, "gradient.adjoint_source=d.h5:/u", "&: only with type = wave"}};
  static const struct {
    const char *text;
    double bytes;
  } sizes[] = {{"auto", 0},   {"12", 12},    {"64MB", 64e6}, {"1.5GB", 1.5e9},
               {"2TB", 2e12}, {"4kB", 4000}, {"3B", 3},      {"1GiB", 0x1p30}};
  run_refused(cases, COUNT(cases));
  for (int i = 0; i < COUNT(sizes); i++) {
    char text[64];
    snprintf(text, sizeof text, "gradient.memory=%s", sizes[i].text);
    config c = expect_taken(GRADIENT, text);
    assert_true(c.gradient_memory == sizes[i].bytes && config_has_gradient(&c));
    config_free(&c);
  }
}

TEST(test_report_over_inputs) {
  static const char *const bases[] = {HEAT "[medium]\ndiffusivity = in.h5:/u\n",
                                      WAVE "[medium]\nvelocity = in.h5:/u\n",
                                      WAVE "[initial]\nu = in.h5:/a/u\n",
                                      WAVE "[initial]\nprevious = in.h5:/u\n",
                                      WAVE "[source.1]\nposition = 0 10 8\nwavelet = in.h5:/u\n",
                                      WAVE "[receivers]\npositions = in.h5:/u\n"};
  FILE *f = fopen("in.h5", "w");
  assert_non_null(f);
  fclose(f);
  for (int i = 0; i < COUNT(bases); i++) {
    expect_refused(bases[i], "report.file=./in.h5",
                   "&: expected a file that the run neither reads nor writes otherwise, got @");
    config c = expect_taken(bases[i], "report.file=./r.json");
    config_free(&c);
  }
  assert_int_equal(unlink("in.h5"), 0);
}

/* A report replaces what is there. */
TEST(test_report_of_its_own) {
  static const char *const taken[] = {"report.file=a/b.xdmf",         "report.file=a/b.hdf.series",
                                      "report.file=a/b.receivers.h5", "report.file=a/b.00000010.hdf",
                                      "report.file=c.00000010.h5",    "report.file=t.ini",
                                      "report.file=./t.ini"}; /* the config */
  static const char *const free[] = {"report.file=a/b.json", "report.file=a/b.x.hdf", "report.file=a/b.hdf",
                                     "report.file=a/b..hdf", "report.file=c.1.h5.json"};
  static const char base[] = BASE "[output]\npath = a/b\n[checkpoint]\npath = c\n";
  for (int i = 0; i < COUNT(taken); i++) {
    char message[256];
    snprintf(message, sizeof message,
             "command line: [report] file: expected a file that the run neither reads nor writes otherwise, "
             "got '%s'",
             strchr(taken[i], '=') + 1);
    expect_refused(base, taken[i], message);
  }
  for (int i = 0; i < COUNT(free); i++) {
    config c = expect_taken(base, free[i]);
    config_free(&c);
  }
}

#define SOURCE           WAVE "[source.3]\nposition = 0 0 7\nwavelet = ricker\nf0 = 20\n"
#define JACOBI_ONLY(key) "command line: [jacobi] " key ": only with type = jacobi"

/* Keys without effect in this configuration are accepted and named; their fields keep the default. */
TEST(test_idle) {
  static const refused cases[] = {
      {BASE, "initial.width=3", "[initial] width"},
      {BASE "[initial]\nseed = 1\nu = gaussian\n", NULL, "[initial] seed"},
      {BASE "[time]\ncfl = 0.5\nallow_unstable = on\n", "equation.space_order=4",
       "[equation] space_order, [time] cfl, [time] allow_unstable"},
      {WAVE, "jacobi.center=1", "[jacobi] center"},
      {HEAT, "jacobi.x=1 2 3 4", "[jacobi] x"},
      {BASE, "medium.velocity=1", "[medium] velocity"},
      {HEAT, "medium.velocity=a:/b", "[medium] velocity"},
      {WAVE, "medium.diffusivity=3", "[medium] diffusivity"},
      {HEAT, "initial.previous=a:/b", "[initial] previous"},
      {WAVE "[boundary]\nvalue = 2\nall = neumann\n", NULL, "[boundary] value"},
      {WAVE, "boundary.width=7", "[boundary] width"},
      {SOURCE, "source.3.wavelet=f:/w", "[source.3] f0"},
      {SOURCE, "receivers.every=2", "[receivers] every"},
      {BASE, "time.end_time=1", ""},
  };
  for (int i = 0; i < COUNT(cases); i++) {
    config c = expect_taken(cases[i].text, cases[i].override);
    assert_string_equal(c.idle, cases[i].message);
    assert_true(c.boundary_width == 20 && c.boundary_value == 0 && c.receivers_every == 1 && c.cfl == 0.9);
    assert_true(c.space_order == 8 && c.jacobi_center == 0.4 && c.jacobi_x[0] == 0.04);
    assert_true(c.media[MEDIUM_VELOCITY].number == 1500 && c.media[MEDIUM_DIFFUSIVITY].number == 1 &&
                c.previous == PREVIOUS_REST);
    config_free(&c);
  }
  expect_refused(BASE, "initial.width=wide", "&: expected a number > 0, got @");
}

TEST(test_only_with) {
  static const refused cases[] = {
      {HEAT "[boundary]\nx_lo = absorbing\n", NULL,
       "t.ini:14: [boundary] x_lo = absorbing: only with type = wave"},
      {BASE, "boundary.all=absorbing", "& = absorbing: only with type = wave"},
      {BASE, "source.12.f0=3", "command line: [source.12]: only with type = wave"},
      {HEAT "[source.4]\n", NULL, "t.ini:13: [source.4]: only with type = wave"},
      {BASE "[receivers]\nline = 1 1 1 2 2 2 2\npositions = f:/r\n", NULL,
       "t.ini:8: [receivers] line: only without positions"},
      {BASE "[receivers]\npositions = f:/r\n", "receivers.points=1 1 1",
       "&: only without positions and line"},
      {BASE "[receivers]\npoints = 1 1 1\n", "receivers.line=1 1 1 2 2 2 2",
       "t.ini:8: [receivers] points: only without positions and line"},
  };
  run_refused(cases, COUNT(cases));
}

TEST(test_values_refused) {
  static const refused cases[] = {
      {WAVE, "equation.space_order=3", "&: expected 2, 4, 6 or 8, got @"},
      {WAVE, "time.cfl=0", "&: expected a number > 0, got @"},
      {WAVE, "medium.velocity=-1", "&: expected a number > 0, got @"},
      {WAVE, "medium.velocity=fast", "&: expected a number > 0 or FILE:/dataset, got @"},
      {WAVE, "medium.velocity=1e21", "&: expected a number from 1e-20 to 1e+20, got @"},
      {HEAT, "medium.diffusivity=:/d", "&: expected a number > 0 or FILE:/dataset, got @"},
      {WAVE "[medium]\nquality = 20\n", "medium.absorption=1",
       "t.ini: [medium] absorption_power: required, but missing"},
      {WAVE "[medium]\nquality = 20\nabsorption_power = 1\n", "medium.absorption=a:/b",
       "command line: [medium] absorption: only without quality"},
      {WAVE, "medium.quality=20", "t.ini: [medium] reference_frequency: required, but missing"},
      {WAVE "[medium]\nquality = 20\n", "medium.absorption_band=3 2",
       "command line: [medium] absorption_band: only a frequency and then a higher one"},
      {WAVE "[medium]\nquality = 20\nreference_frequency = 9\n", "medium.absorption_band=10 90",
       "command line: [medium] absorption_band: only a band with reference_frequency in it, 9 Hz, where "
       "velocity holds"},
      {WAVE "[medium]\nquality = 20\nabsorption_band = 1 8\n[source.1]\nposition = 1 1 1\nf0 = 9\n",
       "medium.mechanisms=1",
       "t.ini:15: [medium] absorption_band: only a band with reference_frequency in it, 9 Hz, where velocity "
       "holds"},
      {WAVE "[boundary]\nvalue = 1\n", "medium.density=a:/b",
       "t.ini:14: [boundary] value: only 0, or without density"},
      {WAVE, "medium.density=0", "&: expected a number > 0, got @"},
      {WAVE, "initial.previous=zero", "&: expected rest or FILE:/dataset, got @"},
      {WAVE "[boundary]\nall=absorbing", "boundary.width=0", "&: expected an integer >= 1, got @"},
      {GRID "[time]\n", "time.end_time=0", "&: expected a number > 0, got @"},
      {GRID "[time]\ndt = 1\n", NULL, "t.ini: [time] steps: required, but missing"},
      {WAVE "[source.5]\n", NULL, "t.ini:13: [source.5] position: required, but missing"},
      {WAVE "[source.5]\nposition = 0 0 7\n", NULL, "t.ini:13: [source.5] f0: required, but missing"},
      {WAVE, "source.5.position=0 0 7", "command line: [source.5] f0: required, but missing"},
      {WAVE "[source.5]\nposition = 0 0 7\nwavelet = gaussian\n", NULL,
       "t.ini:13: [source.5] f0: required, but missing"},
      {SOURCE, "source.3.wavelet=f.h5", "&: expected ricker, gaussian or FILE:/dataset, got @"},
      {SOURCE, "source.3.f0=0", "&: expected a number > 0, got @"},
      {SOURCE, "source.3.position=1 2", "&: expected 3 numbers, got @"},
      {SOURCE, "receivers.every=0", "&: expected an integer >= 1, got @"},
      {SOURCE "[receivers]\npoints = 0 0 7\n", "receivers.every=0", "&: expected an integer >= 1, got @"},
  };
  run_refused(cases, COUNT(cases));
}

TEST(test_boundaries_refused) {
  static const refused cases[] = {
      {WAVE "[boundary]\nx_hi = periodic\n", NULL,
       "t.ini:14: [boundary] x_hi = periodic: x_lo is fixed, but either both faces of an axis are "
       "periodic or neither is"},
      {WAVE "[boundary]\nz_lo = periodic\n", "boundary.z_hi=neumann",
       "& = neumann: z_lo is periodic, but either both faces of an axis are periodic or neither is"},
      {HEAT "[boundary]\ny_lo = dirichlet\nall = periodic\n", NULL,
       "t.ini:14: [boundary] y_lo = dirichlet: y_hi is periodic, but either both faces of an axis are "
       "periodic or neither is"},
      {WAVE "[boundary]\ny = absorbing\nwidth = 33\n", NULL,
       "t.ini:15: [boundary] width = 33: with ny = 65 no point is left between the absorbing layers"},
      {WAVE "[boundary]\nz_lo = absorbing\n", "boundary.width=66",
       "& = 66: with nz = 66 no point is left between the absorbing layers"},
      {WAVE "[boundary]\nall = absorbing\n", "grid.nx=40",
       "t.ini: [boundary] width = 20: with nx = 40 no point is left between the absorbing layers"},
      {WAVE "[boundary]\nall = absorbing\n", "boundary.width=2147483583",
       "& = 2147483583: with nx = 64 no point is left between the absorbing layers"},
  };
  run_refused(cases, COUNT(cases));
  config c = expect_taken(WAVE "[boundary]\nall = absorbing\n", "grid.nx=41");
  assert_int_equal(c.boundary_width, 20);
  c = expect_taken(WAVE "[boundary]\ny = absorbing\n", "boundary.width=32");
  assert_int_equal(c.boundary_width, 32);
}

TEST(test_outside) {
  static const refused cases[] = {
      {SOURCE, "source.3.position=530.1 0 7",
       "&: 530.1 0 7 is outside the grid, where x is from -100 to 530"},
      {SOURCE, "source.3.position=0 -1e-3 7", "&: 0 -0.001 7 is outside the grid, where y is from 0 to 320"},
      {SOURCE, "grid.origin=0 0 8",
       "t.ini:14: [source.3] position: 0 0 7 is outside the grid, where z is from 8 to 138"},
      {BASE "[output]\nbox = 0 8 0 9 0 9\n", NULL,
       "t.ini:8: [output] box: expected x0 <= x1 in the grid, where x is from 0 to 7, with points between, "
       "got '0 8 0 9 0 9'"},
      {BASE "[receivers]\nline = 0 0 0 0 0 10 11\n", NULL,
       "t.ini:8: [receivers] line: receiver 11 of 11, at 0 0 10 is outside the grid, where z is from 0 to 9"},
      {BASE "[receivers]\nline = 0 0 0 0 0 10 10\n", "grid.ny=1",
       "t.ini:8: [receivers] line: receiver 10 of 10, at 0 0 10 is outside the grid, where z is from 0 to 9"},
      {BASE "[receivers]\nline = 0 0 0 0 -7 10 11\n[boundary]\nz = periodic\n", NULL,
       "t.ini:8: [receivers] line: receiver 2 of 11, at 0 -0.7 1 is outside the grid, where y is from 0 to "
       "8"},
  };
  run_refused(cases, COUNT(cases));
}

/* An empty value is as if the key had not been given, there or on an earlier line. */
TEST(test_cleared) {
  config plain = expect_taken(WAVE, NULL), c;
  for (const config_key *k = config_keys; k < config_keys + config_key_count; k++) {
    const char *override = text_of("%s.%s=", k->section, k->name);
    if (strcmp(k->section, "grid") == 0 || strcmp(k->name, "steps") == 0 || strcmp(k->name, "type") == 0)
      continue;
    c = expect_taken(WAVE, override);
    assert_true(config_same(&c, &plain));
  }
  c = expect_taken(WAVE "[boundary]\nx_lo = neumann\nx_lo =\nx_lo = dirichlet\n[output]\npath = a\n",
                   "output.path= ");
  assert_true(c.boundary[FACE_X_LO] == BOUNDARY_DIRICHLET && strcmp(c.output_path, "output") == 0);
  c = expect_taken(SOURCE "[receivers]\nline = 0 0 7 0 0 9 3\npositions = f:/r\n", "receivers.line=");
  assert_true(c.receivers == RECEIVERS_FILE && c.source_count == 1);
  config_free(&c);
  c = expect_taken(SOURCE "position =\nwavelet =\nf0 =\n[equation]\ntype =\ntype = heat", NULL);
  assert_int_equal(c.source_count, 0);
  expect_refused(SOURCE, "source.3.f0=", "&: required, but missing");
  expect_refused(SOURCE "[source.5]\nf0 = 3\nf0 =\nt0 = 1\n", NULL,
                 "t.ini:17: [source.5] position: required, but missing");
}

/* Runs last: a rule that no test above provokes is untested. */
TEST(test_every_rule_was_seen) {
  for (int id = 1; id < ERROR_COUNT; id++)
    if (is_rule(id) && !seen[id]) fail_msg("no test provokes %s", error_name(id));
}

TEST_MAIN("config_rules", enter_folder, leave_folder)
