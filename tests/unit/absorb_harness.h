/* A wave in absorbing layers without the program around it: the slabs of a grid in one process and on one
 * device, stepped as the step loop does, with ghost planes copied from slab to slab. */
#ifndef STENCIL_ABSORB_HARNESS_H
#define STENCIL_ABSORB_HARNESS_H

#include "tests/backend_main.h"
#include <math.h>
#include "physics/absorb.h"
#include "physics/fd.h"
#include "physics/physics.h"

enum { SLABS_MAX = 4 };

/* Tables of boundaries stay readable. */
#define A BOUNDARY_ABSORBING
#define D BOUNDARY_DIRICHLET
#define N BOUNDARY_NEUMANN
#define P BOUNDARY_PERIODIC
#define F BOUNDARY_FIXED
#define O BOUNDARY_NONE

/* How the work of a step is divided; the answer must not depend on it. */
typedef struct cutting {
  int slabs, threads;
  bool reversed; /* ranges are enqueued from the top down */
  int planes;    /* > 0: planes of the interior enqueued at a time, on both streams in turn */
} cutting;

typedef struct piece {
  slab s;
  kernel_args args;
  float *field[2], *medium;
  absorb layers;
} piece;

typedef struct world {
  config c;
  cutting cut;
  device *dev;
  const kernel *k;
  double dt;
  int current; /* field[current] is the newest */
  piece piece[SLABS_MAX];
} world;

/* Values at points of the grid, z slowest. */
typedef struct grid_field {
  int nx, ny, nz;
  float *values;
} grid_field;

static inline grid_field grid_new(int nx, int ny, int nz) {
  grid_field f = {nx, ny, nz, calloc((size_t)nx * (size_t)ny * (size_t)nz, sizeof(float))};
  assert_non_null(f.values);
  return f;
}

static inline float *grid_at(const grid_field *f, int z, int y, int x) {
  return f->values + ((size_t)z * (size_t)f->ny + (size_t)y) * (size_t)f->nx + (size_t)x;
}

static inline double grid_max(const grid_field *f) {
  double max = 0;
  for (size_t i = 0; i < (size_t)f->nx * (size_t)f->ny * (size_t)f->nz; i++)
    max = fmax(max, fabs((double)f->values[i]));
  return max;
}

/* All of a slab's memory, from `host` or to it. */
static inline void move_memory(world *w, const piece *p, float *memory, float *host,
                               copy_direction direction) {
  const device_table *t = w->dev->table;
  bool up = direction == COPY_TO_DEVICE;
  size_t bytes = slab_floats(&p->s) * sizeof(float);
  OK(t->copy(w->dev, STREAM_BOUNDARY, &(copy_args){up ? memory : host, up ? host : memory, bytes, direction},
             &E));
  OK(t->sync(w->dev, STREAM_BOUNDARY, &E));
}

/* Own and neighbours' points have the values of `f`, points beyond the grid 0. `squared`: as a medium, dt^2 f^2. */
static inline void piece_put(world *w, const piece *p, float *memory, const grid_field *f, bool squared) {
  float *host = calloc(slab_floats(&p->s), sizeof *host);
  assert_non_null(host);
  for (int z = -RADIUS; z < p->s.nz + RADIUS; z++)
    for (int y = 0; y < f->ny && p->s.z0 + z >= 0 && p->s.z0 + z < f->nz; y++)
      for (int x = 0; x < f->nx; x++) {
        double v = (double)*grid_at(f, p->s.z0 + z, y, x);
        host[slab_offset(&p->s, z, y, x)] = (float)(squared ? w->dt * w->dt * v * v : v);
      }
  move_memory(w, p, memory, host, COPY_TO_DEVICE);
  free(host);
}

static inline kernel_args piece_args(const world *w, const piece *p) {
  size_t first = slab_offset(&p->s, 0, 0, 0);
  kernel_args args = p->args;
  args.in = p->field[w->current] + first;
  args.out = p->field[!w->current] + first;
  args.equation = EQUATION_WAVE;
  if (p->medium) args.medium[0] = p->medium + first;
  return args;
}

