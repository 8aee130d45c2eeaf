/* The configuration: every message about a single entry. */
#include "config_harness.h"

TEST(test_syntax) {
  static const refused cases[] = {
      {"nx = 3\n", NULL, "t.ini:1: nx: comes before any [section]"},
      {"[grid]\nnx\n", NULL, "t.ini:2: expected [section] or key = value, got 'nx'"},
      {"[grid]\n= 3\n", NULL, "t.ini:2: expected [section] or key = value, got '= 3'"},
      {"[grid]\n : 3\n", NULL, "t.ini:2: expected [section] or key = value, got ': 3'"},
      {"[grid\n", NULL, "t.ini:1: expected [section] or key = value, got '[grid'"},
      {"[grid] nx = 3\n", NULL, "t.ini:1: expected [section] or key = value, got '[grid] nx = 3'"},
      {"[grid]]\n", NULL, "t.ini:1: expected [section] or key = value, got '[grid]]'"},
      {"[gird]\n", NULL, "t.ini:1: [gird]: unknown section (did you mean 'grid'?)"},
      {"[]\n", NULL,
       "t.ini:1: []: unknown section (known: grid, equation, time, jacobi, medium, survey, initial, "
       "boundary, "
       "source.1, sources, receivers, gradient, output, maps, checkpoint, parallel, device, report)"},
      {"[source.0]\n", NULL, "t.ini:1: [source.0]: unknown section (did you mean 'source.1'?)"},
      {"[source.01]\n", NULL, "t.ini:1: [source.01]: unknown section (did you mean 'source.1'?)"},
      {"[source.]\n", NULL, "t.ini:1: [source.]: unknown section (did you mean 'source.1'?)"},
      {"[source.2147483648]\n", NULL,
       "t.ini:1: [source.2147483648]: unknown section (known: grid, equation, time, jacobi, medium, survey, "
       "initial, boundary, source.1, sources, receivers, gradient, output, maps, checkpoint, parallel, "
       "device, "
       "report)"},
      {"[source.7]\nfo = 1\n", NULL, "t.ini:2: [source.7] fo: unknown key (did you mean 'f0'?)"},
      {"[source.7]\nf0 = 1\n[source.8]\nf0 = 1\n[source.7]\nf0 = 1\n", NULL,
       "t.ini:6: [source.7] f0: already given on line 2"},
      {"[source.1x]\n", NULL, "t.ini:1: [source.1x]: unknown section (did you mean 'source.1'?)"},
      {"[time]\nstep = 3\n", NULL, "t.ini:2: [time] step: unknown key (did you mean 'steps'?)"},
      {"[time]\nSteps = 3\n", NULL, "t.ini:2: [time] Steps: unknown key (did you mean 'steps'?)"},
      {"[output]\nprefix = 3\n", NULL,
       "t.ini:2: [output] prefix: unknown key (known: path, name, every, final, replace, box, stride, "
       "compress)"},
      {BASE "steps = 4\n", NULL, "t.ini:7: [time] steps: already given on line 6"},
      {BASE "[grid]\nnx = 8\n", NULL, "t.ini:8: [grid] nx: already given on line 2"},
      {BASE "[time]\nsteps = 3 = 4\n", "time.steps=1", "t.ini:8: [time] steps: already given on line 6"},
      /* counted: comments, empty lines, CRLF, byte order mark, no final newline */
      {"; c\n\n# c\n[grid]\n  ; c\n\t# c = d\nny = 1\nnx = a ; c", NULL,
       "t.ini:8: [grid] nx: expected an integer >= 1, got 'a'"},
      {"[grid]\r\nnx = 1\r\n\r\nny = b\r\n", NULL, "t.ini:4: [grid] ny: expected an integer >= 1, got 'b'"},
      {"\xEF\xBB\xBF[grid]\nnx = c\n", NULL, "t.ini:2: [grid] nx: expected an integer >= 1, got 'c'"},
      {"\xEF\xBB\xBF; c\n[grid]\nnx = d\n", NULL, "t.ini:3: [grid] nx: expected an integer >= 1, got 'd'"},
      /* an indented line is no continuation */
      {"[grid]\nnx = 4\n    ny = e\n", NULL, "t.ini:3: [grid] ny: expected an integer >= 1, got 'e'"},
      {"[grid]\nnx = 4\n    5\n", NULL, "t.ini:3: expected [section] or key = value, got '5'"},
  };
  run_refused(cases, COUNT(cases));
}

