/* Helper threads leave signals to the main thread, and conditions use the monotonic clock. */
#include "test.h"
#include <dirent.h>
#include <errno.h>
#include <float.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include "base/clock.h"
#include "device/device.h"
#include "base/writer.h"
#include "base/thread.h"

/* What Linux says of thread `id` of this process: does it block SIGTERM? */
static bool blocks_sigterm(const char *id) {
  char line[256];
  unsigned long long blocked = 0;
  bool found = false;
  const char *path = text_of("/proc/self/task/%s/status", id);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (!found && fgets(line, sizeof line, f)) found = sscanf(line, "SigBlk: %llx", &blocked) == 1;
  fclose(f);
  assert_true(found);
  return blocked >> (SIGTERM - 1) & 1;
}

static void do_nothing(const kernel_args *args, int part, int parts) {
  (void)args, (void)part, (void)parts;
}
static int write_nothing(writer_job *job, error *e) {
  (void)job, (void)e;
  return 0;
}
static void forget(writer_job *job, bool written) {
  (void)job, (void)written;
}

/* Gives every helper some work: a thread blocks all signals until it really runs. */
static void busy_all(device *dev, writer *writer) {
  static const kernel nothing = {.name = "nothing", .backend = BACKEND_HOST, .host = do_nothing};
  const kernel_args args = {.z_end = 1};
  writer_job job = {.write = write_nothing, .done = forget};
  for (int stream = 0; stream < STREAM_COUNT; stream++) {
    OK(dev->table->launch(dev, stream, &nothing, &args, &E));
    OK(dev->table->sync(dev, stream, &E));
  }
  writer_push(writer, &job);
  OK(writer_drain(writer, &E));
}

/* The first test, because it looks at all threads: one of an earlier test might just be ending. */
TEST(every_helper_leaves_signals_alone) {
  int helpers = 0;
  device *dev;
  writer *writer;
  const device_options options = {.local_ranks = 1, .threads = 3};
  OK(device_open_host(&options, &dev, &E));
  OK(writer_open(&writer, &E));
  busy_all(dev, writer);
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  for (struct dirent *task; (task = readdir(tasks));) {
    if (task->d_name[0] == '.') continue;
    const bool main_thread = atoi(task->d_name) == getpid();
    assert_int_equal(blocks_sigterm(task->d_name), !main_thread);
    helpers += !main_thread;
  }
  closedir(tasks);
  assert_true(helpers >= 4); /* the writer; of each stream, its own thread at least */
  writer_close(writer);
  dev->table->close(dev);
}

static void *read_mask(void *mask) {
  pthread_sigmask(SIG_SETMASK, NULL, mask);
  return NULL;
}

TEST(faults_alone_are_taken) {
  static const int left_alone[] = {SIGTERM, SIGINT, SIGUSR1, SIGALRM},
                   taken[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
  pthread_t thread;
  sigset_t mine, its;
  assert_int_equal(thread_start(&thread, read_mask, &its), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_sigmask(SIG_SETMASK, NULL, &mine);
  for (int i = 0; i < COUNT(left_alone); i++) {
    assert_int_equal(sigismember(&its, left_alone[i]), 1);
    assert_int_equal(sigismember(&mine, left_alone[i]), 0);
  }
  for (int i = 0; i < COUNT(taken); i++) assert_int_equal(sigismember(&its, taken[i]), 0);
}

/* Do subnormal numbers count as 0 in this thread, as operands and as results? */
static bool flushes(void) {
  const uint32_t below = 0x007FFFFF; /* the greatest subnormal number */
  float subnormal;
  memcpy(&subnormal, &below, sizeof subnormal);
  volatile float operand = subnormal, result = FLT_MIN, half = 0.5f;
  operand = operand / FLT_MIN, result = result * half;
  return result == 0 && operand == 0;
}

static void *read_flushes(void *does) {
  *(bool *)does = flushes();
  return NULL;
}

TEST(subnormals_count_as_zero) {
  pthread_t thread;
  bool does = false;
  assert_false(flushes());
  assert_int_equal(thread_start(&thread, read_flushes, &does), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(does);
  assert_false(flushes()); /* whoever starts a thread keeps its own mode */
}

typedef struct shared_work {
  atomic_int threads, flush; /* that were here; that flush */
} shared_work;

static void *count_flushes(void *argument) {
  shared_work *w = argument;
  atomic_fetch_add(&w->threads, 1);
  atomic_fetch_add(&w->flush, flushes());
  return NULL;
}

/* So bits do not depend on who does what. */
TEST(shared_work_counts_subnormals_as_zero_on_every_thread) {
  shared_work w = {0, 0};
  thread_run(3, count_flushes, &w);
  assert_int_equal(w.threads, 3);
  assert_int_equal(w.flush, 3);
  assert_false(flushes());
}

typedef struct promise {
  pthread_mutex_t mutex;
  pthread_cond_t kept;
  bool done;
} promise;

static void *keep(void *argument) {
  promise *p = argument;
  pthread_mutex_lock(&p->mutex);
  p->done = true;
  pthread_cond_signal(&p->kept);
  pthread_mutex_unlock(&p->mutex);
  return NULL;
}

/* On the clock of the day, the latest time to wait for would be long past. */
TEST(conditions_keep_to_the_clock) {
  promise p = {.mutex = PTHREAD_MUTEX_INITIALIZER};
  pthread_t thread;
  int rc = 0;
  condition_init(&p.kept);
  pthread_mutex_lock(&p.mutex);
  assert_int_equal(condition_wait(&p.kept, &p.mutex, clock_seconds() - 0.75), ETIMEDOUT);
  assert_int_equal(thread_start(&thread, keep, &p), 0);
  while (!p.done && !rc) rc = condition_wait(&p.kept, &p.mutex, clock_seconds() + 1000.75);
  pthread_mutex_unlock(&p.mutex);
  assert_int_equal(rc, 0);
  assert_true(p.done);
  pthread_join(thread, NULL);
  pthread_cond_destroy(&p.kept);
}

TEST_MAIN("thread", NULL, NULL)
