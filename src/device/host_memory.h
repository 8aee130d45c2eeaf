/* Memory of the host device, and how much of it there is. Each allocation has pages of its own, huge ones where the
 * system has them. All are returned to the system, even if shared pages (shared_memory.h) have replaced some. */
#ifndef STENCIL_HOST_MEMORY_H
#define STENCIL_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes for all processes together: the machine's memory, or the limit of the control group (cgroup.h) where that is
 * less, as in a batch job or a container. */
typedef struct host_memory_limits {
  uint64_t total;
  uint64_t left; /* the part that is free or only caches files; UINT64_MAX: unknown */
  bool of_group; /* `total` is the group's limit: processes that exceed it are killed. `left` is then known */
} host_memory_limits;

/* Reads the limits as they are now. */
host_memory_limits host_memory_limits_read(void);

/* Bytes that `ranks` ranks of a node need in all, besides the device's memory and its copies, while they use files.
 * Some are for all ranks. Each rank adds a block of a file for each thread, and what MPI and HDF5 allocate. Measured:
 * 41 MB for each of 2 ranks that write a checkpoint. */
static inline uint64_t host_memory_beside(int ranks) {
  return ((uint64_t)16 << 20) + (uint64_t)ranks * ((uint64_t)56 << 20);
}

enum { HUGE_PAGE = 2 << 20 /* bytes */ };

/* Where an address shall lie: `offset` beyond a multiple of `unit`, a power of two of at least a page. */
typedef struct host_address {
  size_t offset, unit;
} host_address;
/* Reserves addresses for `bytes`, rounded to whole pages on either side, without memory behind them. Returns the first
 * address, or NULL with errno set. The caller unmaps the range, with all that is mapped there by then. */
void *host_memory_reserve(size_t bytes, host_address place);

/* Allocates `bytes` of zeros, aligned to a page, from 2 MiB on to a huge page. Returns 0 or an errno; after an errno
 * *memory is unchanged. The caller gives it back. */
int host_memory_take(void **memory, size_t bytes);
/* The bytes that host_memory_take was asked for. */
size_t host_memory_bytes(const void *memory);
void host_memory_give_back(void *memory);

/* Has the mapping of shared memory around `at` huge pages? True where the system does not say. */
bool host_memory_huge(const void *at);

#endif
