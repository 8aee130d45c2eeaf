/* The shots of a survey: a text file, a line a shot. */
#ifndef STENCIL_SHOTS_H
#define STENCIL_SHOTS_H

#include "config.h"

typedef struct shot_line {
  int number;   /* 1 ... of the lines that count */
  int line;     /* of the file */
  char *name;   /* of its files; set by shots_check */
  char **words; /* section.key=value: what it overrides; NULL-terminated */
  int count;    /* of them */
} shot_line;

/* Owns all its members. */
typedef struct shot_lines {
  char file[CONFIG_TEXT];
  shot_line *list;
  int count, capacity;
  bool
      alike; /* set by shots_check: all begin with the same field, and differ in where and when sources act at most */
} shot_lines;

/* Reads the lines. Words of a line are quoted as on a command line of a shell; empty lines and what follows a word that
 * begins with # do not count. Exit 1, naming file and line, where quotes do not come in pairs. shots_free it, also after a failure. */
int shots_read(shot_lines *all, const char *file, error *e);
/* Adds the words of a line, which is number `line` of all->file, as a shot, if it has any. */
int shots_add(shot_lines *all, const char *text, int line, error *e);
/* Makes the configuration of every shot, and names them: exit 1, naming line and key, where one cannot be run or has the
 * name of another. *first: the configuration of the first one. */
int shots_check(shot_lines *all, const config_given *given, config *first, error *e);
void shots_free(shot_lines *all);

#endif
