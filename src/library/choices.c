/* Kernel choices of this process, kept in memory instead of the program's file (tune_cache.c). So a second simulation
 * of the same grid on the same device measures nothing. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "step/tune.h"

/* A choice lives as long as the process. */
typedef struct choice_made {
  struct choice_made *next;
  char key[512], interior[64], boundary[64];
} choice_made;

static choice_made *choices;
static pthread_mutex_t choices_lock = PTHREAD_MUTEX_INITIALIZER;

static choice_made *choice_find(const char *key) {
  choice_made *c = choices;
  while (c && strcmp(c->key, key) != 0) c = c->next;
  return c;
}

bool tune_cache_path(char path[1024]) {
  path[0] = '\0';
  return true;
}

bool tune_recall(const char *path, const char *key, char interior[64], char boundary[64]) {
  (void)path;
  pthread_mutex_lock(&choices_lock);
  const choice_made *c = choice_find(key);
  if (c) memcpy(interior, c->interior, 64);
  if (c) memcpy(boundary, c->boundary, 64);
  pthread_mutex_unlock(&choices_lock);
  return c != NULL;
}

bool tune_remember(const char *path, const char *key, const char *interior, const char *boundary) {
  (void)path;
  pthread_mutex_lock(&choices_lock);
  choice_made *c = choice_find(key);
  if (!c && (c = calloc(1, sizeof *c))) {
    snprintf(c->key, sizeof c->key, "%s", key);
    c->next = choices;
    choices = c;
  }
  if (c) snprintf(c->interior, sizeof c->interior, "%s", interior);
  if (c) snprintf(c->boundary, sizeof c->boundary, "%s", boundary);
  pthread_mutex_unlock(&choices_lock);
  return c != NULL;
}
