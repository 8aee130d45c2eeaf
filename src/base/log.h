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

/* Is progress to be shown at this step, `seconds` after the loop began? On a terminal several times a second, else at
 * every 10 %. */
bool log_progress_due(const run_log *l, int64_t step, int64_t steps, double seconds);
/* Shows percent, step, Gpts/s, elapsed and remaining time: redrawn on a terminal, else a line. `step` steps are done,
 * not only begun; `points` are updated in one step by all ranks. */
void log_progress(run_log *l, int64_t step, int64_t steps, double seconds, double points);

#endif