#define LINE_EXPECTED   "&: expected x0 y0 z0 x1 y1 z1 n, with n from 1 to 1000000, got @"
#define POINTS_EXPECTED "&: expected x y z, x y z, ..., at most 200 points, got @"

TEST(test_values) {
  static const refused cases[] = {
      {"", NULL, "t.ini: [grid] nx: required, but missing"},
      {"[grid]\nnx = 1\nny = 1\nnz = 1\n", NULL, "t.ini: [time] steps: required, but missing"},
      {BASE, "grid.nx=abc", "&: expected an integer >= 1, got @"},
      {BASE, "grid.nx=", "&: required, but missing"},
      {BASE "[grid]\nny = 4\nny =\n", NULL, "t.ini:8: [grid] ny: already given on line 3"},
      {"[grid]\nnx = 1\nny = 1\nnz = 1\nny =\n", NULL, "t.ini:5: [grid] ny: required, but missing"},
      {BASE, "grid.nx=0|8.5|0x10|8 9|1e|-99999999999999999999", "&: expected an integer >= 1, got @"},
      {BASE, "grid.nx=2147483584|1e10", "&: expected an integer <= 2147483583, got @"},
      {BASE, "time.steps=-1", "&: expected an integer >= 0, got @"},
      {BASE, "time.steps=9223372036854775808|1e19", "&: expected an integer <= 9223372036854775807, got @"},
      {BASE, "report.histogram=4097", "&: expected an integer <= 4096, got @"},
      {BASE, "output.compress=10", "&: expected an integer from 0 to 9, got @"},
      {BASE, "device.threads=0", "&: expected auto or an integer >= 1, got @"},
      {BASE, "device.threads=4097", "&: expected auto or an integer <= 4096, got @"},
      {BASE, "grid.dx=0|nan|1e400|1e-400", "&: expected a number > 0, got @"},
      {BASE, "grid.dx=1e-16", "&: expected a number from 1e-15 to 1e+15, got @"},
      {BASE, "grid.dz=1e19", "&: expected a number from 1e-15 to 1e+15, got @"},
      {BASE, "time.dt=0|automatic", "&: expected auto or a number > 0, got @"},
      {BASE, "receivers.positions=r.h5", "&: expected FILE:/dataset, got @"},
      {BASE,
       "receivers.line=1 1 1 2 2 2|1 1 1 2 2 2 0|1 1 1 2 2 2 1000001|1 1 1 2 2 2 1.5|1 1 1 2 2 2 3 4|1 1 a 2 "
       "2 2 3",
       LINE_EXPECTED},
      {BASE, "receivers.points=1 1|1 1 1,|1 1 1,2 2 2 2|1 1 1 2 2 2|1 1 nan", POINTS_EXPECTED},
      {BASE, "boundary.all=mirror", "&: expected fixed, dirichlet, neumann, periodic or absorbing, got @"},
      {BASE, "boundary.value=inf|.", "&: expected a number, got @"},
      {BASE, "boundary.value=1e39", "&: expected a number from -3e+38 to 3e+38, got @"},
      {BASE, "grid.origin=1 2|1 2 3 4|1,2,3", "&: expected 3 numbers, got @"},
      {BASE, "grid.origin=1 2 1e21", "&: expected 3 numbers from -1e+20 to 1e+20, got @"},
      {BASE, "jacobi.y=1 2 3", "&: expected 4 numbers, got @"},
      {BASE, "parallel.overlap=1", "&: expected on, off, true, false, yes or no, got @"},
      {BASE, "equation.type=jacob", "&: expected jacobi, heat or wave, got @"},
      {BASE, "parallel.transport=mpi",
       "&: expected auto, sendrecv, chunked, shared, cuda_aware, ipc or nccl, got @"},
      {BASE, "parallel.io=mpi", "&: expected auto, collective, gather or server, got @"},
      {BASE, "device.backend=CUDA", "&: expected auto, cuda or host, got @"},
      {BASE, "initial.u=sphere|file.h5:/|a:/b.h5:/|:/u",
       "&: expected zero, gaussian, random, a number or FILE:/dataset, got @"},
      {BASE, "initial.u=-1e39", "&: expected a number from -3e+38 to 3e+38, got @"},
      {BASE "[initial]\nu = gaussian\nwidth = -1\n", NULL,
       "t.ini:9: [initial] width: expected a number > 0, got '-1'"},
  };
  run_refused(cases, COUNT(cases));
}

