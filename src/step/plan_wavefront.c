#include "plan_wavefront.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "physics/physics.h"
#include "tune.h"
#include "version.h"

/* What decides how many steps a pass has, and its manner; runs that agree in all of it share a measurement. */
typedef struct wavefront_question {
  const kernel *wavefront; /* of `dev` */
  device *dev;
  int threads;          /* of the device */
  int nx, ny, planes;   /* of a slab with the fewest planes: the same on every rank */
  bool medium;          /* at each point */
  const config *layers; /* the run's absorbing faces and their width; NULL: none */
  bool neighbours;      /* slabs have them, so planes are computed twice */
  bool always;          /* the depth may not be 1: the user asked for a wavefront */
  int rows;             /* of a tile: all where y is periodic; 0: by the manner */
  int most;             /* the greatest depth */
  bool measure;         /* where nothing is remembered; else the greatest depth is the answer */
} wavefront_question;

/* --- measuring --------------------------------------------------------------------------------------------------- */

/* Points of a trial: more than any L3 cache holds. With fewer, in a cache of 300 MiB, a wavefront of jacobi won that
 * was slower in memory. */
enum { POINTS_MAX = 1 << 27 };
enum { TURNS = 2 };
static const double MEASURE_SECONDS = 0.03, /* for each way in each turn, at least a pass ... */
    ENOUGH_SECONDS = 0.3,                   /* ... and no second turn where one takes this long, */
    CLOSE = 1.2;                            /* or so many times as long a step as the fastest way */

/* A stepper on a slab without neighbours. Its memory is NaN, which takes no longer than numbers do. */
typedef struct plan_trial {
  slab slab;
  halo halo;
  stepper stepper;
  wavefront front;
  absorb layers;
  float *medium;
  bool warm; /* a pass has touched all memory */
} plan_trial;

/* The most planes of a trial. */
static int plan_trial_planes(int nx, int ny) {
  return (int)(POINTS_MAX / ((double)nx * ny)) + 1;
}

/* May planes of this size be tried? Of larger ones even the fewest take too much memory and time. */
static bool plan_trial_can(int nx, int ny) {
  return plan_trial_planes(nx, ny) >= RADIUS;
}

/* Opens the run's layers on the trial's slab, except those in z where they do not fit. */
static int plan_trial_layers(plan_trial *t, const config *of_run, error *e) {
  config c = *of_run;
  c.nz = t->slab.nz;
  if (c.nz <= 2 * c.boundary_width) c.boundary[FACE_Z_LO] = c.boundary[FACE_Z_HI] = BOUNDARY_FIXED;
  const problem on = {.dev = t->stepper.dev, .slab = &t->slab, .config = &c};
  TRY(absorb_open(&t->layers, &on, &t->stepper.args, (absorb_motion){1, 1}, e));
  t->stepper.absorb = absorb_needed(&t->layers) ? &t->layers : NULL;
  return 0;
}

static int plan_trial_open(plan_trial *t, const wavefront_question *q, error *e) {
  const int most = plan_trial_planes(q->nx, q->ny);
  *t = (plan_trial){.halo = {.slab = &t->slab, .dev = q->dev, .mapped = true, .stream = STREAM_INTERIOR}};
  TRY(slab_init(&t->slab, &(slab_shape){q->nx, q->ny, q->planes < most ? q->planes : most, .ghost = RADIUS},
                0, 1, e));
  stepper *s = &t->stepper;
  *s = (stepper){.dev = q->dev, .halo = &t->halo, .slab = &t->slab, .overlap = true};
  s->kernel = s->boundary_kernel = q->wavefront;
  s->args = (kernel_args){
      .pitch = t->slab.pitch, .plane = t->slab.plane, .nx = q->nx, .ny = q->ny, .nz = t->slab.nz};
  float **const fields[] = {&s->memory[0], &s->memory[1], &t->medium};
  for (int i = 0; i < (q->medium ? 3 : 2); i++)
    TRY(q->dev->table->alloc(q->dev, (void **)fields[i], slab_floats(&t->slab) * sizeof(float), MEMORY_DEVICE,
                             e));
  if (q->medium) s->args.medium = t->medium + slab_offset(&t->slab, 0, 0, 0);
  return q->layers ? plan_trial_layers(t, q->layers, e) : 0;
}

