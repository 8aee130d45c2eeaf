#include "log.h"
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "launcher.h"

static const double REDRAW_SECONDS = 0.1;
enum { PROGRESS_LENGTH = 160 };

/* True while a redrawn line has no newline yet. It is static because signal handlers and threads that end the process
 * need it. */
static atomic_int log_line_open;

/* Locks all logs for a line: several threads of a survey write to one log. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void log_flush_locked(run_log *l) {
  if (!l->to) return;
  errno = 0;
  if (fflush(l->to) == 0 && !ferror(l->to)) return;
  l->failed = errno ? errno : EIO; /* errno is 0 where an earlier write by stdio failed */
  l->to = NULL;
}

void log_flush(run_log *l) {
  pthread_mutex_lock(&log_lock);
  log_flush_locked(l);
  pthread_mutex_unlock(&log_lock);
}

int log_close(run_log *l, error *e) {
  if (l->to && log_line_open) fputc('\n', l->to);
  if (l->to) log_line_open = 0;
  log_flush(l);
  l->to = NULL;
  return l->failed && l->failed != EPIPE ? FAIL(e, STDOUT_WRITE, strerror(l->failed)) : 0;
}

/* Gives up silently where the other end of the descriptor is gone. */
static void log_write_all(int descriptor, const char *text, size_t length) {
  while (length > 0) {
    const ssize_t written = write(descriptor, text, length);
    if (written < 0 && errno != EINTR) return;
    if (written < 0) continue;
    text += written;
    length -= (size_t)written;
  }
}

void log_write_at_once(int descriptor, const char *line, size_t length) {
  if (log_line_open) log_write_all(descriptor, "\n", 1);
  log_line_open = 0;
  log_write_all(descriptor, line, length);
}

/* Rank 0 may have left its progress line open. Another rank cannot end that line, so it erases it. */
void log_end_line(void) {
  static const char ERASE[] = "\r\033[K";
  if (log_line_open) log_write_at_once(STDOUT_FILENO, NULL, 0);
  if (launcher_rank() > 0 && launcher_shows_errors()) log_write_all(STDERR_FILENO, ERASE, sizeof ERASE - 1);
}

__attribute__((format(printf, 2, 0))) static void log_print_line(run_log *l, const char *format,
                                                                 va_list args) {
  pthread_mutex_lock(&log_lock);
  if (l->to) {
    if (log_line_open) fputc('\n', l->to);
    log_line_open = 0;
    vfprintf(l->to, format, args);
    fputc('\n', l->to);
    log_flush_locked(l);
  }
  pthread_mutex_unlock(&log_lock);
}

__attribute__((format(printf, 2, 0))) static void log_be_heard(const run_log *l, const char *format,
                                                               va_list args) {
  char *line;
  if (!l->hear || vasprintf(&line, format, args) < 0) return;
  l->hear(l->hearer, format, line);
  free(line);
}

void log_line(run_log *l, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  log_print_line(l, format, args);
  log_be_heard(l, format, again);
  va_end(again);
  va_end(args);
}

void log_detail(run_log *l, const char *format, ...) {
  if (!l->verbose) return;
  va_list args;
  va_start(args, format);
  log_print_line(l, format, args);
  va_end(args);
}

/* h:mm:ss or m:ss into `text`. */
static const char *log_duration(char text[32], double seconds) {
  const long s = (long)(seconds + 0.5);
  if (s >= 3600)
    snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
  return text;
}

/* Characters that fit on a line: one fewer than the columns, because some terminals begin a new line after the last.
 * The width is queried each time, because the window may have been resized. */
static int log_columns(const run_log *l) {
  struct winsize size;
  if (ioctl(fileno(l->to), TIOCGWINSZ, &size) || size.ws_col < 1) return PROGRESS_LENGTH;
  return size.ws_col - 1;
}

/* Tenths of the whole run that so many steps complete. */
static int log_tenths(int64_t step, int64_t steps) {
  return (int)((double)step / (double)steps * 10 + 1e-9);
}

static bool log_is_silent(const run_log *l) {
  pthread_mutex_lock(&log_lock);
  const bool silent = !l->to;
  pthread_mutex_unlock(&log_lock);
  return silent;
}

bool log_progress_due(const run_log *l, const loop_progress *p) {
  if (!l->progress || p->steps <= p->first || log_is_silent(l)) return false;
  if (p->step == p->steps) return true;
  if (l->redraw) return p->seconds >= l->next;
  const int tenths = log_tenths(p->step, p->steps);
  return tenths >= l->next && tenths > log_tenths(p->first, p->steps);
}

void log_progress(run_log *l, const loop_progress *p, double points) {
  const double done = (double)(p->step - p->first), left = (double)(p->steps - p->step);
  char text[PROGRESS_LENGTH], elapsed[32], remaining[32];
  l->next = l->redraw ? p->seconds + REDRAW_SECONDS : log_tenths(p->step, p->steps) + 1;
  const double rate = p->seconds > 0 ? done / p->seconds : 0; /* 1/s */
  snprintf(text, sizeof text, "%3.0f %%  %s %lld of %lld  %.4g %s  elapsed %s  remaining %s",
           100 * (double)p->step / (double)p->steps, points > 0 ? "step" : "shot", (long long)p->step,
           (long long)p->steps, rate * (points > 0 ? points * 1e-9 : 3600), points > 0 ? "Gpts/s" : "an hour",
           log_duration(elapsed, p->seconds), log_duration(remaining, rate > 0 ? left / rate : 0));
  pthread_mutex_lock(&log_lock);
  if (l->to && l->redraw) { /* \033[K also erases the rest of a longer line */
    log_line_open = p->step < p->steps;
    fprintf(l->to, "\r%.*s\033[K%s", log_columns(l), text, log_line_open ? "" : "\n");
  } else if (l->to) {
    fprintf(l->to, "%s\n", text);
  }
  log_flush_locked(l);
  pthread_mutex_unlock(&log_lock);
}
