/* Damaged, truncated or foreign checkpoints are refused or skipped, never believed. What does not depend on the number
 * of ranks is tested with one. */
#include <fcntl.h>
#include "checkpoint_fixture.h"
#include "io/checkpoint_internal.h"

/* One byte is not what it was, somewhere in the file. */
TEST_OF(test_flips, fixture *x) {
  static image m;
  error e;
  int tried = 0;
  skip_if_many(x);
  const char *path = text_of("%s/flip", x->folder);
  WRITE(x, path, 9, 2);
  load(&m, path, 9);
  assert_int_equal(judge(x, m.name, 9, &e), 0);
  for (size_t at = 0; at < m.size; at += at < 2000 ? 1 : 1 + random_bits(at) % 19, tried++) {
    unsigned char was = m.bytes[at], change = tried % 3 ? (unsigned char)(1 << random_bits(at) % 8) : 0xff;
    m.bytes[at] ^= change;
    store_byte(&m, at);
    if (judge(x, m.name, 9, &e) == 0) fail_msg("byte %zu has changed by %d and nobody cares", at, change);
    m.bytes[at] = was;
    store_byte(&m, at);
  }
  assert_int_equal(judge(x, m.name, 9, &e), 0);
  assert_true(tried > 3000);
}

/* Cut at any length; and longer than it was. */
TEST_OF(test_truncation, fixture *x) {
  static image m;
  error e;
  skip_if_many(x);
  const char *path = text_of("%s/cut", x->folder);
  WRITE(x, path, 9, 2);
  load(&m, path, 9);
  for (size_t size = 0; size<m.size; size += size + 300> m.size ? 1 : 1 + random_bits(size) % 61) {
    store(&m, size);
    assert_int_not_equal(judge(x, m.name, 9, &e), 0);
  }
  store(&m, m.size + 1); /* a zero */
  assert_int_equal(judge(x, m.name, 9, &e), ERROR_CHECKPOINT_DAMAGED);
  store(&m, m.size);
  assert_int_equal(judge(x, m.name, 9, &e), 0);
}

/* Damage that HDF5 itself accepts: sectors that were never written, and an array's values with their checksum in the
 * place of another's. */
TEST_OF(test_blocks, fixture *x) {
  static image m, good;
  static unsigned char values[ROW_MAX * 8];
  error e;
  state s;
  int harmful = 0;
  skip_if_many(x);
  const char *path = text_of("%s/block", x->folder);
  WRITE(x, path, 9, 2);
  load(&good, path, 9);
  m = good;
  state_init(&s, 9, 0, 0, 0, 1);
  unsigned char *place[2];
  size_t bytes = part_values(&s.parts[0], 0, NZ, values);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(part_values(&s.parts[i], 0, NZ, values), bytes);
    place[i] = memmem(m.bytes, m.size, values, bytes);
    assert_non_null(place[i]);
  }
  memcpy(place[0], place[1], bytes + 4);
  store(&m, m.size);
  assert_int_equal(judge(x, m.name, 9, &e), ERROR_CHECKPOINT_DAMAGED);
  for (size_t size = 512; size <= 4096; size *= 8)
    for (size_t at = 0; at + size <= good.size; at += size) {
      m = good;
      memset(m.bytes + at, 0, size);
      store(&m, m.size);
      bool same = memcmp(m.bytes, good.bytes, m.size) == 0;
      assert_true((judge(x, m.name, 9, &e) == 0) == same);
      harmful += !same;
    }
  assert_true(harmful > 20);
}

/* Nothing is read through HDF5, which crashes on some files: a sealed one without HDF5's first block is as good. */
TEST_OF(test_without_hdf5, fixture *x) {
  static image m;
  checkpoint_seal s;
  int fd = -1;
  error e = {0};
  skip_if_many(x);
  const char *path = text_of("%s/bare", x->folder);
  WRITE(x, path, 9, 2);
  load(&m, path, 9);
  assert_memory_equal(m.bytes + CHECKPOINT_SEAL, "\211HDF", 4);
  memset(m.bytes + CHECKPOINT_SEAL, 0xff, 48);
  store(&m, m.size);
  assert_int_equal(judge(x, m.name, 9, &e), ERROR_CHECKPOINT_DAMAGED);
  e = (error){0};
  assert_int_equal(checkpoint_read_seal(m.name, &s, &fd, &e), 0);
  close(fd);
  fd = open(m.name, O_RDWR);
  assert_int_equal(checkpoint_write_seal(m.name, fd, &s, &e), 0);
  close(fd);
  assert_int_equal(judge(x, m.name, 9, &e), 0);
}

