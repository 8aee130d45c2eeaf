/* Lists the checkpoints under a path with their owners, and deletes those that are no longer needed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/bytes/atomic_file.h"
#include "checkpoint_internal.h"

/* --- the list --- */

static int list_newer(const void *a, const void *b) {
  const checkpoint_entry *x = a, *y = b;
  if (x->mark.generation != y->mark.generation) return x->mark.generation < y->mark.generation ? 1 : -1;
  return x->step < y->step ? 1 : x->step > y->step ? -1 : 0;
}

static int list_append(checkpoint_list *list, const char *path, int64_t step, error *e) {
  char name[FILE_NAME];
  struct stat s;
  TRY(path_step_name(name, path, step, ".h5", e));
  if (lstat(name, &s) || S_ISDIR(s.st_mode)) return 0; /* gone, or no file */
  TRY(GROW(e, list->entries, list->count + 1, "the list of checkpoints"));
  list->entries[list->count++] = (checkpoint_entry){step, checkpoint_read_mark(name)};
  return 0;
}

int checkpoint_list_files(checkpoint_list *list, const char *path, error *e) {
  char folder[FILE_NAME];
  int64_t step;
  *list = (checkpoint_list){0};
  path_folder(path, folder);
  DIR *open = opendir(folder);
  if (!open) return errno == ENOENT ? 0 : FAIL(e, FIELD_FILE, folder, strerror(errno));
  for (const struct dirent *d; !e->id && (d = readdir(open));) {
    const char *rest = path_step(path, ".h5", d->d_name, &step);
    const int number = path_aside(path, d->d_name);
    if (number > list->aside) list->aside = number;
    if (rest && !*rest) list_append(list, path, step, e);
  }
  closedir(open);
  if (list->count > 1) qsort(list->entries, (size_t)list->count, sizeof *list->entries, list_newer);
  if (list->count && list->entries[0].mark.generation > 0) list->newest = list->entries[0].mark.generation;
  return e->id;
}

void checkpoint_list_free(checkpoint_list *list) {
  free(list->entries);
  *list = (checkpoint_list){0};
}

/* --- whose they are --- */

bool checkpoint_owns(const checkpoint_mark *self, const checkpoint_mark *mark) {
  if (mark->generation < 0 || mark->run != self->run) return false;
  return mark->process == self->process || mark->generation <= self->generation;
}

int checkpoint_move_aside(const char *path, int64_t step, int *number, error *e) {
  char ending[FILE_NAME];
  TRY(path_step_name(ending, "", step, ".h5", e));
  return path_move_aside(path, ending, number, e);
}

void checkpoint_rotate(const checkpoint_list *list, const checkpoint_place *place, int64_t step) {
  char name[FILE_NAME];
  error ignored = {0};
  int kept = 1;
  for (int i = 0; i < list->count; i++) {
    const checkpoint_entry *old = &list->entries[i];
    if (old->step == step || !checkpoint_owns(&place->self, &old->mark) || kept++ < place->keep) continue;
    if (path_step_name(name, place->path, old->step, ".h5", &ignored)) continue;
    const checkpoint_mark now =
        checkpoint_read_mark(name); /* another run may have taken the name meanwhile */
    if (checkpoint_owns(&place->self, &now)) unlink(name);
  }
}
