/* The run's log: rank 0 writes it to stdout. Silent on other ranks and with --quiet. */
#ifndef STENCIL_LOG_H
#define STENCIL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "error.h"

typedef struct run_log {
  FILE *to; /* NULL: silent */
  bool verbose;
  bool progress; /* show progress at all */
  bool redraw;   /* a terminal: the progress line is redrawn in place */
  int failed;    /* errno of the write that failed and so ended the log; 0: none has */
  double next;   /* when to show progress again: seconds since the start if redrawn, else the fraction done */
} run_log;

/* One line, with newline. */
void log_line(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, with --verbose only. */
void log_detail(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes out what has been printed to `to`. What cannot be written ends the log: `to` becomes NULL. */
void log_flush(run_log *l);
/* Ends the log. Exit 2 if something could not be written; a pipe that nobody reads any more is no error. */
int log_close(run_log *l, error *e);

/* Is progress to be shown at this step, `seconds` after the loop began? On a terminal several times a second, else at
 * every 10 %. */
bool log_progress_due(const run_log *l, int64_t step, int64_t steps, double seconds);
/* Shows percent, step, Gpts/s, elapsed and remaining time: redrawn on a terminal and cut to its width, else a line. `step`
 * steps are done, not only begun; `points` are updated in one step by all ranks. */
void log_progress(run_log *l, int64_t step, int64_t steps, double seconds, double points);

/* For those who cannot know the log, signal handlers and other threads too: what is written next, to stdout or stderr,
 * begins on a line of its own. */
void log_end_line(void);
/* The same before `length` characters that go to a descriptor at once. For the main thread's signal handlers. */
void log_write_at_once(int descriptor, const char *line, size_t length);

#endif
