#include "watchdog.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error_mpi.h"
#include "halo/shared_memory.h"
#include "base/thread.h"

/* The state of a rank, which the others of its node read. A cache line. */
typedef struct watchdog_rank {
  _Atomic int64_t step;
  _Atomic int doing;      /* enum watch_doing */
  _Atomic uint32_t marks; /* calls of watchdog_mark */
  _Atomic uint32_t beat;  /* rounds of its thread: constant while the process is stopped */
  _Atomic uint32_t ran;   /* rounds in which its main thread had run: constant while that thread sleeps */
  _Atomic int closed;     /* the rank no longer watches */
  _Atomic int spoken;     /* of the node's first rank: a rank of the node has written the message */
  int rank;               /* number in the run */
  char padding[28];
} watchdog_rank;
_Static_assert(sizeof(watchdog_rank) == 64, "a cache line");

/* This rank's latest view of another. */
typedef struct seen {
  uint32_t marks, beat, ran;
  double marked_at, beat_at, ran_at; /* watchdog time of the latest change of each */
} seen;

struct watchdog {
  watchdog_rank *mine, **all; /* in the window; all: by rank of the node, the list is owned */
  seen *seen;                 /* by rank of the node; owned */
  int count, ranks;           /* ranks of the node, ranks in all */
  MPI_Comm node;
  MPI_Win window;
  double limit, period; /* s */
  double time;          /* s that this thread has watched, without those in which this process was stopped */
  clockid_t main_clock; /* processor time of the thread that opened the watchdog */
  double main_time;     /* main_clock in the last round, s */
  double noticed;       /* watchdog time of the first round that found a rank late; < 0: none */
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  bool running, stop; /* stop: under the mutex */
};

/* --- who is late ------------------------------------------------------------------------------------------------ */

/* Has nothing changed since watchdog time `since`, for half the limit? That alone makes no rank late. */
static bool watchdog_missing(const watchdog *w, double since) {
  return w->time - since > w->limit / 2 && w->time - since > 2 * w->period;
}

static bool watchdog_faint(const watchdog *w, int i) {
  return watchdog_missing(w, w->seen[i].beat_at);
}

/* Does rank i's main thread sleep? Then it waits for the device or the system: in MPI it would poll. */
static bool watchdog_asleep(const watchdog *w, int i) {
  return watchdog_missing(w, w->seen[i].ran_at);
}

static bool watchdog_late(const watchdog *w, int i) {
  const bool watched = atomic_load(&w->all[i]->doing) != WATCH_NOT, open = !atomic_load(&w->all[i]->closed);
  return (open && w->time - w->seen[i].beat_at > w->limit) ||
         (watched && w->time - w->seen[i].marked_at > w->limit);
}

static void watchdog_look(watchdog *w) {
  for (int i = 0; i < w->count; i++) {
    const uint32_t marks = atomic_load(&w->all[i]->marks), beat = atomic_load(&w->all[i]->beat),
                   ran = atomic_load(&w->all[i]->ran);
    seen *s = &w->seen[i];
    if (marks != s->marks) s->marked_at = w->time;
    if (beat != s->beat) s->beat_at = w->time;
    if (ran != s->ran) s->ran_at = w->time;
    s->marks = marks;
    s->beat = beat;
    s->ran = ran;
  }
}

/* Is rank i the cause, rather than rank k? First comes a stopped process; then the rank with fewer steps, since those
 * ahead have sent it all that it needs; then one that computes; then one that sleeps. */
static bool watchdog_rather(const watchdog *w, int i, int k) {
  const watchdog_rank *a = w->all[i], *b = w->all[k];
  const int doing[2] = {atomic_load(&a->doing), atomic_load(&b->doing)};
  if (watchdog_faint(w, i) != watchdog_faint(w, k)) return watchdog_faint(w, i);
  const int64_t step[2] = {atomic_load(&a->step), atomic_load(&b->step)};
  if (step[0] != step[1]) return step[0] < step[1];
  if (doing[0] != doing[1]) return doing[0] < doing[1];
  return watchdog_asleep(w, i) && !watchdog_asleep(w, k);
}

/* The late rank of this node that is the cause; -1: no rank is late. */
static int watchdog_latest(const watchdog *w) {
  int found = -1;
  for (int i = 0; i < w->count; i++)
    if (watchdog_late(w, i) && (found < 0 || watchdog_rather(w, i, found))) found = i;
  return found;
}

/* --- speaking --------------------------------------------------------------------------------------------------- */

static const char *watchdog_words(const watchdog *w, int i) {
  static const char *const words[] = {"computing", "checking the field", "waiting in the exchange",
                                      "waiting for the other ranks", "saving"};
  return watchdog_faint(w, i) ? "its process does not run" : words[atomic_load(&w->all[i]->doing)];
}

/* Seconds to wait before writing the message. Where the late rank only waits, the node of the rank it waits for must
 * write first. The node with the lowest rank writes first, and the launcher then ends the others. */
static double watchdog_patience(const watchdog *w, int i) {
  const int first = w->all[0]->rank, doing = atomic_load(&w->all[i]->doing);
  const bool waits = !watchdog_faint(w, i) && (doing == WATCH_EXCHANGE || doing == WATCH_AGREE);
  return (waits && w->count < w->ranks ? 2 : 0) + 0.1 * (first < 20 ? first : 20);
}

