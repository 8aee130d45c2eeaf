/* The parallel step loop gives the bits of the whole grid done at once: any rank count, any partition,
 * overlap on or off, with or without profiling, on every backend of this machine. */
#include "step_harness.h"
#include "mpi_main.h"
#include "step/prove.h"
#include "kernels/operations/operation.h"
#include <stdio.h>
#include <time.h>
#include "propagator/snapshot.h"

typedef struct grid {
  int nx, ny, nz;
} grid;

/* Uneven parts, slabs of 4 to 8 planes (all boundary) and thicker ones, for up to 4 ranks; more planes a
 * rank. */
static const grid GRIDS[] = {{13, 9, 16}, {13, 9, 17},  {5, 3, 19},   {33, 6, 23},
                             {1, 1, 29},  {20, 17, 37}, {130, 11, 50}};

/* How halos travel. */
typedef struct way {
  const char *transport;
  int node_ranks;
  bool mapped; /* must be by shared pages, not by copies */
} way;

static const way REFERENCE = {"sendrecv", 0, false};

/* Rules of the faces in x, none elsewhere. */
static const unsigned char RULES_X[][2] = {{GHOST_KEEP, GHOST_KEEP}, {GHOST_ODD, GHOST_EVEN},
                                           {GHOST_EVEN, GHOST_ODD},  {GHOST_WRAP, GHOST_WRAP},
                                           {GHOST_KEEP, GHOST_EVEN}, {GHOST_ODD, GHOST_KEEP}};
/* Whole packs of 4 points a row, or vectors of 16, and not. */
static const grid GRIDS_X[] = {{20, 17, 37}, {8, 5, 19}, {132, 11, 50}, {13, 9, 16}, {32, 7, 21}};

/* Sets the ghosts of the first field by the rules. */
static void set_rules(step_run *r, const unsigned char rules[FACE_COUNT]) {
  stepper *s = &r->stepper;
  memcpy(s->args.ghosts, rules, FACE_COUNT);
  if (r->slab.lower != SLAB_NO_RANK) s->args.ghosts[FACE_Z_LO] = GHOST_KEEP;
  if (r->slab.upper != SLAB_NO_RANK) s->args.ghosts[FACE_Z_HI] = GHOST_KEEP;
  kernel_args args = s->args;
  args.out = stepper_field(s, 0), args.z_begin = 0, args.z_end = r->slab.nz;
  OK(s->dev->table->apply(s->dev, STREAM_BOUNDARY, &operation_ghosts, &args, &E));
  OK(s->dev->table->sync(s->dev, STREAM_BOUNDARY, &E));
  OK(halo_exchange(&r->halo, s->memory[0], HALO_UNTIMED, true, &E));
}

/* A grid, the rules of its faces, and the whole field after some steps, computed once because that costs more than the
 * steps. */
typedef struct step_problem {
  grid g;
  enum equation equation;
  unsigned char rules[FACE_COUNT];
  int steps;
  float *expected; /* free() it */
} step_problem;

static void problem_expect(step_problem *p) {
  const grid g = p->g;
  kernel_args weights = step_weights();
  weights.equation = p->equation;
  memcpy(weights.ghosts, p->rules, FACE_COUNT);
  p->expected = step_initial(g.nx, g.ny, g.nz);
  step_expected(&weights, p->expected, g.nx, g.ny, g.nz, p->steps, 0.375f, false);
}

static step_problem new_problem(grid g, const unsigned char rules[2], int steps) {
  step_problem p = {.g = g, .rules = {rules[0], rules[1]}, .steps = steps};
  problem_expect(&p);
  return p;
}

