#include "host_memory.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/numbers.h"
#include "cgroup.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* Bytes available on the machine; UINT64_MAX where the system does not say. */
static uint64_t host_memory_available(void) {
  unsigned long long kib = 0;
  char line[128];
  FILE *f = fopen("/proc/meminfo", "r");
  bool known = false;
  while (f && !known && fgets(line, sizeof line, f)) known = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
  if (f) fclose(f);
  return known ? kib * 1024 : UINT64_MAX;
}

host_memory_limits host_memory_limits_read(void) {
  cgroup_limits group;
  cgroup_limits_read("", &group);
  host_memory_limits m = {.total = (uint64_t)sysconf(_SC_PHYS_PAGES) * page_bytes(),
                          .left = host_memory_available()};
  m.of_group = group.memory < m.total;
  if (m.of_group) m.total = group.memory;
  if (group.memory_left < m.left) m.left = group.memory_left;
  return m;
}

void *host_memory_reserve(size_t bytes, host_address place) {
  const size_t page = page_bytes(), into = place.offset % page;
  const size_t all = round_up(into + bytes, page), spare = place.unit;
  unsigned char *begin = mmap(NULL, all + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return NULL;
  const size_t lead = (place.offset - into - (uintptr_t)begin) % place.unit;
  if (lead) munmap(begin, lead);
  if (spare > lead) munmap(begin + lead + all, spare - lead);
  return begin + lead + into;
}

/* The page before the memory holds its size. */
static unsigned char *host_memory_block(const void *memory) {
  return (unsigned char *)(uintptr_t)memory - page_bytes();
}

static size_t host_memory_block_bytes(size_t bytes) {
  const size_t page = page_bytes();
  return page + round_up(bytes, page);
}

/* Guards the borders of a block: AddressSanitizer does so only for the heap. */
static void host_memory_guard(unsigned char *block, size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  const size_t page = page_bytes();
  ASAN_POISON_MEMORY_REGION(block + sizeof bytes, page - sizeof bytes);
  ASAN_POISON_MEMORY_REGION(block + page + bytes, host_memory_block_bytes(bytes) - page - bytes);
#else
  (void)block, (void)bytes;
#endif
}

static void host_memory_unguard(unsigned char *block, size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(block, host_memory_block_bytes(bytes));
#else
  (void)block, (void)bytes;
#endif
}

int host_memory_take(void **memory, size_t bytes) {
  const size_t page = page_bytes(), unit = bytes < HUGE_PAGE ? page : HUGE_PAGE;
  if (bytes > SIZE_MAX / 2) return ENOMEM;
  void *block = host_memory_reserve(page + bytes, (host_address){unit - page, unit});
  if (!block) return errno;
  if (mprotect(block, host_memory_block_bytes(bytes), PROT_READ | PROT_WRITE)) {
    const int failed = errno;
    munmap(block, host_memory_block_bytes(bytes));
    return failed;
  }
  *(size_t *)block = bytes;
  *memory = (unsigned char *)block + page;
  host_memory_guard(block, bytes);
#ifdef MADV_HUGEPAGE
  (void)madvise(*memory, bytes / page * page, MADV_HUGEPAGE); /* only a hint */
#endif
  return 0;
}

size_t host_memory_bytes(const void *memory) {
  return *(const size_t *)(const void *)host_memory_block(memory);
}

void host_memory_give_back(void *memory) {
  unsigned char *block = host_memory_block(memory);
  const size_t bytes = host_memory_bytes(memory);
  host_memory_unguard(block, bytes);
  munmap(block, host_memory_block_bytes(bytes));
}

bool host_memory_huge(const void *at) {
  unsigned long long begin, end, kib = 1;
  char line[256];
  bool around = false;
  FILE *f = fopen("/proc/self/smaps", "r");
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%llx-%llx ", &begin, &end) == 2) around = begin <= (uintptr_t)at && (uintptr_t)at < end;
    if (around && sscanf(line, "ShmemPmdMapped: %llu kB", &kib) == 1) break;
  }
  if (f) fclose(f);
  return kib > 0;
}
