#include "wavefront.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/numbers.h"
#include "physics/physics.h"
#include "step.h"
#include "tune.h"

/* --- a pass ------------------------------------------------------------------------------------------------------ */

/* Rows of a tile whose planes, from the first step's highest to the last step's lowest, fit the part of the L2 cache
 * that keeps data for reuse. */
static int wavefront_rows_in_l2(const kernel_args *a, int depth) {
  const double SHARE = 0.75, USUAL = 1 << 20; /* bytes, where the system does not say */
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const int between = GROUP * depth, planes = 2 * (between + 2 * RADIUS) + (a->medium[0] ? between : 0);
  const double row_bytes = planes * ((double)a->nx + 2 * RADIUS) * sizeof(float);
  return (int)(SHARE * (l2 > 0 ? (double)l2 : USUAL) / row_bytes) - 2 * RADIUS;
}

int wavefront_open(wavefront *w, const kernel_args *args, int depth, error *e) {
  *w = (wavefront){.threads = w->threads, .depth = depth, .cut = {.field = *args, .steps = depth}};
  /* There are as many chunks as threads, or fewer with a tile for each thread. */
  const int chunks = larger(smaller(w->threads, args->nz / (4 * depth + 8)), 1);
  const int each = (w->threads + chunks - 1) / chunks;
  w->cut.rows = smaller(wavefront_rows_in_l2(args, depth), (args->ny + each - 1) / each);
  return ALLOC(e, w->done, wavefront_cut(&w->cut, w->threads), "the wavefront's counters");
}

void wavefront_close(wavefront *w) {
  free(w->done);
  w->done = NULL;
}

/* --- how many steps ---------------------------------------------------------------------------------------------- */

static const int DEPTHS[] = {1, 2, 3, 4, 6};
enum { WAYS = sizeof DEPTHS / sizeof *DEPTHS };
static const double CACHED_BYTES = 16 << 20, /* smaller fields stay in a cache from one pass to the next */
    MEASURE_SECONDS = 0.1;                   /* for each way, at least two passes */

int wavefront_most(const config *c, const kernel *k, int ranks, bool medium, run_log *log) {
  const bool asked = k->flags & KERNEL_WAVEFRONT;
  const double bytes = (medium ? 3.0 : 2.0) * sizeof(float) * config_points(c);
  const int64_t every[] = {c->output_every, c->check_every, c->checkpoint_every_steps};
  int64_t least = DEPTHS[WAYS - 1];
  const char *why = NULL;
  if (k->backend != BACKEND_HOST || (!asked && (strcmp(c->kernel, "auto") != 0 || bytes <= CACHED_BYTES)))
    return 1;
  if (c->steps > 0 && c->steps < least) least = c->steps;
  for (size_t i = 0; i < sizeof every / sizeof *every; i++)
    if (every[i] > 0 && every[i] < least) least = every[i];
  if (least == 1) why = "something is to be saved or checked after every step";
  if (c->boundary[FACE_Z_LO] == BOUNDARY_PERIODIC) why = "z is periodic";
  if (ranks > 1) why = "a rank does not have its neighbours' planes";
  if (why && asked) log_line(log, "kernel %s: one step a pass, since %s", c->kernel, why);
  return why ? 1 : (int)least;
}

/* *best: seconds of a step in the fastest pass of `depth` steps. */
static int wavefront_time(stepper *s, int depth, double *best, error *e) {
  double spent = 0;
  *best = INFINITY;
  for (int pass = 0; pass < 2 || spent < MEASURE_SECONDS; pass++) {
    const double begin = clock_seconds();
    TRY(stepper_advance(s, depth, e));
    TRY(stepper_sync(s, e));
    const double seconds = clock_seconds() - begin;
    spent += seconds;
    *best = fmin(*best, seconds / depth);
  }
  return 0;
}

/* Sets *depth to the steps of the fastest passes. */
static int wavefront_measure(wavefront *w, const stepper *of, int most, run_log *log, int *depth, error *e) {
  double fastest = INFINITY, seconds;
  for (int i = of->kernel->flags & KERNEL_WAVEFRONT ? 1 : 0; i < WAYS && DEPTHS[i] <= most; i++) {
    stepper s = *of;
    s.profile = false, s.observers = NULL, s.sources = NULL;
    wavefront_close(w);
    if (DEPTHS[i] > 1) TRY(wavefront_open(s.front = w, &s.args, DEPTHS[i], e));
    TRY(wavefront_time(&s, DEPTHS[i], &seconds, e));
    log_detail(log, "  steps a pass %d: %9.1f us a step", DEPTHS[i], 1e6 * seconds);
    if (seconds < fastest) fastest = seconds, *depth = DEPTHS[i];
  }
  wavefront_close(w);
  return 0;
}

int wavefront_choose(wavefront *w, stepper *s, int most, run_log *log, error *e) {
  char path[1024] = "", key[512], depth[64] = "", none[64] = "-";
  const int least = s->kernel->flags & KERNEL_WAVEFRONT ? 2 : 1;
  const bool cached = tune_cache_path(path);
  tune_key(key, s, s->args.equation);
  const size_t used = strlen(key);
  snprintf(key + used, sizeof key - used, ", passes of %s, %d at most", s->kernel->name, most);
  int steps = cached && tune_recall(path, key, depth, none) ? atoi(depth) : 0;
  const bool remembered = steps >= least && steps <= most;
  if (!remembered) {
    TRY(wavefront_measure(w, s, most, log, &steps, e));
    snprintf(depth, sizeof depth, "%d", steps);
    if (cached && !tune_remember(path, key, depth, none))
      log_detail(log, "%s cannot be written, the next run measures again", path);
  }
  log_line(log, "steps a pass: %d (%s%s)", steps, remembered ? "as remembered in " : "measured now",
           remembered ? path : "");
  if (steps == 1) return 0;
  s->front = w;
  TRY(kernel_find("wavefront", s->args.equation, BACKEND_HOST, &s->kernel, e));
  return wavefront_open(w, &s->args, steps, e);
}