static void open_media(step_run *r, enum equation equation, float *media[EQUATION_MEDIA]) {
  const slab *s = &r->slab;
  const device_table *t = r->stepper.dev->table;
  error e = {0};
  r->stepper.args.equation = equation;
  for (int i = 0; i < EQUATIONS[equation].media; i++) {
    float *dense = step_medium(s->nx, s->ny, s->nz_global, i);
    assert_ok(t->alloc(r->stepper.dev, (void **)&media[i], slab_floats(s) * sizeof(float), MEMORY_DEVICE, &e),
              &e);
    r->transfer.field = media[i];
    assert_ok(
        transfer_to_device(&r->transfer, 0, s->nz, dense + (size_t)s->z0 * (size_t)s->nx * (size_t)s->ny, &e),
        &e);
    r->stepper.args.medium[i] = media[i] + slab_offset(s, 0, 0, 0);
    free(dense);
  }
}

static void one_run(device *dev, const kernel *k, const step_problem *p, bool overlap, bool profile,
                    const way *w) {
  const grid g = p->g;
  const int steps = p->steps;
  float *media[EQUATION_MEDIA] = {NULL};
  step_run r;
  assert_ok(slab_init(&r.slab, &(slab_shape){.nx = g.nx, .ny = g.ny, .nz = g.nz}, rank, ranks, &E), &E);
  if (p->rules[FACE_Z_LO] == GHOST_WRAP) slab_wrap(&r.slab, false);
  step_run_open(&r, dev, k->name, w->transport, w->node_ranks, overlap, profile, 0.375f);
  if (w->mapped && ranks > 1) assert_non_null(strstr(r.halo.method, "mapped"));
  open_media(&r, p->equation, media);
  set_rules(&r, p->rules);
  while (r.stepper.step < steps) assert_ok(stepper_advance(&r.stepper, steps - r.stepper.step, &E), &E);
  assert_ok(stepper_sync(&r.stepper, &E), &E);
  assert_int_equal(r.stepper.step, steps);
  assert_int_equal(step_mismatches(&r, p->expected), 0);
  if (profile) {
    assert_int_equal(r.stepper.phases.steps, steps);
    assert_true(r.stepper.phases.boundary >= 0 && r.stepper.phases.interior >= 0 &&
                r.stepper.phases.exposed >= 0);
    if (ranks > 1) assert_true(r.stepper.phases.exchange > 0);
    if (ranks > 1 && !r.halo.on_device) assert_true(r.stepper.phases.to_host > 0);
  }
  for (int i = 0; i < EQUATION_MEDIA; i++) OK(dev->table->free(dev, media[i], MEMORY_DEVICE, &E));
  step_run_close(&r);
}

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { EVERY = 3 }; /* of the grids, and ways for the large one: it is slow there */
#else
enum { EVERY = 1 };
#endif

static bool can_do(device *dev, const char *transport) {
  char why[256];
  if (strcmp(transport, "nccl") == 0 && ranks > device_cuda_count(why)) return false; /* one GPU each */
  return !transport_check(transport, dev, &(error){0});
}

/* Does the device run it? A GPU or its program may lack what a kernel is made of. */
static bool runs(device *dev, const kernel *k) {
  return kernel_does(k, EQUATION_JACOBI, dev->table->backend) &&
         device_runs(dev, k, &(kernel_args){.equation = EQUATION_JACOBI});
}

/* Every transport this machine can do, with all neighbours on one node and with some elsewhere, on grids of one piece
 * a halo and of several. */
static void all_ways(device *dev) {
  const step_problem thick = new_problem((grid){20, 17, 4 * 13 + 1}, RULES_X[0], 7),
                     large = new_problem((grid){300, 210, 9 * 4}, RULES_X[0], 3);
  const kernel *k = kernel_table;
  while (!runs(dev, k)) k++;
  for (int mode = 0; mode < 4; mode++) {
    const step_problem thin = new_problem(GRIDS[mode], RULES_X[0], 5);
    for (int i = 0; i < transport_count(); i++)
      for (int node_ranks = 0; node_ranks < 3 && can_do(dev, transport_at(i)->name); node_ranks++) {
        way w = {transport_at(i)->name, node_ranks, false};
        one_run(dev, k, &thin, mode & 1, mode & 2, &w);
        w.mapped = dev->table->backend == BACKEND_HOST && strcmp(w.transport, "shared") == 0;
        one_run(dev, k, &thick, mode & 1, mode & 2, &w);
        if (mode == 1 && node_ranks % EVERY == 0) one_run(dev, k, &large, true, false, &w);
      }
    free(thin.expected);
  }
  free(thick.expected), free(large.expected);
}

