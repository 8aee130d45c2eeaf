/* The rules of device.h, the same tests on every backend this machine has. On the host device a kernel that
 * sleeps makes one stream late, so that a broken rule shows every time and not once in a while. */
#include "test.h"
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "../src/device.h"

enum {
  COUNT = 3 * 1000 * 1000 + 7
}; /* floats: large enough that a copy takes time and is shared among threads */

typedef struct fixture {
  device *dev;
  float *host, *back, *a, *b; /* pinned, pinned, device, device: COUNT floats each */
} fixture;

static error E;

static void sleeping_kernel(const kernel_args *args, int part, int parts) {
  (void)args, (void)parts;
  const struct timespec nap = {0, 30 * 1000 * 1000};
  if (part == 0) nanosleep(&nap, NULL);
}
static const kernel SLEEP = {.name = "sleep", .backend = BACKEND_HOST, .host = sleeping_kernel};

/* Makes `stream` late where that can be done. */
static void delay(fixture *f, int stream) {
  const kernel_args args = {.z_end = 1};
  if (f->dev->table->backend == BACKEND_HOST)
    assert_ok(f->dev->table->launch(f->dev, stream, &SLEEP, &args, &E), &E);
}

static void copy(fixture *f, int stream, float *to, const float *from, copy_direction direction) {
  assert_ok(f->dev->table->copy(f->dev, stream, to, from, COUNT * sizeof(float), direction, &E), &E);
}

static void sync(fixture *f, int stream) {
  assert_ok(f->dev->table->sync(f->dev, stream, &E), &E);
}

static int open_fixture(void **state, const char *backend) {
  fixture *f = calloc(1, sizeof *f);
  const device_options options = {.local_ranks = 1, .threads = 3, .profile = true};
  E = (error){0};
  assert_ok(device_open(backend, &options, &f->dev, &E), &E);
  const device_table *t = f->dev->table;
  assert_ok(t->alloc(f->dev, (void **)&f->host, COUNT * sizeof(float), MEMORY_PINNED, &E), &E);
  assert_ok(t->alloc(f->dev, (void **)&f->back, COUNT * sizeof(float), MEMORY_PINNED, &E), &E);
  assert_ok(t->alloc(f->dev, (void **)&f->a, COUNT * sizeof(float), MEMORY_DEVICE, &E), &E);
  assert_ok(t->alloc(f->dev, (void **)&f->b, COUNT * sizeof(float), MEMORY_DEVICE, &E), &E);
  uint64_t seed = 42;
  for (int i = 0; i < COUNT; i++) f->host[i] = test_random(&seed);
  *state = f;
  return 0;
}

static int setup_host(void **state) {
  return open_fixture(state, "host");
}
static int setup_cuda(void **state) {
  return open_fixture(state, "cuda");
}

static int teardown(void **state) {
  fixture *f = *state;
  const device_table *t = f->dev->table;
  error ignored = {0};
  t->free(f->dev, f->host, MEMORY_PINNED, &ignored);
  t->free(f->dev, f->back, MEMORY_PINNED, &ignored);
  t->free(f->dev, f->a, MEMORY_DEVICE, &ignored);
  t->free(f->dev, f->b, MEMORY_DEVICE, &ignored);
  t->close(f->dev);
  free(f);
  return 0;
}

static void fresh_memory_is_nan_and_aligned(void **state) {
  fixture *f = *state;
  assert_int_equal((uintptr_t)f->a % 256, 0);
  assert_int_equal((uintptr_t)f->b % 256, 0);
  copy(f, STREAM_BOUNDARY, f->back, f->a, COPY_TO_HOST);
  sync(f, STREAM_BOUNDARY);
  for (int i = 0; i < COUNT; i++) assert_true(isnan(f->back[i]));
}

static void memory_is_counted(void **state) {
  fixture *f = *state;
  void *more;
  size_t before = f->dev->bytes;
  assert_true(before >= 2 * COUNT * sizeof(float));
  assert_ok(f->dev->table->alloc(f->dev, &more, 1 << 20, MEMORY_DEVICE, &E), &E);
  assert_int_equal(f->dev->bytes, before + (1 << 20));
  assert_ok(f->dev->table->free(f->dev, more, MEMORY_DEVICE, &E), &E);
  assert_int_equal(f->dev->bytes, before);
  assert_int_equal(f->dev->peak_bytes, before + (1 << 20));
}

static void too_much_memory_is_an_error(void **state) {
  fixture *f = *state;
  void *memory = NULL;
  error e = {0};
  assert_int_equal(f->dev->table->alloc(f->dev, &memory, (size_t)1 << 60, MEMORY_DEVICE, &e),
                   ERROR_DEVICE_MEMORY);
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_DEVICE);
}

static void a_stream_is_a_fifo(void **state) {
  fixture *f = *state;
  memset(f->back, 0, COUNT * sizeof(float));
  delay(f, STREAM_BOUNDARY);
  copy(f, STREAM_BOUNDARY, f->a, f->host, COPY_TO_DEVICE);
  copy(f, STREAM_BOUNDARY, f->b, f->a, COPY_ON_DEVICE);
  copy(f, STREAM_BOUNDARY, f->back, f->b, COPY_TO_HOST);
  sync(f, STREAM_BOUNDARY);
  assert_memory_equal(f->back, f->host, COUNT * sizeof(float));
}

