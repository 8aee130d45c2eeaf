/* Which checkpoints of a path there are, and clearing away those that are not needed any more. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "atomic_file.h"
#include "checkpoint_internal.h"

int checkpoint_file_name(char name[CHECKPOINT_NAME], const char *path, int64_t step, error *e) {
  int n = snprintf(name, CHECKPOINT_NAME, "%s.%08" PRId64 ".h5", path, step);
  return n < CHECKPOINT_NAME ? 0 : FAIL(e, FILE_WRITE, path, strerror(ENAMETOOLONG));
}

int checkpoint_path_check(const char *path, error *e) {
  char name[CHECKPOINT_NAME], temporary[CHECKPOINT_TEMPORARY];
  TRY(checkpoint_file_name(name, path, 0, e));
  temporary_name(temporary, sizeof temporary, name);
  return path_check_ending(path, temporary + strlen(path), e);
}

static int newer(const void *a, const void *b) {
  const checkpoint_entry *x = a, *y = b;
  if (x->generation != y->generation) return x->generation < y->generation ? 1 : -1;
  return x->step < y->step ? 1 : x->step > y->step ? -1 : 0;
}

static int append(checkpoint_list *list, const char *path, int64_t step, error *e) {
  char name[CHECKPOINT_NAME];
  TRY(checkpoint_file_name(name, path, step, e));
  size_t bytes = (size_t)(list->count + 1) * sizeof *list->entries;
  checkpoint_entry *entries = realloc(list->entries, bytes);
  if (!entries) return FAIL(e, OUT_OF_MEMORY, bytes, "the list of checkpoints");
  list->entries = entries;
  list->entries[list->count++] = (checkpoint_entry){step, checkpoint_generation(name)};
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
    if (rest && !*rest) append(list, path, step, e);
  }
  closedir(open);
  if (list->count > 1) qsort(list->entries, (size_t)list->count, sizeof *list->entries, newer);
  return e->id;
}

void checkpoint_list_free(checkpoint_list *list) {
  free(list->entries);
  *list = (checkpoint_list){0};
}

void checkpoint_rotate(const checkpoint_list *list, const char *path, int64_t step, int keep) {
  char name[CHECKPOINT_NAME];
  error ignored = {0};
  int kept = 1;
  for (int i = 0; i < list->count; i++) {
    int64_t other = list->entries[i].step;
    if (other == step || kept++ < keep) continue;
    if (!checkpoint_file_name(name, path, other, &ignored)) unlink(name);
  }
}
