/* Checkpoints: written on some ranks and read on others, bit for bit; which ones stay; and the run they are for. */
#include "checkpoint_fixture.h"
#include <time.h>
#include <utime.h>

static void expect_step(fixture *x, const char *path, int64_t step) {
  checkpoint c;
  OK(checkpoint_open(&c, &x->accesses[0], &(checkpoint_search){NULL, path, -1, NULL, NULL}, &E));
  if (step < 0) assert_string_equal(c.name, "");
  if (step >= 0) assert_int_equal(c.step, step);
  checkpoint_close(&c);
}

static void round_trip(fixture *x, const char *path, int out, int in, io_access *write, io_access *read) {
  state s;
  checkpoint c;
  error e = {0};
  checkpoint_meta m = checkpoint_meta_of(42);
  checkpoint_place place = {.path = path, .keep = 1};
  int salt = out * PARTITIONS + in;
  state_init(&s, salt, out, 0, x->rank, x->ranks);
  assert_ok(checkpoint_write(write, &place, &m, s.arrays, s.count, &e), &e);
  for (int i = 0; i < s.count; i++)
    assert_int_equal(s.parts[i].moved, row_values(&s.arrays[i]) ? s.arrays[i].count : 0);
  state_init(&s, salt, in, in, x->rank, x->ranks);
  assert_ok(checkpoint_open(&c, read, &(checkpoint_search){NULL, path, -1, NULL, NULL}, &e), &e);
  assert_true(c.step == 42 && c.time == 5.25 && c.dt == 0.125);
  if (state_read(&c, &s, &e) || checkpoint_verify(&c, &e)) fail_msg("%s", e.text);
  assert_int_equal(checkpoint_match(&c, KEYS, &e), 0);
  checkpoint_close(&c);
}

/* Every way to write and to read, from every partition to every other. */
TEST_OF(test_round_trip, fixture *x) {
  const size_t blocks[] = {1, 1000, 1 << 20, 1 << 16};
  const char *path = text_of("%s/trip", x->folder);
  for (int i = 0; i < PARTITIONS * PARTITIONS * 2; i++) {
    const int parts = i % (PARTITIONS * PARTITIONS);
    io_access *write = &x->accesses[(i + i / ACCESSES) % ACCESSES],
              *read = &x->accesses[(i + i / ACCESSES / ACCESSES) % ACCESSES];
    write->block_bytes = blocks[i % 4], read->block_bytes = blocks[i / 4 % 4];
    round_trip(x, path, parts / PARTITIONS, parts % PARTITIONS, write, read);
  }
  assert_int_equal(count_files(x, path), 1);
}

/* However many ranks wrote the file and in which way, it is the same byte by byte, except its date and generation.
 * Arrays and their sums are the same in every byte. */
TEST_OF(test_same_bytes, fixture *x) {
  static image first, m;
  const char *path = text_of("%s/same", x->folder);
  for (int i = 0; i < ACCESSES + 1; i++) {
    state s;
    error e = {0};
    checkpoint_meta meta = checkpoint_meta_of(3);
    const checkpoint_place place = {.path = path, .keep = 1};
    const bool alone = i == ACCESSES;
    state_init(&s, 3, alone ? 0 : i, 0, alone ? 0 : x->rank, alone ? 1 : x->ranks);
    state_shrink(&s);
    if (!alone) checkpoint_write(&x->accesses[i], &place, &meta, s.arrays, s.count, &e);
    if (alone && x->rank == 0) checkpoint_write(&x->alone, &place, &meta, s.arrays, s.count, &e);
    assert_int_equal(e.id, 0);
    if (x->rank) continue;
    load(i ? &m : &first, path, 3);
    checkpoint c;
    assert_int_equal(
        checkpoint_open(&c, &x->alone, &(checkpoint_search){.file = m.name[0] ? m.name : first.name}, &e), 0);
    for (int k = 0; i && k < c.count; k++) {
      const checkpoint_array *a = &c.arrays[k];
      const size_t bytes = (size_t)(a->shape[0] * row_values(&s.arrays[k])) * value_bytes(&s.arrays[k]);
      assert_memory_equal(m.bytes + a->at, first.bytes + a->at, bytes);
    }
    checkpoint_close(&c);
  }
}

