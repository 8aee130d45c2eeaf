#include "step_harness.h"
#include "tests/unit/ghost_rules.h"
/* The oracle itself, without the device and its threads. */
host_kernel host_reference;

float *step_initial(int nx, int ny, int nz) {
  size_t count = (size_t)nx * (size_t)ny * (size_t)nz;
  float *field = malloc(count * sizeof *field);
  uint64_t seed = 7;
  for (size_t i = 0; i < count; i++) field[i] = test_random(&seed);
  return field;
}

float *step_medium(int nx, int ny, int nz, int medium) {
  const size_t count = (size_t)nx * (size_t)ny * (size_t)nz;
  float *values = malloc(count * sizeof *values);
  uint64_t seed = 1000 + (uint64_t)medium;
  for (size_t i = 0; i < count; i++) values[i] = 0.1f * (1.5f + test_random(&seed));
  return values;
}

kernel_args step_weights(void) {
  kernel_args a = {.center = 0.21f};
  uint64_t seed = 99;
  for (int r = 1; r <= 4; r++) {
    a.wx[r] = 0.04f * test_random(&seed);
    a.wy[r] = 0.04f * test_random(&seed);
    a.wz[r] = 0.04f * test_random(&seed);
  }
  return a;
}

/* One slab that is the whole grid. */
typedef struct whole {
  slab slab;
  float *memory[EQUATION_STATES], *medium[EQUATION_MEDIA];
} whole;

static void wrap_z(whole *w, float *memory) {
  const slab *s = &w->slab;
  size_t bytes = RADIUS * s->plane * sizeof(float);
  memcpy(memory + slab_offset(s, -RADIUS, -4, -4), memory + slab_offset(s, s->nz - RADIUS, -4, -4), bytes);
  memcpy(memory + slab_offset(s, s->nz, -4, -4), memory + slab_offset(s, 0, -4, -4), bytes);
}

static void copy_dense(const whole *w, float *memory, float *dense, bool in) {
  const slab *s = &w->slab;
  for (int z = 0; z < s->nz; z++)
    for (int y = 0; y < s->ny; y++, dense += s->nx) {
      float *row = memory + slab_offset(s, z, y, 0);
      memcpy(in ? row : dense, in ? dense : row, (size_t)s->nx * sizeof(float));
    }
}

void step_expected(const kernel_args *weights, float *field, int nx, int ny, int nz, int steps, float ghost,
                   bool periodic_z) {
  whole w = {0};
  assert_ok(slab_init(&w.slab, &(slab_shape){.nx = nx, .ny = ny, .nz = nz}, 0, 1, &E), &E);
  kernel_args args = *weights;
  const int states = equation_states(args.equation);
  for (int i = 0; i < states; i++) {
    w.memory[i] = aligned_alloc(128, slab_floats(&w.slab) * sizeof(float));
    for (size_t k = 0; k < slab_floats(&w.slab); k++) w.memory[i][k] = ghost;
    copy_dense(&w, w.memory[i], field, true);
  }
  for (int i = 0; i < EQUATIONS[args.equation].media; i++) {
    float *dense = step_medium(nx, ny, nz, i);
    w.medium[i] = aligned_alloc(128, slab_floats(&w.slab) * sizeof(float));
    copy_dense(&w, w.medium[i], dense, true);
    args.medium[i] = w.medium[i] + slab_offset(&w.slab, 0, 0, 0);
    free(dense);
  }
  args.pitch = w.slab.pitch, args.plane = w.slab.plane, args.nx = nx, args.ny = ny, args.nz = nz,
  args.z_begin = 0, args.z_end = nz;
  rules_apply(&w.slab, &args, w.memory[0]);
  for (int n = 0; n < steps; n++) {
    if (periodic_z) wrap_z(&w, w.memory[n % states]);
    args.in = w.memory[n % states] + slab_offset(&w.slab, 0, 0, 0);
    args.out = w.memory[(n + 1) % states] + slab_offset(&w.slab, 0, 0, 0);
    host_reference(&args, 0, 1);
  }
  copy_dense(&w, w.memory[steps % states], field, false);
  for (int i = 0; i < states; i++) free(w.memory[i]);
  for (int i = 0; i < EQUATION_MEDIA; i++) free(w.medium[i]);
}