/* More pushes than any queue holds must neither be lost nor block for ever. */
static void many_small_operations(void **state) {
  fixture *f = *state;
  for (int i = 0; i < 5000; i++)
    assert_ok(f->dev->table->copy(f->dev, STREAM_INTERIOR, f->a + i, f->host + i, sizeof(float),
                                  COPY_TO_DEVICE, &E),
              &E);
  sync(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->back, f->a, COPY_TO_HOST);
  sync(f, STREAM_INTERIOR);
  assert_memory_equal(f->back, f->host, 5000 * sizeof(float));
}

static void an_event_orders_two_streams(void **state) {
  fixture *f = *state;
  const device_table *t = f->dev->table;
  delay(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->a, f->host, COPY_TO_DEVICE);
  assert_ok(t->record(f->dev, STREAM_INTERIOR, 3, &E), &E);
  assert_ok(t->wait(f->dev, STREAM_BOUNDARY, 3, &E), &E);
  copy(f, STREAM_BOUNDARY, f->back, f->a, COPY_TO_HOST);
  sync(f, STREAM_BOUNDARY);
  assert_memory_equal(f->back, f->host, COUNT * sizeof(float));
}

static void streams_are_independent(void **state) {
  fixture *f = *state;
  if (f->dev->table->backend != BACKEND_HOST) skip();
  struct timespec begin, end;
  delay(f, STREAM_INTERIOR);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  sync(f, STREAM_BOUNDARY);
  clock_gettime(CLOCK_MONOTONIC, &end);
  assert_true((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec) < 0.02);
  sync(f, STREAM_INTERIOR);
}

static void waiting_for_an_unrecorded_event_is_a_no_op(void **state) {
  fixture *f = *state;
  assert_ok(f->dev->table->wait(f->dev, STREAM_BOUNDARY, 7, &E), &E);
  assert_ok(f->dev->table->sync_event(f->dev, 7, &E), &E);
  sync(f, STREAM_BOUNDARY);
}

/* wait captures the latest record at the time of the call: a record made later must not hold it back. The
 * stream recorded on waits itself for the waiting one, so the wrong rule would hang (and the test's timeout
 * would end it). */
static void wait_captures_the_record_at_call_time(void **state) {
  fixture *f = *state;
  const device_table *t = f->dev->table;
  assert_ok(t->record(f->dev, STREAM_INTERIOR, 1, &E), &E);
  assert_ok(t->wait(f->dev, STREAM_BOUNDARY, 1, &E), &E);
  assert_ok(t->record(f->dev, STREAM_BOUNDARY, 2, &E), &E);
  assert_ok(t->wait(f->dev, STREAM_INTERIOR, 2, &E), &E);
  assert_ok(t->record(f->dev, STREAM_INTERIOR, 1, &E), &E);
  sync(f, STREAM_BOUNDARY);
  sync(f, STREAM_INTERIOR);
}

static void events_measure_time(void **state) {
  fixture *f = *state;
  const device_table *t = f->dev->table;
  double seconds = -1;
  assert_ok(t->record(f->dev, STREAM_INTERIOR, 4, &E), &E);
  delay(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->a, f->host, COPY_TO_DEVICE);
  assert_ok(t->record(f->dev, STREAM_INTERIOR, 5, &E), &E);
  assert_ok(t->seconds(f->dev, 4, 5, &seconds, &E), &E); /* waits by itself */
  double least = f->dev->table->backend == BACKEND_HOST ? 0.03 : 1e-6;
  assert_true(seconds >= least && seconds < 10);
  error e = {0};
  assert_int_not_equal(t->seconds(f->dev, 4, 60, &seconds, &e), 0);
}

static void sync_event_waits(void **state) {
  fixture *f = *state;
  memset(f->back, 0, COUNT * sizeof(float));
  copy(f, STREAM_INTERIOR, f->a, f->host, COPY_TO_DEVICE);
  delay(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->back, f->a, COPY_TO_HOST);
  assert_ok(f->dev->table->record(f->dev, STREAM_INTERIOR, 6, &E), &E);
  assert_ok(f->dev->table->sync_event(f->dev, 6, &E), &E);
  assert_memory_equal(f->back, f->host, COUNT * sizeof(float));
}