/* A plain HDF5 reader finds contiguous arrays, and the sums of their rows. */
TEST_OF(test_layout, fixture *x) {
  static unsigned char found[ROW_MAX * 3 * 8], expected[sizeof found];
  state s;
  int64_t sums = 0;
  const char *path = text_of("%s/layout", x->folder);
  WRITE(x, path, 123456789, 1);
  if (x->rank) return;
  const char *name = text_of("%s.123456789.h5", path);
  hid_t f = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(f >= 0);
  state_init(&s, 123456789, 0, 0, 0, 1);
  state_shrink(&s);
  for (int i = 0; i < s.count; i++) {
    hid_t d = H5Dopen2(f, s.arrays[i].name, H5P_DEFAULT), list = H5Dget_create_plist(d),
          type = H5Dget_type(d);
    assert_true(d >= 0 && H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, found) >= 0);
    assert_memory_equal(found, expected, part_values(&s.parts[i], 0, s.arrays[i].shape[0], expected));
    assert_int_equal(H5Pget_layout(list), H5D_CONTIGUOUS);
    sums += row_values(&s.arrays[i]) ? s.arrays[i].shape[0] : 0;
    assert_true(H5Tclose(type) >= 0 && H5Pclose(list) >= 0 && H5Dclose(d) >= 0);
  }
  hid_t d = H5Dopen2(f, "checksums", H5P_DEFAULT), space = H5Dget_space(d);
  assert_int_equal(H5Sget_simple_extent_npoints(space), sums);
  assert_true(H5Sclose(space) >= 0 && H5Dclose(d) >= 0 && H5Fclose(f) >= 0);
}

/* One bit of a value has changed: array and row are named. */
TEST_OF(test_checksums, fixture *x) {
  static image m;
  static unsigned char values[ROW_MAX * 8];
  char text[256];
  state s;
  error e = {0};
  const char *path = text_of("%s/sums", x->folder);
  WRITE(x, path, 5, 1);
  for (int i = 0; i < ARRAYS; i++) {
    checkpoint c;
    e = (error){0};
    state_init(&s, 5, 0, 0, x->rank, x->ranks);
    state_shrink(&s);
    const checkpoint_array *a = &s.arrays[i];
    const size_t bytes = (size_t)(a->shape[0] * row_values(a)) * value_bytes(a);
    const size_t at = bytes ? random_bits((uint64_t)i) % bytes : 0;
    if (!bytes) continue;
    if (x->rank == 0) {
      load(&m, path, 5);
      state whole;
      state_init(&whole, 5, 0, 0, 0, 1);
      state_shrink(&whole);
      part_values(&whole.parts[i], 0, a->shape[0], values);
      unsigned char *found = memmem(m.bytes, m.size, values, bytes);
      assert_non_null(found);
      found[at] ^= 1 << i % 8;
      store(&m, m.size);
    }
    assert_int_equal(
        checkpoint_open(&c, &x->accesses[i % ACCESSES], &(checkpoint_search){NULL, path, -1, NULL, NULL}, &e),
        0);
    snprintf(text, sizeof text,
             "%s.00000005.h5: damaged checkpoint: array %s, row %d has changed since it was written", path,
             a->name, (int)(at / ((size_t)row_values(a) * value_bytes(a))));
    assert_int_equal(state_read(&c, &s, &e), ERROR_CHECKPOINT_DAMAGED);
    assert_string_equal(e.text, text);
    e = (error){0};
    assert_int_equal(checkpoint_verify(&c, &e), ERROR_CHECKPOINT_DAMAGED);
    assert_string_equal(e.text, text);
    checkpoint_close(&c);
    WRITE(x, path, 5, 1);
  }
}

TEST_OF(test_rotation, fixture *x) {
  const char *path = text_of("%s/rotate", x->folder);
  expect_step(x, path, -1);
  static const char *const near[] = {".0000001.h5",   ".00000001.h5.old", ".00000001.hdf", ".00000001x.h5",
                                     "2.00000001.h5", ".-0000001.h5",     ".000000001.h5"};
  const int others = sizeof near / sizeof *near;
  for (int i = 0; i < others; i++) {
    const char *other = text_of("%s%s", path, near[i]);
    FILE *f = x->rank ? NULL : fopen(other, "w");
    if (f) fclose(f);
  }
  for (int keep = 3; keep >= 1; keep -= 2)
    for (int64_t step = 10; step <= 60; step += 10) {
      WRITE(x, path, step, keep);
      expect_step(x, path, step);
      int here = keep == 1 ? 1 : step >= 30 ? 3 : (int)step / 10;
      assert_int_equal(count_files(x, path), others + here);
    }
  /* After going back to an earlier step, a run keeps the checkpoints that it writes, not later ones of a run before. */
  WRITE(x, path, 20, 2);
  expect_step(x, path, 20);
  WRITE(x, path, 30, 2);
  expect_step(x, path, 30);
  WRITE(x, path, 30, 2);
  expect_step(x, path, 30);
  assert_int_equal(count_files(x, path), others + 2);
}

/* When a run begins, and when it writes, half-written files of this or an ended process are removed at once, those of
 * others when they are old. */
