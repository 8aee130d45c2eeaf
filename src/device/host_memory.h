/* Memory of the host device: pages of its own, which go back to the system whole, whatever has been put in the place of
 * some of them meanwhile (shared_pages.h). Huge ones where the system has them. And how much of it there is. */
#ifndef STENCIL_HOST_MEMORY_H
#define STENCIL_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of all processes together, bytes: the machine's, or where that is less what its control group (cgroup.h), a
 * batch job or a container, may have of it. */
typedef struct host_memory_limits {
  uint64_t total;
  uint64_t left; /* the part that is free or only holds files that can be read again; UINT64_MAX: not known */
  bool of_group; /* the group's: processes that take more are killed. `left` is known then */
} host_memory_limits;

/* What there is now. */
host_memory_limits host_memory_limits_read(void);

/* Bytes that `ranks` ranks of a node take in all beside the device's memory and its copies, while they use files: lanes
 * (io/lanes.h), and each of them a block of a file for each thread, MPI's and HDF5's own. Measured, of 2 ranks that
 * write a checkpoint: 41 MB each. */
static inline uint64_t host_memory_beside(int ranks) {
  return ((uint64_t)16 << 20) + (uint64_t)ranks * ((uint64_t)56 << 20);
}

/* Takes `bytes`, which begin on a page of 4096 bytes; zeros. Returns 0 or an errno. Give it back. */
int host_memory_take(void **memory, size_t bytes);
/* How many were asked for. */
size_t host_memory_bytes(const void *memory);
void host_memory_give_back(void *memory);

#endif
