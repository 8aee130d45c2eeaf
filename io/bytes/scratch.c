#include "scratch.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "atomic_file.h"

/* Creates a file and removes its name; -1 after a failure. A kill between the two leaves the file for the next run to
 * delete. */
static int scratch_create(const char *path) {
  char folder[FILE_NAME], base[2 * FILE_NAME], name[sizeof base + TEMPORARY_ENDING];
  const char *slash = strrchr(path, '/');
  int fd;
  path_ground(path, 2, folder);
  snprintf(base, sizeof base, "%s/%s" RECEIVERS_ENDING, folder, slash ? slash + 1 : path);
  temporary_name(name, sizeof name, base);
  while ((fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0 && errno == EEXIST)
    if (unlink(name) && errno != ENOENT) break;
  if (fd >= 0) unlink(name);
  return fd;
}

/* Reserves disk space for the file; returns 0 or an errno. On a network file system only fsync finds a full disk. */
static int scratch_reserve(int fd, size_t bytes) {
  int rc;
  while ((rc = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR) continue;
  return rc ? rc : fsync(fd) ? errno : 0;
}

static int scratch_map(scratch *s, const char *path, size_t bytes, error *e) {
  const int fd = scratch_create(path), rc = fd < 0 ? 0 : scratch_reserve(fd, bytes);
  void *pages = MAP_FAILED;
  if (rc)
    FAIL(e, SCRATCH_SPACE, path, bytes, strerror(rc));
  else if (fd < 0 || (pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
    FAIL(e, FILE_WRITE, path, strerror(errno));
  if (fd >= 0) close(fd);
  if (!e->id) *s = (scratch){pages, bytes};
  return e->id;
}

int scratch_open(scratch *s, const char *path, size_t bytes, error *e) {
  char *memory;
  scratch_close(s);
  if (path) return scratch_map(s, path, bytes, e);
  TRY(ALLOC(e, memory, bytes, "traces"));
  s->memory = memory;
  return 0;
}

void scratch_close(scratch *s) {
  if (s->mapped)
    munmap(s->memory, s->mapped);
  else
    free(s->memory);
  *s = (scratch){NULL, 0};
}
