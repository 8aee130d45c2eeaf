/* The rules of device.h, the same tests on every backend this machine has. On the host device a kernel that
 * sleeps makes one stream late, so that a broken rule shows every time and not once in a while. */
#include "tests/backend_main.h"
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "kernels/operations/statistics.h"

enum {
  COUNT = 3 * 1000 * 1000 + 7
}; /* floats: large enough that a copy takes time and is shared among threads */

enum { EVENTS = 8 };

typedef struct fixture {
  device *dev;
  float *host, *back, *a, *b; /* pinned, pinned, device, device: COUNT floats each */
  device_event *events[EVENTS];
} fixture;

static void sleeping_kernel(const kernel_args *args, int part, int parts) {
  (void)args, (void)parts;
  const struct timespec nap = {0, 30 * 1000 * 1000};
  if (part == 0) nanosleep(&nap, NULL);
}
static const kernel SLEEP = {.name = "sleep", .backend = BACKEND_HOST, .host = sleeping_kernel};

/* Makes `stream` late where that can be done. */
static void delay(fixture *f, int stream) {
  const kernel_args args = {.z_end = 1};
  if (f->dev->table->backend == BACKEND_HOST) OK(f->dev->table->launch(f->dev, stream, &SLEEP, &args, &E));
}

static void copy(fixture *f, int stream, float *to, const float *from, copy_direction direction) {
  OK(f->dev->table->copy(f->dev, stream, &(copy_args){to, from, COUNT * sizeof(float), direction}, &E));
}

static void sync(fixture *f, int stream) {
  OK(f->dev->table->sync(f->dev, stream, &E));
}

/* The state is the backend's name at first. */
static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  const device_options options = {.local_ranks = 1, .threads = 3, .profile = true};
  E = (error){0};
  OK(device_open(*state, &options, &f->dev, &E));
  const device_table *t = f->dev->table;
  OK(t->alloc(f->dev, (void **)&f->host, COUNT * sizeof(float), MEMORY_PINNED, &E));
  OK(t->alloc(f->dev, (void **)&f->back, COUNT * sizeof(float), MEMORY_PINNED, &E));
  OK(t->alloc(f->dev, (void **)&f->a, COUNT * sizeof(float), MEMORY_DEVICE, &E));
  OK(t->alloc(f->dev, (void **)&f->b, COUNT * sizeof(float), MEMORY_DEVICE, &E));
  OK(t->make_events(f->dev, f->events, EVENTS, true, &E));
  uint64_t seed = 42;
  for (int i = 0; i < COUNT; i++) f->host[i] = test_random(&seed);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  const device_table *t = f->dev->table;
  error ignored = {0};
  t->free(f->dev, f->host, MEMORY_PINNED, &ignored);
  t->free(f->dev, f->back, MEMORY_PINNED, &ignored);
  t->free(f->dev, f->a, MEMORY_DEVICE, &ignored);
  t->free(f->dev, f->b, MEMORY_DEVICE, &ignored);
  t->unmake_events(f->dev, f->events, EVENTS);
  t->close(f->dev);
  free(f);
  return 0;
}

TEST_OF(fresh_memory_is_nan_and_aligned, fixture *f) {
  assert_int_equal((uintptr_t)f->a % 256, 0);
  assert_int_equal((uintptr_t)f->b % 256, 0);
  copy(f, STREAM_BOUNDARY, f->back, f->a, COPY_TO_HOST);
  sync(f, STREAM_BOUNDARY);
  for (int i = 0; i < COUNT; i++) assert_true(isnan(f->back[i]));
}

TEST_OF(memory_is_counted, fixture *f) {
  void *more;
  size_t before = f->dev->bytes;
  assert_true(before >= 2 * COUNT * sizeof(float));
  OK(f->dev->table->alloc(f->dev, &more, 1 << 20, MEMORY_DEVICE, &E));
  assert_int_equal(f->dev->bytes, before + (1 << 20));
  OK(f->dev->table->free(f->dev, more, MEMORY_DEVICE, &E));
  assert_int_equal(f->dev->bytes, before);
  assert_int_equal(f->dev->peak_bytes, before + (1 << 20));
}

TEST_OF(too_much_memory_is_an_error, fixture *f) {
  void *memory = NULL;
  error e = {0};
  assert_int_equal(f->dev->table->alloc(f->dev, &memory, (size_t)1 << 60, MEMORY_DEVICE, &e),
                   ERROR_DEVICE_MEMORY);
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_DEVICE);
}