/* Takes the fields and opens the halo. */
static void open_halo(step_run *r, device *dev, const char *transport, int node_ranks) {
  stepper *s = &r->stepper;
  for (int i = 0; i < EQUATION_STATES; i++)
    OK(dev->table->alloc(dev, (void **)&s->memory[i], slab_floats(&r->slab) * sizeof(float), MEMORY_DEVICE,
                         &E));
  r->own_transport = !transport;
  if (!transport) return;
  halo_setup setup = {.dev = dev, .slab = &r->slab, .comm = MPI_COMM_WORLD, .node_ranks = node_ranks};
  memcpy(setup.fields, s->memory, sizeof setup.fields);
  OK(halo_open(&r->halo, transport, &setup, &E));
}

void step_run_open(step_run *r, device *dev, const char *kernel, const char *transport, int node_ranks,
                   bool overlap, bool profile, float ghost) {
  stepper *s = &r->stepper;
  *s = (stepper){.dev = dev, .halo = &r->halo, .slab = &r->slab, .overlap = overlap, .profile = profile};
  OK(kernel_find(kernel, EQUATION_JACOBI, dev->table->backend, &s->kernel, &E));
  s->boundary_kernel = s->kernel;
  OK(stepper_open(s, &E));
  s->args = step_weights();
  s->args.pitch = r->slab.pitch, s->args.plane = r->slab.plane, s->args.nx = r->slab.nx,
  s->args.ny = r->slab.ny, s->args.nz = r->slab.nz;
  open_halo(r, dev, transport, node_ranks);
  const float ghosts[FACE_COUNT] = {ghost, ghost, ghost, ghost, ghost, ghost};
  OK(transfer_open(&r->transfer, dev, &r->slab, ghosts, &E));
  r->global = step_initial(r->slab.nx, r->slab.ny, r->slab.nz_global);
  const float *own = r->global + (size_t)r->slab.z0 * (size_t)r->slab.nx * (size_t)r->slab.ny;
  for (int i = 0; i < EQUATION_STATES; i++) {
    r->transfer.field = s->memory[i];
    /* Ghosts towards a neighbour stay NaN until they are exchanged. */
    if (r->slab.lower == SLAB_NO_RANK) OK(transfer_fill(&r->transfer, -RADIUS, RADIUS, ghost, &E));
    if (r->slab.upper == SLAB_NO_RANK) OK(transfer_fill(&r->transfer, r->slab.nz, RADIUS, ghost, &E));
    OK(transfer_to_device(&r->transfer, 0, r->slab.nz, (float *)(uintptr_t)own, &E));
  }
  OK(halo_exchange(&r->halo, s->memory[0], HALO_UNTIMED, true, &E));
}

void step_run_close(step_run *r) {
  device *dev = r->stepper.dev;
  transfer_close(&r->transfer);
  if (!r->own_transport) halo_close(&r->halo);
  for (int i = 0; i < EQUATION_STATES; i++)
    OK(dev->table->free(dev, r->stepper.memory[i], MEMORY_DEVICE, &E));
  stepper_close(&r->stepper);
  free(r->global);
}

size_t step_mismatches(step_run *r, const float *expected) {
  const slab *s = &r->slab;
  size_t plane = (size_t)s->nx * (size_t)s->ny, count = plane * (size_t)s->nz, wrong = 0;
  float *mine = malloc(count * sizeof *mine);
  r->transfer.field = r->stepper.memory[r->stepper.current];
  OK(transfer_to_host(&r->transfer, 0, s->nz, mine, &E));
  for (size_t i = 0; i < count; i++)
    wrong += memcmp(&mine[i], &expected[(size_t)s->z0 * plane + i], sizeof *mine) != 0;
  free(mine);
  return wrong;
}
