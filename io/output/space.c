#include "space.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "io/hdf5/io_internal.h"

int space_of(const char *path, disk_space *space, error *e) {
  char folder[FILE_NAME];
  struct statvfs v;
  struct stat s;
  path_ground(path, 2, folder);
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
  if (w->all || (w->ends && step == w->last)) return true;
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

/* The kind of file with this ending. The lists of fields come first; OUTPUT_FILES: none. */
static enum output_file space_find(const char *rest) {
  enum output_file which = 0;
  while (which < OUTPUT_FILES && (!rest || strcmp(rest, OUTPUT_ENDINGS[which]) != 0)) which++;
  return which;
}

/* Does a run that begins leave this file alone? */
static bool space_keeps(const config *c, const space_steps *w, const char *file) {
  int64_t step;
  const char *more = path_step(c->output_path, ".hdf", file, &step);
  const enum output_file which = space_find(path_rest(c->output_path, file));
  if (w->none) return !(more && !*more) && which == OUTPUT_FILES;
  if (more && !*more) return (!w->begins && step <= w->first) || space_counts(w, step);
  const bool lists = !w->begins || w->ends || w->every > 0;
  return which == OUTPUT_FILES || (which <= OUTPUT_PARAVIEW ? lists : config_writes(c, which));
}

/* One pass over the folder: finds the next free number, or moves, or, once a run is over, deletes. */
static int space_pass(const config *c, const space_steps *w, bool moves, space_aside *aside, error *e) {
  char folder[FILE_NAME], name[FILE_NAME + 256];
  int last = 0;
  path_folder(c->output_path, folder);
  DIR *open = opendir(folder);
  if (!open) return 0; /* not there, or writing will say why */
  aside->files = 0;
  for (const struct dirent *d; !e->id && (d = readdir(open));) {
    struct stat s;
    const char *rest = path_rest(c->output_path, d->d_name);
    const int number = path_aside(c->output_path, d->d_name);
    if (number > last) last = number;
    if (rest && strcmp(rest, OUTPUT_ENDINGS[OUTPUT_PARAVIEW]) == 0)
      aside->listed = space_keeps(c, w, d->d_name);
    const bool traces = rest && w->begins && strcmp(rest, RECEIVERS_ENDING) == 0,
               keeps = space_keeps(c, w, d->d_name);
    if (!rest || (keeps && !traces)) continue;
    snprintf(name, sizeof name, "%s/%s", folder, d->d_name);
    if (lstat(name, &s) || S_ISDIR(s.st_mode) || config_reads(c, name)) continue;
    *(keeps ? &aside->traces : &aside->files) += 1;
    if (!moves || keeps) continue;
    if (w->over && unlink(name) && errno != ENOENT) FAIL(e, FILE_WRITE, name, strerror(errno));
    if (w->over || path_move_aside(c->output_path, rest, &aside->number, e)) continue;
    if (S_ISREG(s.st_mode) && space_find(rest) <= OUTPUT_PARAVIEW)
      series_move_aside(c->output_path, rest, aside->number, e);
  }
  closedir(open);
  if (!moves) aside->number = last + 1;
  return e->id;
}

int space_move_aside(const config *c, const space_steps *which, bool dry, space_aside *aside, error *e) {
  *aside = (space_aside){0};
  const bool moves = !dry && c->output_replace == which->over;
  if (!dry) temporary_remove(c->output_path, ".hdf", OUTPUT_ENDINGS); /* files of killed runs */
  TRY(space_pass(c, which, false, aside, e));
  if (!dry && !moves) aside->files = 0;
  if (moves && aside->files) TRY(space_pass(c, which, true, aside, e));
  if (c->output_replace) aside->traces = 0;
  if (!aside->traces) return 0;
  aside->traces = aside->number;
  return dry ? 0 : path_move_aside(c->output_path, RECEIVERS_ENDING, &aside->traces, e);
}
