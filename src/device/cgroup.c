#include "cgroup.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FOLDER = 4096, FILE_PATH = FOLDER + 64 };

/* Opens FOLDER/NAME, a file of a control group, for reading. */
static FILE *cgroup_open(const char *folder, const char *name) {
  char path[FILE_PATH];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return fopen(path, "r");
}

/* The first number in the file; `otherwise` where there is no file, or a word such as "max" in it. */
static double cgroup_number(const char *folder, const char *name, double otherwise) {
  FILE *f = cgroup_open(folder, name);
  double value = otherwise;
  if (f && fscanf(f, "%lf", &value) != 1) value = otherwise;
  if (f) fclose(f);
  return value;
}

/* The value of `key` in memory.stat, 0 where there is none. */
static double cgroup_statistic(const char *folder, const char *key) {
  FILE *f = cgroup_open(folder, "memory.stat");
  char word[64];
  double value, found = 0;
  while (f && fscanf(f, "%63s %lf", word, &value) == 2)
    if (strcmp(word, key) == 0) found = value;
  if (f) fclose(f);
  return found;
}

static uint64_t cgroup_least(uint64_t a, double b) {
  return b < (double)a ? (uint64_t)fmax(b, 0) : a;
}

static void cgroup_limit_memory(cgroup_limits *l, double most, double used, double of_files) {
  if (!(most < 0x1p62)) return; /* in version 1 so large a number means that there is no limit */
  l->memory = cgroup_least(l->memory, most);
  l->memory_left = cgroup_least(l->memory_left, most - used + of_files);
}

static void cgroup_read_version_1(cgroup_limits *l, const char *folder) {
  const double quota = cgroup_number(folder, "cpu.cfs_quota_us", -1),
               period = cgroup_number(folder, "cpu.cfs_period_us", 0);
  if (quota > 0 && period > 0) l->cores = fmin(l->cores, quota / period);
  cgroup_limit_memory(l, cgroup_number(folder, "memory.limit_in_bytes", INFINITY),
                      cgroup_number(folder, "memory.usage_in_bytes", 0),
                      cgroup_statistic(folder, "total_inactive_file") +
                          cgroup_statistic(folder, "total_active_file"));
}

static void cgroup_read_version_2(cgroup_limits *l, const char *folder) {
  FILE *f = cgroup_open(folder, "cpu.max");
  double quota, period;
  if (f && fscanf(f, "%lf %lf", &quota, &period) == 2 && period > 0)
    l->cores = fmin(l->cores, quota / period);
  if (f) fclose(f);
  cgroup_limit_memory(l, cgroup_number(folder, "memory.max", INFINITY),
                      cgroup_number(folder, "memory.current", 0),
                      cgroup_statistic(folder, "inactive_file") + cgroup_statistic(folder, "active_file"));
}

/* Reads the folder MOUNT/GROUP and its parents up to MOUNT. Inside a container GROUP may be a path that exists only
 * outside: then MOUNT itself is the container's group. */
static void cgroup_read_upwards(cgroup_limits *l, const char *root, const char *mount, const char *group,
                                void (*read)(cgroup_limits *, const char *)) {
  char folder[FOLDER];
  const int base = snprintf(folder, sizeof folder, "%s%s", root, mount);
  const int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
  if (length >= (int)sizeof folder) return;
  for (char *end = folder + length; end;) {
    *end = 0;
    read(l, folder);
    end = end > folder + base ? strrchr(folder + base, '/') : NULL;
  }
}

/* True if `name` is in a list such as "cpu,cpuacct". */
static bool cgroup_listed(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at += length)
    if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length])) return true;
  return false;
}

void cgroup_limits_read(const char *root, cgroup_limits *limits) {
  static const char *const mine[] = {"memory", "cpu"};
  char line[FOLDER], mount[FOLDER];
  *limits = (cgroup_limits){UINT64_MAX, UINT64_MAX, INFINITY};
  FILE *f = cgroup_open(root, "proc/self/cgroup");
  while (f && fgets(line, sizeof line, f)) { /* NUMBER:LIST:GROUP; version 2 has an empty list */
    char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
    if (!group) continue;
    *list++ = 0, *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    if (!*list) {
      cgroup_read_upwards(limits, root, "/sys/fs/cgroup", group, cgroup_read_version_2);
      cgroup_read_upwards(limits, root, "/sys/fs/cgroup/unified", group, cgroup_read_version_2);
    }
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) {
      if (!cgroup_listed(list, mine[i])) continue;
      snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", mine[i]);
      cgroup_read_upwards(limits, root, mount, group, cgroup_read_version_1);
    }
  }
  if (f) fclose(f);
}