static void finds_the_first_nonfinite_point(void **state) {
  fixture *f = *state;
  enum { NX = 37, NY = 11, PITCH = 64, PLANE = PITCH * 19 };
  kernel_args args = {
      .out = f->a + 5 * PLANE, .pitch = PITCH, .plane = PLANE, .nx = NX, .ny = NY, .z_begin = 2, .z_end = 30};
  const float bad[] = {NAN, INFINITY, -INFINITY};
  const int points[][3] = {{2, 0, 0}, {29, 10, 36}, {17, 3, 20}, {17, 3, 21}};
  uint64_t first;
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    memcpy(f->back, f->host, COUNT * sizeof(float));
    float *own = f->back + 5 * PLANE;
    own[1 * PLANE] = own[30 * PLANE] = own[17 * PLANE - 1] = own[17 * PLANE + NX] =
        own[17 * PLANE + NY * PITCH] = NAN;
    copy(f, STREAM_BOUNDARY, f->a, f->back, COPY_TO_DEVICE);
    assert_ok(f->dev->table->first_nonfinite(f->dev, STREAM_BOUNDARY, &args, &first, &E), &E);
    assert_true(first == UINT64_MAX); /* what lies outside the range, in ghosts and padding does not count */
    const int *p = points[i];
    own[p[0] * PLANE + p[1] * PITCH + p[2]] = bad[i % 3];
    own[29 * PLANE + 10 * PITCH + 36] = NAN; /* a later one does not hide the first */
    copy(f, STREAM_BOUNDARY, f->a, f->back, COPY_TO_DEVICE);
    assert_ok(f->dev->table->first_nonfinite(f->dev, STREAM_BOUNDARY, &args, &first, &E), &E);
    assert_int_equal(first, ((uint64_t)(p[0] - 2) * NY + (uint64_t)p[1]) * NX + (uint64_t)p[2]);
  }
}

/* Must be the last: a CUDA context does not recover. */
static void a_failure_is_sticky(void **state) {
  fixture *f = *state;
  error e = {0};
  if (!f->dev->table->copy(f->dev, STREAM_BOUNDARY, NULL, f->host, 64, COPY_TO_DEVICE, &e)) {
    assert_int_equal(f->dev->table->sync(f->dev, STREAM_BOUNDARY, &e), ERROR_DEVICE_FAILED);
    e = (error){0};
    assert_int_equal(f->dev->table->sync(f->dev, STREAM_BOUNDARY, &e), ERROR_DEVICE_FAILED);
  }
  assert_int_equal(e.id, ERROR_DEVICE_FAILED);
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_DEVICE);
}

static void unknown_backend(void **state) {
  (void)state;
  const device_options options = {.local_ranks = 1, .threads = 1};
  device *dev;
  error e = {0};
  assert_int_equal(device_open("opencl", &options, &dev, &e), ERROR_DEVICE_UNKNOWN_BACKEND);
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_CONFIG);
}

static void no_cuda_says_why(void **state) {
  (void)state;
  char why[256] = "";
  if (device_cuda_count(why) > 0) skip();
  const device_options options = {.local_ranks = 1, .threads = 1};
  device *dev;
  error e = {0};
  assert_int_not_equal(device_open("cuda", &options, &dev, &e), 0);
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_CONFIG);
  assert_true(strlen(why) > 0);
  assert_ok(device_open("auto", &options, &dev, &(error){0}), &e);
  assert_int_equal(dev->table->backend, BACKEND_HOST);
  dev->table->close(dev);
}

#define RULES(setup)                                                                                         \
  cmocka_unit_test_setup_teardown(fresh_memory_is_nan_and_aligned, setup, teardown),                         \
      cmocka_unit_test_setup_teardown(memory_is_counted, setup, teardown),                                   \
      cmocka_unit_test_setup_teardown(too_much_memory_is_an_error, setup, teardown),                         \
      cmocka_unit_test_setup_teardown(a_stream_is_a_fifo, setup, teardown),                                  \
      cmocka_unit_test_setup_teardown(many_small_operations, setup, teardown),                               \
      cmocka_unit_test_setup_teardown(an_event_orders_two_streams, setup, teardown),                         \
      cmocka_unit_test_setup_teardown(streams_are_independent, setup, teardown),                             \
      cmocka_unit_test_setup_teardown(waiting_for_an_unrecorded_event_is_a_no_op, setup, teardown),          \
      cmocka_unit_test_setup_teardown(wait_captures_the_record_at_call_time, setup, teardown),               \
      cmocka_unit_test_setup_teardown(events_measure_time, setup, teardown),                                 \
      cmocka_unit_test_setup_teardown(sync_event_waits, setup, teardown),                                    \
      cmocka_unit_test_setup_teardown(finds_the_first_nonfinite_point, setup, teardown),                     \
      cmocka_unit_test_setup_teardown(a_failure_is_sticky, setup, teardown)

/* test_device [host | cuda]: without an argument, both. */
int main(int argc, char **argv) {
  const struct CMUnitTest host[] = {RULES(setup_host), cmocka_unit_test(unknown_backend),
                                    cmocka_unit_test(no_cuda_says_why)};
  const struct CMUnitTest cuda[] = {RULES(setup_cuda)};
  char why[256];
  int failed = 0;
  if (argc < 2 || strcmp(argv[1], "host") == 0)
    failed += cmocka_run_group_tests_name("device host", host, NULL, NULL);
  if (argc < 2 || strcmp(argv[1], "cuda") == 0) {
    if (device_cuda_count(why) > 0)
      failed += cmocka_run_group_tests_name("device cuda", cuda, NULL, NULL);
    else
      printf("no CUDA device, skipped: %s\n", why);
  }
  return failed;
}
