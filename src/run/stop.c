#include "stop.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include "base/clock.h"
#include "base/error_mpi.h"

/* Steps that a reduction has to run in the background: long ones give it time enough. */
enum { LAG_LONG = 1, LAG_SHORT = 4 };
static const double SHORT_STEP = 1e-3; /* s */
static const double PERIOD = 0.2;      /* s between reductions */
/* The host runs ahead of the device: what a few steps took says little of what many will. So the steps between
 * reductions grow at most by this factor each time. */
static const double GROWTH = 4;
static const double MARGIN = 1.5; /* a checkpoint may take longer than the last one */

static const int SIGNALS[] = {SIGTERM, SIGINT, SIGUSR1};
enum { SIGNAL_COUNT = sizeof SIGNALS / sizeof *SIGNALS };

/* A signal handler can reach nothing but what is static. */
static volatile sig_atomic_t caught;
static struct sigaction before[SIGNAL_COUNT];
static double clock_begin;

/* Ctrl-C reaches the ranks and mpirun, which then sends a signal of its own; schedulers do likewise. What comes within
 * a moment is one wish. */
static volatile sig_atomic_t caught_at; /* ms since stop_begin */
enum { MOMENT = 250 };

int stop_signal(void) {
  return caught;
}

double stop_clock(void) {
  return clock_seconds() - clock_begin;
}

static void on_signal(int number) {
  const sig_atomic_t at = (sig_atomic_t)(1e3 * stop_clock());
  if (!caught) {
    caught = number;
    caught_at = at;
    return;
  }
  if (at - caught_at < MOMENT) return;
  signal(number, SIG_DFL);
  raise(number);
}

void stop_begin(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  clock_begin = clock_seconds();
  caught = 0;
  for (int i = 0; i < SIGNAL_COUNT; i++) sigaction(SIGNALS[i], &action, &before[i]);
}

void stop_end(void) {
  for (int i = 0; i < SIGNAL_COUNT; i++) sigaction(SIGNALS[i], &before[i], NULL);
}

/* When the job ends, s since stop_begin, as Slurm says in seconds since 1970. */
static double slurm_limit(void) {
  const char *text = getenv("SLURM_JOB_END_TIME");
  char *end;
  double at = text ? strtod(text, &end) : 0;
  if (!text || end == text || *end || !(at > 0)) return INFINITY;
  return stop_clock() + at - (double)time(NULL);
}

int stop_open(stop_watch *w, MPI_Comm comm, double max_seconds, double checkpoint_every, double reserve,
              int64_t step, error *e) {
  *w = (stop_watch){
      .comm = comm, .checkpoint_every = checkpoint_every, .reserve = reserve, .request = MPI_REQUEST_NULL};
  double limits[2] = {max_seconds > 0 ? max_seconds : INFINITY, slurm_limit()}, clock = stop_clock();
  w->limit = limits[0] < limits[1] ? limits[0] : limits[1];
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &w->limit, 1, MPI_DOUBLE, MPI_MIN, comm));
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &clock, 1, MPI_DOUBLE, MPI_MAX, comm));
  w->checkpointed = w->known = clock;
  w->known_step = step;
  w->ask_at = step + 1;
  w->lag = LAG_LONG;
  return 0;
}

static int ask(stop_watch *w, int64_t step, error *e) {
  const int heard = w->heard ? w->heard(w->context) : 0;
  w->mine[0] = heard ? heard : caught;
  w->mine[1] = stop_clock();
  w->mine[2] = w->trouble;
  MPI_TRY(e, MPI_Iallreduce(w->mine, w->all, 3, MPI_DOUBLE, MPI_MAX, w->comm, &w->request));
  w->asked = true;
  w->take_at = step + w->lag;
  return 0;
}

/* How long the steps take decides how many of them pass until the next question. */
static double plan_next(stop_watch *w, int64_t step) {
  const int64_t since = step - w->known_step;
  const double a_step = (w->all[1] - w->known) / (double)since, most = GROWTH * (double)since;
  double steps = a_step > 0 ? PERIOD / a_step : 1;
  w->ask_at = step + (steps < 1 ? 1 : steps > most ? (int64_t)most : (int64_t)steps);
  w->known = w->all[1];
  w->known_step = step;
  w->lag = a_step < SHORT_STEP ? LAG_SHORT : LAG_LONG;
  return a_step * (double)(w->ask_at - step + 2 * w->lag); /* until the next answer */
}

int stop_poll(stop_watch *w, int64_t step, enum stop_reason *reason, bool *checkpoint, error *e) {
  *reason = STOP_NOT;
  *checkpoint = false;
  if (!w->asked) return step >= w->ask_at ? ask(w, step, e) : 0;
  if (step < w->take_at) return 0;
  w->asked = false;
  MPI_TRY(e, MPI_Wait(&w->request, MPI_STATUS_IGNORE));
  double clock = w->all[1], until_next = plan_next(w, step);
  w->signal = (int)w->all[0];
  if (w->all[2] > 0) {
    *reason = STOP_TROUBLE;
  } else if (w->signal) {
    *reason = STOP_SIGNAL;
  } else if (clock + until_next + MARGIN * w->reserve + PERIOD >= w->limit) {
    *reason = STOP_WALL_TIME;
  } else if (w->checkpoint_every > 0 && clock - w->checkpointed >= w->checkpoint_every) {
    *checkpoint = true;
    w->checkpointed = clock;
  }
  return 0;
}

int stop_checkpointed(stop_watch *w, double seconds, error *e) {
  MPI_TRY(e, MPI_Allreduce(&seconds, &w->reserve, 1, MPI_DOUBLE, MPI_MAX, w->comm));
  return 0;
}

int stop_close(stop_watch *w, error *e) {
  if (w->asked) MPI_TRY(e, MPI_Wait(&w->request, MPI_STATUS_IGNORE));
  w->asked = false;
  return 0;
}
