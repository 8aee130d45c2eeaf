/* The host device's own behaviour; test_device.c tests the rules of every backend. */
#include "test.h"
#include "kernels/host_range.h"
#include "device/device.h"
#include "device/host_stream.h"
#include "device/host_memory.h"
#include "halo/shared_memory.h"
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POPULATE_WRITE = 23 /* MADV_POPULATE_WRITE, which an older C library does not know */ };
enum { BYTES = (1 << 20) + 75 }; /* shared among threads, and no whole number of floats */

static int setup(void **state) {
  const device_options options = {.local_ranks = 1, .threads = 3, .profile = true};
  E = (error){0};
  OK(device_open("host", &options, (device **)state, &E));
  return 0;
}

static int teardown(void **state) {
  device *dev = *state;
  dev->table->close(dev);
  return 0;
}

static void wait_for_gate(const void *args, int part, int parts) {
  const atomic_int *const *gate = args;
  (void)part, (void)parts;
  while (!atomic_load(*gate)) sched_yield();
}

TEST_OF(an_event_belongs_to_one_stream_at_a_time, device *dev) {
  const operation hold = {.name = "hold", .args_bytes = sizeof(atomic_int *), .host = wait_for_gate};
  atomic_int gate = 0, *args = &gate;
  error e = {0};
  device_event *event;
  OK(dev->table->make_events(dev, &event, 1, false, &E));
  OK(dev->table->apply(dev, STREAM_INTERIOR, &hold, &args, &E));
  OK(dev->table->record(dev, STREAM_INTERIOR, event, &E));
  OK(dev->table->record(dev, STREAM_INTERIOR, event, &E));
  assert_int_equal(dev->table->record(dev, STREAM_BOUNDARY, event, &e), ERROR_DEVICE_FAILED);
  atomic_store(&gate, 1);
  OK(dev->table->sync(dev, STREAM_INTERIOR, &E));
  OK(dev->table->record(dev, STREAM_BOUNDARY, event, &E));
  dev->table->unmake_events(dev, &event, 1);
}

TEST_OF(every_byte_is_copied, device *dev) {
  const device_table *t = dev->table;
  const copy_direction way[] = {COPY_TO_DEVICE, COPY_ON_DEVICE, COPY_TO_HOST};
  unsigned char *memory[4];
  uint64_t seed = 5;
  for (int i = 0; i < 4; i++) OK(t->alloc(dev, (void **)&memory[i], BYTES, MEMORY_DEVICE, &E));
  /* Bytes left out at either end: copies begin and end within cache lines. */
  for (int skip = 0; skip <= 12; skip += 4) {
    for (int i = skip; i < BYTES - skip; i++) memory[0][i] = (unsigned char)(100 + 100 * test_random(&seed));
    for (int i = 0; i < 3; i++)
      OK(t->copy(dev, STREAM_BOUNDARY,
                 &(copy_args){memory[i + 1] + skip, memory[i] + skip, (size_t)(BYTES - 2 * skip), way[i]},
                 &E));
    OK(t->sync(dev, STREAM_BOUNDARY, &E));
    for (int i = 1; i < 4; i++) assert_memory_equal(memory[i], memory[0], BYTES);
  }
  for (int i = 0; i < 4; i++) OK(t->free(dev, memory[i], MEMORY_DEVICE, &E));
}

static void mark(const void *args, int part, int parts) {
  (void)parts;
  bool *const *ran = args;
  if (part == 0) **ran = true;
}

static void mark_launched(const kernel_args *args, int part, int parts) {
  (void)parts;
  if (part == 0) args->out[0] = 1;
}

/* Work that follows a failure in its stream is not done, since it would find a half-done result. Work of other streams
 * is. */
