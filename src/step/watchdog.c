#include "watchdog.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error_mpi.h"
#include "halo/node_window.h"
#include "base/thread.h"

/* What a rank tells the others of its node; a cache line of its own. */
typedef struct rank_state {
  _Atomic int64_t step;
  _Atomic int doing;     /* enum watch_doing */
  _Atomic uint32_t told; /* times that it has told something */
  _Atomic uint32_t beat; /* times that its thread has looked: stands still where the process does not run */
  _Atomic uint32_t ran;  /* looks before which its main thread had run: not where that is stuck or asleep */
  _Atomic int closed;    /* it watches no more */
  _Atomic int spoken;    /* of the first rank: somebody of this node has written the message */
  int rank;              /* in the run */
  char padding[28];
} rank_state;
_Static_assert(sizeof(rank_state) == 64, "a cache line");

/* What this rank has seen of another. */
typedef struct seen {
  uint32_t told, beat, ran;
  double told_at, beat_at, ran_at; /* watchdog time: when it changed */
} seen;

struct watchdog {
  rank_state *mine, **all; /* in the window; all: by rank of the node; owned list */
  seen *seen;              /* by rank of the node; owned */
  int count, ranks;        /* of the node, of the run */
  MPI_Comm node;
  MPI_Win window;
  double limit, period; /* s */
  double time;          /* s that this thread has watched; not while this process was stopped */
  clockid_t main_clock; /* processor time of the thread that opened this */
  double main_time;     /* s, at the last look */
  double noticed;       /* watchdog time of the first look that found a rank late; < 0: none */
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  bool running, stop; /* stop: under the mutex */
};

/* --- who is late ------------------------------------------------------------------------------------------------ */

static bool frozen(const watchdog *w, int i) {
  return !atomic_load(&w->all[i]->closed) && w->time - w->seen[i].beat_at > w->limit;
}

/* Something is missing since watchdog time `since`, but not for long enough to name a rank for that alone. */
static bool missing(const watchdog *w, double since) {
  return w->time - since > w->limit / 2 && w->time - since > 2 * w->period;
}

static bool faint(const watchdog *w, int i) {
  return missing(w, w->seen[i].beat_at);
}

/* Its main thread waits for the device or the system: MPI looks again and again. */
static bool asleep(const watchdog *w, int i) {
  return missing(w, w->seen[i].ran_at);
}

static bool late(const watchdog *w, int i) {
  const bool watched = atomic_load(&w->all[i]->doing) != WATCH_NOT;
  return frozen(w, i) || (watched && w->time - w->seen[i].told_at > w->limit);
}

static void look(watchdog *w) {
  for (int i = 0; i < w->count; i++) {
    const uint32_t told = atomic_load(&w->all[i]->told), beat = atomic_load(&w->all[i]->beat),
                   ran = atomic_load(&w->all[i]->ran);
    seen *s = &w->seen[i];
    if (told != s->told) s->told_at = w->time;
    if (beat != s->beat) s->beat_at = w->time;
    if (ran != s->ran) s->ran_at = w->time;
    s->told = told;
    s->beat = beat;
    s->ran = ran;
  }
}

/* Is it rank i that holds the others up, rather than rank k? A process that does not run comes first; then the rank that
 * is behind, for the others have all they needed from it; then one that computes; then one that does not look whether
 * something has come. */
static bool rather(const watchdog *w, int i, int k) {
  const rank_state *a = w->all[i], *b = w->all[k];
  const int doing[2] = {atomic_load(&a->doing), atomic_load(&b->doing)};
  if (faint(w, i) != faint(w, k)) return faint(w, i);
  const int64_t step[2] = {atomic_load(&a->step), atomic_load(&b->step)};
  if (step[0] != step[1]) return step[0] < step[1];
  if (doing[0] != doing[1]) return doing[0] < doing[1];
  return asleep(w, i) && !asleep(w, k);
}

/* The rank of this node that holds the job up; -1: none is late. */
static int latest(const watchdog *w) {
  int found = -1;
  for (int i = 0; i < w->count; i++)
    if (late(w, i) && (found < 0 || rather(w, i, found))) found = i;
  return found;
}

/* --- speaking --------------------------------------------------------------------------------------------------- */

static const char *describe(const watchdog *w, int i) {
  static const char *const words[] = {"computing", "checking the field", "waiting in the exchange",
                                      "waiting for the other ranks", "saving"};
  return faint(w, i) ? "its process does not run" : words[atomic_load(&w->all[i]->doing)];
}

/* Ranks that only wait leave the word for a moment to the node of the one they wait for; of several nodes the one with
 * the lowest rank speaks first, and the launcher then silences the others. */
static double patience(const watchdog *w, int i) {
  const int first = w->all[0]->rank, doing = atomic_load(&w->all[i]->doing);
  const bool waits = !faint(w, i) && (doing == WATCH_EXCHANGE || doing == WATCH_AGREE);
  return (waits && w->count < w->ranks ? 2 : 0) + 0.1 * (first < 20 ? first : 20);
}