/* Every equation, with fields of its media and each kind of face at all of them. */
static void all_equations(device *dev, const kernel *k) {
  for (int i = 0; i < EQUATION_COUNT * (GHOST_WRAP + 1); i++) {
    const unsigned char rule = (unsigned char)(i % (GHOST_WRAP + 1));
    step_problem p = {.g = GRIDS[5], .steps = 6};
    memset(p.rules, rule, FACE_COUNT);
    p.equation = (enum equation)(i / (GHOST_WRAP + 1));
    if (!kernel_does(k, p.equation, dev->table->backend)) continue;
    problem_expect(&p);
    one_run(dev, k, &p, true, false, &REFERENCE);
    free(p.expected);
  }
}

static void all_runs(const char *backend) {
  const device_options options = {.local_rank = rank, .local_ranks = ranks, .threads = 2, .profile = true};
  device *dev;
  OK(device_open(backend, &options, &dev, &E));
  for (int k = 0; k < kernel_table_size; k++) {
    const kernel *kern = &kernel_table[k];
    if (!runs(dev, kern)) continue;
    if (strncmp(kern->name, "simd_", 5) == 0) continue; /* as simd where launches and rows are this small */
    all_equations(dev, kern);
    for (int i = 0; i < COUNT(GRIDS); i += EVERY) {
      const step_problem p = new_problem(GRIDS[i], RULES_X[0], 7 + (int)(i & 1));
      for (int mode = 0; mode < 4; mode++) one_run(dev, kern, &p, mode & 1, mode & 2, &REFERENCE);
      free(p.expected);
    }
    for (int i = 0; i < COUNT(GRIDS_X); i += EVERY)
      for (size_t rule = 1; rule < sizeof RULES_X / sizeof *RULES_X; rule++) {
        const step_problem p = new_problem(GRIDS_X[i], RULES_X[rule], 5);
        one_run(dev, kern, &p, true, false, &REFERENCE);
        free(p.expected);
      }
  }
  all_ways(dev);
  dev->table->close(dev);
}

/* Sleeps before a copy for a file, like a slow bus. */
static void linger(const void *args, int part, int parts) {
  (void)args, (void)parts;
  const struct timespec t = {0, 30 * 1000 * 1000};
  if (part == 0) nanosleep(&t, NULL);
}
static const operation LINGER = {.name = "linger", .host = linger};

static float *dense_copy(step_run *r, const float *memory) {
  const slab *s = &r->slab;
  float *values = malloc((size_t)s->nx * (size_t)s->ny * (size_t)s->nz * sizeof *values);
  assert_non_null(values);
  r->transfer.field = (float *)(uintptr_t)memory;
  OK(transfer_to_host(&r->transfer, 0, s->nz, values, &E));
  return values;
}

static size_t copy_mismatches(const slab *s, const float *copy, const float *expected) {
  const size_t count = (size_t)s->nx * (size_t)s->ny * (size_t)s->nz;
  float *values = malloc(count * sizeof *values);
  size_t wrong = 0;
  assert_non_null(values);
  snapshot_planes(s, copy, 0, s->nz, values);
  for (size_t i = 0; i < count; i++) wrong += memcmp(&values[i], &expected[i], sizeof *values) != 0;
  free(values);
  return wrong;
}

/* Steps that follow at once do not overwrite a field that is still being copied: neither the older field (the next step
 * would) nor the newer one (the step after that would). */
