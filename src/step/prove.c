/* Checks a benchmark: compares one more step with the oracle's on two planes, and so at all edges of tiles. */
#include "prove.h"
#include <math.h>
#include <string.h>
#include "base/error_mpi.h"

enum { PLANES = 2 };

/* Memory for one plane of each field that a step overwrites: u, then the memories of the terms. */
typedef struct proof {
  const stepper *s;
  const kernel *oracle;
  size_t before, floats; /* floats of a plane in memory: before its first own point, and all */
  float *planes, *seen;  /* device memory; pinned: the oracle's plane and the step's */
} proof;

static int prove_fields(const proof *p) {
  return 1 + p->s->args.terms.memories;
}
static size_t prove_bytes(const proof *p) {
  return p->floats * sizeof(float);
}

/* The first own point of field `i` of the proof's plane `n`. */
static float *prove_plane(const proof *p, int n, int i) {
  return p->planes + (size_t)(n * prove_fields(p) + i) * p->floats + p->before;
}

/* The planes compared: one at the boundary, but not at a face, and one of the interior. */
static int prove_z(const proof *p, int n) {
  const int nz = p->s->slab->nz, near = nz > 2 ? 2 : nz - 1;
  return n == 0 ? near : nz / 2;
}

/* How many planes are compared: in a thin slab one plane may be both. */
static int prove_planes(const proof *p) {
  return prove_z(p, 0) == prove_z(p, 1) ? 1 : PLANES;
}

/* Does the next step of plane n by the oracle, in the proof's memory. */
static int prove_expect(const proof *p, int n, error *e) {
  const stepper *s = p->s;
  const device_table *t = s->dev->table;
  const int z = prove_z(p, n);
  const ptrdiff_t at = (ptrdiff_t)s->slab->plane * z;
  kernel_args a = s->args;
  float **const fields[1 + MEMORIES_MAX] = {&a.out, &a.terms.memory[0], &a.terms.memory[1],
                                            &a.terms.memory[2]};
  a.in = stepper_field(s, s->current);
  a.out = stepper_field(s, stepper_ahead(s, 1));
  for (int i = 0; i < prove_fields(p); i++) {
    float *const to = prove_plane(p, n, i);
    TRY(t->copy(s->dev, STREAM_INTERIOR,
                &(copy_args){to - p->before, *fields[i] + at - p->before, prove_bytes(p), COPY_ON_DEVICE},
                e));
    *fields[i] = to - at;
  }
  a.z_begin = z, a.z_end = z + 1;
  a.ghosts[FACE_Z_LO] = a.ghosts[FACE_Z_HI] = GHOST_KEEP;
  return s->absorb ? absorb_launch(s->absorb, STREAM_INTERIOR, p->oracle, &a, e)
                   : t->launch(s->dev, STREAM_INTERIOR, p->oracle, &a, e);
}

/* Copies plane n of the oracle and of `field` to the host. */
static int prove_fetch(const proof *p, int n, const float *field, error *e) {
  const device_table *t = p->s->dev->table;
  const float *const from[2] = {prove_plane(p, n, 0), field + (ptrdiff_t)p->s->slab->plane * prove_z(p, n)};
  for (size_t i = 0; i < 2; i++)
    TRY(t->copy(p->s->dev, STREAM_INTERIOR,
                &(copy_args){p->seen + i * p->floats, from[i] - p->before, prove_bytes(p), COPY_TO_HOST}, e));
  return t->sync(p->s->dev, STREAM_INTERIOR, e);
}

static int prove_compare(const proof *p, int n, error *e) {
  const slab *b = p->s->slab;
  for (int y = 0; y < b->ny; y++)
    for (int x = 0; x < b->nx; x++) {
      const float *expected = p->seen + p->before + (size_t)y * b->pitch + x, *got = expected + p->floats;
      if (memcmp(expected, got, sizeof *got) != 0 && !(isnan(*expected) && isnan(*got)))
        return FAIL(e, KERNEL_WRONG, p->s->kernel->name, (double)*got, (double)*expected, p->oracle->name,
                    b->z0 + prove_z(p, n), y, x);
    }
  return 0;
}

/* Clears the layers before both steps, because a step overwrites their state. */
static int prove_prepare(const proof *p, error *e) {
  const stepper *s = p->s;
  if (s->absorb) TRY(absorb_clear(s->absorb, e));
  for (int n = 0; n < prove_planes(p); n++) TRY(prove_expect(p, n, e));
  TRY(s->dev->table->sync(s->dev, STREAM_INTERIOR, e));
  return s->absorb ? absorb_clear(s->absorb, e) : 0;
}

static int prove_open(proof *p, const stepper *s, error *e) {
  const slab *b = s->slab;
  const enum backend backend = s->dev->table->backend;
  const size_t first = slab_offset(b, 0, -RADIUS, 0) - SLAB_ALIGN;
  *p = (proof){.s = s,
               .before = slab_offset(b, 0, 0, 0) - first,
               .floats = slab_offset(b, 0, b->ny + RADIUS, 0) - first};
  TRY(kernel_find(backend == BACKEND_CUDA ? "naive" : "reference", s->args.equation, backend, &p->oracle, e));
  TRY(s->dev->table->alloc(s->dev, (void **)&p->planes, (size_t)(PLANES * prove_fields(p)) * prove_bytes(p),
                           MEMORY_DEVICE, e));
  return s->dev->table->alloc(s->dev, (void **)&p->seen, 2 * prove_bytes(p), MEMORY_PINNED, e);
}

int stepper_prove(const stepper *s, MPI_Comm comm, error *e) {
  const device_table *t = s->dev->table;
  error ignored = {0};
  proof p = {0};
  if (!prove_open(&p, s, e)) prove_prepare(&p, e);
  if (!error_agree(e, comm)) {
    stepper one = *s;
    one.observers = NULL, one.sources = NULL, one.watch = NULL, one.front = NULL, one.profile = false;
    if (stepper_advance(&one, 1, e) || stepper_sync(&one, e)) error_abort(e, comm);
    for (int n = 0; n < prove_planes(&p) && !e->id; n++)
      if (!prove_fetch(&p, n, stepper_field(&one, one.current), e)) prove_compare(&p, n, e);
    error_agree(e, comm);
  }
  if (p.planes) t->free(s->dev, p.planes, MEMORY_DEVICE, &ignored);
  if (p.seen) t->free(s->dev, p.seen, MEMORY_PINNED, &ignored);
  return e->id;
}
