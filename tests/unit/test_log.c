/* The log: progress with its rate and times, on a clock of the test's own; lines between. */
#include "test.h"
#include <errno.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/log.h"

typedef struct page {
  run_log log;
  char *text;
  size_t length;
} page;

static void page_open(page *p, bool redraw) {
  *p = (page){.log = {.progress = true, .redraw = redraw}};
  assert_non_null(p->log.to = open_memstream(&p->text, &p->length));
}

/* What has been written is this. */
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

/* After a restart: step and percent are of the whole run, rate and times of what this leg has done. */
TEST(a_leg_counts_the_whole_run) {
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

/* In a file: a line at every 10 % and at the end, for any number of steps and any speed. */
TEST(lines_come_every_tenth) {
  for (int steps = 1; steps <= 137; steps++) {
    page p;
    int shown = 0;
    page_open(&p, false);
    for (int step = 0, tenth = 0; step <= steps; step++) {
      const bool due = log_progress_due(&p.log, &(loop_progress){0, step, steps, 0.001 * step});
      assert_int_equal(due, step * 10 / steps > tenth);
      if (!due) continue;
      log_progress(&p.log, &(loop_progress){0, step, steps, 0.001 * step}, 1);
      tenth = step * 10 / steps;
      shown++;
    }
    assert_int_equal(shown, steps < 10 ? steps : 10);
    page_close(&p);
  }
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

static void set_columns(int terminal, unsigned short columns) {
  const struct winsize size = {.ws_row = 24, .ws_col = columns};
  assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
}

/* A line that wraps could not be redrawn. The window may be made smaller at any time. */
TEST(a_line_is_cut_to_the_terminal) {
  int leader, follower;
  char text[256] = "";
  assert_int_equal(openpty(&leader, &follower, NULL, NULL, NULL), 0);
  run_log log = {.to = fdopen(follower, "w"), .progress = true, .redraw = true};
  assert_non_null(log.to);
  FILE *terminal = log.to;
  set_columns(follower, 60);
  log_progress(&log, &(loop_progress){0, 1, 1000, 5}, 4e9);
  set_columns(follower, 20);
  log_progress(&log, &(loop_progress){0, 2, 1000, 6}, 4e9);
  set_columns(follower, 0); /* unknown */
  log_progress(&log, &(loop_progress){0, 3, 1000, 7}, 4e9);
  assert_int_equal(log_close(&log, &(error){0}), 0);
  for (size_t length = 0; !strchr(text, '\n'); length = strlen(text))
    assert_true(read(leader, text + length, sizeof text - 1 - length) > 0);
  assert_string_equal(text, "\r  0 %  step 1 of 1000  0.8 Gpts/s  elapsed 0:05  remaining \033[K"
                            "\r  0 %  step 2 of 10\033[K"
                            "\r  0 %  step 3 of 1000  1.714 Gpts/s  elapsed 0:07  remaining 38:46\033[K\r\n");
  fclose(terminal);
  close(leader);
}

/* An error goes to stderr and begins on a row of its own. So does what a signal handler writes. */
TEST(what_follows_has_a_line_of_its_own) {
  page p;
  int ends[2];
  char text[64] = "";
  assert_int_equal(pipe(ends), 0);
  page_open(&p, true);
  log_progress(&p.log, &(loop_progress){0, 1, 1000, 5}, 4e9);
  log_write_at_once(ends[1], "now\n", 4);
  log_write_at_once(ends[1], "then\n", 5);
  assert_int_equal(read(ends[0], text, sizeof text - 1), 10);
  assert_string_equal(text, "\nnow\nthen\n");
  page_close(&p);
  close(ends[0]);
  close(ends[1]);
}

/* A full disk is an error at the end of the run. A pipe that nobody reads ends only the log. */
TEST(what_cannot_be_written_ends_the_log) {
  int ends[2];
  error e = {0};
  run_log log = {.to = fopen("/dev/full", "w")};
  assert_non_null(log.to);
  log_line(&log, "lost");
  assert_null(log.to);
  log_line(&log, "not missed");
  assert_int_equal(log_close(&log, &e), ERROR_STDOUT_WRITE);
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_FILE);
  assert_string_equal(e.text, "stdout: cannot write: No space left on device");

  void (*before)(int) = signal(SIGPIPE, SIG_IGN);
  assert_int_equal(pipe(ends), 0);
  close(ends[0]);
  log = (run_log){.to = fdopen(ends[1], "w")};
  log_line(&log, "unread");
  assert_int_equal(log.failed, EPIPE);
  e = (error){0};
  assert_int_equal(log_close(&log, &e), 0);
  signal(SIGPIPE, before);
}

TEST(silence) {
  page p;
  page_open(&p, false);
  p.log.progress = false;
  assert_false(log_progress_due(&p.log, &(loop_progress){0, 5, 5, 1}));
  p.log.progress = true;
  assert_false(log_progress_due(&p.log, &(loop_progress){0, 0, 0, 1}));
  page_close(&p);
  run_log quiet = {.progress = true, .verbose = true};
  assert_false(log_progress_due(&quiet, &(loop_progress){0, 5, 5, 1}));
  log_line(&quiet, "unheard");
  log_detail(&quiet, "unheard");
}

TEST_MAIN("log", NULL, NULL)