TEST_OF(nothing_is_done_after_a_failure, device *dev) {
  const device_table *t = dev->table;
  const operation applied = {.name = "mark", .args_bytes = sizeof(bool *), .host = mark};
  const kernel launched = {.name = "mark", .backend = BACKEND_HOST, .host = mark_launched};
  for (int s = STREAM_BOUNDARY; s <= STREAM_INTERIOR; s++) {
    bool ran = false, *args = &ran, failed = s == STREAM_BOUNDARY;
    float out = 0;
    error e = {0};
    if (failed) OK(t->copy(dev, s, &(copy_args){NULL, &out, sizeof out, COPY_TO_DEVICE}, &E));
    OK(t->apply(dev, s, &applied, &args, &E));
    OK(t->launch(dev, s, &launched, &(kernel_args){.out = &out, .z_end = 1}, &E));
    assert_int_equal(t->sync(dev, s, &e), failed ? ERROR_DEVICE_FAILED : 0);
    assert_int_equal(ran, !failed);
    assert_int_equal(out == 1, !failed);
  }
}

TEST_OF(an_operation_has_only_so_many_arguments, device *dev) {
  const char args[4096] = "";
  const operation large = {.name = "large", .args_bytes = sizeof args, .host = mark};
  error e = {0};
  assert_int_equal(dev->table->apply(dev, STREAM_BOUNDARY, &large, args, &e), ERROR_DEVICE_FAILED);
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
}

/* Stages of an operation, counted: the parts of each, and those that began before the stage before was done. */
typedef struct staged {
  atomic_int parts[2], first, early;
} staged;

static void stage_first(const void *args, int part, int parts) {
  staged *s = *(staged *const *)args;
  if (part < parts) atomic_fetch_add(&s->parts[0], 1);
  sched_yield();
  atomic_fetch_add(&s->first, 1);
}

static void stage_second(const void *args, int part, int parts) {
  staged *s = *(staged *const *)args;
  if (atomic_load(&s->first) != 12) atomic_fetch_add(&s->early, 1);
  if (part < parts) atomic_fetch_add(&s->parts[1], 1);
}

static int four_pieces(const void *args, int threads) {
  (void)args, (void)threads;
  return 4;
}

/* The fixture's 3 threads take 4 pieces each of the first stage, which asks for them, and 1 of the second. */
TEST_OF(an_operation_has_pieces_and_stages, device *dev) {
  staged counts = {0}, *args = &counts;
  const operation o = {.name = "staged",
                       .args_bytes = sizeof args,
                       .host = stage_first,
                       .then = stage_second,
                       .pieces = four_pieces};
  OK(dev->table->apply(dev, STREAM_INTERIOR, &o, &args, &E));
  OK(dev->table->sync(dev, STREAM_INTERIOR, &E));
  assert_int_equal(counts.parts[0], 12);
  assert_int_equal(counts.parts[1], 3);
  assert_int_equal(counts.early, 0);
}

/* More memory than the node has: the system would grant it and kill the job when it is touched. */
TEST_OF(memory_is_no_more_than_the_node_has, device *dev) {
  const device_table *t = dev->table;
  const size_t too_much = dev->total_bytes / 2 + (2 << 20);
  void *first, *second;
  error e = {0};
  assert_int_equal(host_memory_take(&second, SIZE_MAX), ENOMEM); /* with a page before it: next to nothing */
  assert_int_equal(t->alloc(dev, &second, dev->total_bytes + 1, MEMORY_DEVICE, &e), ERROR_DEVICE_MEMORY);
  OK(t->alloc(dev, &first, 4 << 20, MEMORY_PINNED, &E));
  e = (error){0};
  assert_int_equal(t->alloc(dev, &second, dev->total_bytes - (2 << 20), MEMORY_DEVICE, &e),
                   ERROR_DEVICE_MEMORY);
  OK(t->free(dev, first, MEMORY_PINNED, &E));

  const device_options options = {.local_ranks = 2, .threads = 1}; /* half of it is another rank's */
  device *shared;
  OK(device_open("host", &options, &shared, &E));
  e = (error){0};
  assert_int_equal(shared->table->alloc(shared, &second, too_much, MEMORY_DEVICE, &e), ERROR_DEVICE_MEMORY);
  shared->table->close(shared);
}

