#include "log.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double REDRAW_SECONDS = 0.1;

/* Open MPI's mpirun gives rank 0 a terminal of its own, whatever its own output is: then the parent's counts.
 */
bool log_to_terminal(void) {
  if (!isatty(STDOUT_FILENO)) return false;
  if (!getenv("OMPI_COMM_WORLD_SIZE")) return true;
  char link[64], target[64];
  snprintf(link, sizeof link, "/proc/%ld/fd/1", (long)getppid());
  ssize_t length = readlink(link, target, sizeof target - 1);
  if (length <= 0) return false;
  target[length] = 0;
  return strncmp(target, "/dev/pts/", 9) == 0 || strncmp(target, "/dev/tty", 8) == 0;
}

static void print_line(run_log *l, const char *format, va_list args) {
  if (l->open) fputc('\n', l->to);
  l->open = false;
  vfprintf(l->to, format, args);
  fputc('\n', l->to);
  fflush(l->to);
}

void log_line(run_log *l, const char *format, ...) {
  if (!l->to) return;
  va_list args;
  va_start(args, format);
  print_line(l, format, args);
  va_end(args);
}

void log_detail(run_log *l, const char *format, ...) {
  if (!l->to || !l->verbose) return;
  va_list args;
  va_start(args, format);
  print_line(l, format, args);
  va_end(args);
}

static void print_duration(FILE *to, double seconds) {
  long s = (long)(seconds + 0.5);
  if (s >= 3600)
    fprintf(to, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    fprintf(to, "%ld:%02ld", s / 60, s % 60);
}

bool log_progress_due(const run_log *l, int64_t step, int64_t steps, double seconds) {
  if (!l->to || !l->progress || steps == 0) return false;
  const double fraction = (double)step / (double)steps;
  if (l->redraw) return seconds >= l->next || step == steps;
  return step == steps || (fraction >= l->next && fraction >= 0.1);
}

void log_progress(run_log *l, int64_t step, int64_t steps, double seconds, double points) {
  const double fraction = (double)step / (double)steps;
  l->next = l->redraw ? seconds + REDRAW_SECONDS : ((int)(fraction * 10 + 1e-9) + 1) / 10.0 - 1e-9;
  fprintf(l->to, "%s%3.0f %%  step %lld of %lld  %.4g Gpts/s  elapsed ", l->redraw ? "\r" : "",
          100 * fraction, (long long)step, (long long)steps,
          seconds > 0 ? points * (double)step * 1e-9 / seconds : 0.0);
  print_duration(l->to, seconds);
  fputs("  remaining ", l->to);
  print_duration(l->to, step ? seconds * (double)(steps - step) / (double)step : 0);
  l->open = l->redraw;
  fputs(l->redraw ? "\033[K" : "\n", l->to); /* erase what a longer line left behind */
  if (l->redraw && step == steps) {
    fputc('\n', l->to);
    l->open = false;
  }
  fflush(l->to);
}