/* u now and one step before, with images. */
static inline void world_put(world *w, const grid_field *now, const grid_field *before) {
  for (int i = 0; i < w->cut.slabs; i++) {
    piece *p = &w->piece[i];
    piece_put(w, p, p->field[0], now, false);
    piece_put(w, p, p->field[1], before, false);
    kernel_args args = piece_args(w, p);
    args.z_end = args.nz;
    for (int k = 0; k < 2; k++) {
      args.out = p->field[k] + slab_offset(&p->s, 0, 0, 0);
      OK(w->dev->table->apply(w->dev, STREAM_BOUNDARY, &operation_ghosts, &args, &E));
    }
    OK(w->dev->table->sync(w->dev, STREAM_BOUNDARY, &E));
  }
}

static inline grid_field world_get(world *w) {
  grid_field f = grid_new(w->c.nx, w->c.ny, w->c.nz);
  for (int i = 0; i < w->cut.slabs; i++) {
    const piece *p = &w->piece[i];
    float *host = malloc(slab_floats(&p->s) * sizeof *host);
    assert_non_null(host);
    move_memory(w, p, p->field[w->current], host, COPY_TO_HOST);
    for (int z = 0; z < p->s.nz; z++)
      for (int y = 0; y < f.ny; y++)
        memcpy(grid_at(&f, p->s.z0 + z, y, 0), host + slab_offset(&p->s, z, y, 0),
               (size_t)f.nx * sizeof(float));
    free(host);
  }
  return f;
}

static inline config box(int nx, int ny, int nz, int width, const enum boundary_kind kinds[FACE_COUNT]) {
  config c = {
      .nx = nx, .ny = ny, .nz = nz, .dx = 1, .dy = 1, .dz = 1, .space_order = 8, .boundary_width = width};
  memcpy(c.boundary, kinds, sizeof c.boundary);
  return c;
}

static inline grid_field random_field(const config *c, double from, double to, uint64_t seed) {
  grid_field f = grid_new(c->nx, c->ny, c->nz);
  for (size_t i = 0; i < (size_t)c->nx * (size_t)c->ny * (size_t)c->nz; i++)
    f.values[i] = (float)(from + (to - from) * ((double)test_random(&seed) + 1) / 2);
  return f;
}

/* A kernel that the device runs, of this name if it is not NULL; or NULL. */
static inline const kernel *kernel_here(device *dev, const char *name) {
  const kernel_args args = {.equation = EQUATION_WAVE};
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel *k = &kernel_table[i];
    if (kernel_does(k, EQUATION_WAVE, dev->table->backend) && (!name || strcmp(k->name, name) == 0) &&
        device_runs(dev, k, &args))
      return k;
  }
  return NULL;
}

/* Of worlds that are opened; NULL: the first that the device runs. */
static const char *world_kernel;

/* Opens a world at 0.9 of the stable time step for velocities up to v_max; velocity: of each point, or NULL:
 * v_max. */
static inline void world_open(world *w, const char *device_name, const config *c, cutting cut, double v_max,
                              const grid_field *velocity) {
  const device_options options = {.local_ranks = 1, .threads = cut.threads};
  *w = (world){.c = *c, .cut = cut};
  w->c.equation = EQUATION_WAVE, w->c.media[MEDIUM_VELOCITY].number = v_max;
  assert_ok(device_open(device_name, &options, &w->dev, &E), &E);
  w->k = kernel_here(w->dev, world_kernel);
  assert_non_null(w->k);
  w->dt = 0.9 * 2 / (v_max * sqrt(fd_sum(c->space_order, (double[]){c->dx, c->dy, c->dz})));
  const physics p = {.form = EQUATION_WAVE, .dt = w->dt};
  for (int i = 0; i < cut.slabs; i++) {
    piece *q = &w->piece[i];
    OK(slab_init(&q->s, &(slab_shape){.nx = c->nx, .ny = c->ny, .nz = c->nz}, i, cut.slabs, &E));
    physics_args(&p, &w->c, &q->s, &q->args);
    float **const fields[] = {&q->field[0], &q->field[1], &q->medium};
    for (int k = 0; k < (velocity ? 3 : 2); k++)
      OK(w->dev->table->alloc(w->dev, (void **)fields[k], slab_floats(&q->s) * sizeof(float), MEMORY_DEVICE,
                              &E));
    if (velocity) piece_put(w, q, q->medium, velocity, true);
    const problem on = {.dev = w->dev, .slab = &q->s, .config = &w->c};
    OK(absorb_open(&q->layers, &on, &q->args, (absorb_motion){v_max, w->dt}, &E));
  }
}

