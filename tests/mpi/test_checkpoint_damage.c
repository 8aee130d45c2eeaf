/* Damaged and truncated checkpoints are refused, never believed; what a run then does: tests/e2e/reliability.py. */
#include <fcntl.h>
#include "checkpoint_fixture.h"
#include "io/checkpoint/checkpoint_internal.h"

/* One byte of the file is changed. */
TEST_OF(test_flips, fixture *x) {
  static image m;
  error e;
  int tried = 0;
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

/* Nothing is read through HDF5, which crashes on some files: a written one without HDF5's first block is as good. */
TEST_OF(test_without_hdf5, fixture *x) {
  static image m;
  checkpoint_header s;
  int fd = -1;
  error e = {0};
  const char *path = text_of("%s/bare", x->folder);
  WRITE(x, path, 9, 2);
  load(&m, path, 9);
  assert_memory_equal(m.bytes + CHECKPOINT_HEADER, "\211HDF", 4);
  memset(m.bytes + CHECKPOINT_HEADER, 0xff, 48);
  store(&m, m.size);
  assert_int_equal(judge(x, m.name, 9, &e), ERROR_CHECKPOINT_DAMAGED);
  e = (error){0};
  assert_int_equal(checkpoint_read_header(m.name, &s, &fd, &e), 0);
  close(fd);
  fd = open(m.name, O_RDWR);
  assert_int_equal(checkpoint_write_header(m.name, fd, &s, &e), 0);
  close(fd);
  assert_int_equal(judge(x, m.name, 9, &e), 0);
}

FIXTURE_MAIN
