/* Files that appear whole or not at all: written under a temporary name, synced, renamed. */
#ifndef STENCIL_ATOMIC_FILE_H
#define STENCIL_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "config/config.h"

enum {
  FILE_NAME = CONFIG_TEXT + 32, /* longest name of a file, with its final 0 */
  TEMPORARY_ENDING = 96         /* bytes of ".tmp.HOST.PID" at most */
};

/* Makes the name under which this process writes `name` until the file is whole: NAME.tmp.HOST.PID. So two runs with
 * the same files do not write into each other's. Fewer `bytes` than strlen(name) + TEMPORARY_ENDING may cut the name
 * off. */
void temporary_name(char *temporary, size_t bytes, const char *name);
/* Deletes half-written files of killed runs. They begin with PATH.SSSSSSSS and `extension`, of any step, unless that
 * is NULL. Or they begin with PATH and one of the endings, a list up to a NULL, unless `endings` is NULL. It looks
 * through the whole folder: of 20,000 files, 12 ms. */
void temporary_remove(const char *path, const char *extension, const char *const endings[]);

/* Makes the written and closed file `temporary` durable under the name `path` (same folder): syncs it, renames it,
 * syncs the folder. After a failure (exit 2, naming `path`), or where `e` holds one already, `temporary` is removed;
 * it may be "". Unless `taken` is NULL an existing file is not replaced: both files stay, and *taken is true. */
int atomic_file_commit(const char *temporary, const char *path, bool *taken, error *e);

/* Writes a text file, or replaces it. */
int text_write(const char *path, const char *text, error *e);
/* *text: the whole file, to be freed; NULL where the file is missing or empty. */
int text_read(const char *path, char **text, error *e);

/* The folder of `path`: "." where `path` names none. */
void path_folder(const char *path, char folder[FILE_NAME]);
/* The folder of files PATH.*, or the nearest existing one above it, at most `most` levels up. Returns how many levels
 * are missing. */
int path_ground(const char *path, int most, char ground[FILE_NAME]);

/* Joins PATH and `ending`; exit 2 where the name is too long. */
int path_name(char name[FILE_NAME], const char *path, const char *ending, error *e);
/* Joins PATH.SSSSSSSS and `extension`; likewise. */
int path_step_name(char name[FILE_NAME], const char *path, int64_t step, const char *extension, error *e);
/* The part of a file's name after the last part of `path`; NULL where the name does not begin with that. */
const char *path_rest(const char *path, const char *file);
/* The part of a file's name after BASE.SSSSSSSS and `extension`, where BASE is the last part of `path`. NULL where
 * the name has another form. */
const char *path_step(const char *path, const char *extension, const char *file, int64_t *step);

/* The number N of a file named like PATH.oldN.*, or 0. */
int path_aside(const char *path, const char *file);
/* Renames PATH and `ending` to PATH.old<number> and `ending`, with the next free number from *number on. A file that
 * has gone meanwhile is no error. */
int path_move_aside(const char *path, const char *ending, int *number, error *e);

/* A path, and the key of the configuration that says it, for messages: "[output] path". */
typedef struct named_path {
  const char *key, *path;
  bool of_shot; /* a survey's, which also makes the folder above */
} named_path;

enum { PATH_PROBE = FILE_NAME + TEMPORARY_ENDING };
/* Creates an empty file in the folder of files PATH.*, or in the one where that folder can be made. Returns its name
 * in `probe`; exit 2 where it cannot be created. */
int path_probe(named_path p, char probe[PATH_PROBE], error *e);
/* Exit 2 unless files named PATH.* can be created. Leaves nothing behind. */
int path_check_writable(named_path p, error *e);
/* *missing: is the folder of files PATH.* missing? Makes it then, unless `dry`. */
int path_make_folder(const char *path, bool dry, bool *missing, error *e);
/* Exit 2 where a folder has the name of a file that is to be written. */
int path_check_no_folder(const char *name, error *e);
/* Does both checks for the paths under which a run saves; space_taken checks names with steps. */
int path_check_output(const config *c, error *e);

#endif
