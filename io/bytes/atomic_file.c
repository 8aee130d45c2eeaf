#include "atomic_file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "rows.h"

void path_folder(const char *path, char folder[FILE_NAME]) {
  const char *slash = strrchr(path, '/');
  if (!slash)
    snprintf(folder, FILE_NAME, ".");
  else
    snprintf(folder, FILE_NAME, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

const char *path_rest(const char *path, const char *file) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  const size_t length = strlen(base);
  return strncmp(file, base, length) == 0 ? file + length : NULL;
}

int path_ground(const char *path, int most, char ground[FILE_NAME]) {
  char folder[FILE_NAME];
  struct stat s;
  int missing = 0;
  path_folder(path, ground);
  for (; missing < most && stat(ground, &s) && errno == ENOENT; missing++) {
    size_t length = strlen(ground);
    while (length > 1 && ground[length - 1] == '/') length--; /* as in folder//name */
    snprintf(folder, sizeof folder, "%.*s", (int)length, ground);
    path_folder(folder, ground);
  }
  return missing;
}

int path_name(char name[FILE_NAME], const char *path, const char *ending, error *e) {
  const int n = snprintf(name, FILE_NAME, "%s%s", path, ending);
  return n < FILE_NAME ? 0 : FAIL(e, FILE_WRITE, path, strerror(ENAMETOOLONG));
}

int path_step_name(char name[FILE_NAME], const char *path, int64_t step, const char *extension, error *e) {
  char ending[64];
  snprintf(ending, sizeof ending, ".%08" PRId64 "%s", step, extension);
  return path_name(name, path, ending, e);
}

const char *path_step(const char *path, const char *extension, const char *file, int64_t *step) {
  char exact[32], *end;
  file = path_rest(path, file);
  if (!file || *file++ != '.') return NULL;
  errno = 0;
  *step = strtoll(file, &end, 10);
  if (errno || *step < 0 || strncmp(end, extension, strlen(extension))) return NULL;
  snprintf(exact, sizeof exact, "%08" PRId64, *step); /* other spellings are not ours */
  bool ours = strlen(exact) == (size_t)(end - file) && memcmp(exact, file, strlen(exact)) == 0;
  return ours ? end + strlen(extension) : NULL;
}

int path_aside(const char *path, const char *file) {
  const char *rest = path_rest(path, file);
  int number;
  return rest && sscanf(rest, ".old%9d.", &number) == 1 ? number : 0;
}

int path_move_aside(const char *path, const char *ending, int *number, error *e) {
  char name[FILE_NAME], aside[FILE_NAME + 16];
  snprintf(name, sizeof name, "%s%s", path, ending);
  for (;; ++*number) {
    snprintf(aside, sizeof aside, "%s.old%d%s", path, *number, ending);
    /* An empty file keeps the name for us: rename alone would replace what another run moves there now. */
    const int fd = open(aside, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return FAIL(e, FILE_WRITE, aside, strerror(errno));
    close(fd);
    if (rename(name, aside) == 0) return 0;
    const int reason = errno;
    unlink(aside);
    if (reason == ENOENT) return 0;
    return FAIL(e, FILE_WRITE, name,
                strerror(reason == ENOTDIR ? EISDIR : reason)); /* a folder of that name */
  }
}

/* Returns 0 or an errno. */
static int atomic_file_sync(const char *path, int flags) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return errno;
  int rc = fsync(fd) ? errno : 0;
  if (close(fd) && !rc) rc = errno;
  return rc;
}

/* Renames a file unless `path` exists. Returns 0 or an errno: EEXIST where it does. */
static int atomic_file_rename_new(const char *temporary, const char *path) {
  if (link(temporary, path) == 0) return unlink(temporary) ? errno : 0;
  if (errno == EEXIST) return EEXIST;
  if (access(path, F_OK) == 0) return EEXIST; /* a file system without links: almost as safe */
  return rename(temporary, path) ? errno : 0;
}

int atomic_file_commit(const char *temporary, const char *path, bool *taken, error *e) {
  char folder[FILE_NAME];
  int rc = e->id ? 0 : atomic_file_sync(temporary, 0);
  if (!rc && !e->id)
    rc = taken ? atomic_file_rename_new(temporary, path) : rename(temporary, path) ? errno : 0;
  if (taken) *taken = rc == EEXIST;
  if (taken && *taken) return 0;
  if (rc) FAIL(e, FILE_WRITE, path, strerror(rc));
  if (e->id) {
    if (*temporary) unlink(temporary);
    return e->id;
  }
  path_folder(path, folder);
  rc = atomic_file_sync(folder, O_DIRECTORY);
  if (rc == EINVAL || rc == EACCES)
    rc = 0; /* some file systems cannot sync a folder, and a folder may be writable but unreadable */
  return rc ? FAIL(e, FILE_WRITE, path, strerror(rc)) : 0;
}

int text_write(const char *path, const char *text, error *e) {
  char temporary[FILE_NAME + TEMPORARY_ENDING];
  temporary_name(temporary, sizeof temporary, path);
  FILE *f = fopen(temporary, "w");
  if (!f) return FAIL(e, FILE_WRITE, path, strerror(errno));
  bool failed = fputs(text, f) < 0;
  failed = fclose(f) != 0 || failed;
  if (failed) FAIL(e, FILE_WRITE, path, strerror(errno));
  return atomic_file_commit(temporary, path, NULL, e);
}

int text_read(const char *path, char **text, error *e) {
  size_t capacity = 0;
  *text = NULL;
  FILE *f = fopen(path, "r");
  if (!f) return errno == ENOENT ? 0 : FAIL(e, FIELD_FILE, path, strerror(errno));
  const bool any = getdelim(text, &capacity, '\0', f) > 0;
  fclose(f);
  if (!any) free(*text), *text = NULL;
  return 0;
}

/* --- temporary names --- */

enum { HOST_TEXT = 65, ABANDONED_SECONDS = 3600 };

static void atomic_temporary_host(char host[HOST_TEXT]) {
  if (gethostname(host, HOST_TEXT)) strcpy(host, "unknown");
  host[HOST_TEXT - 1] = 0;
}

void temporary_name(char *temporary, size_t bytes, const char *name) {
  char host[HOST_TEXT];
  atomic_temporary_host(host);
  snprintf(temporary, bytes, "%s.tmp.%s.%07ld", name, host, (long)getpid()); /* always as long */
}

/* Has the process ended? True also for a zombie, which some containers keep for long. */
static bool atomic_process_ended(long pid) {
  char path[64], text[512] = "";
  if (kill((pid_t)pid, 0) && errno == ESRCH) return true;
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  FILE *f = fopen(path, "r");
  if (!f) return false;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  const char *state = strrchr(text, ')');
  return state && strncmp(state, ") Z", 3) == 0;
}

/* Is `file`, whose name ends in temporary_name's `ending`, abandoned? It is if its process was on this machine and has
 * ended, or was elsewhere and has not written for an hour. */
static bool atomic_abandoned(const char *file, const char *ending) {
  static const char mark[] = ".tmp.";
  char host[HOST_TEXT];
  const char *dot = strrchr(ending, '.'), *theirs = ending + strlen(mark);
  if (strncmp(ending, mark, strlen(mark)) || dot < theirs) return false;
  atomic_temporary_host(host);
  long pid = strtol(dot + 1, NULL, 10);
  bool here = strlen(host) == (size_t)(dot - theirs) && memcmp(host, theirs, strlen(host)) == 0;
  if (here && pid > 0 && (pid == (long)getpid() || atomic_process_ended(pid))) return true;
  struct stat s;
  return stat(file, &s) == 0 && S_ISREG(s.st_mode) && time(NULL) - s.st_mtime > ABANDONED_SECONDS;
}

/* The part of a name after PATH and one of the endings; NULL where the name does not begin with these. */
static const char *atomic_after(const char *path, const char *const endings[], const char *file) {
  const char *rest = path_rest(path, file);
  for (; rest && *endings; endings++)
    if (strncmp(rest, *endings, strlen(*endings)) == 0) return rest + strlen(*endings);
  return NULL;
}

void temporary_remove(const char *path, const char *extension, const char *const endings[]) {
  char folder[FILE_NAME], file[FILE_NAME + 256];
  int64_t step;
  path_folder(path, folder);
  DIR *open = opendir(folder);
  if (!open) return; /* writing will say why */
  for (const struct dirent *d; (d = readdir(open));) {
    const char *rest = extension ? path_step(path, extension, d->d_name, &step) : NULL;
    if (!rest && endings) rest = atomic_after(path, endings, d->d_name);
    snprintf(file, sizeof file, "%s/%s", folder, d->d_name);
    if (rest && atomic_abandoned(file, rest)) unlink(file);
  }
  closedir(open);
}

/* --- paths --- */

int path_make_folder(const char *path, bool dry, bool *missing, error *e) {
  char folder[FILE_NAME], ground[FILE_NAME];
  *missing = path_ground(path, 1, ground);
  if (!*missing || dry) return 0;
  path_folder(path, folder);
  if (mkdir(folder, 0777) && errno != EEXIST) /* another run may have made it just now */
    return FAIL(e, FILE_WRITE, folder, strerror(errno));
  atomic_file_sync(ground, O_DIRECTORY); /* where the file system can */
  return 0;
}

int path_probe(named_path p, char probe[PATH_PROBE], error *e) {
  const char *path = p.path;
  char folder[FILE_NAME], name[FILE_NAME], reason[FILE_NAME + 64], place[2 * FILE_NAME];
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
    return FAIL(e, PATH_UNUSABLE, p.key, path, "expected the beginning of a file name, not a folder");
  const bool missing = path_ground(path, p.of_shot ? 2 : 1, folder);
  /* Only creating a file finds every obstacle: permissions, read-only mounts, quotas, names too long. */
  if (missing) snprintf(place, sizeof place, "%s/%s", folder, base); /* the folder is made later */
  TRY(path_step_name(name, missing ? place : path, 0, ".hdf", e));
  temporary_name(probe, PATH_PROBE, name);
  memset(probe + strlen(probe) - 6, 'X', 6); /* for mkstemp */
  int fd = mkstemp(probe);
  if (fd < 0) {
    snprintf(reason, sizeof reason, "folder '%s': %s", folder, strerror(errno));
    return FAIL(e, PATH_UNUSABLE, p.key, path, reason);
  }
  close(fd);
  return 0;
}

int path_check_writable(named_path p, error *e) {
  char probe[PATH_PROBE];
  TRY(path_probe(p, probe, e));
  return unlink(probe) ? FAIL(e, PATH_UNUSABLE, p.key, p.path, strerror(errno)) : 0;
}

int path_check_no_folder(const char *name, error *e) {
  struct stat s;
  return stat(name, &s) == 0 && S_ISDIR(s.st_mode) ? FAIL(e, FILE_WRITE, name, strerror(EISDIR)) : 0;
}

int path_check_output(const config *c, error *e) {
  const bool of_shot = c->survey_file[0];
  TRY(path_check_writable((named_path){"[output] path", c->output_path, of_shot}, e));
  for (int i = 0; i < OUTPUT_FILES; i++) {
    char name[FILE_NAME];
    TRY(path_name(name, c->output_path, OUTPUT_ENDINGS[i], e));
    TRY(path_check_no_folder(name, e));
  }
  if (!config_has_checkpoints(c)) return 0;
  return path_check_writable((named_path){"[checkpoint] path", c->checkpoint_path, of_shot}, e);
}

int new_file_drop(new_file *f, const error *e) {
  if (f->plan.temporary[0]) unlink(f->plan.temporary);
  *f = (new_file){.fd = -1};
  return e->id;
}
