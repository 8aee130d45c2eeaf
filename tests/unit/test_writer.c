/* The writer's thread and its queue, with jobs that only take time; then snapshots of a field while the steps go on. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include "test.h"
#include "device/device.h"
#include "base/writer.h"
#include "propagator/snapshot.h"

typedef struct journal {
  atomic_int writing;     /* jobs in their write */
  atomic_int most;        /* at once */
  int written[64], count; /* numbers, in order; the writer's */
  int done[64], dropped[64], dones;
} journal;

typedef struct fake {
  writer_job job; /* first */
  journal *journal;
  int number, microseconds, fails;
  atomic_bool *gate; /* NULL, or: it waits until this is true */
} fake;

static void pause_us(int microseconds) {
  const struct timespec t = {0, 1000L * microseconds};
  nanosleep(&t, NULL);
}

static int fake_write(writer_job *job, error *e) {
  fake *f = (fake *)job;
  journal *j = f->journal;
  int now = atomic_fetch_add(&j->writing, 1) + 1;
  if (now > atomic_load(&j->most)) atomic_store(&j->most, now);
  while (f->gate && !atomic_load(f->gate)) pause_us(200);
  pause_us(f->microseconds);
  j->written[j->count++] = f->number;
  atomic_fetch_sub(&j->writing, 1);
  return f->fails ? FAIL(e, FILE_WRITE, "fake", "as requested") : 0;
}

static void fake_done(writer_job *job, bool written) {
  fake *f = (fake *)job;
  journal *j = f->journal;
  j->dropped[j->dones] = !written;
  j->done[j->dones++] = f->number;
  free(f);
}

static fake *make(journal *j, int number, int microseconds, int fails) {
  fake *f = calloc(1, sizeof *f);
  assert_non_null(f);
  *f = (fake){{fake_write, fake_done, 100, 0}, j, number, microseconds, fails, NULL};
  return f;
}

static writer *open_writer(void) {
  writer *o;
  OK(writer_open(&o, &E));
  return o;
}

/* Every job runs once, one at a time, in order; `done` is called for each, in the same order. */
TEST(jobs_are_done_in_order) {
  journal j = {0};
  writer *o = open_writer();
  for (int i = 0; i < 50; i++) {
    writer_await_place(o);
    writer_push(o, &make(&j, i, i % 3 ? 0 : 300, 0)->job);
    if (i % 4 == 0) writer_collect(o);
  }
  OK(writer_drain(o, &E));
  assert_int_equal(j.count, 50);
  assert_int_equal(j.dones, 50);
  for (int i = 0; i < 50; i++) {
    assert_int_equal(j.written[i], i);
    assert_int_equal(j.done[i], i);
    assert_int_equal(j.dropped[i], 0);
  }
  assert_int_equal(atomic_load(&j.most), 1);
  const writer_totals t = writer_sum(o);
  assert_int_equal(t.bytes, 5000);
  assert_true(t.longest >= 300e-6 && t.seconds >= t.longest);
  writer_close(o);
}

/* A full queue waits: while the first job stands still, at most WRITER_ROOM jobs are unfinished. */
TEST(the_queue_is_bounded) {
  journal j = {0};
  atomic_bool gate = false;
  writer *o = open_writer();
  for (int i = 0; i < WRITER_ROOM; i++) {
    assert_int_equal(writer_await_place(o), i); /* does not wait */
    fake *f = make(&j, i, 0, 0);
    f->gate = &gate;
    writer_push(o, &f->job);
  }
  writer_collect(o); /* nor does this */
  assert_int_equal(j.dones, 0);
  atomic_store(&gate, true);
  assert_true(writer_await_place(o) < WRITER_ROOM);
  assert_true(j.dones >= 1);
  writer_close(o);
  assert_int_equal(j.dones, WRITER_ROOM);
}

/* Jobs after a failure are freed and not written. Every later call reports the error. */
TEST(a_failure_ends_it) {
  journal j = {0};
  error e = {0}, again = {0};
  writer *o = open_writer();
  assert_false(writer_failed(o));
  for (int i = 0; i < 6; i++) {
    writer_await_place(o);
    writer_push(o, &make(&j, i, 200, i == 2)->job);
  }
  assert_int_equal(writer_drain(o, &e), ERROR_FILE_WRITE);
  assert_string_equal(e.text, "fake: cannot write: as requested");
  assert_int_equal(writer_drain(o, &again), ERROR_FILE_WRITE);
  assert_true(writer_failed(o));
  assert_int_equal(j.count, 3);
  assert_int_equal(j.dones, 6);
  for (int i = 0; i < 6; i++) assert_int_equal(j.dropped[i], i >= 2);
  assert_int_equal(writer_sum(o).bytes, 200);
  writer_close(o);
}

/* Closing waits for what is queued. */
TEST(closing_loses_nothing) {
  journal j = {0};
  writer *o = open_writer();
  writer_push(o, &make(&j, 0, 3000, 0)->job);
  writer_push(o, &make(&j, 1, 0, 0)->job);
  writer_close(o);
  assert_int_equal(j.dones, 2);
  writer_close(NULL);
}