static void make_foreign(const char *name, int kind) {
  static const char *const texts[] = {"", "[grid]\nnx = 3\n", "stencil checkpoint\nformat 2\nwhatever"};
  if (kind == 1) assert_int_equal(mkdir(name, 0777), 0);
  if (kind == 2) assert_int_equal(mkfifo(name, 0666), 0);
  if (kind == 3) {
    hid_t f = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(f >= 0 && H5Fclose(f) >= 0);
  }
  FILE *f = kind < 4 ? NULL : fopen(name, "w");
  if (!f) return;
  fprintf(f, "%-600s", texts[kind - 4]);
  assert_int_equal(fclose(f), 0);
}

/* Files that are no checkpoints, each refused in its own words on every rank. */
TEST_OF(test_foreign, fixture *x) {
  static const char *const words[] = {"cannot open: No such file or directory",
                                      "cannot open: Is a directory",
                                      "cannot open: it is not a regular file",
                                      "not a checkpoint of this program",
                                      "not a checkpoint of this program",
                                      "not a checkpoint of this program",
                                      "a checkpoint of format 2, but this program reads format 5"};
  for (int i = 0; i < (int)(sizeof words / sizeof *words); i++) {
    checkpoint c;
    error e = {0};
    const char *name = text_of("%s/foreign%d", x->folder, i);
    if (x->rank == 0) make_foreign(name, i);
    MPI_Barrier(MPI_COMM_WORLD);
    const char *text = text_of("%s: %s", name, words[i]);
    assert_int_not_equal(checkpoint_open(&c, &x->ways[i % WAYS], &(checkpoint_search){.file = name}, &e), 0);
    assert_string_equal(e.text, text);
    assert_int_equal(error_exit_code(e.id), EXIT_CODE_FILE);
    assert_string_equal(c.name, "");
  }
}

/* The newest that is intact, as a run finds it. */
static void expect_newest(fixture *x, const char *path, int64_t step, int skipped) {
  checkpoint c;
  notes n = {0};
  int damaged = 0;
  io_way *way = &x->ways[step > 0 ? step % WAYS : 0];
  MPI_Barrier(MPI_COMM_WORLD);
  for (int64_t before = -1;; damaged++) {
    error e = {0};
    assert_int_equal(checkpoint_open(&c, way, &(checkpoint_search){NULL, path, before, note_skipped, &n}, &e),
                     0);
    if (!c.name[0] || !checkpoint_verify(&c, &e)) break;
    assert_int_equal(e.id, ERROR_CHECKPOINT_DAMAGED);
    before = c.mark.generation;
    checkpoint_close(&c);
  }
  assert_int_equal(damaged + n.count, skipped);
  if (step < 0) assert_string_equal(c.name, "");
  if (step >= 0) assert_int_equal(c.step, step);
  checkpoint_close(&c);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* A damaged file makes the run take the one before, in the end none; the next checkpoint replaces the damaged ones. */
TEST_OF(test_fallback, fixture *x) {
  static image m;
  char path[128];
  snprintf(path, sizeof path, "%s/nowhere/at/all", x->folder);
  expect_newest(x, path, -1, 0);
  snprintf(path, sizeof path, "%s/back", x->folder);
  WRITE(x, path, 10, 2);
  WRITE(x, path, 20, 2);
  expect_newest(x, path, 20, 0);
  for (int step = 20; step >= 10; step -= 10) {
    if (x->rank == 0) {
      load(&m, path, step);
      if (step == 20) m.bytes[m.size / 2] ^= 4;
      store(&m, step == 20 ? m.size : m.size / 2);
    }
    expect_newest(x, path, step == 20 ? 10 : -1, step == 20 ? 1 : 2);
  }
  WRITE(x, path, 15, 2);
  expect_newest(x, path, 15, 0);
  assert_int_equal(count_files(x, path), 2);
  WRITE(x, path, 16, 2);
  expect_newest(x, path, 16, 0);
}

FIXTURE_MAIN