static void plan_trial_close(plan_trial *t) {
  error ignored = {0};
  float *const fields[] = {t->stepper.memory[0], t->stepper.memory[1], t->medium};
  wavefront_close(&t->front);
  absorb_close(&t->layers);
  for (int i = 0; i < 3; i++) t->stepper.dev->table->free(t->stepper.dev, fields[i], MEMORY_DEVICE, &ignored);
}

/* *best: seconds of a step in the fastest pass with the stepper's kernel. */
static int plan_time_way(plan_trial *t, const wavefront_question *q, wavefront_shape way, double *best,
                         error *e) {
  double spent = 0;
  stepper *s = &t->stepper;
  const int depth = way.depth;
  way.rows = q->rows;
  *best = 1e30;
  s->front = NULL;
  if (depth > 1)
    TRY(wavefront_open(s->front = &t->front, s->slab, &way, s->args.medium != NULL, q->threads, e));
  for (; spent < MEASURE_SECONDS; t->warm = true) {
    const double begin = MPI_Wtime();
    TRY(stepper_advance(s, depth, e));
    TRY(stepper_sync(s, e));
    const double seconds = MPI_Wtime() - begin;
    if (!t->warm) continue;
    spent += seconds;
    if (seconds / depth < *best) *best = seconds / depth;
  }
  wavefront_close(&t->front);
  return 0;
}

/* The same for one step a pass, with the fastest kernel. */
static int plan_time_single(plan_trial *t, const wavefront_question *q, double *best, error *e) {
  stepper *s = &t->stepper;
  *best = 1e30;
  for (int i = 0; i < kernel_table_size; i++) {
    double seconds;
    if (!tune_candidate(&kernel_table[i], q->wavefront->equation, BACKEND_HOST)) continue;
    s->kernel = &kernel_table[i];
    TRY(plan_time_way(t, q, wavefront_ways[0], &seconds, e));
    if (seconds < *best) *best = seconds;
  }
  s->kernel = q->wavefront;
  return 0;
}

/* Where y is periodic all tiles have the same height. */
static bool plan_allows(const wavefront_question *q, const wavefront_shape *way) {
  if (way->depth == 1) return !q->always;
  return way->depth <= q->most && !(way->manner == WAVEFRONT_TALL && q->rows);
}

/* Planes computed for each own plane: with neighbours a pass of d steps computes 4 (d - 1) more planes a step, on both
 * sides together. */
static double plan_repeated(const wavefront_question *q, int depth) {
  return q->neighbours ? 1 + RADIUS * (depth - 1.0) / q->planes : 1;
}

/* seconds: of a step in the faster of two turns, since threads help slower ones; 1e30: not allowed, or failed. */
static int plan_time_turns(plan_trial *t, const wavefront_question *q, double seconds[WAVEFRONT_WAYS],
                           error *e) {
  double fastest = 1e30;
  for (int i = 0; i < TURNS * WAVEFRONT_WAYS; i++) {
    const wavefront_shape way = wavefront_ways[i % WAVEFRONT_WAYS];
    double *best = &seconds[i % WAVEFRONT_WAYS], now;
    const bool enough = way.depth * *best > ENOUGH_SECONDS || *best > CLOSE * fastest;
    if (!plan_allows(q, &way) || (i >= WAVEFRONT_WAYS && enough)) continue;
    if (way.depth == 1)
      TRY(plan_time_single(t, q, &now, e));
    else
      TRY(plan_time_way(t, q, way, &now, e));
    *best = fmin(*best, now);
    fastest = fmin(fastest, now);
  }
  return 0;
}

