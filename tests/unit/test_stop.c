/* Signals that end a run, on a clock of the test's own: the first one stops the run, others at the same moment count as
 * one, and a later one ends the process. */
#include "test.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/stop.h"

static const double DAY = 86400;            /* s */
static volatile double clock_now;           /* s */
static volatile sig_atomic_t raised_within; /* a signal that arrives while the clock is read; 0: none does */

/* Everybody's, here: in place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *t) {
  (void)clock;
  const int number = raised_within;
  raised_within = 0;
  if (number) raise(number);
  t->tv_sec = (time_t)clock_now;
  t->tv_nsec = (long)(1e9 * (clock_now - (double)t->tv_sec));
  return 0;
}

/* Runs `life` in a process of its own and returns how it ended: by a signal, or with its exit code. */
static int in_a_child(int (*life)(void)) {
  int status;
  fflush(NULL);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    clock_now = 1000;
    stop_begin();
    _exit(life());
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int all_at_once(void) {
  for (int i = 0; i < 100; i++) {
    raise(SIGTERM);
    raise(SIGINT);
    raise(SIGUSR1);
    clock_now += 0.002;
  }
  return stop_signal();
}

static int one_within_the_handler_of_another(void) {
  raised_within = SIGINT;
  raise(SIGUSR1);
  return stop_signal();
}

static int together_after_a_month(void) {
  clock_now += 31 * DAY;
  return one_within_the_handler_of_another();
}

TEST(together_they_are_one_wish) {
  assert_int_equal(in_a_child(all_at_once), SIGTERM);
  assert_int_equal(in_a_child(one_within_the_handler_of_another), SIGUSR1);
  assert_int_equal(in_a_child(together_after_a_month), SIGUSR1);
}

static int again(double first, double second) {
  clock_now += first;
  raise(SIGTERM);
  clock_now += second;
  raise(SIGINT);
  return 0;
}

static int again_soon(void) {
  return again(5, 0.2);
}
static int again_later(void) {
  return again(5, 0.3);
}
static int again_after_a_month(void) {
  return again(31 * DAY, 0.3);
}
static int again_a_month_later(void) {
  return again(5, 31 * DAY);
}

TEST(a_later_one_ends_the_process) {
  assert_int_equal(in_a_child(again_soon), 0);
  assert_int_equal(in_a_child(again_later), -SIGINT);
  assert_int_equal(in_a_child(again_after_a_month), -SIGINT);
  assert_int_equal(in_a_child(again_a_month_later), -SIGINT);
}

static int handlers_run_alone(void) {
  struct sigaction action;
  for (const int *number = (const int[]){SIGTERM, SIGINT, SIGUSR1, 0}; *number; number++)
    if (sigaction(*number, NULL, &action) || sigismember(&action.sa_mask, SIGTERM) != 1 ||
        sigismember(&action.sa_mask, SIGINT) != 1 || sigismember(&action.sa_mask, SIGUSR1) != 1 ||
        sigismember(&action.sa_mask, SIGCHLD) != 1)
      return 1;
  return 0;
}

TEST(nothing_interrupts_a_handler) {
  assert_int_equal(in_a_child(handlers_run_alone), 0);
}

static int said; /* descriptor on which a child answers */

static int answer_one(void) {
  stop_answer(said);
  raise(SIGINT);
  raise(SIGTERM);
  return stop_answered() ? 0 : 1;
}

static int answer_what_came_before(void) {
  raise(SIGUSR1);
  stop_answer(said);
  return 0;
}

static int answer_at_the_end(void) {
  stop_answer(said);
  stop_close(&(stop_watch){.reducing = false}, &(error){0});
  raise(SIGTERM);
  return 0;
}

static int answer_nothing(void) {
  stop_answer(said);
  if (stop_answered()) return 1;
  raise(SIGTERM);
  return 0;
}

static void assert_answer(int (*life)(void), const char *expected) {
  char text[512] = "";
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  said = ends[1];
  assert_int_equal(in_a_child(life), 0);
  close(ends[1]);
  assert_int_equal(read(ends[0], text, sizeof text - 1), strlen(expected));
  assert_string_equal(text, expected);
  close(ends[0]);
}

/* The number of the step is seen in tests/e2e/output.py. */
TEST(the_first_one_is_answered) {
  assert_answer(answer_one, "SIGINT received: writing a checkpoint after the first step or soon after it\n");
  assert_answer(answer_what_came_before,
                "SIGUSR1 received: writing a checkpoint after the first step or soon after it\n");
  assert_answer(answer_at_the_end,
                "SIGTERM received: all steps are done, the run ends when its files are written\n");
  assert_answer(answer_nothing, "");
}

TEST_MAIN("stop", NULL, NULL)
