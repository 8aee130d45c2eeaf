/* The file that keeps the results of tuning: a JSON object with one member for each key. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tune.h"

enum { FILE_MAX = 1 << 20, ENTRIES_MAX = 1000 };

bool tune_cache_path(char path[1024]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = 1024;
  if (cache && *cache)
    n = snprintf(path, 1024, "%s/stencil/kernels.json", cache);
  else if (home && *home)
    n = snprintf(path, 1024, "%s/.cache/stencil/kernels.json", home);
  return n < 1024;
}

/* The file's object, or an empty one where it is missing or damaged; NULL without memory. The caller deletes
 * it. */
static cJSON *tune_cache_read(const char *path) {
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* does not wait for a pipe */
  char *text = fd < 0 ? NULL : calloc(1, FILE_MAX + 1);
  size_t length = 0;
  for (ssize_t n; text && (n = read(fd, text + length, FILE_MAX - length)) > 0;) length += (size_t)n;
  if (length == FILE_MAX) text[0] = 0; /* too long: another program wrote it */
  if (fd >= 0) close(fd);
  cJSON *root = text ? cJSON_Parse(text) : NULL;
  free(text);
  if (cJSON_IsObject(root)) return root;
  cJSON_Delete(root);
  return cJSON_CreateObject();
}

static bool tune_cache_name(const cJSON *entry, const char *key, char name[64]) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(entry, key);
  return cJSON_IsString(item) && snprintf(name, 64, "%s", item->valuestring) < 64;
}

bool tune_recall(const char *path, const char *key, char interior[64], char boundary[64]) {
  cJSON *root = tune_cache_read(path);
  const cJSON *entry = cJSON_GetObjectItemCaseSensitive(root, key);
  bool found = tune_cache_name(entry, "interior", interior) && tune_cache_name(entry, "boundary", boundary);
  cJSON_Delete(root);
  return found;
}

static void tune_cache_folders(const char *path) {
  char part[1024];
  for (const char *c = strchr(path + 1, '/'); c; c = strchr(c + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(c - path), path);
    if (mkdir(part, 0777) && errno != EEXIST) return;
  }
}

/* Several runs may write at once: each writes a file of its own, and the last one to rename it wins. */
static bool tune_cache_write(const char *path, const char *text) {
  char temporary[1100];
  snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
  FILE *f = fopen(temporary, "w");
  if (!f) return false;
  bool ok = fputs(text, f) >= 0;
  ok = fclose(f) == 0 && ok;
  ok = ok && rename(temporary, path) == 0;
  if (!ok) remove(temporary);
  return ok;
}

bool tune_remember(const char *path, const char *key, const char *interior, const char *boundary) {
  cJSON *root = tune_cache_read(path), *entry = cJSON_CreateObject();
  while (cJSON_GetArraySize(root) >= ENTRIES_MAX) cJSON_DeleteItemFromArray(root, 0); /* the oldest */
  cJSON_DeleteItemFromObjectCaseSensitive(root, key);
  bool ok = cJSON_AddStringToObject(entry, "interior", interior) &&
            cJSON_AddStringToObject(entry, "boundary", boundary) && cJSON_AddItemToObject(root, key, entry);
  char *text = ok ? cJSON_Print(root) : NULL;
  if (!ok) cJSON_Delete(entry);
  cJSON_Delete(root);
  tune_cache_folders(path);
  ok = text && tune_cache_write(path, text);
  cJSON_free(text);
  return ok;
}
