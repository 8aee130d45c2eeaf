#include "stop.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "clock.h"
#include "error_mpi.h"
#include "launcher.h"
#include "log.h"

/* Steps during which a reduction runs in the background; one long step suffices. */
enum { LAG_LONG = 1, LAG_SHORT = 4 };
static const double SHORT_STEP = 1e-3; /* s */
static const double PERIOD = 0.2;      /* s between reductions */
/* The steps between reductions grow at most by this factor, since the host runs ahead of the device and times of few
 * steps are unreliable. */
static const double GROWTH = 4;
static const double MARGIN = 1.5; /* a checkpoint may take longer than the last one */

static const struct {
  int number;
  const char *name;
} SIGNALS[] = {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}};
enum { SIGNAL_COUNT = sizeof SIGNALS / sizeof *SIGNALS };

/* Ctrl-C reaches the ranks and mpirun, which then sends another signal, as schedulers do. So signals within a moment
 * count as one. */
static const int64_t MOMENT = 250000000; /* ns */

/* These are static, since a signal handler can reach nothing else. Two handlers may run at once, one in a thread of
 * MPI: an atomic exchange of `stop_caught_at` decides which signal came first. */
static _Atomic int64_t stop_caught_at; /* clock, ns; 0: none was caught */
static _Atomic int stop_caught;        /* number of the caught signal; 0: none */
static double stop_clock_begin;

/* The answer to a signal is prepared, except for the number of the step. */
enum { NO_STEP = -1, NO_STEPS_LEFT = -2, NOTHING_SAVED = -3 };
static const char *_Atomic stop_says; /* the text of stop_say; NULL: none */
static _Atomic bool stop_done_answering = true;
static _Atomic int64_t stop_next;           /* the step under way, or a value of the enum */
static volatile sig_atomic_t stop_terminal; /* where the answer goes */
static volatile sig_atomic_t stop_mpirun;   /* process id of the mpirun above this process; 0: none */
static char stop_limits[2][256];            /* texts about mpirun's signals: one to read, one to write */
static _Atomic int stop_limit;              /* index of the text to read */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "for signal handlers");

int stop_signal(void) {
  return stop_caught;
}

double stop_clock(void) {
  return clock_seconds() - stop_clock_begin;
}

const char *stop_signal_name(int number) {
  for (int i = 0; i < SIGNAL_COUNT; i++)
    if (SIGNALS[i].number == number) return SIGNALS[i].name;
  return "a signal";
}

/* Appends what fits to a line of `size` characters: signal handlers may not call snprintf. */
static size_t stop_put(char *line, size_t used, size_t size, const char *text) {
  while (*text && used < size) line[used++] = *text++;
  return used;
}

static const char *stop_digits(char text[24], int64_t number) {
  char *at = text + 23;
  *at = '\0';
  do *--at = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  return at;
}

/* Writes the answer to a signal, once. Async-signal-safe. */
static void stop_speak(int number, bool from_mpirun) {
  char line[400], digits[24];
  const size_t size = sizeof line - 1;
  const int64_t next = stop_next;
  if (atomic_exchange(&stop_done_answering, true)) return;
  size_t used = stop_put(line, 0, size, stop_signal_name(number));
  const char *says = stop_says;
  if (says) {
    used = stop_put(line, used, size, " received: ");
    used = stop_put(line, used, size, says);
  } else if (next == NOTHING_SAVED) {
    used = stop_put(line, used, size, " received: there is nothing to save, the program ends");
  } else if (next == NO_STEPS_LEFT) {
    used =
        stop_put(line, used, size, " received: all steps are done, the run ends when its files are written");
  } else {
    used = stop_put(line, used, size, " received: writing a checkpoint after ");
    used = stop_put(line, used, size, next < 0 ? "the first step" : "step ");
    if (next >= 0) used = stop_put(line, used, size, stop_digits(digits, next));
    used = stop_put(line, used, size, " or soon after it"); /* after it: when all ranks know */
    if (from_mpirun) used = stop_put(line, used, size, stop_limits[stop_limit]);
  }
  line[used++] = '\n';
  log_write_at_once(stop_terminal, line, used);
}

