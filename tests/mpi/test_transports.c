/* Slabs in a ring, as a periodic z makes them: every transport fills every ghost plane from the right side, also where
 * both neighbours are the same rank or the rank itself. */
#include "test.h"
#include "mpi_main.h"
#include <stdlib.h>
#include <string.h>
#include "halo/halo.h"

enum { FIELDS = 2 };

/* Planes of a rank: slabs so thin that planes for both neighbours, and a rank's ghosts on both sides, are the same pages;
 * rings that close at the same place within a page for some numbers of ranks, and for all. */
typedef struct grid {
  int nx, ny, nz;
} grid;
static const grid GRIDS[] = {{13, 8, 8}, {13, 5, 16}, {13, 8, 16}};

/* Never the same twice, and exact. */
static float value(const slab *s, int64_t z, size_t i, int field, int round) {
  const int64_t plane = (z + s->nz_global) % s->nz_global;
  return (float)(((size_t)(round * FIELDS + field) * (size_t)s->nz_global + (size_t)plane) * s->plane + i);
}

/* All of a field, on the host: ghosts that nobody fills stay NaN. */
static void fill(const slab *s, float *field, int which, int round) {
  memset(field, 0xFF, slab_floats(s) * sizeof *field);
  for (int z = 0; z < s->nz; z++)
    for (size_t i = 0; i < s->plane; i++)
      field[slab_offset(s, z, -RADIUS, -RADIUS) + i] = value(s, s->z0 + z, i, which, round);
}

static size_t wrong_values(const slab *s, const float *field, int which, int round) {
  size_t wrong = 0;
  for (int z = -RADIUS; z < s->nz + RADIUS; z++)
    for (size_t i = 0; i < s->plane; i++)
      wrong += field[slab_offset(s, z, -RADIUS, -RADIUS) + i] != value(s, s->z0 + z, i, which, round);
  return wrong;
}

/* Planes [begin, end). */
static void copy(device *dev, const slab *s, float *to, const float *from, int begin, int end,
                 copy_direction way) {
  const size_t at = slab_offset(s, begin, -RADIUS, -RADIUS),
               bytes = (size_t)(end - begin) * s->plane * sizeof *to;
  OK(dev->table->copy(dev, STREAM_BOUNDARY, &(copy_args){to + at, from + at, bytes, way}, &E));
  OK(dev->table->sync(dev, STREAM_BOUNDARY, &E));
}

/* Ghosts may be the neighbours' own planes, so all ranks empty their ghosts before any rank fills what it owns. */
static void exchange_all(halo *h, float *staging) {
  const slab *s = h->slab;
  for (int round = 0; round < 4; round++)
    for (int i = 0; i < FIELDS; i++) {
      float *field = h->setup.fields[i];
      fill(s, staging, i, round);
      MPI_Barrier(MPI_COMM_WORLD);
      copy(h->dev, s, field, staging, -RADIUS, 0, COPY_TO_DEVICE);
      copy(h->dev, s, field, staging, s->nz, s->nz + RADIUS, COPY_TO_DEVICE);
      MPI_Barrier(MPI_COMM_WORLD);
      copy(h->dev, s, field, staging, 0, s->nz, COPY_TO_DEVICE);
      OK(halo_exchange(h, field, HALO_UNTIMED, true, &E));
      copy(h->dev, s, staging, field, -RADIUS, s->nz + RADIUS, COPY_TO_HOST);
      assert_int_equal(wrong_values(s, staging, i, round), 0);
    }
}

/* On the host, where the test's ring closes at the same place within a page. */
static bool maps(const device *dev, const slab *s) {
  return dev->table->backend == BACKEND_HOST && (size_t)s->nz_global * s->plane % SLAB_PAGE == 0;
}

/* NCCL refuses ranks that share a GPU, so rank i opens GPU i modulo their number. */
static bool must_refuse(const device *dev, const char *name) {
  char why[256];
  return strcmp(name, "nccl") == 0 && dev->table->backend == BACKEND_CUDA && ranks > device_cuda_count(why);
}

static void ring(device *dev, const char *name, grid g) {
  slab s;
  halo h = {.dev = NULL};
  error e = {0};
  float *staging = NULL;
  assert_ok(slab_init(&s, &(slab_shape){.nx = g.nx, .ny = g.ny, .nz = g.nz * ranks}, rank, ranks, &e), &e);
  slab_wrap(&s, true);
  halo_setup setup = {.dev = dev, .slab = &s, .comm = MPI_COMM_WORLD};
  const size_t bytes = slab_floats(&s) * sizeof(float);
  for (int i = 0; i < FIELDS; i++)
    assert_ok(dev->table->alloc(dev, (void **)&setup.fields[i], bytes, MEMORY_DEVICE, &e), &e);
  assert_ok(dev->table->alloc(dev, (void **)&staging, bytes, MEMORY_PINNED, &e), &e);
  halo_open(&h, name, &setup, &e);
  if (must_refuse(dev, name)) {
    assert_int_equal(e.id, ERROR_TRANSPORT_IMPOSSIBLE);
    assert_non_null(strstr(e.text, "share a GPU"));
    if (rank == 0) printf("%s: %d ranks: refused, %s\n", name, ranks, e.text);
  } else {
    assert_ok(e.id, &e);
    assert_string_equal(h.name, name);
    if (strcmp(name, "shared") == 0) assert_int_equal(strncmp(h.method, "mapped", 6) == 0, maps(dev, &s));
    exchange_all(&h, staging);
    if (strcmp(name, "ipc") == 0) { /* it knows the neighbours' addresses only of the fields it was given */
      assert_int_equal(halo_exchange(&h, staging, HALO_UNTIMED, false, &e), ERROR_TRANSPORT_FIELD);
      e = (error){0};
    }
    if (rank == 0) printf("%s: %d ranks in a ring; %s\n", name, ranks, h.method);
  }
  halo_close(&h);
  e = (error){0};
  for (int i = 0; i < FIELDS; i++) assert_ok(dev->table->free(dev, setup.fields[i], MEMORY_DEVICE, &e), &e);
  assert_ok(dev->table->free(dev, staging, MEMORY_PINNED, &e), &e);
}

TEST_OF(all_rings, const char *backend) {
  const device_options options = {.local_rank = rank, .local_ranks = ranks, .threads = 1};
  device *dev;
  OK(device_open(backend, &options, &dev, &E));
  for (int i = 0; i < transport_count(); i++) {
    error reason = {0};
    const char *name = transport_at(i)->name;
    if (ranks == 1 && strcmp(name, "ipc") == 0) continue; /* a process cannot map its own memory */
    if (!transport_check(name, dev, &reason))
      for (int k = 0; k < COUNT(GRIDS); k++) ring(dev, name, GRIDS[k]);
    else if (rank == 0)
      printf("%s, skipped\n", reason.text);
  }
  dev->table->close(dev);
}

MPI_MAIN
