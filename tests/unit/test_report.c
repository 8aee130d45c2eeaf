/* The performance report: its figures follow from what was measured, in the table as in the JSON. */
#include "test.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include "run/report.h"

static const report_rank RANKS[2] = {{.boundary = 1e-3,
                                      .to_host = 2e-3,
                                      .exchange = 3e-3,
                                      .to_device = 4e-3,
                                      .interior = 5e-3,
                                      .exposed = 1e-3,
                                      .io = 7e-3,
                                      .copy_gbs = 10,
                                      .host_bytes = 3 << 20,
                                      .device_bytes = 5 << 20},
                                     {.boundary = 3e-3,
                                      .to_host = 4e-3,
                                      .exchange = 5e-3,
                                      .to_device = 6e-3,
                                      .interior = 7e-3,
                                      .exposed = 3e-3,
                                      .io = 9e-3,
                                      .copy_gbs = 30,
                                      .host_bytes = 4 << 20,
                                      .device_bytes = 6 << 20}};

static const uint64_t COUNTS[70] = {[0] = 3, [2] = 4, [3] = 5, [69] = 16};
static const field_statistics STATISTICS = {.step = 50,
                                            .points = 28,
                                            .all = {.sum = -7, .squares = 6.25, .min = -0.5f, .max = 1.25f},
                                            .bins = 70,
                                            .histogram = COUNTS,
                                            .quantiles = {-0.49, -0.4, 0.125, 1, 1.2}};

static report example(void) {
  return (report){.steps = 50,
                  .seconds = 0.5,
                  .ending = 0.125,
                  .nx = 100,
                  .ny = 200,
                  .nz = 300,
                  .ranks = 2,
                  .bytes_per_point = 8,
                  .backend = "host",
                  .kernel = "simd",
                  .transport = "sendrecv",
                  .device = "a \"quoted\" device",
                  .overlap = true,
                  .per_rank = RANKS,
                  .statistics = &STATISTICS};
}

static double number(const cJSON *root, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
  if (!cJSON_IsNumber(item)) fail_msg("no number %s", key);
  return item->valuedouble;
}

static void near(double found, double expected) {
  assert_true(fabs(found - expected) <= 1e-12 * fabs(expected));
}

static char *read_all(FILE *f) {
  char *text = calloc(1, 1 << 16);
  rewind(f);
  assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
  return text;
}

TEST(json_holds_every_key_and_figure) {
  char path[] = "/tmp/stencil-report-XXXXXX";
  report r = example();
  error e = {0};
  close(mkstemp(path));
  assert_ok(report_write(&r, path, &e), &e);
  FILE *f = fopen(path, "r");
  char *text = read_all(f);
  cJSON *root = cJSON_Parse(text);
  assert_non_null(root);
  near(number(root, "gpts"), 6e6 * 50 / 0.5 * 1e-9);
  near(number(root, "gbs"), 8 * 0.6);
  near(number(root, "copy_gbs"), 40);
  near(number(root, "fraction_of_copy"), 4.8 / 40);
  near(number(root, "steps"), 50);
  near(number(root, "seconds"), 0.5);
  near(number(root, "ending_seconds"), 0.125);
  near(number(root, "ranks"), 2);
  near(number(root, "exposed_comm_fraction"), 2e-3 / 0.01);
  const cJSON *phases = cJSON_GetObjectItem(root, "phases"), *grid = cJSON_GetObjectItem(root, "grid");
  near(number(phases, "boundary"), 2e-3);
  near(number(phases, "to_host"), 3e-3);
  near(number(phases, "exchange"), 4e-3);
  near(number(phases, "to_device"), 5e-3);
  near(number(phases, "interior"), 6e-3);
  near(number(phases, "exposed"), 2e-3);
  near(number(phases, "io"), 8e-3);
  for (int i = 0; i < 3; i++) assert_int_equal(cJSON_GetArrayItem(grid, i)->valueint, 100 * (i + 1));
  assert_string_equal(cJSON_GetObjectItem(root, "backend")->valuestring, "host");
  assert_string_equal(cJSON_GetObjectItem(root, "kernel")->valuestring, "simd");
  assert_string_equal(cJSON_GetObjectItem(root, "transport")->valuestring, "sendrecv");
  assert_string_equal(cJSON_GetObjectItem(root, "device")->valuestring, "a \"quoted\" device");
  const cJSON *field = cJSON_GetObjectItem(root, "statistics"),
              *values = cJSON_GetObjectItem(root, "histogram");
  near(number(field, "step"), 50);
  near(number(field, "min"), -0.5);
  near(number(field, "max"), 1.25);
  near(number(field, "mean"), -0.25);
  near(number(field, "sum"), -7);
  near(number(field, "l2"), 2.5);
  near(number(values, "min"), -0.5);
  near(number(values, "max"), 1.25);
  const cJSON *counts = cJSON_GetObjectItem(values, "counts");
  assert_int_equal(cJSON_GetArraySize(counts), 70);
  for (int i = 0; i < 70; i++) near(cJSON_GetArrayItem(counts, i)->valuedouble, (double)COUNTS[i]);
  const cJSON *quantiles = cJSON_GetObjectItem(root, "quantiles");
  static const char *const names[QUANTILES] = {"q01", "q05", "q50", "q95", "q99"};
  for (int i = 0; i < QUANTILES; i++) near(number(quantiles, names[i]), STATISTICS.quantiles[i]);
  const cJSON *second = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "per_rank"), 1);
  near(number(second, "device_bytes"), 6 << 20);
  near(number(cJSON_GetObjectItem(second, "phases"), "exposed"), 3e-3);
  cJSON_Delete(root);
  free(text);
  fclose(f);
  unlink(path);
}

