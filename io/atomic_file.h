/* Files that appear whole or not at all: written under a temporary name, synced, renamed. */
#ifndef STENCIL_ATOMIC_FILE_H
#define STENCIL_ATOMIC_FILE_H

#include "../src/error.h"

/* Makes the written and closed file `temporary` durable under the name `path` (same folder): syncs it,
 * renames it, syncs the folder. On failure (exit 2, naming `path`) `temporary` is removed. */
int atomic_file_commit(const char *temporary, const char *path, error *e);

/* Exit 2 unless files named PATH.* can be created: the folder exists and is writable. Leaves nothing behind. */
int path_check_writable(const char *path, error *e);

#endif
