#include "tune.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "kernels/host/host_simd.h"
#include "kernels/equations/terms.h"
#include "pass.h"
#include "base/error_mpi.h"
#include "version.h"

enum { CANDIDATES_MAX = 32, BATCH_MOST = 64 };
static const double MEASURE_SECONDS = 0.015; /* for each kernel and kind of launch, after one to warm up */
static const double BATCH_SECONDS = 2e-3;    /* of launches one after another, as in a run */
static const double HOPELESS = 1.15; /* times the fastest so far: slower kernels are measured no further */

/* A candidate, and the seconds that its launches take. */
typedef struct tune_entry {
  const kernel *k;
  double interior, boundary;
} tune_entry;

typedef struct tune_list {
  tune_entry entry[CANDIDATES_MAX];
  int count;
} tune_list;

bool tune_candidate(const kernel *k, enum equation equation, enum backend backend) {
  const bool measured = !(k->flags & (KERNEL_WAVEFRONT | KERNEL_ORACLE));
  return kernel_does(k, equation, backend) && measured && (k->host || k->cuda);
}

static tune_list tune_candidates(enum equation equation, enum backend backend, bool terms) {
  tune_list list = {.count = 0};
  for (int i = 0; i < kernel_table_size && list.count < CANDIDATES_MAX; i++)
    if (tune_candidate(&kernel_table[i], equation, backend) &&
        (!terms || kernel_table[i].flags & KERNEL_TERMS))
      list.entry[list.count++] = (tune_entry){.k = &kernel_table[i]};
  return list;
}

/* Launches `k` and the layers of its points, from memory[0] to memory[1], with the waits of a pass (step.c), which
 * affect how launches overlap. */
static int tune_pass(const stepper *s, const kernel *k, const kernel_args *args, int64_t pass, error *e) {
  const device_table *t = s->dev->table;
  TRY(t->sync_event(s->dev, event_of(s, pass - 2, INTERIOR_DONE), e));
  if (!s->halo->mapped) {
    TRY(pass_wait(s, STREAM_BOUNDARY, pass - 1, INTERIOR_DONE, e));
    TRY(t->record(s->dev, STREAM_BOUNDARY, event_of(s, pass, BOUNDARY_DONE), e));
    TRY(pass_wait(s, STREAM_INTERIOR, pass - 1, BOUNDARY_DONE, e));
  }
  TRY(s->absorb ? absorb_launch(s->absorb, STREAM_INTERIOR, k, args, e)
                : t->launch(s->dev, STREAM_INTERIOR, k, args, e));
  return t->record(s->dev, STREAM_INTERIOR, event_of(s, pass, INTERIOR_DONE), e);
}

static int tune_enqueue(const stepper *s, const kernel *k, const kernel_args *args, int count, error *e) {
  for (int i = 0; i < count; i++) TRY(tune_pass(s, k, args, i, e));
  return s->dev->table->sync(s->dev, STREAM_INTERIOR, e);
}

/* *best: on entry, seconds of another kernel's fastest launch over planes `z`, or INFINITY; on return, those of `k`. A
 * much slower kernel is measured less. */
static int tune_time(const stepper *s, const kernel *k, zrange z, double *best, error *e) {
  const double fastest = *best;
  double spent = 0;
  int count = 1;
  kernel_args args = s->args;
  args.in = stepper_field(s, 0);
  args.out = stepper_field(s, 1);
  args.z_begin = z.begin;
  args.z_end = z.end;
  TRY(tune_enqueue(s, k, &args, 1, e)); /* the first launch loads code */
  *best = INFINITY;
  for (int batch = 0; spent < MEASURE_SECONDS && (batch < 3 || *best < HOPELESS * fastest); batch++) {
    const double begin = MPI_Wtime();
    TRY(tune_enqueue(s, k, &args, count, e));
    const double seconds = MPI_Wtime() - begin, each = seconds / count;
    *best = fmin(*best, each);
    spent += seconds;
    count = (int)fmin(fmax(1, BATCH_SECONDS / each), BATCH_MOST);
  }
  return 0;
}

/* Finds the planes of a step's launches: of the interior, and of one side of the boundary. */
static void tune_ranges(const stepper *s, zrange *interior, zrange *boundary) {
  zrange lo, hi;
  slab_ranges(s->slab, &lo, interior, &hi);
  *boundary = zrange_planes(hi) ? hi : lo;
  if (s->halo->mapped) *boundary = (zrange){0, 0};
  if (s->halo->mapped || zrange_planes(*interior) == 0) *interior = (zrange){0, s->slab->nz};
}

/* Measures all candidates. A kernel that this GPU cannot run gets a time that never wins. */
static int tune_measure(const stepper *s, tune_list *list, error *e) {
  zrange interior, boundary;
  double fastest[2] = {INFINITY, INFINITY};
  tune_ranges(s, &interior, &boundary);
  for (int i = 0; i < list->count; i++) {
    tune_entry *c = &list->entry[i];
    error refused = {0};
    c->interior = fastest[0], c->boundary = fastest[1];
    if (tune_time(s, c->k, interior, &c->interior, &refused)) {
      c->interior = c->boundary = INFINITY;
      if (refused.id == ERROR_KERNEL_UNSUPPORTED) continue;
      *e = refused;
      return e->id;
    }
    if (zrange_planes(boundary)) TRY(tune_time(s, c->k, boundary, &c->boundary, e));
    fastest[0] = fmin(fastest[0], c->interior), fastest[1] = fmin(fastest[1], c->boundary);
  }
  return s->absorb ? absorb_clear(s->absorb, e) : 0;
}

