/* What a process may use: which card, and what control groups allow, read from made-up /proc and /sys: both versions,
 * groups above, none, and damaged files. */
#include "device/cgroup.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/launcher.h"
#include "test.h"

static char root[] = "/tmp/stencil-cgroup-XXXXXX";

/* Writes ROOT/PATH and the folders it lies in. */
static void put(const char *path, const char *text) {
  char name[512];
  const int length = snprintf(name, sizeof name, "%s/%s", root, path);
  for (int i = (int)strlen(root) + 1; i < length; i++) {
    if (name[i] != '/') continue;
    name[i] = 0;
    mkdir(name, 0700);
    name[i] = '/';
  }
  FILE *f = fopen(name, "w");
  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

static int fresh(void **state) {
  (void)state;
  strcpy(root + strlen(root) - 6, "XXXXXX");
  return mkdtemp(root) ? 0 : 1;
}

static int clean(void **state) {
  (void)state;
  const char *command = text_of("rm -r %s", root);
  return system(command);
}

static void expect(uint64_t memory, uint64_t left, double cores) {
  cgroup_limits l;
  cgroup_limits_read(root, &l);
  assert_int_equal(l.memory, memory);
  assert_int_equal(l.memory_left, left);
  if (isinf(cores))
    assert_true(isinf(l.cores));
  else
    assert_true(fabs(l.cores - cores) < 1e-12);
}

TEST(none) {
  expect(UINT64_MAX, UINT64_MAX, INFINITY);
  put("proc/self/cgroup", "0::/\n");
  expect(UINT64_MAX, UINT64_MAX, INFINITY);
  put("sys/fs/cgroup/memory.max", "max\n");
  put("sys/fs/cgroup/cpu.max", "max 100000\n");
  expect(UINT64_MAX, UINT64_MAX, INFINITY);
}

TEST(version_2) {
  put("proc/self/cgroup", "0::/system.slice/job_7/step_0\n");
  put("sys/fs/cgroup/system.slice/job_7/step_0/memory.max", "max\n");
  put("sys/fs/cgroup/system.slice/job_7/step_0/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/system.slice/job_7/memory.max", "8589934592\n");
  put("sys/fs/cgroup/system.slice/job_7/memory.current", "5000000000\n");
  put("sys/fs/cgroup/system.slice/job_7/memory.stat", "anon 1\ninactive_file 999999993\nactive_file 7\n");
  put("sys/fs/cgroup/system.slice/job_7/cpu.max", "450000 100000\n");
  expect(8589934592, 8589934592 - 4000000000, 4.5);
  put("sys/fs/cgroup/system.slice/memory.max", "6000000000\n"); /* less, but with more of it left */
  put("sys/fs/cgroup/system.slice/memory.current", "100\n");
  put("sys/fs/cgroup/system.slice/cpu.max", "300000 50000\n");
  expect(6000000000, 8589934592 - 4000000000, 4.5);
  put("sys/fs/cgroup/system.slice/memory.current", "6000000100\n"); /* a limit lowered below what is used */
  expect(6000000000, 0, 4.5);
}

TEST(version_1) {
  put("proc/self/cgroup",
      "9:name=systemd:/\n6:cpuset,memory_not:/c\n5:no_memory:/c\n4:memory:/a/b\n3:cpu,cpuacct:/a\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n");
  put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "3000\n");
  put("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "2500\n");
  put("sys/fs/cgroup/memory/a/b/memory.stat",
      "inactive_file 5\ntotal_inactive_file 300\ntotal_active_file 100\n");
  put("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "10\n"); /* of a group that this process is not in */
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  expect(3000, 900, INFINITY);
  put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
  put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  expect(3000, 900, 1.5);
}

/* The group's name is the one outside the container; the container's own files lie at the mount. */
TEST(container) {
  put("proc/self/cgroup", "2:memory:/docker/0123\n1:cpu:/docker/0123\n0::/docker/0123\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
  put("sys/fs/cgroup/unified/cpu.max", "200000 100000\n");
  expect(1000, 999, 2);
}

TEST(damaged) {
  put("proc/self/cgroup", "\n::\n0\n4:memory\n4:memory:\n0::");
  put("sys/fs/cgroup/memory.max", "");
  put("sys/fs/cgroup/cpu.max", "100000 0\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "plenty\n");
  expect(UINT64_MAX, UINT64_MAX, INFINITY);
}

static void expect_card(const char *list, int rank, int cards, const char *expected) {
  char card[LAUNCHER_CARD] = "";
  const bool known = launcher_card(list, rank, cards, card);
  assert_int_equal(known, expected != NULL);
  if (expected) assert_string_equal(card, expected);
}

/* A rank's card, of all or of a list; a list with anything else is CUDA's to read. */
TEST(cards) {
  static const char *const others[] = {
      "", "0,", ",1", "0,4", "1,-1", "none", "0, 1", "MIG-1f,0", "0,1000000000000"};
  expect_card(NULL, 0, 4, "0");
  expect_card(NULL, 7, 4, "3");
  expect_card("3", 5, 4, "3");
  expect_card("2,0,3", 1, 4, "0");
  expect_card("2,0,3", 5, 4, "3");
  expect_card("GPU-13c0fd4e,1", 2, 2, "GPU-13c0fd4e");
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) expect_card(others[i], 1, 4, NULL);
}

TEST_MAIN_EACH("cgroup", fresh, clean)
