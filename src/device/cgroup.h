/* What the control group of this process allows it: the limits of a batch job or of a container, which the machine's
 * own figures do not show. */
#ifndef STENCIL_CGROUP_H
#define STENCIL_CGROUP_H

#include <stdint.h>

typedef struct cgroup_limits {
  uint64_t memory;      /* bytes that all processes of the group together may have; UINT64_MAX: no limit */
  uint64_t memory_left; /* of these, bytes that are free or only hold files that can be read again */
  double cores;         /* processor time a second of all processes together; INFINITY: no limit */
} cgroup_limits;

/* The least that the group and those above it allow, in version 1 or 2 of control groups. `root`: "", or a folder that
 * holds what is read of /proc and /sys. What cannot be read counts as no limit. */
void cgroup_limits_read(const char *root, cgroup_limits *limits);

#endif