static inline void world_close(world *w) {
  for (int i = 0; i < w->cut.slabs; i++) {
    piece *p = &w->piece[i];
    absorb_close(&p->layers);
    float *const fields[] = {p->field[0], p->field[1], p->medium};
    for (int k = 0; k < 3; k++) OK(w->dev->table->free(w->dev, fields[k], MEMORY_DEVICE, &E));
  }
  assert_int_equal(w->dev->bytes, 0);
  w->dev->table->close(w->dev);
}

/* --- a step --------------------------------------------------------------------------------------------- */

static inline void launch_range(const world *w, const piece *p, int stream, int begin, int end) {
  if (end <= begin) return;
  kernel_args args = piece_args(w, p);
  args.z_begin = begin, args.z_end = end;
  OK(absorb_launch(&p->layers, stream, w->k, &args, &E));
}

static inline void launch_piece(const world *w, const piece *p) {
  zrange lo, interior, hi;
  slab_ranges(&p->s, &lo, &interior, &hi);
  const zrange first = w->cut.reversed ? hi : lo, last = w->cut.reversed ? lo : hi;
  launch_range(w, p, STREAM_BOUNDARY, first.begin, first.end);
  const int planes = w->cut.planes ? w->cut.planes : zrange_planes(interior);
  for (int z = interior.begin, turn = 0; z < interior.end; z += planes, turn++) {
    int stream = turn % 2 ? STREAM_BOUNDARY : STREAM_INTERIOR;
    launch_range(w, p, stream, z, z + planes < interior.end ? z + planes : interior.end);
  }
  launch_range(w, p, STREAM_BOUNDARY, last.begin, last.end);
}

static inline void world_sync(const world *w) {
  OK(w->dev->table->sync(w->dev, STREAM_BOUNDARY, &E));
  OK(w->dev->table->sync(w->dev, STREAM_INTERIOR, &E));
}

/* RADIUS planes of slab `from`, from its plane z on, to plane `to_z` of slab `to`, in the fields just
 * computed. */
static inline void copy_planes(const world *w, int from, int z, int to, int to_z) {
  const piece *p = &w->piece[from], *q = &w->piece[to];
  const float *source = p->field[!w->current] + slab_offset(&p->s, z, -RADIUS, -RADIUS);
  float *target = q->field[!w->current] + slab_offset(&q->s, to_z, -RADIUS, -RADIUS);
  size_t bytes = RADIUS * p->s.plane * sizeof(float);
  OK(w->dev->table->copy(w->dev, STREAM_BOUNDARY, &(copy_args){target, source, bytes, COPY_ON_DEVICE}, &E));
}

static inline void world_step(world *w, int steps) {
  for (; steps > 0; steps--) {
    for (int i = 0; i < w->cut.slabs; i++) launch_piece(w, &w->piece[i]);
    world_sync(w);
    for (int i = 0; i + 1 < w->cut.slabs; i++) {
      copy_planes(w, i, w->piece[i].s.nz - RADIUS, i + 1, -RADIUS);
      copy_planes(w, i + 1, 0, i, w->piece[i].s.nz);
    }
    for (int i = 0; i < w->cut.slabs; i++) absorb_advance(&w->piece[i].layers, 1);
    w->current = !w->current;
  }
  world_sync(w);
}

#endif
