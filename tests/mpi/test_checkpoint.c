/* Checkpoints: written on some ranks and read on others, bit for bit; which ones stay; and the run they are for. */
#include "checkpoint_fixture.h"
#include <time.h>
#include <utime.h>

static void expect_step(const char *path, int64_t step) {
  checkpoint c;
  error e = {0};
  assert_int_equal(checkpoint_open_newest(&c, MPI_COMM_WORLD, path, NULL, NULL, &e), 0);
  if (step < 0) assert_string_equal(c.name, "");
  if (step >= 0) assert_int_equal(c.step, step);
  checkpoint_close(&c);
}

static void round_trip(const fixture *x, const char *path, int out, int in, size_t block, int compress) {
  state s;
  checkpoint c;
  error e = {0};
  checkpoint_meta m = checkpoint_meta_of(42);
  checkpoint_place place = {.path = path, .keep = 1, .compress = compress, .block_bytes = block};
  int salt = out * PARTITIONS + in;
  state_init(&s, salt, out, 0, x->rank, x->ranks);
  if (checkpoint_write(MPI_COMM_WORLD, &place, &m, s.arrays, s.count, &e)) fail_msg("%s", e.text);
  state_init(&s, salt, in, in, x->rank, x->ranks);
  if (checkpoint_open_newest(&c, MPI_COMM_WORLD, path, NULL, NULL, &e)) fail_msg("%s", e.text);
  assert_true(c.step == 42 && c.time == 5.25 && c.dt == 0.125);
  c.block_bytes = block ? block : c.block_bytes;
  if (state_read(&c, &s, &e)) fail_msg("%s", e.text);
  assert_int_equal(checkpoint_match(&c, KEYS, KEY_COUNT, &e), 0);
  checkpoint_close(&c);
}

static void test_round_trip(void **st) {
  const fixture *x = *st;
  const size_t blocks[] = {1, 1000, 0};
  char path[128];
  snprintf(path, sizeof path, "%s/trip", x->folder);
  for (int i = 0; i < PARTITIONS * PARTITIONS; i++)
    round_trip(x, path, i / PARTITIONS, i % PARTITIONS, blocks[i % 3], i % 5 == 4 ? 3 : 0);
  assert_int_equal(count_files(x, path), 1);
}

/* Every value has its checksum, and is what a reader that knows nothing of us finds. */
static void test_layout(void **st) {
  const fixture *x = *st;
  char path[128], name[160];
  static unsigned char found[ROW_MAX * 3 * 8], expected[sizeof found];
  state s;
  snprintf(path, sizeof path, "%s/layout", x->folder);
  WRITE(x, path, 123456789, 1);
  if (x->rank) return;
  snprintf(name, sizeof name, "%s.123456789.h5", path);
  hid_t f = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(f >= 0);
  state_init(&s, 123456789, 0, 0, 0, 1);
  state_shrink(&s);
  for (int i = 0; i < s.count; i++) {
    hid_t d = H5Dopen2(f, s.arrays[i].name, H5P_DEFAULT), list = H5Dget_create_plist(d),
          type = H5Dget_type(d);
    assert_true(d >= 0 && H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, found) >= 0);
    assert_memory_equal(found, expected, part_values(&s.parts[i], 0, s.arrays[i].shape[0], expected));
    assert_int_equal(H5Pget_nfilters(list), s.arrays[i].shape[0] ? 1 : 0);
    if (s.arrays[i].shape[0]) assert_true(H5Pall_filters_avail(list) > 0);
    unsigned flags, set;
    size_t none = 0;
    if (s.arrays[i].shape[0])
      assert_int_equal(H5Pget_filter2(list, 0, &flags, &none, NULL, 0, NULL, &set), H5Z_FILTER_FLETCHER32);
    assert_true(H5Tclose(type) >= 0 && H5Pclose(list) >= 0 && H5Dclose(d) >= 0);
  }
  assert_true(H5Fclose(f) >= 0);
}