/* The rows from "ms per step" to the one before "whole step" are equally long: numbers stand under their headings. */
TEST(table_is_aligned) {
  report r = example();
  FILE *f = tmpfile();
  report_print(&r, false, f);
  char *text = read_all(f);
  const char *row = strstr(text, "  ms per step"), *last = strstr(text, "  whole step");
  assert_non_null(row);
  assert_non_null(last);
  const size_t length = strcspn(row, "\n");
  for (; row < last; row += length + 1) assert_int_equal(strcspn(row, "\n"), length);
  free(text);
  fclose(f);
}

TEST(table_holds_the_figures) {
  report r = example();
  FILE *f = tmpfile();
  report_print(&r, true, f);
  char *text = read_all(f);
  assert_non_null(strstr(text, "0.6 Gpts/s"));
  assert_non_null(strstr(text, "12.0 % of the copy bandwidth, 40 GB/s"));
  assert_non_null(strstr(text, "exposed communication               1.0000     2.0000     3.0000"));
  assert_non_null(strstr(text, "whole step                                    10.0000"));
  assert_non_null(
      strstr(text, "host 4.0 MiB at most a rank, 7.0 in all; device 6.0 MiB at most a rank, 11.0 in all"));
  /* 70 bins of 0.025 are too many: three a line */
  assert_non_null(strstr(text, "values of the field at step 50\n"
                               "  from          -0.5               7 **********************\n"
                               "  from        -0.425               5 ****************\n"
                               "  from         -0.35               0 \n"));
  assert_non_null(strstr(text, "  from         1.225              16 "
                               "**************************************************\n"
                               "  to            1.25\n"));
  free(text);
  fclose(f);
}

TEST(no_steps_and_no_copy_divide_nothing_by_zero) {
  const report_rank idle = {0};
  report r = example();
  r.steps = 0, r.seconds = 0, r.ranks = 1, r.per_rank = &idle;
  FILE *f = tmpfile();
  report_print(&r, false, f);
  char *text = read_all(f);
  assert_null(strstr(text, "nan"));
  assert_null(strstr(text, "inf"));
  free(text);
  fclose(f);
}

TEST(nothing_is_said_of_what_was_not_measured) {
  char path[] = "/tmp/stencil-report-XXXXXX";
  field_statistics plain = STATISTICS;
  report r = example();
  error e = {0};
  close(mkstemp(path));
  for (int measured = 0; measured < 2; measured++) {
    r.statistics = measured ? &plain : NULL;
    plain.bins = 0;
    assert_ok(report_write(&r, path, &e), &e);
    FILE *f = fopen(path, "r");
    char *text = read_all(f);
    assert_int_equal(strstr(text, "statistics") != NULL, measured);
    assert_null(strstr(text, "histogram"));
    assert_null(strstr(text, "quantiles"));
    free(text);
    fclose(f);
    f = tmpfile();
    report_print(&r, false, f);
    text = read_all(f);
    assert_null(strstr(text, "values of the field"));
    free(text);
    fclose(f);
  }
  unlink(path);
}

/* Only some passes are measured, and these may be slower than the mean of all. */
TEST(no_more_than_a_whole_step_is_exposed) {
  char path[] = "/tmp/stencil-report-XXXXXX";
  report r = example();
  error e = {0};
  r.seconds = 0.05; /* 1 ms a step, and 2 ms exposed */
  close(mkstemp(path));
  assert_ok(report_write(&r, path, &e), &e);
  FILE *f = fopen(path, "r");
  char *text = read_all(f);
  cJSON *root = cJSON_Parse(text);
  near(number(root, "exposed_comm_fraction"), 1);
  cJSON_Delete(root);
  free(text);
  fclose(f);
  unlink(path);
}

/* What report_write can and cannot write is known before the first step. */
TEST(where_a_report_cannot_be_is_said_before) {
  char folder[] = "/tmp/stencil-report-XXXXXX", path[64], name[64];
  error e = {0};
  assert_non_null(mkdtemp(folder));
  assert_int_equal(report_check(folder, &e), ERROR_PATH_UNUSABLE);
  assert_non_null(strstr(e.text, "Is a directory"));
  e = (error){0};
  snprintf(path, sizeof path, "%s/r.json", folder);
  assert_ok(report_check(path, &e), &e);
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  snprintf(name, sizeof name, "/proc/self/fd/%d", ends[1]); /* in a folder where no file can be made */
  assert_ok(report_check(name, &e), &e);
  close(ends[0]);
  close(ends[1]);
  assert_int_equal(rmdir(folder), 0);
  assert_ok(report_check(path, &e), &e); /* the folder can be made */
  snprintf(path, sizeof path, "%s/no/r.json", folder);
  assert_int_equal(report_check(path, &e), ERROR_PATH_UNUSABLE);
}

TEST(an_unwritable_file_is_an_error) {
  report r = example();
  error e = {0};
  assert_int_equal(report_write(&r, "/nowhere/report.json", &e), ERROR_REPORT_WRITE);
  assert_string_equal(e.text, "/nowhere/report.json: cannot write the report: No such file or directory");
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_FILE);
  e = (error){0};
  assert_int_equal(report_write(&r, "/dev/full", &e), ERROR_REPORT_WRITE);
}

TEST_MAIN("report", NULL, NULL)