TEST(test_overrides_refused) {
  static const refused cases[] = {
      {BASE, "grid", "grid: expected section.key=value"},
      {BASE, "nx=3", "nx=3: expected section.key=value"},
      {BASE, ".nx=3", ".nx=3: expected section.key=value"},
      {BASE, "grid.=3", "grid.=3: expected section.key=value"},
      {BASE, "grid=a.b", "grid=a.b: expected section.key=value"},
      {BASE, "", ": expected section.key=value"},
      {BASE, "gris.nx=3", "command line: [gris]: unknown section (did you mean 'grid'?)"},
      {BASE, "grid.xn=3", "&: unknown key (did you mean 'nx'?)"},
      {BASE, "source.12.f=3", "&: unknown key (did you mean 'f0'?)"},
      {BASE, "source.0.f0=3", "command line: [source.0]: unknown section (did you mean 'source.1'?)"},
      {BASE, "source.f0=3", "command line: [source]: unknown section (did you mean 'sources'?)"},
      {BASE, "output.path=a/\xff|\xc0\xaf|e\xc3|\xed\xa0\x80|\xf4\x90\x80\x80",
       "&: expected a file name in UTF-8, got @"},
      {BASE, "output.path=a #b",
       "&: control characters, and # or ; after a blank or at the start, cannot be part of a value"},
      {BASE, "output.path=;b",
       "&: control characters, and # or ; after a blank or at the start, cannot be part of a value"},
      {BASE, "output.path=~/x",
       "&: ~ and $ are not expanded: expected the folder itself (or ./ before its name), got @"},
      {BASE, "checkpoint.path=~",
       "&: ~ and $ are not expanded: expected the folder itself (or ./ before its name), got @"},
      {BASE, "initial.u=~me/b.h5:/u",
       "&: ~ and $ are not expanded: expected the folder itself (or ./ before its name), got @"},
      {BASE, "report.file=$HOME/r",
       "&: ~ and $ are not expanded: expected the folder itself (or ./ before its name), got @"},
      {BASE, "initial.u=a\nb:/u",
       "&: control characters, and # or ; after a blank or at the start, cannot be part of a value"},
  };
  run_refused(cases, COUNT(cases));
}

/* Section and key as the file gives them, value made of `length` letters; the message or NULL. */
static void expect_length(const char *before, int length, const char *message) {
  const char *text = text_of(BASE "%s%0*d\n", before, length, 0);
  if (message)
    expect_refused(text, NULL, message);
  else {
    config c = expect_taken(text, NULL);
    config_free(&c);
  }
}

TEST(test_lengths) {
  expect_length("[output]\npath = ", CONFIG_TEXT - 1 - 11, NULL);
  expect_length("[output]\npath = ", CONFIG_TEXT - 11, /* its checkpoints' path would be too long */
                "t.ini:8: [output] path: the value is longer than 1012 characters");
  expect_length("[checkpoint]\npath = c\n[output]\npath = ", CONFIG_TEXT - 1, NULL);
  expect_length("[output]\npath = ", CONFIG_TEXT,
                "t.ini:8: [output] path: the value is longer than 1023 characters");
  expect_length("[output]\npath = ", 30000,
                "t.ini:8: [output] path: the value is longer than 1023 characters");
  expect_length("[receivers]\npoints = 1 2 ", CONFIG_LIST_TEXT - 5, NULL);
  expect_length("[receivers]\npoints = 1 2 ", CONFIG_LIST_TEXT - 4,
                "t.ini:8: [receivers] points: the value is longer than 16383 characters");
  expect_length("[receivers]\npoints = 1 2 ", 30000,
                "t.ini:8: [receivers] points: the value is longer than 16383 characters");
  expect_length("[output]\n", 30000, "t.ini:8: the line is longer than 16448 characters");
  expect_length("[output", 30000, "t.ini:7: the line is longer than 16448 characters");
  expect_length("; a comment of any length: ", 30000, NULL);
  expect_length("[output] ; a comment of any length: ", 30000, NULL);
  expect_length("[device]\nkernel = ", 63, NULL);
  expect_length("[device]\nkernel = ", 64,
                "t.ini:8: [device] kernel: the value is longer than 63 characters");
}

