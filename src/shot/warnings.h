/* Warnings of a survey's shots. A shot's log is silent; its warnings are collected, counted by kind, and logged
 * once. */
#ifndef STENCIL_WARNINGS_H
#define STENCIL_WARNINGS_H

#include "base/log.h"
#include "config/shots.h"

enum { WARNINGS_MOST = 8, WARNING_TEXT = 480 };

typedef struct warning {
  uint64_t kind;           /* a digest of its format */
  char text[WARNING_TEXT]; /* without "warning: "; longer text is cut */
} warning;

/* The warnings of a shot, one of each kind; further kinds are left out. */
typedef struct warnings {
  warning list[WARNINGS_MOST];
  int count;
} warnings;

/* From now on *all gets the log's warnings, printed or not. */
void warnings_hear(run_log *log, warnings *all);
/* Passes the warnings again to the log's hearer, if there is one. */
void warnings_pass(const warnings *all, const run_log *log);
/* Joins the texts to one line, which the caller frees; NULL without warnings or memory. */
char *warnings_join(const warnings *all);

typedef struct warnings_kind {
  warning first; /* the warning of the survey's first shot that has it */
  int shot;      /* number of that shot; 0: none counted yet */
  int shots;     /* how many shots have it */
  bool logged;   /* the log already has the warning, of the survey's first shot */
} warnings_kind;

/* The warnings of a survey's shots. A zero-initialised tally is empty. */
typedef struct warnings_tally {
  warnings_kind *list; /* owned */
  int count;
} warnings_tally;

/* Adds the warnings of shot `shot`, 1 or more. `shot` 0: the log has them already, so they are logged again only if a
 * shot other than the first has them. */
int warnings_add(warnings_tally *t, const warnings *of, int shot, error *e);
/* Logs each kind that the log does not have: the number of shots, and the text of the first one, a line of `lines`. */
void warnings_tell(const warnings_tally *t, const shot_lines *lines, run_log *log);
void warnings_free(warnings_tally *t);

#endif