static void stop_end_by(int number) {
  signal(number, SIG_DFL);
  raise(number); /* in a handler: the signal is taken when the handler returns */
}

static void stop_on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  int64_t first = 0;
  if (atomic_compare_exchange_strong(&stop_caught_at, &first, at)) {
    const int error_before = errno;
    stop_caught = number;
    stop_speak(number, number != SIGUSR1 && stop_mpirun && info->si_pid == stop_mpirun);
    if (stop_next == NOTHING_SAVED) stop_end_by(number);
    errno = error_before;
  } else if (at - first >= MOMENT) {
    stop_end_by(number);
  }
}

void stop_begin(void) {
  struct sigaction action = {.sa_sigaction = stop_on_signal, .sa_flags = SA_RESTART | SA_SIGINFO};
  sigfillset(&action.sa_mask); /* nothing interrupts the handler */
  stop_clock_begin = clock_seconds();
  stop_caught = 0;
  stop_caught_at = 0;
  stop_next = NO_STEP;
  for (int i = 0; i < SIGNAL_COUNT; i++) sigaction(SIGNALS[i].number, &action, NULL);
}

/* Prepares the text about a signal from mpirun. After a while mpirun kills its ranks, unless the signal was SIGUSR1,
 * which mpirun only passes on. `reserve`: s that a checkpoint may take. */
static void stop_prepare(double reserve) {
  if (!stop_mpirun || stop_says) return;
  const int other = !stop_limit;
  const double patience = launcher_patience();
  char takes[64] = "";
  if (reserve > patience) snprintf(takes, sizeof takes, ", and a checkpoint may take %.1f s", reserve);
  snprintf(stop_limits[other], sizeof stop_limits[other],
           "; mpirun kills its ranks in %g s%s. To stop without that limit: kill -USR1 %d", patience, takes,
           (int)stop_mpirun);
  stop_limit = other;
}

void stop_answer(int descriptor) {
  stop_terminal = descriptor;
  stop_mpirun = (int)launcher_mpirun();
  stop_prepare(0);
  stop_done_answering = false;
  if (stop_caught) stop_speak(stop_caught, false);
}

void stop_at_once(int descriptor) {
  stop_next = NOTHING_SAVED;
  stop_terminal = descriptor;
  stop_done_answering = descriptor < 0;
  if (!stop_caught) return;
  stop_speak(stop_caught, false);
  stop_end_by(stop_caught);
}

bool stop_answered(void) {
  return atomic_exchange(&stop_done_answering, true);
}

/* When Slurm ends the job, s since stop_begin; INFINITY: Slurm does not say. Its variable counts seconds since 1970. */
static double stop_slurm_end(void) {
  const char *text = getenv("SLURM_JOB_END_TIME");
  char *end;
  double at = text ? strtod(text, &end) : 0;
  if (!text || end == text || *end || !(at > 0)) return INFINITY;
  return stop_clock() + at - (double)time(NULL);
}

bool stop_stale(void) {
  return stop_slurm_end() <= 0;
}

double stop_ends(double most) {
  return fmin(most > 0 ? most : INFINITY, stop_stale() ? INFINITY : stop_slurm_end());
}

const char *stop_wall_time(double most) {
  const bool slurm = most <= 0 || (!stop_stale() && stop_slurm_end() < most);
  return slurm ? "the wall time runs out (SLURM_JOB_END_TIME)"
               : "the wall time runs out ([time] max_seconds)";
}

void stop_say(const char *text) {
  stop_says = text;
}

/* Sets stop_next, unless it is NOTHING_SAVED. */
static void stop_is_at(int64_t next) {
  if (stop_next != NOTHING_SAVED) stop_next = next;
}

