#include "tune.h"
#include <stdio.h>
#include <string.h>
#include "kernels/host_simd.h"
#include "base/error_mpi.h"
#include "version.h"

enum { THIN_REPEATS = 16, CANDIDATES_MAX = 32 };
static const double MEASURE_SECONDS = 0.03; /* a kernel and kind of launch, after one launch to warm up */

/* One kernel and what its launches take, s. */
typedef struct candidate {
  const kernel *k;
  double interior, boundary;
} candidate;

bool tune_candidate(const kernel *k, enum equation equation, enum backend backend) {
  const bool measured = !(k->flags & (KERNEL_WAVEFRONT | KERNEL_ORACLE));
  return k->equation == equation && k->backend == backend && measured && (k->host || k->cuda);
}

static int list_candidates(enum equation equation, enum backend backend, candidate list[CANDIDATES_MAX]) {
  int count = 0;
  for (int i = 0; i < kernel_table_size && count < CANDIDATES_MAX; i++)
    if (tune_candidate(&kernel_table[i], equation, backend))
      list[count++] = (candidate){.k = &kernel_table[i]};
  return count;
}

/* Can a run with this kernel do without images in ghosts in x? Absorbing layers read them. */
static bool may_virtual_x(const stepper *s, const kernel *k) {
  return !s->absorb && kernel_virtual_x(k, &s->args);
}

/* Time of one launch of `k` over planes [0, planes), from memory[0] to memory[1]; `repeats` are enqueued at a
 * time. */
static int time_launches(const stepper *s, const kernel *k, int planes, int repeats, double *best, error *e) {
  kernel_args args = s->args;
  args.in = stepper_field(s, 0);
  args.out = stepper_field(s, 1);
  args.z_begin = 0;
  args.z_end = planes;
  args.virtual_x = may_virtual_x(s, k);
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

/* Leaves a kernel that this GPU cannot run as slow as can be. */
static int measure(const stepper *s, candidate *list, int count, error *e) {
  int thin = s->slab->ghost < s->slab->nz ? s->slab->ghost : s->slab->nz;
  for (int i = 0; i < count; i++) {
    error refused = {0};
    list[i].interior = list[i].boundary = 1e30;
    if (time_launches(s, list[i].k, s->slab->nz, 1, &list[i].interior, &refused)) {
      if (refused.id == ERROR_KERNEL_UNSUPPORTED) continue;
      *e = refused;
      return e->id;
    }
    TRY(time_launches(s, list[i].k, thin, THIN_REPEATS, &list[i].boundary, e));
  }
  return 0;
}

/* What makes one measurement good for another run. */
static void make_key(char key[512], const stepper *s, enum equation equation) {
  snprintf(key, 512, STENCIL_VERSION " " STENCIL_GIT_HASH " | %s | %s %d x %d x %d", s->dev->description,
           equation_name(equation), s->slab->nx, s->slab->ny, s->slab->nz);
}

static int index_of(const candidate *list, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(list[i].k->name, name) == 0) return i;
  return -1;
}

static void fastest(const candidate *list, int count, int chosen[2]) {
  chosen[0] = chosen[1] = 0;
  for (int i = 1; i < count; i++) {
    if (list[i].interior < list[chosen[0]].interior) chosen[0] = i;
    if (list[i].boundary < list[chosen[1]].boundary) chosen[1] = i;
  }
}

static void say(run_log *log, const candidate *list, int count, const int chosen[2],
                const char *remembered_in) {
  log_line(log, "kernel auto: %s, at the boundary %s (%s%s)", list[chosen[0]].k->name,
           list[chosen[1]].k->name, remembered_in ? "as remembered in " : "measured now",
           remembered_in ? remembered_in : "");
  if (remembered_in) return;
  for (int i = 0; i < count; i++)
    log_detail(log, "  %-16s %9.1f us for the slab, %7.1f us at the boundary", list[i].k->name,
               1e6 * list[i].interior, 1e6 * list[i].boundary);
}

/* Rank 0 looks into the cache; if it finds nothing all ranks measure at once, as they will run. */
static int choose(stepper *s, candidate *list, int count, enum equation equation, MPI_Comm comm, run_log *log,
                  error *e) {
  char path[1024] = "", key[512], names[2][64];
  int rank, chosen[2] = {-1, -1};
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  make_key(key, s, equation);
  bool cached = rank == 0 && tune_cache_path(path);
  if (cached && tune_recall(path, key, names[0], names[1]))
    for (int i = 0; i < 2; i++) chosen[i] = index_of(list, count, names[i]);
  MPI_TRY(e, MPI_Bcast(chosen, 2, MPI_INT, 0, comm));
  bool remembered = chosen[0] >= 0 && chosen[1] >= 0;
  if (!remembered) {
    measure(s, list, count, e);
    TRY(error_agree(e, comm));
    fastest(list, count, chosen);
    MPI_TRY(e, MPI_Bcast(chosen, 2, MPI_INT, 0, comm));
    if (cached && !tune_remember(path, key, list[chosen[0]].k->name, list[chosen[1]].k->name))
      log_detail(log, "kernel auto: %s cannot be written, the next run measures again", path);
  }
  /* A kernel without images in ghosts in x leaves none behind for another. */
  if (may_virtual_x(s, list[chosen[0]].k)) chosen[1] = chosen[0];
  s->kernel = list[chosen[0]].k;
  s->boundary_kernel = list[chosen[1]].k;
  say(log, list, count, chosen, remembered ? path : NULL);
  return 0;
}

/* Do all candidates do the same? */
static bool alike(const stepper *s) {
  return s->dev->table->backend == BACKEND_HOST &&
         (size_t)s->slab->nz * s->slab->plane * sizeof(float) <= HOST_SIMD_LARGE;
}

static int choose_kernels(stepper *s, const char *name, enum equation equation, MPI_Comm comm, run_log *log,
                          error *e) {
  candidate list[CANDIDATES_MAX];
  int count = list_candidates(equation, s->dev->table->backend, list);
  if (strcmp(name, "auto") == 0 && count > 1 && !alike(s))
    return choose(s, list, count, equation, comm, log, e);
  TRY(kernel_find(name, equation, s->dev->table->backend, &s->kernel, e));
  s->boundary_kernel = s->kernel;
  if (strcmp(name, "auto") == 0) log_line(log, "kernel auto: %s", s->kernel->name);
  return 0;
}

int tune_kernels(stepper *s, const char *name, enum equation equation, MPI_Comm comm, run_log *log,
                 error *e) {
  TRY(choose_kernels(s, name, equation, comm, log, e));
  s->virtual_x = may_virtual_x(s, s->kernel);
  return 0;
}
