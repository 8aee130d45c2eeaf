/* Host devices that do parts of each other's launches. A wave overwrites what it reads: a part that is done twice, or not
 * at all, gives other bits. */
#include "test.h"
#include "device/host_parts.h"
#include "halo/slab.h"
#include "kernels/host_share.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { NX = 1000, NY = 40, STEPS = 30, RANKS = 2 };
static error E;

/* What a rank has: fields that are its own, a board, and what they hold after STEPS steps. */
typedef struct member {
  slab s;
  size_t bytes;
  float *fields[DEVICE_FIELDS], *expected[2];
  host_board *board;
  uint32_t counter;
} member;

static const kernel *wave(void) {
  const kernel *k;
  assert_ok(kernel_find("simd", EQUATION_WAVE, BACKEND_HOST, &k, &E), &E);
  return k;
}

/* Step `n` of the fields that begin at `fields`. */
static kernel_args args_of(const member *m, float *const fields[DEVICE_FIELDS], int n) {
  const slab *s = &m->s;
  kernel_args a = {.pitch = s->pitch, .plane = s->plane, .nx = s->nx, .ny = s->ny, .nz = s->nz};
  a.in = fields[n % 2], a.out = fields[!(n % 2)], a.medium = fields[2];
  a.z_end = s->nz;
  a.center = -0.6f;
  for (int r = 1; r <= 4; r++) a.wx[r] = a.wy[r] = a.wz[r] = 0.05f - 0.01f * (float)r;
  return a;
}

static void open_member(member *m, int planes, int steps) {
  uint64_t random = 7;
  const kernel *k = wave();
  float *copies[DEVICE_FIELDS];
  *m = (member){0};
  assert_ok(slab_init(&m->s, &(slab_shape){NX, NY, planes, .ghost = RADIUS}, 0, 1, &E), &E);
  m->bytes = (slab_floats(&m->s) * sizeof(float) + 255) / 256 * 256;
  const size_t first = slab_offset(&m->s, 0, 0, 0);
  for (int i = 0; i < DEVICE_FIELDS; i++) {
    float *field = aligned_alloc(256, m->bytes), *copy = aligned_alloc(256, m->bytes);
    for (size_t at = 0; at < m->bytes / sizeof(float); at++) field[at] = 0.5f * test_random(&random);
    memcpy(copy, field, m->bytes);
    m->fields[i] = field + first;
    copies[i] = copy + first;
  }
  for (int n = 0; n < steps; n++) {
    const kernel_args a = args_of(m, copies, n);
    k->host(&a, 0, 1);
  }
  for (int i = 0; i < 2; i++) m->expected[i] = copies[i];
  free(copies[2] - first);
  m->board = aligned_alloc(_Alignof(host_board), sizeof *m->board);
  memset(m->board, 0, sizeof *m->board);
}

static void check_and_close(member *m) {
  const size_t first = slab_offset(&m->s, 0, 0, 0);
  for (int i = 0; i < 2; i++) {
    for (int z = 0; z < m->s.nz; z++)
      for (int y = 0; y < NY; y++) {
        const size_t row = (size_t)z * m->s.plane + (size_t)y * m->s.pitch;
        assert_memory_equal(m->fields[i] + row, m->expected[i] + row, NX * sizeof(float));
      }
    free(m->expected[i] - first);
  }
  for (int i = 0; i < DEVICE_FIELDS; i++) free(m->fields[i] - first);
  free(m->board);
}

static device *open_device(int threads) {
  const device_options options = {.local_ranks = RANKS, .threads = threads, .own_cores = true};
  device *dev;
  assert_ok(device_open("host", &options, &dev, &E), &E);
  return dev;
}

static void join(device *dev, member *all, int rank) {
  device_member members[RANKS];
  device_share share = {.rank = rank, .ranks = RANKS, .members = members};
  for (int r = 0; r < RANKS; r++) {
    memcpy(members[r].fields, all[r].fields, sizeof members[r].fields);
    members[r].board = all[r].board;
  }
  memcpy(share.own, all[rank].fields, sizeof share.own);
  assert_ok(dev->table->peer->share(dev, &share, &E), &E);
}

