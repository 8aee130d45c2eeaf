/* The performance report: its figures follow from what was measured, in the table as in the JSON. */
#include "test.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include "survey/report.h"

#define RANK(first, copy, mib)                                                                               \
  {                                                                                                          \
    .boundary = (first)*1e-3, .to_host = (first + 1) * 1e-3, .exchange = (first + 2) * 1e-3,                 \
    .to_device = (first + 3) * 1e-3, .interior = (first + 4) * 1e-3, .exposed = (first)*1e-3,                \
    .io = (first + 6) * 1e-3, .copy_gbs = copy, .host_bytes = mib << 20, .device_bytes = (mib + 2) << 20     \
  }
static const report_rank RANKS[2] = {RANK(1, 10, 3), RANK(3, 30, 4)};

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
                  .gradient = {.adjoint = {.again = 0.25, .back = 1.5}, .sums = 0.75},
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

/* What report_print prints; the caller frees it. */
/* noinline: else gcc 12 takes the text for this function's own. */
__attribute__((noinline)) static char *printed(const report *r, bool memory) {
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  report_print(r, memory, f);
  assert_int_equal(fclose(f), 0);
  return text;
}

/* What report_write writes; the caller deletes it. */
static cJSON *written(const report *r) {
  char path[] = "/tmp/stencil-report-XXXXXX", text[1 << 16] = "";
  close(mkstemp(path));
  OK(report_write(r, path, &E));
  FILE *f = fopen(path, "r");
  assert_true(fread(text, 1, sizeof text - 1, f) > 0);
  fclose(f);
  unlink(path);
  cJSON *root = cJSON_Parse(text);
  assert_non_null(root);
  return root;
}

/* The item at a path of keys and indices, as "a.1.b". */
static const cJSON *item_at(const cJSON *item, const char *path) {
  char copy[64], *next = copy;
  snprintf(copy, sizeof copy, "%s", path);
  for (char *key; item && (key = strsep(&next, "."));)
    item = *key >= '0' && *key <= '9' ? cJSON_GetArrayItem(item, atoi(key))
                                      : cJSON_GetObjectItemCaseSensitive(item, key);
  if (!item) fail_msg("no %s", path);
  return item;
}

static void near(const cJSON *root, const char *path, double expected) {
  const cJSON *item = item_at(root, path);
  if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble - expected) <= 1e-12 * fabs(expected)))
    fail_msg("%s: %g, not %g", path, item->valuedouble, expected);
}

TEST(json_holds_every_key_and_figure) {
  char numbers[] =
      "gpts=0.6 gbs=4.8 copy_gbs=40 fraction_of_copy=0.12 steps=50 seconds=0.5 ending_seconds=0.125 ranks=2 "
      "gradient.again_seconds=0.25 gradient.back_seconds=1.5 gradient.sums_seconds=0.75 "
      "exposed_comm_fraction=0.2 phases.boundary=2e-3 phases.to_host=3e-3 phases.exchange=4e-3 "
      "phases.to_device=5e-3 phases.interior=6e-3 phases.exposed=2e-3 phases.io=8e-3 grid.0=100 grid.1=200 "
      "grid.2=300 statistics.step=50 statistics.min=-0.5 statistics.max=1.25 statistics.mean=-0.25 "
      "statistics.sum=-7 statistics.l2=2.5 histogram.min=-0.5 histogram.max=1.25 quantiles.q01=-0.49 "
      "quantiles.q05=-0.4 quantiles.q50=0.125 quantiles.q95=1 quantiles.q99=1.2 "
      "per_rank.1.device_bytes=6291456 per_rank.1.phases.exposed=3e-3";
  static const char *const words[][2] = {
      {"backend", "host"}, {"kernel", "simd"}, {"transport", "sendrecv"}, {"device", "a \"quoted\" device"}};
  const report r = example();
  cJSON *root = written(&r);
  for (char *path = strtok(numbers, "="); path; path = strtok(NULL, "="))
    near(root, path, atof(strtok(NULL, " ")));
  for (int i = 0; i < COUNT(words); i++)
    assert_string_equal(item_at(root, words[i][0])->valuestring, words[i][1]);
  const cJSON *counts = item_at(root, "histogram.counts");
  assert_int_equal(cJSON_GetArraySize(counts), 70);
  for (int i = 0; i < 70; i++) assert_true(cJSON_GetArrayItem(counts, i)->valuedouble == (double)COUNTS[i]);
  cJSON_Delete(root);
}

/* The rows from "ms per step" to the one before "whole step" are equally long: numbers stand under their headings. */
TEST(table_is_aligned) {
  const report r = example();
  char *text = printed(&r, false);
  const char *row = strstr(text, "  ms per step"), *last = strstr(text, "  whole step");
  assert_non_null(row);
  assert_non_null(last);
  const size_t length = strcspn(row, "\n");
  for (; row < last; row += length + 1) assert_int_equal(strcspn(row, "\n"), length);
  free(text);
}

TEST(table_holds_the_figures) {
  static const char *const words[] = {
      "gradient: 0.25 s of steps done again, 1.5 of steps back, 0.75 for sums and files", "0.6 Gpts/s",
      "12.0 % of the copy bandwidth, 40 GB/s",
      "exposed communication               1.0000     2.0000     3.0000",
      "whole step                                    10.0000",
      "host 4.0 MiB at most a rank, 7.0 in all; device 6.0 MiB at most a rank, 11.0 in all",
      /* 70 bins of 0.025 are too many: three a line */
      "values of the field at step 50\n"
      "  from          -0.5               7 **********************\n"
      "  from        -0.425               5 ****************\n"
      "  from         -0.35               0 \n",
      "  from         1.225              16 **************************************************\n"
      "  to            1.25\n"};
  const report r = example();
  char *text = printed(&r, true);
  for (int i = 0; i < COUNT(words); i++)
    if (!strstr(text, words[i])) fail_msg("'%s' is missing in\n%s", words[i], text);
  free(text);
}

TEST(no_steps_and_no_copy_divide_nothing_by_zero) {
  const report_rank idle = {0};
  report r = example();
  r.steps = 0, r.seconds = 0, r.ranks = 1, r.per_rank = &idle;
  char *text = printed(&r, false);
  assert_true(!strstr(text, "nan") && !strstr(text, "inf"));
  free(text);
}

TEST(nothing_is_said_of_what_was_not_measured) {
  field_statistics plain = STATISTICS;
  report r = example();
  plain.bins = 0;
  for (int measured = 0; measured < 2; measured++) {
    r.statistics = measured ? &plain : NULL;
    cJSON *root = written(&r);
    assert_int_equal(cJSON_HasObjectItem(root, "statistics"), measured);
    assert_false(cJSON_HasObjectItem(root, "histogram"));
    const cJSON *quantiles = cJSON_GetObjectItem(root, "quantiles");
    assert_true(cJSON_IsObject(quantiles) && !quantiles->child);
    cJSON_Delete(root);
    char *text = printed(&r, false);
    assert_null(strstr(text, "values of the field"));
    free(text);
  }
}

/* Only some passes are measured, and these may be slower than the mean of all. */
TEST(no_more_than_a_whole_step_is_exposed) {
  report r = example();
  r.seconds = 0.05; /* 1 ms a step, and 2 ms exposed */
  cJSON *root = written(&r);
  near(root, "exposed_comm_fraction", 1);
  cJSON_Delete(root);
}

TEST_MAIN("report", NULL, NULL)
