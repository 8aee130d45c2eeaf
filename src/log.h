/* The run's log: rank 0 writes it to stdout. Silent on other ranks and with --quiet. */
#ifndef STENCIL_LOG_H
#define STENCIL_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct run_log {
  FILE *to; /* NULL: silent */
  bool verbose;
  bool progress; /* show progress at all */
  bool redraw;   /* a terminal: the progress line is redrawn in place */
  bool open;     /* a redrawn line has not been ended yet */
  double next;   /* when to show progress again: seconds since the start if redrawn, else the fraction done */
} run_log;

/* True where stdout ends on a terminal, under mpirun too. */
bool log_to_terminal(void);

/* One line, with newline. */
void log_line(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, with --verbose only. */
void log_detail(run_log *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Shows percent, step, Gpts/s, elapsed and remaining time: redrawn on a terminal, else a line every 10 %.
 * `seconds` is the time since the loop began, `points` the points updated in one step by all ranks. */
void log_progress(run_log *l, int64_t step, int64_t steps, double seconds, double points);

#endif