/* Long names; what a message quotes is cut. */
TEST(test_long_names) {
  char text[8192], message[1024];
  snprintf(text, sizeof text, BASE "[output]\n%04000d = 1", 0);
  snprintf(message, sizeof message,
           "t.ini:8: [output] %0100d: unknown key (known: path, name, every, final, replace, box, stride, "
           "compress)",
           0);
  expect_refused(text, NULL, message);
  snprintf(text, sizeof text, "%0500d = 1", 0);
  snprintf(message, sizeof message, "t.ini:1: %0100d: comes before any [section]", 0);
  expect_refused(text, NULL, message);
  snprintf(text, sizeof text, BASE "%04000d", 0);
  snprintf(message, sizeof message, "t.ini:7: expected [section] or key = value, got '%0100d'", 0);
  expect_refused(text, NULL, message);
  snprintf(text, sizeof text, BASE "[%04000d]", 0);
  assert_int_equal(load(&(config){0}, text, NULL, &(error){0}), ERROR_CONFIG_SECTION);
  snprintf(text, sizeof text, BASE "[output]\nevery%500s= 7", "");
  const config c = expect_taken(text, NULL);
  assert_int_equal(c.output_every, 7);
  snprintf(text, sizeof text, BASE "[output]\nevery%500sy= 7", "");
  assert_int_equal(load(&(config){0}, text, NULL, &(error){0}), ERROR_CONFIG_KEY);
}

TEST(test_files) {
  static const char binary[] = BASE "[output]\npath = a\0b\n";
  config c;
  error e = {0};
  write_file(binary, sizeof binary - 1);
  seen[load_file(&c, NULL, &e)] = true;
  assert_string_equal(e.text, "t.ini:8: not a text file: it contains a zero byte");

  unlink(path);
  seen[load_file(&c, NULL, &e)] = true;
  assert_string_equal(e.text, "t.ini: cannot read the config file: No such file or directory");

  e = (error){0};
  config_load(&c, folder, 0, NULL, &e);
  assert_non_null(strstr(e.text, ": cannot read the config file: Is a directory"));

  char name[CONFIG_TEXT + 1] = "", message[2 * CONFIG_TEXT];
  memset(name, 'n', CONFIG_TEXT);
  snprintf(message, sizeof message, "the name of the config file is longer than 1023 characters: %.100s",
           name);
  e = (error){0};
  seen[config_load(&c, name, 0, NULL, &e)] = true;
  assert_string_equal(e.text, message);
}

TEST(test_size) {
  const char *most[] = {"grid.nx=2147483583", "grid.ny=2147483583", "grid.nz=2"};
  config c;
  error e = {0};
  write_file(BASE, strlen(BASE));
  assert_int_equal(config_load(&c, path, 3, most, &e), 0); /* just below 2^63 points */
  most[2] = "grid.nz=3";
  seen[config_load(&c, path, 3, most, &e)] = true;
  assert_string_equal(
      e.text, "t.ini: [grid] 2147483583 x 2147483583 x 3 points are more than 64-bit numbers can count");
}

/* Runs last and finds messages that no test above provokes. test_config_rules tests the rules. */
TEST(test_every_message_was_seen) {
  for (int id = 1; id < ERROR_COUNT; id++)
    if (strncmp(error_name(id), "CONFIG_", 7) == 0 && !is_rule(id) && !seen[id])
      fail_msg("no test provokes %s", error_name(id));
  assert_true(seen[ERROR_USAGE_OVERRIDE]);
}

TEST_MAIN("config", enter_folder, leave_folder)