TEST_OF(a_stream_is_a_fifo, fixture *f) {
  memset(f->back, 0, COUNT * sizeof(float));
  delay(f, STREAM_BOUNDARY);
  copy(f, STREAM_BOUNDARY, f->a, f->host, COPY_TO_DEVICE);
  copy(f, STREAM_BOUNDARY, f->b, f->a, COPY_ON_DEVICE);
  copy(f, STREAM_BOUNDARY, f->back, f->b, COPY_TO_HOST);
  sync(f, STREAM_BOUNDARY);
  assert_memory_equal(f->back, f->host, COUNT * sizeof(float));
}

/* More pushes than a queue holds are neither lost nor block for ever. */
TEST_OF(many_small_operations, fixture *f) {
  for (int i = 0; i < 5000; i++)
    OK(f->dev->table->copy(f->dev, STREAM_INTERIOR,
                           &(copy_args){f->a + i, f->host + i, sizeof(float), COPY_TO_DEVICE}, &E));
  sync(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->back, f->a, COPY_TO_HOST);
  sync(f, STREAM_INTERIOR);
  assert_memory_equal(f->back, f->host, 5000 * sizeof(float));
}

TEST_OF(an_event_orders_two_streams, fixture *f) {
  const device_table *t = f->dev->table;
  delay(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->a, f->host, COPY_TO_DEVICE);
  OK(t->record(f->dev, STREAM_INTERIOR, f->events[3], &E));
  OK(t->wait(f->dev, STREAM_BOUNDARY, f->events[3], &E));
  copy(f, STREAM_BOUNDARY, f->back, f->a, COPY_TO_HOST);
  sync(f, STREAM_BOUNDARY);
  assert_memory_equal(f->back, f->host, COUNT * sizeof(float));
}

TEST_OF(streams_are_independent, fixture *f) {
  if (f->dev->table->backend != BACKEND_HOST) skip();
  uint32_t gate = 0;
  OK(f->dev->table->peer->await(f->dev, STREAM_INTERIOR, &gate, 1, &E));
  copy(f, STREAM_INTERIOR, f->back, f->host, COPY_TO_HOST);
  copy(f, STREAM_BOUNDARY, f->a, f->host, COPY_TO_DEVICE);
  sync(f, STREAM_BOUNDARY); /* would never end if it waited for the other stream, whose gate is closed */
  __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
  sync(f, STREAM_INTERIOR);
  assert_memory_equal(f->back, f->host, COUNT * sizeof(float));
}

TEST_OF(waiting_for_an_unrecorded_event_is_a_no_op, fixture *f) {
  OK(f->dev->table->wait(f->dev, STREAM_BOUNDARY, f->events[7], &E));
  OK(f->dev->table->sync_event(f->dev, f->events[7], &E));
  sync(f, STREAM_BOUNDARY);
}

/* wait captures the latest record at the time of the call; a later record must not delay it. The recorded stream itself
 * waits for the waiting one, so the wrong rule would hang until the test's time-out. */
TEST_OF(wait_captures_the_record_at_call_time, fixture *f) {
  const device_table *t = f->dev->table;
  OK(t->record(f->dev, STREAM_INTERIOR, f->events[1], &E));
  OK(t->wait(f->dev, STREAM_BOUNDARY, f->events[1], &E));
  OK(t->record(f->dev, STREAM_BOUNDARY, f->events[2], &E));
  OK(t->wait(f->dev, STREAM_INTERIOR, f->events[2], &E));
  OK(t->record(f->dev, STREAM_INTERIOR, f->events[1], &E));
  sync(f, STREAM_BOUNDARY);
  sync(f, STREAM_INTERIOR);
}

TEST_OF(events_measure_time, fixture *f) {
  const device_table *t = f->dev->table;
  double seconds = -1;
  OK(t->record(f->dev, STREAM_INTERIOR, f->events[4], &E));
  delay(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->a, f->host, COPY_TO_DEVICE);
  OK(t->record(f->dev, STREAM_INTERIOR, f->events[5], &E));
  OK(t->seconds(f->dev, f->events[4], f->events[5], &seconds, &E)); /* waits by itself */
  double least = f->dev->table->backend == BACKEND_HOST ? 0.03 : 1e-6;
  assert_true(seconds >= least);
  error e = {0};
  assert_int_not_equal(t->seconds(f->dev, f->events[4], f->events[0], &seconds, &e), 0);
}