/* --- snapshots -------------------------------------------------------------------------------------------------- */

/* An operation that takes its time. */
static void linger(const void *args, int part, int parts) {
  (void)parts;
  if (part == 0) pause_us(*(const int *)args);
}
static const operation LINGER = {.name = "linger", .host = linger, .args_bytes = sizeof(int)};

static float value_at(int z, int y, int x) {
  return (float)(z * 10007 + y * 101 + x) + 0.5f;
}

static void fill_field(float *field, const slab *s) {
  for (int z = 0; z < s->nz; z++)
    for (int y = 0; y < s->ny; y++)
      for (int x = 0; x < s->nx; x++) field[slab_offset(s, z, y, x)] = value_at(z, y, x);
}

static void expect_planes(const slab *s, const float *copy, int z, int planes) {
  const size_t plane = (size_t)s->ny * (size_t)s->nx;
  float *values = malloc((size_t)planes * plane * sizeof *values);
  assert_non_null(values);
  snapshot_planes(s, copy, z, planes, values);
  for (int i = 0; i < planes; i++)
    for (size_t p = 0; p < plane; p++)
      if (values[(size_t)i * plane + p] !=
          value_at(z + i, (int)(p / (size_t)s->nx), (int)(p % (size_t)s->nx)))
        fail_msg("plane %d, point %zu: %g", z + i, p, (double)values[(size_t)i * plane + p]);
  free(values);
}

/* A copy holds the field as it was when it was asked for, if whoever overwrites the field waits for the mark. The
 * snapshot's wait ends only then. */
TEST(a_snapshot_is_what_was) {
  error e = {0};
  device *dev;
  slab s;
  snapshot p;
  const device_options options = {.threads = 2, .local_ranks = 1};
  const int us = 30000;
  assert_int_equal(slab_init(&s, &(slab_shape){.nx = 37, .ny = 11, .nz = 29}, 1, 3, &e), 0);
  assert_int_equal(device_open_host(&options, &dev, &e), 0);
  float *field;
  assert_int_equal(
      dev->table->alloc(dev, (void **)&field, slab_floats(&s) * sizeof *field, MEMORY_DEVICE, &e), 0);
  assert_int_equal(snapshot_open(&p, dev, &s, 1, &e), 0);
  for (int round = 0; round < 3; round++) {
    fill_field(field, &s);
    assert_true(snapshot_reserve(&p, snapshot_field_floats(&s) + 5, SIZE_MAX));
    assert_int_equal(dev->table->apply(dev, STREAM_OUTPUT, &LINGER, &us, &e), 0);
    const float *few = snapshot_floats(&p, field + slab_offset(&s, 2, 3, 4), 5, &e);
    const device_event *first = snapshot_mark(&p, &e);
    const float *copy = snapshot_field(&p, field, &e);
    device_event *const event = snapshot_mark(&p, &e);
    assert_true(first != event);
    for (int stream = 0; stream < 2; stream++) { /* as the next step does */
      assert_int_equal(dev->table->wait(dev, stream, event, &e), 0);
      float *row = field + slab_offset(&s, 0, 2 * stream, 0);
      assert_int_equal(
          dev->table->copy(dev, stream, &(copy_args){row, row + s.pitch, sizeof *row, COPY_ON_DEVICE}, &e),
          0);
    }
    assert_int_equal(snapshot_wait(&p, &e), 0);
    for (int i = 0; i < 5; i++) assert_true(few[i] == value_at(2, 3, 4 + i));
    expect_planes(&s, copy, 0, s.nz);
    expect_planes(&s, copy, 3, 2);
    for (int stream = 0; stream < 2; stream++) assert_int_equal(dev->table->sync(dev, stream, &e), 0);
  }
  snapshot_close(&p);
  assert_int_equal(dev->pinned_bytes, 0);
  dev->table->free(dev, field, MEMORY_DEVICE, &e);
  dev->table->close(dev);
}

/* It takes no more memory than it may, and a refused request loses nothing. */
TEST(a_snapshot_is_bounded) {
  device *dev;
  slab s;
  snapshot p;
  const device_options options = {.threads = 1, .local_ranks = 1};
  OK(slab_init(&s, &(slab_shape){.nx = 8, .ny = 8, .nz = 8}, 0, 1, &E));
  OK(device_open_host(&options, &dev, &E));
  OK(snapshot_open(&p, dev, &s, 0, &E));
  assert_false(snapshot_reserve(&p, 1000, 3999));
  assert_int_equal(dev->pinned_bytes, 0);
  assert_false(snapshot_reserve(&p, (size_t)1 << 58, SIZE_MAX)); /* more than there is */
  assert_true(snapshot_reserve(&p, 1000, 4000));
  assert_int_equal(dev->pinned_bytes, 4000);
  assert_true(snapshot_reserve(&p, 900, 0)); /* it has that much */
  assert_true(snapshot_limit(2) <= snapshot_limit(1) && snapshot_limit(1) > 0);
  snapshot_close(&p);
  dev->table->close(dev);
}

TEST_MAIN("output", NULL, NULL)