/* HDF5 itself finds damaged values, too. */
static void test_checksums(void **st) {
  const fixture *x = *st;
  static image m;
  static unsigned char values[ROW_MAX * 8];
  char path[128];
  state s;
  snprintf(path, sizeof path, "%s/sums", x->folder);
  WRITE(x, path, 5, 1);
  if (x->rank) return;
  load(&m, path, 5);
  state_init(&s, 5, 0, 0, 0, 1);
  state_shrink(&s);
  for (int i = 0; i < s.count; i++) {
    size_t bytes = part_values(&s.parts[i], 0, s.arrays[i].shape[0], values);
    unsigned char *at = bytes ? memmem(m.bytes, m.size, values, bytes) : NULL;
    if (!bytes) continue;
    assert_non_null(at);
    at[random_bits((uint64_t)i) % bytes] ^= 1 << i % 8;
    store(&m, m.size);
    hid_t f = H5Fopen(m.name, H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(f, s.arrays[i].name, H5P_DEFAULT);
    hid_t type = H5Dget_type(d);
    assert_true(d >= 0 && H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0);
    assert_true(H5Tclose(type) >= 0 && H5Dclose(d) >= 0 && H5Fclose(f) >= 0);
  }
}

static void test_rotation(void **st) {
  const fixture *x = *st;
  char path[128], other[160];
  snprintf(path, sizeof path, "%s/rotate", x->folder);
  expect_step(path, -1);
  static const char *const near[] = {".0000001.h5",   ".00000001.h5.old", ".00000001.hdf", ".00000001x.h5",
                                     "2.00000001.h5", ".-0000001.h5",     ".000000001.h5"};
  const int others = sizeof near / sizeof *near;
  for (int i = 0; i < others; i++) {
    snprintf(other, sizeof other, "%s%s", path, near[i]);
    FILE *f = x->rank ? NULL : fopen(other, "w");
    if (f) fclose(f);
  }
  for (int keep = 3; keep >= 1; keep -= 2)
    for (int64_t step = 10; step <= 60; step += 10) {
      WRITE(x, path, step, keep);
      expect_step(path, step);
      int here = keep == 1 ? 1 : step >= 30 ? 3 : (int)step / 10;
      assert_int_equal(count_files(x, path), others + here);
    }
  /* A run that has gone back counts by what it writes, not by what others had reached. */
  WRITE(x, path, 20, 2);
  expect_step(path, 20);
  WRITE(x, path, 30, 2);
  expect_step(path, 30);
  WRITE(x, path, 30, 2);
  expect_step(path, 30);
  assert_int_equal(count_files(x, path), others + 2);
}

/* Half-written files: of this process and of one that is gone they are removed, of others once they are old. */
static void test_abandoned(void **st) {
  const fixture *x = *st;
  char path[128], name[256], host[65];
  snprintf(path, sizeof path, "%s/stale", x->folder);
  assert_int_equal(gethostname(host, sizeof host), 0);
  const struct {
    const char *host;
    long pid;
    bool old, removed;
  } cases[] = {{host, (long)getpid(), false, true},
               {host, 99999999, false, true},
               {host, (long)getppid(), false, false},
               {"another", 1, false, false},
               {"another", 2, true, true},
               {host, 1, true, true}};
  const int count = sizeof cases / sizeof *cases;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < count && x->rank == 0; i++) {
      snprintf(name, sizeof name, "%s.%08d.h5.tmp.%s.%ld", path, i, cases[i].host, cases[i].pid);
      int fd = open(name, O_CREAT | O_WRONLY, 0666);
      assert_true(fd >= 0 && close(fd) == 0);
      const struct utimbuf hours = {time(NULL) - 7200, time(NULL) - 7200};
      if (cases[i].old) assert_int_equal(utime(name, &hours), 0);
    }
    WRITE(x, path, 100, 1);
    for (int i = 0; i < count && x->rank == 0; i++) {
      snprintf(name, sizeof name, "%s.%08d.h5.tmp.%s.%ld", path, i, cases[i].host, cases[i].pid);
      assert_int_equal(access(name, F_OK), cases[i].removed ? -1 : 0);
    }
  }
  expect_step(path, 100);
}

static void expect_difference(const checkpoint *c, const checkpoint_key *keys, int count, const char *what) {
  char text[CHECKPOINT_NAME + 256];
  error e = {0};
  snprintf(text, sizeof text, "%s: a checkpoint of another run: %s", c->name, what);
  assert_int_equal(checkpoint_match(c, keys, count, &e), ERROR_CHECKPOINT_DIFFERS);
  assert_string_equal(e.text, text);
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_FILE);
}

