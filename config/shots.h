/* The shots of a survey, from a text file with a line for each shot. */
#ifndef STENCIL_SHOTS_H
#define STENCIL_SHOTS_H

#include "config.h"

typedef struct shot_line {
  int number;   /* number of the shot: 1, 2 ... */
  int line;     /* line of the file */
  char *name;   /* name of its files; set by shots_check */
  char **words; /* overrides section.key=value; NULL-terminated */
  int count;    /* number of words */
} shot_line;

/* Owns all its members. */
typedef struct shot_lines {
  char file[CONFIG_TEXT];
  shot_line *list;
  int count, capacity;
  bool
      alike; /* set by shots_check: all shots begin with the same field; only positions and signals may differ */
} shot_lines;

/* Reads the lines. Words are quoted as in a shell. Empty lines are ignored, as is the rest of a line from a word that
 * begins with #. Exit 1, naming file and line, where quotes do not come in pairs. Call shots_free also after a
 * failure. */
int shots_read(shot_lines *all, const char *file, error *e);
/* Adds a line's words as a shot, if there are any; `line` is the line's number in all->file. */
int shots_add(shot_lines *all, const char *text, int line, error *e);
/* Checks the configuration of every shot, and names the shots. Exit 1, with line and key, where a shot cannot be run or
 * has another's name. *first: the configuration of the first shot. */
int shots_check(shot_lines *all, const config_given *given, config *first, error *e);
void shots_free(shot_lines *all);

#endif
