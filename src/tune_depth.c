#include "tune_depth.h"
#include <stdio.h>
#include <stdlib.h>
#include "error_mpi.h"
#include "tune.h"
#include "version.h"

/* So many points are more than any L3 cache holds: in one of 300 MiB a wavefront of jacobi won that was slower in
 * memory. */
enum { DEPTHS = 6, POINTS_MAX = 1 << 27 };
static const int depths[DEPTHS] = {1, 2, 3, 4, 6, WAVEFRONT_DEPTH_MAX};
static const double MEASURE_SECONDS = 0.06; /* a depth, after one pass to warm up */

/* A stepper over a slab without neighbours. Fresh memory is NaN, which takes no longer than numbers do. */
typedef struct trial {
  slab slab;
  halo halo;
  stepper stepper;
  wavefront front;
  float *medium;
} trial;

static int trial_open(trial *t, const depth_question *q, error *e) {
  const int most = (int)(POINTS_MAX / ((double)q->nx * q->ny)) + 1;
  *t = (trial){.halo = {.slab = &t->slab, .dev = q->dev}};
  TRY(slab_init(&t->slab, q->nx, q->ny, q->planes < most || most < RADIUS ? q->planes : most, 0, 1, RADIUS,
                e));
  stepper *s = &t->stepper;
  *s = (stepper){.dev = q->dev, .halo = &t->halo, .slab = &t->slab, .overlap = true};
  s->kernel = s->boundary_kernel = s->single_kernel = q->wavefront;
  s->args = (kernel_args){
      .pitch = t->slab.pitch, .plane = t->slab.plane, .nx = q->nx, .ny = q->ny, .nz = t->slab.nz};
  float **const fields[] = {&s->memory[0], &s->memory[1], &t->medium};
  for (int i = 0; i < (q->medium ? 3 : 2); i++)
    TRY(q->dev->table->alloc(q->dev, (void **)fields[i], slab_floats(&t->slab) * sizeof(float), MEMORY_DEVICE,
                             e));
  if (q->medium) s->args.medium = t->medium + slab_offset(&t->slab, 0, 0, 0);
  return 0;
}

static void trial_close(trial *t) {
  error ignored = {0};
  float *const fields[] = {t->stepper.memory[0], t->stepper.memory[1], t->medium};
  wavefront_close(&t->front);
  for (int i = 0; i < 3; i++) t->stepper.dev->table->free(t->stepper.dev, fields[i], MEMORY_DEVICE, &ignored);
}

/* Seconds a step of the fastest pass with the stepper's kernel. */
static int time_depth(trial *t, const depth_question *q, int depth, double *best, error *e) {
  double spent = 0;
  stepper *s = &t->stepper;
  *best = 1e30;
  s->front = NULL;
  if (depth > 1)
    TRY(wavefront_open(s->front = &t->front, s->slab, depth, 0, s->args.medium != NULL, q->threads, e));
  for (int pass = 0; pass < 2 || spent < MEASURE_SECONDS; pass++) {
    const double begin = MPI_Wtime();
    TRY(stepper_advance(s, depth, e));
    TRY(stepper_sync(s, e));
    const double seconds = MPI_Wtime() - begin;
    if (pass == 0) continue;
    spent += seconds;
    if (seconds / depth < *best) *best = seconds / depth;
  }
  wavefront_close(&t->front);
  return 0;
}

/* The same of one step a pass, with whichever kernel is fastest. */
static int time_single(trial *t, const depth_question *q, double *best, error *e) {
  stepper *s = &t->stepper;
  *best = 1e30;
  for (int i = 0; i < kernel_table_size; i++) {
    double seconds;
    if (!tune_candidate(&kernel_table[i], q->wavefront->equation, BACKEND_HOST)) continue;
    s->kernel = &kernel_table[i];
    TRY(time_depth(t, q, 1, &seconds, e));
    if (seconds < *best) *best = seconds;
  }
  s->kernel = q->wavefront;
  return 0;
}

static bool allowed(const depth_question *q, int depth) {
  return depth <= q->most && (depth > 1 || !q->always);
}

/* Planes computed per own plane: a pass of d steps with neighbours does 4 (d - 1) more planes a step, both sides
 * together. */
static double repeated(const depth_question *q, int depth) {
  return q->neighbours ? 1 + RADIUS * (depth - 1.0) / q->planes : 1;
}

static int measure(const depth_question *q, MPI_Comm comm, run_log *log, int *depth, error *e) {
  double seconds[DEPTHS], slowest[DEPTHS];
  trial t;
  for (int i = 0; i < DEPTHS; i++) seconds[i] = 1e30;
  trial_open(&t, q, e);
  for (int i = 0; i < DEPTHS && !e->id; i++) {
    if (!allowed(q, depths[i])) continue;
    if (depths[i] == 1)
      time_single(&t, q, &seconds[i], e);
    else
      time_depth(&t, q, depths[i], &seconds[i], e);
  }
  trial_close(&t);
  TRY(error_agree(e, comm));
  MPI_TRY(e, MPI_Allreduce(seconds, slowest, DEPTHS, MPI_DOUBLE, MPI_MAX, comm));
  double best = 1e30;
  for (int i = 0; i < DEPTHS; i++) {
    if (!allowed(q, depths[i])) continue;
    slowest[i] *= repeated(q, depths[i]);
    log_detail(log, "  %d step%s a pass: %9.1f us a step", depths[i], depths[i] == 1 ? "" : "s",
               1e6 * slowest[i]);
    if (slowest[i] < best) best = slowest[i], *depth = depths[i];
  }
  return 0;
}

static void make_key(char key[512], const depth_question *q) {
  snprintf(key, 512, STENCIL_VERSION " " STENCIL_GIT_HASH " | %s | %s%s %d x %d x %d, %d at most%s%s",
           q->dev->description, equation_name(q->wavefront->equation), q->medium ? ", medium" : "", q->nx,
           q->ny, q->planes, q->most, q->neighbours ? ", neighbours" : "", q->always ? ", wavefront" : "");
}

int tune_depth(const depth_question *q, MPI_Comm comm, run_log *log, int *depth, error *e) {
  char path[1024] = "", key[512], answer[64], unused[64];
  int rank;
  *depth = 0;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  make_key(key, q);
  const bool cached = rank == 0 && tune_cache_path(path);
  if (cached && tune_recall(path, key, answer, unused)) *depth = atoi(answer);
  if (*depth < 1 || !allowed(q, *depth)) *depth = 0;
  MPI_TRY(e, MPI_Bcast(depth, 1, MPI_INT, 0, comm));
  const bool remembered = *depth > 0;
  if (!remembered) {
    TRY(measure(q, comm, log, depth, e));
    snprintf(answer, sizeof answer, "%d", *depth);
    if (cached && !tune_remember(path, key, answer, answer))
      log_detail(log, "%s cannot be written, the next run measures again", path);
  }
  log_line(log, "steps a pass: %d (%s%s)", *depth, remembered ? "as remembered in " : "measured now",
           remembered ? path : "");
  return 0;
}
