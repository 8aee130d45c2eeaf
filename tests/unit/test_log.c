/* The log: progress with its rate and times, on a clock of the test's own; lines between. */
#include "test.h"
#include <errno.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/log.h"
#include "base/thread.h"

typedef struct page {
  run_log log;
  char *text;
  size_t length;
} page;

static void page_open(page *p, bool redraw) {
  *p = (page){.log = {.progress = true, .redraw = redraw}};
  assert_non_null(p->log.to = open_memstream(&p->text, &p->length));
}

/* Checks the text written so far. */
static void assert_page(page *p, const char *expected) {
  assert_int_equal(fflush(p->log.to), 0);
  assert_string_equal(p->text, expected);
}

static void page_close(page *p) {
  fclose(p->log.to);
  free(p->text);
}

/* 2e9 points, 30 steps of which take 90 s. */
TEST(rate_and_times_are_those_of_the_steps_done) {
  page p;
  page_open(&p, false);
  log_progress(&p.log, &(loop_progress){0, 30, 120, 90}, 2e9);
  assert_page(&p, " 25 %  step 30 of 120  0.6667 Gpts/s  elapsed 1:30  remaining 4:30\n");
  page_close(&p);
  page_open(&p, false);
  log_progress(&p.log, &(loop_progress){0, 3, 9, 3661}, 12.345e12);
  log_progress(&p.log, &(loop_progress){0, 9, 9, 7199.6}, 12.345e12);
  assert_page(&p, " 33 %  step 3 of 9  10.12 Gpts/s  elapsed 1:01:01  remaining 2:02:02\n"
                  "100 %  step 9 of 9  15.43 Gpts/s  elapsed 2:00:00  remaining 0:00\n");
  page_close(&p);
}

/* After a restart: step and percent are of the whole run, rate and times of what this process has done. */
TEST(a_process_counts_the_whole_run) {
  page p;
  page_open(&p, false);
  for (int step = 45; step <= 120; step++) {
    const loop_progress now = {44, step, 120, 2.0 * (step - 44)};
    if (step < 100 && log_progress_due(&p.log, &now)) log_progress(&p.log, &now, 1e9);
  }
  assert_page(&p, " 40 %  step 48 of 120  0.5 Gpts/s  elapsed 0:08  remaining 2:24\n"
                  " 50 %  step 60 of 120  0.5 Gpts/s  elapsed 0:32  remaining 2:00\n"
                  " 60 %  step 72 of 120  0.5 Gpts/s  elapsed 0:56  remaining 1:36\n"
                  " 70 %  step 84 of 120  0.5 Gpts/s  elapsed 1:20  remaining 1:12\n"
                  " 80 %  step 96 of 120  0.5 Gpts/s  elapsed 1:44  remaining 0:48\n");
  page_close(&p);
}

TEST(nothing_done_or_no_time_is_no_rate) {
  page p;
  page_open(&p, false);
  log_progress(&p.log, &(loop_progress){0, 0, 5, 2}, 1e9);
  log_progress(&p.log, &(loop_progress){0, 5, 5, 0}, 1e9);
  assert_page(&p, "  0 %  step 0 of 5  0 Gpts/s  elapsed 0:02  remaining 0:00\n"
                  "100 %  step 5 of 5  0 Gpts/s  elapsed 0:00  remaining 0:00\n");
  page_close(&p);
}

/* On a terminal: one line redrawn in place every 0.1 s. Another line begins on a row of its own; the last one ends its
 * row. */
TEST(a_terminal_is_redrawn) {
  page p;
  page_open(&p, true);
  assert_true(log_progress_due(&p.log, &(loop_progress){0, 1, 1000, 5}));
  log_progress(&p.log, &(loop_progress){0, 1, 1000, 5}, 4e9);
  assert_false(log_progress_due(&p.log, &(loop_progress){0, 999, 1000, 5.09}));
  assert_true(log_progress_due(&p.log, &(loop_progress){0, 1000, 1000, 5.09}));
  assert_true(log_progress_due(&p.log, &(loop_progress){0, 2, 1000, 5.11}));
  log_line(&p.log, "saved %d", 7);
  log_detail(&p.log, "unseen");
  log_progress(&p.log, &(loop_progress){0, 1000, 1000, 10}, 4e9);
  log_line(&p.log, "done");
  assert_page(&p, "\r  0 %  step 1 of 1000  0.8 Gpts/s  elapsed 0:05  remaining 1:23:15\033[K\nsaved 7\n"
                  "\r100 %  step 1000 of 1000  400 Gpts/s  elapsed 0:10  remaining 0:00\033[K\ndone\n");
  page_close(&p);
}

static void *write_lines(void *log) {
  for (int i = 0; i < 2000; i++) log_line(log, "a line of %s", "words");
  return NULL;
}

/* Threads that begin shots and one that reports them write to one log: no line is torn. */
TEST(lines_of_several_threads_are_whole) {
  enum { THREADS = 4 };
  page p;
  page_open(&p, false);
  thread_run(THREADS, write_lines, &p.log);
  assert_int_equal(fflush(p.log.to), 0);
  int lines = 0;
  for (char *at = p.text, *end; (end = strchr(at, '\n')); at = end + 1, lines++) {
    *end = '\0';
    assert_string_equal(at, "a line of words");
  }
  assert_int_equal(lines, THREADS * 2000);
  page_close(&p);
}

TEST_MAIN("log", NULL, NULL)