TEST_OF(sync_event_waits, fixture *f) {
  memset(f->back, 0, COUNT * sizeof(float));
  copy(f, STREAM_INTERIOR, f->a, f->host, COPY_TO_DEVICE);
  delay(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->back, f->a, COPY_TO_HOST);
  OK(f->dev->table->record(f->dev, STREAM_INTERIOR, f->events[6], &E));
  OK(f->dev->table->sync_event(f->dev, f->events[6], &E));
  assert_memory_equal(f->back, f->host, COUNT * sizeof(float));
}

/* Where a field lies in f->a, and the results behind it in f->b. */
enum { NX = 37, NY = 11, NZ = 28, PITCH = 64, PLANE = PITCH * 19, FIELD = 5 * PLANE };

static statistics_args statistics_of(fixture *f) {
  return (statistics_args){.field = {f->a + FIELD, PITCH, PLANE, NX, NY, NZ},
                           .units = (void *)(f->b + 4096),
                           .planes = (void *)(f->b + 2048)};
}

/* Like all work, measuring waits for what the stream holds, and nothing waits for it before sync. */
TEST_OF(statistics_are_in_stream_order, fixture *f) {
  statistics_args args = statistics_of(f);
  const partial_statistics *planes = (void *)(f->back + 2048);
  float *own = f->host + FIELD;
  const int at[][3] = {{0, 0, 0}, {0, 10, 36}, {17, 3, 20}, {27, 10, 36}};
  for (int i = 0; i < 4; i++) own[at[i][0] * PLANE + at[i][1] * PITCH + at[i][2]] = i % 2 ? NAN : INFINITY;
  own[-PLANE] = own[NZ * PLANE] = own[3 * PLANE - 1] = own[NX] = own[NY * PITCH] = NAN; /* not own points */
  delay(f, STREAM_INTERIOR);
  copy(f, STREAM_INTERIOR, f->a, f->host, COPY_TO_DEVICE);
  OK(f->dev->table->apply(f->dev, STREAM_INTERIOR, &operation_statistics, &args, &E));
  copy(f, STREAM_INTERIOR, f->back, f->b, COPY_TO_HOST);
  sync(f, STREAM_INTERIOR);
  partial_statistics all = statistics_of_nothing();
  for (int z = 0; z < NZ; z++) statistics_add(&all, &planes[z], (uint64_t)z * NX * NY);
  assert_int_equal(all.nonfinite, 4);
  assert_int_equal(all.first,
                   nonfinite_point((uint64_t)(at[0][0] * NY + at[0][1]) * NX + (uint64_t)at[0][2], INFINITY));
}

TEST_OF(a_histogram_is_in_stream_order, fixture *f) {
  const histogram_args args = {.field = {f->a + FIELD, PITCH, PLANE, NX, NY, NZ},
                               .low = -1,
                               .scale = 8,
                               .bins = 16,
                               .counts = (void *)f->b};
  uint64_t expected[16] = {0};
  for (int z = 0; z < NZ; z++)
    for (int y = 0; y < NY; y++)
      for (int x = 0; x < NX; x++) expected[(int)(8 * (f->host[FIELD + z * PLANE + y * PITCH + x] + 1))]++;
  delay(f, STREAM_BOUNDARY);
  copy(f, STREAM_BOUNDARY, f->a, f->host, COPY_TO_DEVICE);
  OK(f->dev->table->apply(f->dev, STREAM_BOUNDARY, &operation_histogram, &args, &E));
  copy(f, STREAM_BOUNDARY, f->back, f->b, COPY_TO_HOST);
  sync(f, STREAM_BOUNDARY);
  assert_memory_equal(f->back, expected, sizeof expected);
}

/* Must be the last: a CUDA context does not recover. */
TEST_OF(a_failure_is_sticky, fixture *f) {
  error e = {0};
  if (!f->dev->table->copy(f->dev, STREAM_BOUNDARY, &(copy_args){NULL, f->host, 64, COPY_TO_DEVICE}, &e)) {
    assert_int_equal(f->dev->table->sync(f->dev, STREAM_BOUNDARY, &e), ERROR_DEVICE_FAILED);
    e = (error){0};
    assert_int_equal(f->dev->table->sync(f->dev, STREAM_BOUNDARY, &e), ERROR_DEVICE_FAILED);
  }
  assert_int_equal(e.id, ERROR_DEVICE_FAILED);
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_DEVICE);
}

int main(int argc, char **argv) {
  tests_each(setup, teardown);
  return backend_run(argc, argv);
}
