/* The limits of this process's control group, as of a batch job or a container. The machine's own figures do not show
 * them. */
#ifndef STENCIL_CGROUP_H
#define STENCIL_CGROUP_H

#include <stdint.h>

typedef struct cgroup_limits {
  uint64_t memory;      /* bytes that all processes of the group together may have; UINT64_MAX: no limit */
  uint64_t memory_left; /* of these, bytes that are free or only cache files */
  double cores; /* seconds of processor time per second for all processes together; INFINITY: no limit */
} cgroup_limits;

/* Reads the strictest limits of the group and the groups above it, in version 1 or 2 of control groups. `root`: "", or
 * for tests a folder with copies of the files in /proc and /sys. A limit that cannot be read counts as none. */
void cgroup_limits_read(const char *root, cgroup_limits *limits);

#endif