int stop_open(stop_watch *w, MPI_Comm comm, stop_times times, int64_t step, error *e) {
  *w = (stop_watch){.comm = comm,
                    .checkpoint_every = times.checkpoint_every,
                    .reserve = times.reserve,
                    .request = MPI_REQUEST_NULL};
  double clock = stop_clock();
  w->deaf = times.deaf;
  w->limit = stop_ends(times.most);
  MPI_TRY(e, mpi_reduce_all(&w->limit, 1, MPI_DOUBLE, MPI_MIN, comm));
  MPI_TRY(e, mpi_reduce_all(&clock, 1, MPI_DOUBLE, MPI_MAX, comm));
  w->checkpointed = w->known = clock;
  w->known_step = step;
  w->reduce_at = step + 1;
  w->lag = LAG_LONG;
  stop_is_at(step + 1);
  stop_prepare(times.reserve);
  return 0;
}

static int stop_reduce(stop_watch *w, int64_t step, error *e) {
  const int heard = w->heard ? w->heard(w->context) : 0;
  w->mine[0] = heard ? heard : stop_caught;
  w->mine[1] = stop_clock();
  w->mine[2] = w->trouble;
  int ranks;
  MPI_TRY(e, MPI_Comm_size(w->comm, &ranks));
  memcpy(w->all, w->mine, sizeof w->all);
  if (ranks > 1) /* a rank alone may have several shots under way */
    MPI_TRY(e, MPI_Iallreduce(w->mine, w->all, 3, MPI_DOUBLE, MPI_MAX, w->comm, &w->request));
  w->reducing = true;
  w->take_at = step + w->lag;
  return 0;
}

/* Plans the next reduction by the time that steps take. Returns the seconds until its result. */
static double stop_plan_next(stop_watch *w, int64_t step) {
  const int64_t since = step - w->known_step;
  const double a_step = (w->all[1] - w->known) / (double)since, most = GROWTH * (double)since;
  double steps = a_step > 0 ? PERIOD / a_step : 1;
  w->reduce_at = step + (steps < 1 ? 1 : steps > most ? (int64_t)most : (int64_t)steps);
  w->known = w->all[1];
  w->known_step = step;
  w->lag = a_step < SHORT_STEP ? LAG_SHORT : LAG_LONG;
  return a_step * (double)(w->reduce_at - step + 2 * w->lag); /* until the next answer */
}

int stop_poll(stop_watch *w, int64_t step, enum stop_reason *reason, bool *checkpoint, error *e) {
  *reason = STOP_NOT;
  *checkpoint = false;
  stop_is_at(step + 1);
  if (!w->reducing) return step >= w->reduce_at ? stop_reduce(w, step, e) : 0;
  if (step < w->take_at) return 0;
  w->reducing = false;
  MPI_TRY(e, MPI_Wait(&w->request, MPI_STATUS_IGNORE));
  double clock = w->all[1], until_next = stop_plan_next(w, step);
  w->signal = w->deaf ? 0 : (int)w->all[0];
  if (w->all[2] > 0) {
    *reason = STOP_TROUBLE;
  } else if (w->signal) {
    *reason = STOP_SIGNAL;
  } else if (!w->deaf && clock + until_next + MARGIN * w->reserve + PERIOD >= w->limit) {
    *reason = STOP_WALL_TIME;
  } else if (w->checkpoint_every > 0 && clock - w->checkpointed >= w->checkpoint_every) {
    *checkpoint = true;
    w->checkpointed = clock;
  }
  return 0;
}

int stop_checkpointed(stop_watch *w, double seconds, error *e) {
  w->reserve = seconds;
  MPI_TRY(e, mpi_reduce_all(&w->reserve, 1, MPI_DOUBLE, MPI_MAX, w->comm));
  stop_prepare(w->reserve);
  return 0;
}

int stop_close(stop_watch *w, error *e) {
  stop_is_at(NO_STEPS_LEFT);
  if (w->reducing) MPI_TRY(e, MPI_Wait(&w->request, MPI_STATUS_IGNORE));
  w->reducing = false;
  return 0;
}