/* Rank 0 has a launch on its board and does nothing about it. It names its fields by addresses that are nowhere. */
static void others_do_what_a_slow_rank_leaves(void **state) {
  (void)state;
  member all[RANKS];
  float nowhere[DEVICE_FIELDS];
  device_member mine = {.board = NULL};
  device_share share = {.rank = 0, .ranks = 1, .members = &mine};
  for (int r = 0; r < RANKS; r++) open_member(&all[r], 8, r == 0);
  mine.board = all[0].board;
  for (int i = 0; i < DEVICE_FIELDS; i++) share.own[i] = &nowhere[i];
  host_members *slow = host_members_new(&share, 1);
  assert_non_null(slow);
  const kernel_args args = args_of(&all[0], share.own, 0);
  const int pieces = host_share_pieces(&args, 1);
  assert_true(pieces > 2 && host_board_takes(slow, wave(), &args));
  host_board_write(slow, wave(), &args, pieces);
  atomic_store(&all[0].board->undone, pieces);
  host_parts_open(&all[0].board->parts[0], pieces);

  device *dev = open_device(1);
  join(dev, all, 1);
  assert_ok(dev->table->peer->await(dev, STREAM_INTERIOR, &all[0].counter, 1, &E), &E);
  while (atomic_load(&all[0].board->undone) > 0) sched_yield();
  __atomic_store_n(&all[0].counter, 1, __ATOMIC_RELEASE);
  assert_ok(dev->table->sync(dev, STREAM_INTERIOR, &E), &E);
  assert_int_equal(atomic_load(&all[0].board->undone), 0);
  dev->table->close(dev);
  free(slow);
  for (int r = 0; r < RANKS; r++) check_and_close(&all[r]);
}

/* Two ranks take their steps together, as if their planes were each other's ghosts; one has four times the work. */
static void all_bits_are_the_same(void **state) {
  (void)state;
  member all[RANKS];
  device *devices[RANKS];
  for (int r = 0; r < RANKS; r++) {
    open_member(&all[r], r ? 64 : 16, STEPS);
    devices[r] = open_device(1 + r);
  }
  for (int r = 0; r < RANKS; r++) join(devices[r], all, r);
  for (int n = 0; n < STEPS; n++)
    for (int r = 0; r < RANKS; r++) {
      const device_table *t = devices[r]->table;
      const kernel_args args = args_of(&all[r], all[r].fields, n);
      assert_ok(t->launch(devices[r], STREAM_INTERIOR, wave(), &args, &E), &E);
      assert_ok(t->peer->signal(devices[r], STREAM_INTERIOR, &all[r].counter, (uint32_t)n + 1, &E), &E);
      assert_ok(t->peer->await(devices[r], STREAM_INTERIOR, &all[!r].counter, (uint32_t)n + 1, &E), &E);
    }
  for (int r = 0; r < RANKS; r++) assert_ok(devices[r]->table->sync(devices[r], STREAM_INTERIOR, &E), &E);
  for (int r = 0; r < RANKS; r++) {
    assert_ok(devices[r]->table->peer->share(devices[r], NULL, &E), &E);
    devices[r]->table->close(devices[r]);
    check_and_close(&all[r]);
  }
}

/* Who has looked at a task takes no part of the next one. */
static void nobody_takes_parts_of_another_task(void **state) {
  (void)state;
  host_parts p = {0};
  int left;
  assert_false(host_parts_take(&p, &left));
  host_parts_open(&p, 2);
  unsigned long long seen = atomic_load(&p.left);
  for (int i = 1; i >= 0; i--) {
    assert_true(host_parts_take(&p, &left));
    assert_int_equal(left, i);
  }
  assert_false(host_parts_take(&p, &left));
  host_parts_open(&p, 2);
  assert_false(atomic_compare_exchange_strong(&p.left, &seen, seen - 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_takes_parts_of_another_task),
                                     cmocka_unit_test(others_do_what_a_slow_rank_leaves),
                                     cmocka_unit_test(all_bits_are_the_same)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
