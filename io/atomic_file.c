#include "atomic_file.h"
#include "io_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void path_folder(const char *path, char folder[FILE_NAME]) {
  const char *slash = strrchr(path, '/');
  if (!slash)
    snprintf(folder, FILE_NAME, ".");
  else
    snprintf(folder, FILE_NAME, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Returns 0 or an errno. */
static int sync_path(const char *path, int flags) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return errno;
  int rc = fsync(fd) ? errno : 0;
  if (close(fd) && !rc) rc = errno;
  return rc;
}

int atomic_file_commit(const char *temporary, const char *path, error *e) {
  char folder[FILE_NAME];
  path_folder(path, folder);
  int rc = sync_path(temporary, 0);
  if (!rc && rename(temporary, path)) rc = errno;
  if (rc) {
    unlink(temporary);
    return FAIL(e, FILE_WRITE, path, strerror(rc));
  }
  rc = sync_path(folder, O_DIRECTORY);
  if (rc == EINVAL || rc == EACCES)
    rc = 0; /* some file systems cannot, and a folder may be writable but unreadable */
  return rc ? FAIL(e, FILE_WRITE, path, strerror(rc)) : 0;
}

int path_check_ending(const char *path, const char *ending, error *e) {
  char folder[FILE_NAME], probe[FILE_NAME + PATH_ENDING], reason[FILE_NAME + 64];
  const char *slash = strrchr(path, '/');
  if (!*(slash ? slash + 1 : path))
    return FAIL(e, PATH_UNUSABLE, path, "expected the beginning of a file name, not a folder");
  path_folder(path, folder);
  struct stat s;
  if (stat(folder, &s)) {
    snprintf(reason, sizeof reason, "folder '%s': %s", folder, strerror(errno));
    return FAIL(e, PATH_UNUSABLE, path, reason);
  }
  if (!S_ISDIR(s.st_mode)) {
    snprintf(reason, sizeof reason, "'%s' is not a folder", folder);
    return FAIL(e, PATH_UNUSABLE, path, reason);
  }
  /* Only trying tells: permissions, read-only mounts, quotas, names too long. */
  const int length = snprintf(probe, sizeof probe, "%s%s", path, ending);
  memset(probe + length - 6, 'X', 6); /* for mkstemp */
  int fd = mkstemp(probe);
  if (fd < 0) {
    snprintf(reason, sizeof reason, "folder '%s' is not writable: %s", folder, strerror(errno));
    return FAIL(e, PATH_UNUSABLE, path, reason);
  }
  close(fd);
  if (unlink(probe)) return FAIL(e, PATH_UNUSABLE, path, strerror(errno));
  return 0;
}

int path_check_writable(const char *path, error *e) {
  return path_check_ending(path, ".00000000.hdf.tmp", e);
}