static int plan_measure(const wavefront_question *q, MPI_Comm comm, run_log *log, wavefront_shape *fastest,
                        error *e) {
  double seconds[WAVEFRONT_WAYS], slowest[WAVEFRONT_WAYS], best = INFINITY;
  plan_trial t;
  for (int i = 0; i < WAVEFRONT_WAYS; i++) seconds[i] = 1e30;
  if (!plan_trial_open(&t, q, e)) plan_time_turns(&t, q, seconds, e);
  plan_trial_close(&t);
  TRY(error_agree(e, comm));
  MPI_TRY(e, MPI_Allreduce(seconds, slowest, WAVEFRONT_WAYS, MPI_DOUBLE, MPI_MAX, comm));
  for (int i = 0; i < WAVEFRONT_WAYS; i++) {
    const wavefront_shape way = wavefront_ways[i];
    if (!plan_allows(q, &way)) continue;
    const double now = slowest[i] * plan_repeated(q, way.depth);
    log_detail(log, "  steps a pass %d, %s: %9.1f us a step", way.depth, wavefront_manner_names[way.manner],
               1e6 * now);
    if (now < best) best = now, fastest->depth = way.depth, fastest->manner = way.manner;
  }
  return 0;
}

static void plan_key(char key[512], const wavefront_question *q) {
  char layers[64] = "";
  if (q->layers) {
    int faces = 0; /* a bit for each */
    for (int f = 0; f < FACE_COUNT; f++) faces |= (q->layers->boundary[f] == BOUNDARY_ABSORBING) << f;
    snprintf(layers, sizeof layers, ", layers %d at faces %d", q->layers->boundary_width, faces);
  }
  snprintf(key, 512, STENCIL_VERSION " " STENCIL_GIT_HASH " | %s | %s%s %d x %d x %d, %d at most%s%s%s%s",
           q->dev->description, equation_name(q->wavefront->equation), q->medium ? ", medium" : "", q->nx,
           q->ny, q->planes, q->most, q->neighbours ? ", neighbours" : "", q->always ? ", wavefront" : "",
           q->rows ? ", y wraps" : "", layers);
}

static int plan_deepest(const wavefront_question *q) {
  int deepest = 0;
  for (int i = 0; i < WAVEFRONT_WAYS; i++)
    if (plan_allows(q, &wavefront_ways[i])) deepest = wavefront_ways[i].depth;
  return deepest;
}

/* WAVEFRONT_PLAIN where no manner has this name. */
static enum wavefront_manner plan_manner_of(const char *name) {
  int i = WAVEFRONT_MANNERS - 1;
  while (i > 0 && strcmp(wavefront_manner_names[i], name) != 0) i--;
  return (enum wavefront_manner)i;
}

/* Finds the fastest way: in rank 0's cache file (tune.h), or by timing passes of all ways on all ranks at once, with
 * fields of its own, for a few seconds. Collective, same answer and error everywhere. */
static int plan_find_way(const wavefront_question *q, MPI_Comm comm, run_log *log, wavefront_shape *way,
                         error *e) {
  char path[1024] = "", key[512], depth[64] = "", manner[64] = "";
  int rank, answer[2] = {0};
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  plan_key(key, q);
  const bool cached = rank == 0 && tune_cache_path(path);
  if (cached && tune_recall(path, key, depth, manner))
    answer[0] = atoi(depth), answer[1] = (int)plan_manner_of(manner);
  MPI_TRY(e, MPI_Bcast(answer, 2, MPI_INT, 0, comm));
  way->depth = answer[0], way->manner = (enum wavefront_manner)answer[1];
  const bool remembered = way->depth >= 1 && plan_allows(q, way);
  if (!remembered && !q->measure) {
    way->depth = plan_deepest(q);
    log_line(log, "steps a pass: up to %d (a run measures, and remembers)", way->depth);
    return 0;
  }
  if (!remembered) {
    TRY(plan_measure(q, comm, log, way, e));
    snprintf(depth, sizeof depth, "%d", way->depth);
    if (cached && !tune_remember(path, key, depth, wavefront_manner_names[way->manner]))
      log_detail(log, "%s cannot be written, the next run measures again", path);
  }
  log_line(log, "steps a pass: %d (%s, %s%s)", way->depth, wavefront_manner_names[way->manner],
           remembered ? "as remembered in " : "measured now", remembered ? path : "");
  return 0;
}

