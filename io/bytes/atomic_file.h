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

/* The name under which this process writes `name` until it is whole, NAME.tmp.HOST.PID: two runs into the same files do
 * not write into each other's. Cut off where `bytes` do not hold it; strlen(name) + TEMPORARY_ENDING do. */
void temporary_name(char *temporary, size_t bytes, const char *name);
/* Deletes what killed runs left half written of PATH.SSSSSSSS and `extension`, of any step, unless that is NULL, and of PATH
 * with each of the endings, unless these are NULL, up to a NULL. Looks through the whole folder: of 20,000 files, 12 ms. */
void temporary_remove(const char *path, const char *extension, const char *const endings[]);

/* Makes the written and closed file `temporary` durable under the name `path` (same folder): syncs it, renames it, syncs
 * the folder. On failure (exit 2, naming `path`), and where `e` holds one already, `temporary` is removed; it may be "".
 * Unless `taken` is NULL a file of that name is not replaced: all stays as it is, and *taken is true. */
int atomic_file_commit(const char *temporary, const char *path, bool *taken, error *e);

/* Writes a text file, in place of the one before. */
int text_write(const char *path, const char *text, error *e);
/* The whole of a text file, to be freed; NULL where there is none, or nothing in it. */
int text_read(const char *path, char **text, error *e);

/* The folder of `path`: "." where it names none. */
void path_folder(const char *path, char folder[FILE_NAME]);
/* The folder of files PATH.*, or the nearest existing one above it, at most `most` levels up. Returns how many levels
 * are missing. */
int path_ground(const char *path, int most, char ground[FILE_NAME]);

/* PATH and `ending`; exit 2 where that is too long. */
int path_name(char name[FILE_NAME], const char *path, const char *ending, error *e);
/* PATH.SSSSSSSS and `extension`; likewise. */
int path_step_name(char name[FILE_NAME], const char *path, int64_t step, const char *extension, error *e);
/* The part of a file's name after the last part of `path`; NULL where it does not begin so. */
const char *path_rest(const char *path, const char *file);
/* The part of a file's name after BASE.SSSSSSSS and `extension`, where BASE is the last part of `path`; NULL where it
 * is no such name. */
const char *path_step(const char *path, const char *extension, const char *file, int64_t *step);

/* The number N of a file named like PATH.oldN.*, or 0. */
int path_aside(const char *path, const char *file);
/* Renames PATH and `ending` to PATH.old<number> and `ending`, with the next free number from *number on. A file that has gone
 * meanwhile is no error. */
int path_move_aside(const char *path, const char *ending, int *number, error *e);

/* A path, and the key of the configuration that says it, for messages: "[output] path". */
typedef struct named_path {
  const char *key, *path;
  bool of_shot; /* of a survey, which makes the folder above, too */
} named_path;

enum { PATH_PROBE = FILE_NAME + TEMPORARY_ENDING };
/* Creates an empty file in the folder of files PATH.*, or in the one in which that can be made, and returns its name in
 * `probe`; exit 2 where it cannot. */
int path_probe(named_path p, char probe[PATH_PROBE], error *e);
/* Exit 2 unless files named PATH.* can be created. Leaves nothing behind. */
int path_check_writable(named_path p, error *e);
/* Is that folder not there? Then makes it, unless `dry`. */
int path_make_folder(const char *path, bool dry, bool *missing, error *e);
/* Exit 2 where a folder has the name of a file that is to be written. */
int path_check_no_folder(const char *name, error *e);
/* Both, for the paths under which a run saves; space_taken looks at names with steps. */
int path_check_output(const config *c, error *e);

#endif
