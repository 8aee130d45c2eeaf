/* Warnings of a survey's shots. A shot's log is silent; its warnings are collected, counted by kind, and logged
 * once. */
#ifndef STENCIL_WARNINGS_H
#define STENCIL_WARNINGS_H

#include "base/log.h"
#include "config/shots.h"

enum { WARNINGS_MOST = 8, WARNING_TEXT = 480 };

typedef struct warning {
  uint64_t kind;           /* a digest of its format */
  char text[WARNING_TEXT]; /* without "warning: "; a longer one is cut */
} warning;

/* The warnings of a shot, one of each kind; further kinds are left out. */
typedef struct warnings {
  warning list[WARNINGS_MOST];
  int count;
} warnings;

/* From now on *all gets what the log warns of, printed or not. */
void warnings_hear(run_log *log, warnings *all);
/* Lets a log's hearer, if it has one, hear them again. */
void warnings_pass(const warnings *all, const run_log *log);
/* The texts, in one line to be freed; NULL where there are none, or no memory. */
char *warnings_join(const warnings *all);

typedef struct warnings_kind {
  warning first; /* of the shot that comes first in the survey, */
  int shot;      /* its number; 0: none counted yet */
  int shots;     /* how many have it */
  bool logged;   /* the log has that of the survey's first shot */
} warnings_kind;

/* The warnings of a survey's shots. Zero-initialised it is empty. */
typedef struct warnings_tally {
  warnings_kind *list; /* owned */
  int count;
} warnings_tally;

/* Adds the warnings of shot `shot`, 1 or more. 0: the log has them already, so they are logged again only if another
 * shot than the first has them. */
int warnings_add(warnings_tally *t, const warnings *of, int shot, error *e);
/* Logs each kind that the log does not have: how many shots have it, and what the first of them, a line of `lines`, warns of. */
void warnings_tell(const warnings_tally *t, const shot_lines *lines, run_log *log);
void warnings_free(warnings_tally *t);

#endif