/* A window on a file of half its size: what is not there would kill the process by SIGBUS. Huge pages, or a warning. */
TEST_OF(shared_memory_that_is_not_there_is_an_error, device *dev) {
  enum { FILE_BYTES = 4 << 20, WINDOW = 2 * FILE_BYTES, FLOATS = FILE_BYTES / sizeof(float) };
  error e = {0};
  if (madvise(NULL, 0, POPULATE_WRITE)) skip(); /* Linux before 5.14 */
  const int file = shared_file_new(FILE_BYTES, &E);
  assert_true(file >= 0);
  void *window = host_memory_reserve(WINDOW, (host_address){0, HUGE_PAGE});
  assert_non_null(window);
  OK(shared_pages_map(window, WINDOW, file, 0, &E));
  close(file);
  *(float *)window = 1;
  const bool at_once = host_memory_huge(window); /* where the system always gives huge pages */
  assert_int_equal(dev->table->peer->place(dev, window, WINDOW, &e), ERROR_DEVICE_MEMORY);
  assert_non_null(strstr(e.text, "memory: Cannot allocate memory"));
  OK(dev->table->peer->place(dev, window, FILE_BYTES, &E));
  for (size_t i = 0; i < FLOATS; i++) assert_true(isnan(((float *)window)[i]));
  assert_true(host_memory_huge(window) >= at_once);
  assert_int_equal(host_memory_huge(window), dev->warning[0] == 0);
  munmap(window, WINDOW);
}

/* Every point of a launch is in exactly one part, for every way to divide it. */
static void check_dealt(int nx, int ny, int planes, int threads) {
  const kernel_args a = {.nx = nx, .ny = ny, .nz = planes, .z_begin = 2, .z_end = 2 + planes};
  const int pieces = host_range_pieces(&a, threads), parts = threads * pieces;
  unsigned char *times = calloc((size_t)planes * (size_t)ny, 1);
  for (int part = 0; part < parts; part++) {
    const host_range s = host_range_of(&a, part, parts);
    assert_true(pieces == 1 || s.y_end - s.y_begin <= host_block_rows(nx));
    for (int z = s.z_begin; z < s.z_end; z++)
      for (int y = s.y_begin; y < s.y_end; y++) times[(z - 2) * ny + y]++;
  }
  for (int i = 0; i < planes * ny; i++) assert_int_equal(times[i], 1);
  free(times);
}

TEST(launches_are_dealt_out_once) {
  const int rows[] = {1, 8, 30, 54, 55, 200, 256, 333}, widths[] = {20, 256, 700, 2000};
  for (int x = 0; x < 4; x++)
    for (int y = 0; y < 8; y++)
      for (int planes = 1; planes < 130; planes += planes < 20 ? 1 : 17)
        for (int threads = 1; threads <= 12; threads++) check_dealt(widths[x], rows[y], planes, threads);
}

enum { SHARES = 3, PIECES = 4 };
typedef struct held_up {
  atomic_int *times, *done;
} held_up;

/* The first piece of the last part ends when all others are done; if no thread took them, it would never end. */
static void hold_up(const void *payload, int part, int parts) {
  const held_up *h = payload;
  h->times[part]++;
  if (part == (SHARES - 1) * PIECES) {
    while (*h->done < parts - 1) sched_yield();
  }
  ++*h->done;
}

TEST(threads_take_what_a_slow_one_leaves) {
  host_stream *s = host_stream_open(SHARES, 0);
  assert_non_null(s);
  for (int round = 0; round < 20; round++) {
    atomic_int times[SHARES * PIECES] = {0}, done = 0;
    const held_up h = {times, &done};
    host_stream_push(s, hold_up, &h, sizeof h, SHARES, PIECES);
    host_stream_sync(s);
    for (int part = 0; part < SHARES * PIECES; part++) assert_int_equal(times[part], 1);
  }
  host_stream_close(s);
}

TEST_MAIN_EACH("host_device", setup, teardown)