static void speak(watchdog *w, int i) {
  error e = {0};
  if (atomic_exchange(&w->all[0]->spoken, 1)) return; /* another rank has, and ends the job */
  FAIL(&e, WATCHDOG, w->all[i]->rank, atomic_load(&w->all[i]->step) + 1, w->limit, describe(w, i));
  thread_end_process(&e);
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

/* Sleeps for a period, or until watchdog_close. Time in which this whole process was stopped does not count. */
static bool nap(watchdog *w) {
  const double begin = clock_seconds();
  pthread_mutex_lock(&w->mutex);
  while (!w->stop && condition_wait(&w->wake, &w->mutex, begin + w->period) == 0) continue;
  const bool stop = w->stop;
  pthread_mutex_unlock(&w->mutex);
  const double passed = clock_seconds() - begin;
  w->time += passed < 2 * w->period ? passed : 2 * w->period;
  return !stop;
}

/* That this process runs, and whether its main thread does. */
static void show_life(watchdog *w) {
  const double time = clock_read(w->main_clock);
  atomic_fetch_add(&w->mine->beat, 1);
  if (time > w->main_time) atomic_fetch_add(&w->mine->ran, 1);
  w->main_time = time;
}

static void *watch(void *context) {
  watchdog *w = context;
  while (nap(w)) {
    show_life(w);
    look(w);
    const int i = latest(w);
    if (i < 0)
      w->noticed = -1;
    else if (w->noticed < 0)
      w->noticed = w->time;
    if (i >= 0 && w->time - w->noticed >= patience(w, i)) speak(w, i);
  }
  return NULL;
}

static int start(watchdog *w, error *e) {
  pthread_mutex_init(&w->mutex, NULL);
  condition_init(&w->wake);
  pthread_getcpuclockid(pthread_self(), &w->main_clock);
  const int rc = thread_start(&w->thread, watch, w);
  w->running = rc == 0;
  return rc ? FAIL(e, WATCHDOG_THREAD, strerror(rc)) : 0;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

/* Memory that all ranks of the node see. */
static int share(watchdog *w, MPI_Comm comm, int64_t step, error *e) {
  int rank, unit;
  MPI_Aint bytes;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  MPI_TRY(e, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &w->node));
  MPI_TRY(e, MPI_Comm_set_errhandler(w->node, MPI_ERRORS_RETURN));
  MPI_TRY(e, MPI_Comm_size(w->node, &w->count));
  MPI_TRY(e, MPI_Comm_size(comm, &w->ranks));
  TRY(node_window(w->node, sizeof *w->mine, (void **)&w->mine, &w->window, e));
  *w->mine = (rank_state){.step = step, .doing = WATCH_NOT, .rank = rank};
  MPI_TRY(e, MPI_Barrier(w->node));
  w->all = calloc((size_t)w->count, sizeof *w->all);
  w->seen = calloc((size_t)w->count, sizeof *w->seen);
  if (!w->all || !w->seen) return FAIL(e, OUT_OF_MEMORY, (size_t)w->count * sizeof *w->seen, "the watchdog");
  for (int i = 0; i < w->count; i++)
    MPI_TRY(e, MPI_Win_shared_query(w->window, i, &bytes, &unit, &w->all[i]));
  return 0;
}

int watchdog_open(watchdog **opened, MPI_Comm comm, double seconds, int64_t step, error *e) {
  const double LONGEST = 1; /* s between two looks */
  *opened = NULL;
  if (seconds <= 0) return 0;
  watchdog *w = *opened = calloc(1, sizeof *w);
  if (!w) FAIL(e, OUT_OF_MEMORY, sizeof *w, "the watchdog");
  TRY(error_agree(e, comm));
  *w = (watchdog){.limit = seconds, .noticed = -1, .node = MPI_COMM_NULL, .window = MPI_WIN_NULL};
  w->period = seconds / 8 < LONGEST ? seconds / 8 : LONGEST;
  share(w, comm, step, e);
  TRY(error_agree(e, comm)); /* the thread must not look before all ranks have said who they are */
  start(w, e);
  return error_agree(e, comm);
}

void watchdog_tell(watchdog *w, enum watch_doing doing, int64_t step) {
  if (!w) return;
  atomic_store_explicit(&w->mine->step, step, memory_order_relaxed);
  atomic_store_explicit(&w->mine->doing, (int)doing, memory_order_relaxed);
  atomic_fetch_add_explicit(&w->mine->told, 1, memory_order_release);
}

static void stop(watchdog *w) {
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
  stop(w);
  if (w->window != MPI_WIN_NULL) MPI_Win_free(&w->window);
  if (w->node != MPI_COMM_NULL) MPI_Comm_free(&w->node);
  free(w->all);
  free(w->seen);
  free(w);
}