/* --- planning ---------------------------------------------------------------------------------------------------- */

/* Fields of fewer bytes in total stay in a cache from one pass to the next. */
static const double CACHED_BYTES = 16 << 20;

bool plan_neighbours(const config *c, int ranks) {
  return ranks > 1 || c->boundary[FACE_Z_LO] == BOUNDARY_PERIODIC;
}

/* Steps between two that end a pass because something is due. */
static int plan_least_interval(const config *c) {
  int64_t every[CONFIG_INTERVALS], least = WAVEFRONT_DEPTH_MAX;
  config_intervals(c, every);
  if (c->steps > 0 && c->steps < least) least = c->steps;
  for (int i = 0; i < CONFIG_INTERVALS; i++)
    if (every[i] > 0 && every[i] < least) least = every[i];
  return (int)least;
}

/* The most steps of a pass; where that is 1, `why` says why. */
static int plan_most_steps(const config *c, int ranks, char why[128]) {
  if (physics_absorbs(c) && plan_neighbours(c, ranks))
    snprintf(why, 128, "a rank does not have the absorbing layers of its neighbour's planes");
  if (!plan_trial_can(c->nx, c->ny)) snprintf(why, 128, "planes are too large to measure deeper passes");
  if (why[0]) return 1;
  const int interval = plan_least_interval(c), planes = c->nz / ranks / RADIUS;
  if (interval == 1) snprintf(why, 128, "something is to be saved or checked after every step");
  if (!plan_neighbours(c, ranks) || interval <= planes) return interval;
  if (planes < 2)
    snprintf(why, 128, "%d planes on %d rank%s leave no room for deeper ghosts", c->nz, ranks,
             ranks == 1 ? "" : "s");
  return planes > 1 ? planes : 1;
}

static bool plan_worth_measuring(const config *c, int ranks, bool medium) {
  return (medium ? 3.0 : 2.0) * sizeof(float) * c->nx * c->ny * c->nz / ranks > CACHED_BYTES;
}

int plan_wavefront(const wavefront_run *run, stepper *p, wavefront_plan *plan, error *e) {
  const config *c = run->config;
  char why[128] = "";
  double number;
  const bool wraps = c->boundary[FACE_Y_LO] == BOUNDARY_PERIODIC;
  *plan = (wavefront_plan){.shape = {.depth = 1, .rows = wraps ? c->ny : 0}, .kernel = c->kernel};
  const bool asked = p->kernel->flags & KERNEL_WAVEFRONT, automatic = strcmp(c->kernel, "auto") == 0;
  wavefront_question q = {.dev = p->dev,
                          .threads = run->threads,
                          .nx = c->nx,
                          .ny = c->ny,
                          .planes = c->nz / run->ranks,
                          .medium = physics_medium(c, &number) != NULL,
                          .neighbours = plan_neighbours(c, run->ranks),
                          .always = asked,
                          .layers = physics_absorbs(c) ? c : NULL,
                          .rows = plan->shape.rows,
                          .measure = run->measure};
  const bool on_host = p->dev->table->backend == BACKEND_HOST;
  if (!asked && !(automatic && on_host && plan_worth_measuring(c, run->ranks, q.medium))) return 0;
  TRY(kernel_find("wavefront", physics_form(c), BACKEND_HOST, &q.wavefront, e));
  q.most = plan_most_steps(c, run->ranks, why);
  if (q.planes < RADIUS) return 0; /* too many ranks: the partition says so */
  if (q.most > 1) TRY(plan_find_way(&q, run->comm, run->log, &plan->shape, e));
  if (q.most <= 1) log_line(run->log, "kernel %s: one step a pass, since %s", c->kernel, why);
  const bool several = plan->shape.depth > 1;
  TRY(kernel_find(several ? "wavefront" : "auto", physics_form(c), BACKEND_HOST, &p->kernel, e));
  p->boundary_kernel = p->kernel;
  if (asked || several) plan->kernel = p->kernel->name;
  return 0;
}