static void watchdog_speak(watchdog *w, int i) {
  error e = {0};
  /* another rank has written the message and ends the job */
  if (atomic_exchange(&w->all[0]->spoken, 1)) return;
  FAIL(&e, WATCHDOG, w->all[i]->rank, atomic_load(&w->all[i]->step) + 1, w->limit, watchdog_words(w, i));
  thread_end_process(&e);
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

/* Sleeps for a period; false at watchdog_close. Time in which this process was stopped does not count. */
static bool watchdog_nap(watchdog *w) {
  const double begin = clock_seconds();
  pthread_mutex_lock(&w->mutex);
  while (!w->stop && condition_wait(&w->wake, &w->mutex, begin + w->period) == 0) continue;
  const bool stop = w->stop;
  pthread_mutex_unlock(&w->mutex);
  const double passed = clock_seconds() - begin;
  w->time += passed < 2 * w->period ? passed : 2 * w->period;
  return !stop;
}

/* Records that this process runs, and whether its main thread does. */
static void watchdog_show_life(watchdog *w) {
  const double time = clock_read(w->main_clock);
  atomic_fetch_add(&w->mine->beat, 1);
  if (time > w->main_time) atomic_fetch_add(&w->mine->ran, 1);
  w->main_time = time;
}

static void *watchdog_main(void *context) {
  watchdog *w = context;
  while (watchdog_nap(w)) {
    watchdog_show_life(w);
    watchdog_look(w);
    const int i = watchdog_latest(w);
    if (i < 0)
      w->noticed = -1;
    else if (w->noticed < 0)
      w->noticed = w->time;
    if (i >= 0 && w->time - w->noticed >= watchdog_patience(w, i)) watchdog_speak(w, i);
  }
  return NULL;
}

static int watchdog_start(watchdog *w, error *e) {
  pthread_mutex_init(&w->mutex, NULL);
  condition_init(&w->wake);
  pthread_getcpuclockid(pthread_self(), &w->main_clock);
  const int rc = thread_start(&w->thread, watchdog_main, w);
  w->running = rc == 0;
  return rc ? FAIL(e, WATCHDOG_THREAD, strerror(rc)) : 0;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

/* Opens the memory that all ranks of the node see. */
static int watchdog_exchange(watchdog *w, MPI_Comm comm, int64_t step, error *e) {
  int rank, of_run; /* the rank in the run, which messages name: `comm` may be of a survey's group */
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  MPI_TRY(e, MPI_Comm_rank(MPI_COMM_WORLD, &of_run));
  MPI_TRY(e, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &w->node));
  MPI_TRY(e, MPI_Comm_set_errhandler(w->node, MPI_ERRORS_RETURN));
  MPI_TRY(e, MPI_Comm_size(w->node, &w->count));
  MPI_TRY(e, MPI_Comm_size(comm, &w->ranks));
  TRY(shared_window(w->node, sizeof *w->mine, (void **)&w->mine, &w->window, e));
  *w->mine = (watchdog_rank){.step = step, .doing = WATCH_NOT, .rank = of_run};
  MPI_TRY(e, MPI_Barrier(w->node));
  TRY(ALLOC(e, w->all, w->count, "the watchdog"));
  TRY(ALLOC(e, w->seen, w->count, "the watchdog"));
  for (int i = 0; i < w->count; i++) TRY(shared_window_of(w->window, i, (void **)&w->all[i], e));
  return 0;
}

int watchdog_open(watchdog **opened, MPI_Comm comm, double seconds, int64_t step, error *e) {
  const double LONGEST = 1; /* s between two rounds */
  *opened = NULL;
  if (seconds <= 0) return 0;
  ALLOC(e, *opened, 1, "the watchdog");
  TRY(error_agree(e, comm));
  watchdog *w = *opened;
  *w = (watchdog){.limit = seconds, .noticed = -1, .node = MPI_COMM_NULL, .window = MPI_WIN_NULL};
  w->period = seconds / 8 < LONGEST ? seconds / 8 : LONGEST;
  watchdog_exchange(w, comm, step, e);
  TRY(error_agree(e, comm)); /* the thread must not read before all ranks have written their number */
  watchdog_start(w, e);
  return error_agree(e, comm);
}

void watchdog_mark(watchdog *w, enum watch_doing doing, int64_t step) {
  if (!w) return;
  atomic_store_explicit(&w->mine->step, step, memory_order_relaxed);
  atomic_store_explicit(&w->mine->doing, (int)doing, memory_order_relaxed);
  atomic_fetch_add_explicit(&w->mine->marks, 1, memory_order_release);
}

static void watchdog_stop_thread(watchdog *w) {
  if (!w->running) return;
  pthread_mutex_lock(&w->mutex);
  w->stop = true;
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->mutex);
  pthread_join(w->thread, NULL);
  pthread_cond_destroy(&w->wake);
  pthread_mutex_destroy(&w->mutex);
}

void watchdog_close(watchdog **closed) {
  watchdog *w = *closed;
  *closed = NULL;
  if (!w) return;
  if (w->mine) {
    atomic_store(&w->mine->doing, WATCH_NOT);
    atomic_store(&w->mine->closed, 1);
  }
  watchdog_stop_thread(w);
  if (w->window != MPI_WIN_NULL) MPI_Win_free(&w->window);
  if (w->node != MPI_COMM_NULL) MPI_Comm_free(&w->node);
  free(w->all);
  free(w->seen);
  free(w);
}
