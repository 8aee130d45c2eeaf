/* Pages that one process lends to another: both see the same values in the range that was lent, and only there, until
 * one leaves it. A file that one lends to another. */
#include "test.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/numbers.h"
#include "device/host_memory.h"
#include "halo/shared_memory.h"

enum { PAGES = 5, FIRST = 1, LENT = 2 /* pages, of those */ };

static size_t page;

/* Values that do not repeat within a range and differ for every `seed`. */
static unsigned char value(size_t i, int seed) {
  return (unsigned char)(i * 7 + i / 251 + (size_t)seed * 31 + 1);
}

static void fill(unsigned char *at, size_t bytes, int seed) {
  for (size_t i = 0; i < bytes; i++) at[i] = value(i, seed);
}

static size_t wrong(const unsigned char *at, size_t bytes, int seed) {
  size_t count = 0;
  for (size_t i = 0; i < bytes; i++) count += at[i] != value(i, seed);
  return count;
}

static unsigned char *take(int seed) {
  void *memory;
  assert_int_equal(host_memory_take(&memory, PAGES * page), 0);
  assert_int_equal((uintptr_t)memory % page, 0);
  fill(memory, PAGES * page, seed);
  return memory;
}

/* Around what is shared all is as it was. */
static size_t wrong_around(const unsigned char *memory, int seed) {
  size_t count = 0;
  for (size_t i = 0; i < PAGES * page; i++)
    if (i / page < FIRST || i / page >= FIRST + LENT) count += memory[i] != value(i, seed);
  return count;
}

static int descriptors(void) {
  int count = 0;
  for (int file = 0; file < 256; file++) {
    const int copy = dup(file);
    count += copy >= 0;
    if (copy >= 0) close(copy);
  }
  return count;
}

/* The borrower, in a separate process: it reads the lender's values, and the lender sees its writes, until it leaves.
 * Returns 0, or the number of the check that failed. */
static int borrow_and_answer(const lent_file *lent) {
  error e = {0};
  unsigned char *memory = take(5), *shared = memory + FIRST * page;
  const int file = shared_file_borrow(lent, &e);
  if (file < 0 || shared_pages_map(shared, LENT * page, file, 0, &e) || close(file)) return 1;
  if (wrong(shared, LENT * page, 2)) return 2;
  fill(shared, LENT * page, 3);
  if (shared_pages_leave(shared, LENT * page, &e)) return 3;
  for (size_t i = 0; i < LENT * page; i++)
    if (shared[i]) return 4;
  fill(shared, LENT * page, 4);
  if (wrong_around(memory, 5)) return 5;
  host_memory_give_back(memory);
  return 0;
}

static int in_another_process(int (*what)(const lent_file *), const lent_file *lent) {
  int status;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) _exit(what(lent));
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

TEST(both_see_the_same_pages) {
  error e = {0};
  lent_file lent = {0};
  const int before = descriptors();
  unsigned char *memory = take(1), *shared = memory + FIRST * page;
  const int file = shared_file_new(LENT * page, &e);
  assert_true(file >= 0);
  assert_ok(shared_pages_map(shared, LENT * page, file, 0, &e), &e);
  assert_ok(shared_file_lend(file, &lent, &e), &e);
  for (size_t i = 0; i < LENT * page; i++) assert_int_equal(shared[i], 0);
  fill(shared, LENT * page, 2);
  assert_int_equal(in_another_process(borrow_and_answer, &lent), 0);
  assert_int_equal(wrong(shared, LENT * page, 3), 0);
  assert_int_equal(wrong_around(memory, 1), 0);
  close(file);
  assert_int_equal(descriptors(), before);
  assert_int_equal(wrong(shared, LENT * page, 3), 0);
  host_memory_give_back(memory);
}

/* No descriptor left, or no room for a file: there is none. */
TEST(a_failure_makes_no_file) {
  static const char *const why[] = {"memfd_create: Too many open files", "ftruncate: File too large"};
  const int before = descriptors();
  signal(SIGXFSZ, SIG_IGN);
  for (int i = 0; i < 2; i++) {
    error e = {0};
    struct rlimit limit;
    const int resource = i == 0 ? RLIMIT_NOFILE : RLIMIT_FSIZE;
    assert_int_equal(getrlimit(resource, &limit), 0);
    const struct rlimit none = {0, limit.rlim_max};
    assert_int_equal(setrlimit(resource, &none), 0);
    const int file = shared_file_new(page, &e);
    assert_int_equal(setrlimit(resource, &limit), 0);
    assert_int_equal(file, -1);
    assert_int_equal(e.id, ERROR_SHARED_PAGES);
    assert_non_null(strstr(e.text, why[i]));
    assert_int_equal(descriptors(), before);
  }
}

static int borrow_file_and_answer(const lent_file *lent) {
  error e = {0};
  const int file = shared_file_borrow(lent, &e);
  return file < 0 || pwrite(file, "here", 4, 3) != 4 || close(file);
}

static int borrow_file_in_vain(const lent_file *lent) {
  error e = {0};
  return shared_file_borrow(lent, &e) >= 0 || e.id != ERROR_SHARED_PAGES;
}

/* One without a name, as the lender's folder is nothing to the borrower. */
TEST(a_file_is_lent_until_it_is_closed) {
  lent_file lent = {0};
  char name[] = "shared_file.XXXXXX", found[5] = "";
  const int file = mkstemp(name);
  assert_true(file >= 0 && unlink(name) == 0);
  OK(shared_file_lend(file, &lent, &E));
  assert_int_equal(in_another_process(borrow_file_and_answer, &lent), 0);
  assert_int_equal(pread(file, found, 4, 3), 4);
  assert_string_equal(found, "here");
  lent_file other = lent; /* as where a process number means another process */
  other.file++;
  assert_int_equal(in_another_process(borrow_file_in_vain, &other), 0);
  close(file);
  assert_int_equal(in_another_process(borrow_file_in_vain, &lent), 0);
}

int main(void) {
  page = page_bytes();
  return RUN_TESTS("shared_pages");
}