void tune_key(char key[512], const stepper *s, enum equation equation) {
  const kernel_args *a = &s->args;
  const absorb_axis none[ABSORB_AXES] = {{0}}, *layers = s->absorb ? s->absorb->args.axis : none;
  zrange interior, boundary;
  char code[64]; /* a build for other GPUs has other kernels */
  tune_ranges(s, &interior, &boundary);
  device_cuda_version(code);
  int n = snprintf(
      key, 512, STENCIL_VERSION " " STENCIL_GIT_HASH ", CUDA %s | %s | %s%s %d x %d x %d, boundary %d, faces",
      code, s->dev->description, equation_name(equation), a->medium[0] ? " with a field" : "", a->nx, a->ny,
      zrange_planes(interior), zrange_planes(boundary));
  if (terms_any(&a->terms))
    n += snprintf(key + n, 512 - (size_t)n, "%s, %d relaxations", a->terms.density ? " density" : "",
                  a->terms.memories);
  for (int f = 0; f < FACE_COUNT; f++)
    n += snprintf(key + n, 512 - (size_t)n, " %d,%d", a->ghosts[f],
                  f % 2 ? layers[f / 2].hi : layers[f / 2].lo);
}

static int tune_index(const tune_list *list, const char *name) {
  for (int i = 0; i < list->count; i++)
    if (strcmp(list->entry[i].k->name, name) == 0) return i;
  return -1;
}

/* Sets `chosen` to the fastest entry for the interior, and to the fastest at the boundary. */
static void tune_fastest(const tune_list *list, int chosen[2]) {
  chosen[0] = chosen[1] = 0;
  for (int i = 1; i < list->count; i++) {
    if (list->entry[i].interior < list->entry[chosen[0]].interior) chosen[0] = i;
    if (list->entry[i].boundary < list->entry[chosen[1]].boundary) chosen[1] = i;
  }
  if (isinf(list->entry[chosen[1]].boundary)) chosen[1] = chosen[0]; /* there is no boundary */
}

static void tune_log(run_log *log, const tune_list *list, const int chosen[2], const char *remembered_in) {
  const char *interior = list->entry[chosen[0]].k->name, *boundary = list->entry[chosen[1]].k->name;
  const bool apart = chosen[0] != chosen[1];
  log_line(log, "kernel auto: %s%s%s (%s%s)", interior, apart ? ", at the boundary " : "",
           apart ? boundary : "", remembered_in ? "as remembered in " : "measured now",
           remembered_in ? remembered_in : "");
  if (remembered_in) return;
  for (const tune_entry *c = list->entry; c < list->entry + list->count; c++)
    log_detail(log, "  %-16s %9.1f us for the interior, %7.1f us at the boundary", c->k->name,
               1e6 * c->interior, 1e6 * c->boundary);
}

/* Chooses by measurement. Rank 0 looks into the cache. If the cache has no entry, all ranks measure at once, as they
 * will run. Collective, agreed. */
static int tune_choose(stepper *s, tune_list *list, enum equation equation, MPI_Comm comm, run_log *log,
                       error *e) {
  char path[1024] = "", key[512], names[2][64];
  int rank, chosen[2] = {-1, -1};
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  tune_key(key, s, equation);
  bool cached = rank == 0 && tune_cache_path(path);
  if (cached && tune_recall(path, key, names[0], names[1]))
    for (int i = 0; i < 2; i++) chosen[i] = tune_index(list, names[i]);
  MPI_TRY(e, MPI_Bcast(chosen, 2, MPI_INT, 0, comm));
  bool remembered = chosen[0] >= 0 && chosen[1] >= 0;
  if (!remembered) {
    tune_measure(s, list, e);
    TRY(error_agree(e, comm));
    tune_fastest(list, chosen);
    MPI_TRY(e, MPI_Bcast(chosen, 2, MPI_INT, 0, comm));
    if (cached && !tune_remember(path, key, list->entry[chosen[0]].k->name, list->entry[chosen[1]].k->name))
      log_detail(log, "kernel auto: %s cannot be written, the next run measures again", path);
  }
  s->kernel = list->entry[chosen[0]].k;
  s->boundary_kernel = list->entry[chosen[1]].k;
  tune_log(log, list, chosen, remembered ? path : NULL);
  return 0;
}

/* Are all candidates the same code on every rank's slab? They are where no launch is large, and no row has columns. The
 * answer is the same everywhere, since choosing is collective. */
static bool tune_alike(const stepper *s) {
  return s->dev->table->backend == BACKEND_HOST && s->slab->nx <= COLUMN_X &&
         (size_t)slab_planes(s->slab).most * s->slab->plane * sizeof(float) <= HOST_SIMD_LARGE;
}

int tune_kernels(stepper *s, const char *name, enum equation equation, MPI_Comm comm, run_log *log,
                 error *e) {
  const bool terms = kernel_is_batch(&s->args) || terms_any(&s->args.terms);
  tune_list list = tune_candidates(equation, s->dev->table->backend, terms);
  if (strcmp(name, "auto") == 0 && list.count > 1 && !tune_alike(s))
    return tune_choose(s, &list, equation, comm, log, e);
  TRY(kernel_find(name, equation, s->dev->table->backend, &s->kernel, e));
  s->boundary_kernel = s->kernel;
  if (strcmp(name, "auto") == 0) log_line(log, "kernel auto: %s", s->kernel->name);
  return 0;
}