static void test_fingerprint(void **st) {
  const fixture *x = *st;
  char path[128], name[160];
  checkpoint c;
  error e = {0};
  snprintf(path, sizeof path, "%s/keys", x->folder);
  snprintf(name, sizeof name, "%s.00000007.h5", path);
  WRITE(x, path, 7, 1);
  assert_int_equal(checkpoint_open(&c, MPI_COMM_WORLD, name, &e), 0);
  assert_int_equal(checkpoint_match(&c, KEYS, KEY_COUNT, &e), 0);
  checkpoint_key keys[4] = {KEYS[2], KEYS[1], KEYS[0], {"[grid] ny", "5"}};
  assert_int_equal(checkpoint_match(&c, keys, 3, &e), 0);
  expect_difference(&c, keys, 4, "[grid] ny: expected '5', found ''");
  expect_difference(&c, keys, 2, "[grid] nx: expected '', found '7'");
  keys[2].value = "70";
  expect_difference(&c, keys, 3, "[grid] nx: expected '70', found '7'");
  keys[0].value = "1500";
  expect_difference(&c, keys, 3, "[medium] velocity: expected '1500', found ''");
  checkpoint_close(&c);
}

static void expect_read(const checkpoint *c, const checkpoint_array *a, int id, const char *what) {
  char text[CHECKPOINT_NAME + 256];
  error e = {0};
  snprintf(text, sizeof text, "%s%s", id == ERROR_CHECKPOINT_SHARES ? "" : c->name, what);
  assert_int_equal(checkpoint_read(c, a, &e), id);
  assert_string_equal(e.text, text);
}

/* Arrays that are not there, or not as the run has them. */
static void test_arrays(void **st) {
  const fixture *x = *st;
  char path[128];
  checkpoint c;
  state s;
  error e = {0};
  snprintf(path, sizeof path, "%s/arrays", x->folder);
  WRITE(x, path, 7, 1);
  assert_int_equal(checkpoint_open_newest(&c, MPI_COMM_WORLD, path, NULL, NULL, &e), 0);
  state_init(&s, 7, 0, 0, x->rank, x->ranks);
  checkpoint_array a = s.arrays[0], t = s.arrays[5];
  a.name = "v";
  expect_read(&c, &a, ERROR_CHECKPOINT_NO_ARRAY, ": no array v in this checkpoint");
  a.name = "u", a.shape[1] = 6;
  expect_read(&c, &a, ERROR_CHECKPOINT_ARRAY, ": array u: expected shape (17, 6, 7), found (17, 5, 7)");
  a.axes = 2;
  expect_read(&c, &a, ERROR_CHECKPOINT_ARRAY, ": array u: expected shape (17, 6), found (17, 5, 7)");
  a = s.arrays[0], a.type = CHECKPOINT_INT64;
  expect_read(&c, &a, ERROR_CHECKPOINT_ARRAY, ": array u: expected type int64, found float32");
  a = s.arrays[0], a.first = x->rank == x->ranks - 1 ? 10 : 0, a.count = 8;
  expect_read(&c, &a, ERROR_CHECKPOINT_SHARES, "checkpoint: the ranks' parts of array u do not fit together");
  s.parts[5].columns[0] = 13, t.column_count = 1;
  expect_read(&c, &t, ERROR_CHECKPOINT_SHARES,
              "checkpoint: the ranks' parts of array traces do not fit together");
  enum checkpoint_type type;
  int axes;
  int64_t shape[3];
  assert_int_equal(checkpoint_find_array(&c, "times", &type, &axes, shape, &e), 0);
  assert_true(type == CHECKPOINT_DOUBLE && axes == 1 && shape[0] == 6);
  assert_int_equal(checkpoint_find_array(&c, "traces", &type, &axes, shape, &e), 0);
  assert_true(type == CHECKPOINT_FLOAT && axes == 2 && shape[0] == 11 && shape[1] == 13);
  assert_int_equal(checkpoint_find_array(&c, "v", &type, &axes, shape, &e), 0);
  assert_int_equal(axes, 0);
  checkpoint_close(&c);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_layout),
                                     cmocka_unit_test(test_checksums),  cmocka_unit_test(test_rotation),
                                     cmocka_unit_test(test_abandoned),  cmocka_unit_test(test_fingerprint),
                                     cmocka_unit_test(test_arrays)};
  return FIXTURE_RUN(argc, argv, tests);
}
