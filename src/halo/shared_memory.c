#include "shared_memory.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "device/host_memory.h"

/* --- pages ------------------------------------------------------------------------------------------------------- */

static int shared_pages_failed(const char *call, error *e) {
  return FAIL(e, SHARED_PAGES, call, strerror(errno));
}

static int shared_pages_put(void *at, size_t bytes, int flags, int file, size_t offset, error *e) {
  void *mapped = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | flags, file, (off_t)offset);
  return mapped == MAP_FAILED ? shared_pages_failed("mmap", e) : 0;
}

int shared_pages_map(void *at, size_t bytes, int file, size_t offset, error *e) {
  return shared_pages_put(at, bytes, MAP_SHARED, file, offset, e);
}

int shared_file_lend(int file, lent_file *lent, error *e) {
  struct stat s;
  if (fstat(file, &s)) return shared_pages_failed("fstat", e);
  *lent = (lent_file){.process = getpid(), .descriptor = file, .file = s.st_ino, .node = s.st_dev};
  return 0;
}

int shared_file_borrow(const lent_file *lent, error *e) {
  char path[64];
  struct stat s;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)lent->process, (long long)lent->descriptor);
  if (stat(path, &s)) return shared_pages_failed(path, e), -1;
  if (s.st_ino != lent->file || s.st_dev != lent->node)
    return FAIL(e, SHARED_PAGES, path, "it is not the file that was lent"), -1;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) shared_pages_failed(path, e);
  return file;
}

int shared_file_new(size_t bytes, error *e) {
  struct rlimit limit; /* `ulimit -f`: beyond it a signal would end the process */
  const int file = memfd_create("stencil planes", MFD_CLOEXEC);
  if (file < 0) return shared_pages_failed("memfd_create", e), -1;
  if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < bytes)
    FAIL(e, SHARED_PAGES, "ftruncate", strerror(EFBIG));
  else if (ftruncate(file, (off_t)bytes))
    shared_pages_failed("ftruncate", e);
  if (e->id) close(file);
  return e->id ? -1 : file;
}

int shared_pages_leave(void *at, size_t bytes, error *e) {
  TRY(shared_pages_put(at, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, e));
#ifdef MADV_HUGEPAGE
  (void)madvise(at, bytes, MADV_HUGEPAGE); /* as the memory around them */
#endif
  return 0;
}

/* --- windows ----------------------------------------------------------------------------------------------------- */

static int shared_window_check_room(MPI_Comm node, size_t bytes, error *e) {
  const double MIB = 1 << 20, OWN = 32 << 10; /* OWN: bytes that MPI keeps there for itself */
  struct statvfs disk;
  struct rlimit limit; /* `ulimit -f`: one file holds the windows of all ranks */
  int ranks;
  MPI_TRY(e, MPI_Comm_size(node, &ranks));
  const double needed = OWN + (double)ranks * (double)bytes;
  double available = statvfs("/dev/shm", &disk) ? INFINITY : (double)disk.f_bavail * (double)disk.f_frsize;
  if (!getrlimit(RLIMIT_FSIZE, &limit) && (double)limit.rlim_cur < available)
    available = (double)limit.rlim_cur;
  return available < needed ? FAIL(e, NODE_MEMORY, needed / MIB, available / MIB) : 0;
}

int shared_window(MPI_Comm node, size_t bytes, void **mine, MPI_Win *window, error *e) {
  shared_window_check_room(node, bytes, e);
  TRY(error_agree(e, node));
  MPI_TRY(e, MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, node, mine, window));
  return 0;
}

int shared_window_of(MPI_Win window, int rank, void **memory, error *e) {
  MPI_Aint size;
  int unit;
  MPI_TRY(e, MPI_Win_shared_query(window, rank, &size, &unit, memory));
  return 0;
}