TEST_OF(test_abandoned, fixture *x) {
  char name[256], host[65];
  const char *path = text_of("%s/stale", x->folder);
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
    checkpoint_start start;
    if (round == 0) OK(checkpoint_begin(&x->accesses[0], path, NULL, &start, &E));
    if (round == 1) WRITE(x, path, 100, 1);
    for (int i = 0; i < count && x->rank == 0; i++) {
      snprintf(name, sizeof name, "%s.%08d.h5.tmp.%s.%ld", path, i, cases[i].host, cases[i].pid);
      assert_int_equal(access(name, F_OK), cases[i].removed ? -1 : 0);
    }
  }
  expect_step(x, path, 100);
}

static void expect_difference(const checkpoint *c, const char *keys, const char *what) {
  const char *text = text_of("%s: a checkpoint of another run: %s", c->name, what);
  FAILS(checkpoint_match(c, keys, &E), ERROR_CHECKPOINT_DIFFERS, text);
  assert_int_equal(error_exit_code(E.id), EXIT_CODE_FILE);
}

TEST_OF(test_fingerprint, fixture *x) {
  checkpoint c;
  const char *path = text_of("%s/keys", x->folder);
  const char *name = text_of("%s.00000007.h5", path);
  WRITE(x, path, 7, 1);
  OK(checkpoint_open(&c, &x->accesses[3], &(checkpoint_search){.file = name}, &E));
  OK(checkpoint_match(&c, KEYS, &E));
#define LATER "[medium] velocity\n\n[equation] type\nwave\n"
  OK(checkpoint_match(&c, LATER "[grid] nx\n7\n", &E));
  expect_difference(&c, LATER "[grid] nx\n7\n[grid] ny\n5\n", "[grid] ny: expected '5', found 'none'");
  expect_difference(&c, LATER, "[grid] nx: expected 'none', found '7'");
  expect_difference(&c, LATER "[grid] nx\n70\n", "[grid] nx: expected '70', found '7'");
  expect_difference(&c, LATER "[grid] nx\n\n", "[grid] nx: expected '', found '7'");
  expect_difference(&c, "[medium] velocity\n1500\n[grid] nx\n7\n",
                    "[medium] velocity: expected '1500', found ''");
  assert_true(checkpoint_has_key(&c, "[grid] nx") && checkpoint_has_key(&c, "[medium] velocity"));
  assert_false(checkpoint_has_key(&c, "[grid] n") || checkpoint_has_key(&c, "7"));
  checkpoint_close(&c);
}

static void expect_read(const checkpoint *c, const checkpoint_array *a, int id, const char *what) {
  const char *text = text_of("%s%s", id == ERROR_CHECKPOINT_PARTS ? "" : c->name, what);
  FAILS(checkpoint_read(c, a, 1, &E), id, text);
}

/* Arrays that are not there, or not as the run has them. */
TEST_OF(test_arrays, fixture *x) {
  checkpoint c;
  state s;
  const char *path = text_of("%s/arrays", x->folder);
  WRITE(x, path, 7, 1);
  OK(checkpoint_open(&c, &x->accesses[1], &(checkpoint_search){NULL, path, -1, NULL, NULL}, &E));
  state_init(&s, 7, 0, 0, x->rank, x->ranks);
  checkpoint_array a = s.arrays[0];
  strcpy(a.name, "v");
  expect_read(&c, &a, ERROR_CHECKPOINT_NO_ARRAY, ": no array v in this checkpoint");
  strcpy(a.name, "u"), a.shape[1] = 6;
  expect_read(&c, &a, ERROR_CHECKPOINT_ARRAY, ": array u: expected shape (17, 6, 7), found (17, 5, 7)");
  a.axes = 2;
  expect_read(&c, &a, ERROR_CHECKPOINT_ARRAY, ": array u: expected shape (17, 6), found (17, 5, 7)");
  a = s.arrays[0], a.type = CHECKPOINT_INT64;
  expect_read(&c, &a, ERROR_CHECKPOINT_ARRAY, ": array u: expected type int64, found float32");
  a = s.arrays[0], a.first = x->rank == x->ranks - 1 ? 10 : 0, a.count = 8;
  expect_read(&c, &a, ERROR_CHECKPOINT_PARTS, "checkpoint: the ranks' parts of array u do not fit together");
  const checkpoint_array *times = checkpoint_find_array(&c, "times"),
                         *traces = checkpoint_find_array(&c, "traces");
  assert_true(times && times->type == CHECKPOINT_INT64 && times->axes == 1 && times->shape[0] == 6);
  assert_true(traces && traces->type == CHECKPOINT_FLOAT && traces->axes == 2);
  assert_true(traces->shape[0] == 13 && traces->shape[1] == 11);
  assert_null(checkpoint_find_array(&c, "v"));
  checkpoint_close(&c);
}

FIXTURE_MAIN