static void copies_are_not_overwritten(void) {
  const device_options options = {.local_rank = rank, .local_ranks = ranks, .threads = 2};
  step_run r;
  snapshot p;
  device *dev;
  error e = {0};
  assert_ok(device_open("host", &options, &dev, &e), &e);
  assert_ok(slab_init(&r.slab, &(slab_shape){.nx = 33, .ny = 12, .nz = 30}, rank, ranks, &e), &e);
  step_run_open(&r, dev, "simd", "sendrecv", 0, true, false, 0.25f);
  assert_ok(snapshot_open(&p, dev, &r.slab, 0, &e), &e);
  stepper *s = &r.stepper;
  for (int round = 0; round < 4; round++) {
    assert_ok(stepper_advance(s, 1, &e), &e);
    assert_ok(stepper_sync(s, &e), &e);
    float *expected[2] = {dense_copy(&r, s->memory[0]), dense_copy(&r, s->memory[1])};
    const float *copies[2];
    assert_true(snapshot_reserve(&p, 2 * snapshot_field_floats(&r.slab), SIZE_MAX));
    for (int newer = 0; newer < 2; newer++) {
      const int which = newer ? s->current : !s->current;
      assert_ok(dev->table->apply(dev, STREAM_OUTPUT, &LINGER, "", &e), &e);
      copies[which] = snapshot_field(&p, s->memory[which], &e);
      s->copying[which] = snapshot_mark(&p, &e);
    }
    for (int i = 0; i < 4; i++) assert_ok(stepper_advance(s, 1, &e), &e);
    assert_ok(snapshot_wait(&p, &e), &e);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(copy_mismatches(&r.slab, copies[i], expected[i]), 0);
      free(expected[i]);
    }
    assert_ok(stepper_sync(s, &e), &e);
  }
  snapshot_close(&p);
  step_run_close(&r);
  dev->table->close(dev);
}

static void does_nothing(const kernel_args *a, int part, int parts) {
  (void)a, (void)part, (void)parts;
}
/* ... but for the last point of each row. */
static void nearly_right(const kernel_args *a, int part, int parts) {
  const kernel *reference;
  OK(kernel_find("reference", a->equation, BACKEND_HOST, &reference, &E));
  reference->host(a, part, parts);
  for (int z = a->z_begin; z < a->z_end && part == parts - 1; z++)
    a->out[(size_t)z * a->plane + (size_t)(a->ny - 1) * a->pitch + (size_t)a->nx - 1] += 1e-3f;
}

/* A benchmark ends with what such kernels would have timed. */
static void wrong_steps_are_found(void) {
  const device_options options = {.local_rank = rank, .local_ranks = ranks, .threads = 1};
  host_kernel *const kernels[] = {NULL, does_nothing, nearly_right};
  device *dev;
  OK(device_open("host", &options, &dev, &E));
  for (int i = 0; i < COUNT(kernels); i++) {
    error e = {0};
    step_run r;
    OK(slab_init(&r.slab, &(slab_shape){.nx = 33, .ny = 12, .nz = 30}, rank, ranks, &E));
    step_run_open(&r, dev, "simd", "sendrecv", 0, true, false, 0.25f);
    kernel wrong = *r.stepper.kernel;
    if (kernels[i]) wrong.host = kernels[i];
    r.stepper.kernel = &wrong;
    for (int n = 0; n < 2; n++) OK(stepper_advance(&r.stepper, 1, &E));
    OK(stepper_sync(&r.stepper, &E));
    stepper_prove(&r.stepper, MPI_COMM_WORLD, &e);
    assert_int_equal(e.id, kernels[i] ? ERROR_KERNEL_WRONG : 0);
    step_run_close(&r);
  }
  dev->table->close(dev);
}

TEST_OF(all_tests, const char *backend) {
  all_runs(backend);
  if (strcmp(backend, "host") != 0) return;
  copies_are_not_overwritten();
  wrong_steps_are_found();
}

MPI_MAIN
