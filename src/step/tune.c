#include "tune.h"
#include <stdio.h>
#include <string.h>
#include "kernels/host_simd.h"
#include "base/error_mpi.h"
#include "version.h"

enum { THIN_REPEATS = 16, CANDIDATES_MAX = 32 };
static const double MEASURE_SECONDS =
    0.03; /* for each kernel and kind of launch, after one launch to warm up */

/* A candidate, and the seconds that its launches take. */
typedef struct tune_entry {
  const kernel *k;
  double interior, boundary;
} tune_entry;

/* All candidates of a run. */
typedef struct tune_list {
  tune_entry entry[CANDIDATES_MAX];
  int count;
} tune_list;

bool tune_candidate(const kernel *k, enum equation equation, enum backend backend) {
  const bool measured = !(k->flags & (KERNEL_WAVEFRONT | KERNEL_ORACLE));
  return k->equation == equation && k->backend == backend && measured && (k->host || k->cuda);
}

static tune_list tune_candidates(enum equation equation, enum backend backend) {
  tune_list list = {.count = 0};
  for (int i = 0; i < kernel_table_size && list.count < CANDIDATES_MAX; i++)
    if (tune_candidate(&kernel_table[i], equation, backend))
      list.entry[list.count++] = (tune_entry){.k = &kernel_table[i]};
  return list;
}

/* Can a run with this kernel do without ghosts in x? Absorbing layers read them. */
static bool tune_virtual_x(const stepper *s, const kernel *k) {
  return !s->absorb && kernel_virtual_x(k, &s->args);
}

/* *best: seconds of the fastest launch of `k` over planes [0, planes), from memory[0] to memory[1]. `repeats` launches
 * are enqueued at a time. */
static int tune_time(const stepper *s, const kernel *k, int planes, int repeats, double *best, error *e) {
  kernel_args args = s->args;
  args.in = stepper_field(s, 0);
  args.out = stepper_field(s, 1);
  args.z_begin = 0;
  args.z_end = planes;
  args.virtual_x = tune_virtual_x(s, k);
  double spent = 0;
  *best = 1e30;
  for (int pass = 0; pass < 2 || spent < MEASURE_SECONDS; pass++) {
    double begin = MPI_Wtime();
    for (int i = 0; i < repeats; i++) TRY(s->dev->table->launch(s->dev, STREAM_INTERIOR, k, &args, e));
    TRY(s->dev->table->sync(s->dev, STREAM_INTERIOR, e));
    double seconds = MPI_Wtime() - begin;
    if (pass == 0) continue; /* the first launch loads code */
    spent += seconds;
    if (seconds / repeats < *best) *best = seconds / repeats;
  }
  return 0;
}

/* A kernel that this GPU cannot run keeps a time that never wins. */
static int tune_measure(const stepper *s, tune_list *list, error *e) {
  int thin = s->slab->ghost < s->slab->nz ? s->slab->ghost : s->slab->nz;
  for (int i = 0; i < list->count; i++) {
    tune_entry *c = &list->entry[i];
    error refused = {0};
    c->interior = c->boundary = 1e30;
    if (tune_time(s, c->k, s->slab->nz, 1, &c->interior, &refused)) {
      if (refused.id == ERROR_KERNEL_UNSUPPORTED) continue;
      *e = refused;
      return e->id;
    }
    TRY(tune_time(s, c->k, thin, THIN_REPEATS, &c->boundary, e));
  }
  return 0;
}

/* Runs with the same key share a measurement. */
static void tune_key(char key[512], const stepper *s, enum equation equation) {
  snprintf(key, 512, STENCIL_VERSION " " STENCIL_GIT_HASH " | %s | %s %d x %d x %d", s->dev->description,
           equation_name(equation), s->slab->nx, s->slab->ny, s->slab->nz);
}

static int tune_index(const tune_list *list, const char *name) {
  for (int i = 0; i < list->count; i++)
    if (strcmp(list->entry[i].k->name, name) == 0) return i;
  return -1;
}

/* chosen: of the interior, and at the boundary. */
static void tune_fastest(const tune_list *list, int chosen[2]) {
  chosen[0] = chosen[1] = 0;
  for (int i = 1; i < list->count; i++) {
    if (list->entry[i].interior < list->entry[chosen[0]].interior) chosen[0] = i;
    if (list->entry[i].boundary < list->entry[chosen[1]].boundary) chosen[1] = i;
  }
}

static void tune_log(run_log *log, const tune_list *list, const int chosen[2], const char *remembered_in) {
  const tune_entry *entry = list->entry;
  log_line(log, "kernel auto: %s, at the boundary %s (%s%s)", entry[chosen[0]].k->name,
           entry[chosen[1]].k->name, remembered_in ? "as remembered in " : "measured now",
           remembered_in ? remembered_in : "");
  if (remembered_in) return;
  for (int i = 0; i < list->count; i++)
    log_detail(log, "  %-16s %9.1f us for the slab, %7.1f us at the boundary", entry[i].k->name,
               1e6 * entry[i].interior, 1e6 * entry[i].boundary);
}

/* Chooses by measurement. Rank 0 looks into the cache; if it finds nothing all ranks measure at once, as they will run.
 * Collective, agreed. */
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
  /* A kernel that needs no ghosts in x does not write any, and another one at the boundary would read them. */
  if (tune_virtual_x(s, list->entry[chosen[0]].k)) chosen[1] = chosen[0];
  s->kernel = list->entry[chosen[0]].k;
  s->boundary_kernel = list->entry[chosen[1]].k;
  tune_log(log, list, chosen, remembered ? path : NULL);
  return 0;
}

/* Are all candidates the same code on every rank's slab: no launch is large, and no row has columns? The same answer
 * everywhere, since choosing is collective. */
static bool tune_alike(const stepper *s) {
  return s->dev->table->backend == BACKEND_HOST && s->slab->nx <= COLUMN_X &&
         (size_t)slab_planes(s->slab).most * s->slab->plane * sizeof(float) <= HOST_SIMD_LARGE;
}

static int tune_choose_kernels(stepper *s, const char *name, enum equation equation, MPI_Comm comm,
                               run_log *log, error *e) {
  tune_list list = tune_candidates(equation, s->dev->table->backend);
  if (strcmp(name, "auto") == 0 && list.count > 1 && !tune_alike(s))
    return tune_choose(s, &list, equation, comm, log, e);
  TRY(kernel_find(name, equation, s->dev->table->backend, &s->kernel, e));
  s->boundary_kernel = s->kernel;
  if (strcmp(name, "auto") == 0) log_line(log, "kernel auto: %s", s->kernel->name);
  return 0;
}

int tune_kernels(stepper *s, const char *name, enum equation equation, MPI_Comm comm, run_log *log,
                 error *e) {
  TRY(tune_choose_kernels(s, name, equation, comm, log, e));
  s->virtual_x = tune_virtual_x(s, s->kernel);
  return 0;
}
