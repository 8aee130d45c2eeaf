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
  int failed;    /* errno of the write that ended the log; 0: no write has failed */
  double next;   /* when to show progress again: seconds since the start if redrawn, else tenths of the run */
  void (*hear)(void *hearer, const char *format,
               const char *line); /* NULL, or gets each line, printed or not */
  /* NULL, or gets after each pass the part of a batch's steps, forward and back, that is done. */
  void (*advance)(void *hearer, double part);
  void *hearer; /* argument of both functions */
} run_log;

/* Prints one line and adds the newline. Several threads may call it. */
void log_line(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line with --verbose only. */
void log_detail(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Flushes `to`. A write error ends the log: `to` becomes NULL. */
void log_flush(run_log *l);
/* Ends the log. Exit 2 if something could not be written; a pipe whose reader has gone is not an error. */
int log_close(run_log *l, error *e);

/* How far the step loop is. A run that continues begins after `first` steps. */
typedef struct loop_progress {
  int64_t first, step, steps; /* step: steps that are done; steps: of the whole run */
  double seconds;             /* since the loop began */
} loop_progress;

/* True if progress is due: several times a second on a terminal, else every 10 % of the whole run. */
bool log_progress_due(const run_log *l, const loop_progress *p);
/* Shows percent, step, Gpts/s, elapsed and remaining time. On a terminal the line is redrawn and cut to its width.
 * `points`: updated in a step by all ranks; 0: the steps are shots of a survey. */
void log_progress(run_log *l, const loop_progress *p, double points);

/* For signal handlers and other threads, which have no run_log: ends an open progress line, so that the next text on
 * stdout or stderr begins on a new line. */
void log_end_line(void);
/* Ends an open progress line, then writes `length` characters to a descriptor, unbuffered. For the main thread's signal
 * handlers. */
void log_write_at_once(int descriptor, const char *line, size_t length);

#endif
