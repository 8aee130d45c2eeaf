#include "space.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include "io_internal.h"

int space_of(const char *path, disk_space *space, error *e) {
  char folder[FILE_NAME];
  struct statvfs v;
  struct stat s;
  path_folder(path, folder);
  if (statvfs(folder, &v) || stat(folder, &s)) return FAIL(e, FILE_WRITE, path, strerror(errno));
  space->device = (uint64_t)s.st_dev;
  bool known = v.f_blocks > 0;
  if (!known || __builtin_mul_overflow((uint64_t)v.f_bavail, (uint64_t)v.f_frsize, &space->available))
    space->available = UINT64_MAX;
  return 0;
}

int space_check(const char *name, uint64_t bytes, error *e) {
  disk_space space;
  TRY(space_of(name, &space, e));
  return bytes > space.available ? FAIL(e, FILE_SPACE, name, bytes, space.available) : 0;
}

static bool space_counts(const space_steps *w, int64_t step) {
  if (w->all || step == w->last) return true;
  if (w->every == 0 || step > w->last || step % w->every != 0) return false;
  return w->begins ? step >= w->first : step > w->first;
}

int space_taken(const char *path, const char *ending, const space_steps *which, space_use *use, error *e) {
  char folder[FILE_NAME], name[FILE_NAME + 256];
  int64_t step;
  use->taken = 0, use->files = 0;
  path_folder(path, folder);
  DIR *open = opendir(folder);
  if (!open) return 0; /* writing will say why */
  for (const struct dirent *d; !e->id && (d = readdir(open));) {
    struct stat s;
    const char *rest = path_step(path, ending, d->d_name, &step);
    if (!rest || *rest || !space_counts(which, step)) continue;
    snprintf(name, sizeof name, "%s/%s", folder, d->d_name);
    if (path_check_no_folder(name, e) || stat(name, &s)) continue;
    use->taken += 512 * (uint64_t)s.st_blocks;
    use->files++;
  }
  closedir(open);
  return e->id;
}
