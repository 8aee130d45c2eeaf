/* Tests whether a transport brings the right planes, and measures how fast it is. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/numbers.h"
#include "transport.h"

enum { ROUNDS = 3, REPEATS_MIN = 3, REPEATS_MAX = 40 };
static const double MEASURE_SECONDS = 0.02;

/* The seed of the values of plane `z` of the grid; `z` may lie beyond a periodic grid. */
static uint64_t halo_test_plane(const slab *s, int64_t z, int field, int round) {
  const int64_t plane = (z + s->nz_global) % s->nz_global;
  return ((uint64_t)plane << 8 | (uint64_t)field << 4 | (uint64_t)round) << 24;
}

/* The value of float `i` of a plane, one of 2^24 whole numbers. Two floats are equal by chance once in 2^24 times, and
 * two planes of hundreds of floats never. So the test finds values from a wrong plane, field or round. */
static inline float halo_test_pattern(uint64_t plane, size_t i) {
  return (float)(mix64(plane ^ mix64(i)) >> 40);
}

static int halo_test_move(halo *h, float *on_device, float *staging, copy_direction direction, error *e) {
  const bool in = direction == COPY_TO_DEVICE;
  const copy_args plane = {in ? on_device : staging, in ? staging : on_device, transport_bytes(h->slab),
                           direction};
  TRY(h->dev->table->copy(h->dev, h->stream, &plane, e));
  return h->dev->table->sync(h->dev, h->stream, e);
}

static int halo_test_fill(halo *h, float *on_device, float *staging, error *e) {
  const size_t count = transport_bytes(h->slab) / sizeof(float);
  for (size_t i = 0; i < count; i++) staging[i] = NAN;
  return halo_test_move(h, on_device, staging, COPY_TO_DEVICE, e);
}

/* Sets the ghosts to NaN. Ghosts may be the neighbours' own planes, so all ranks empty their ghosts before any rank
 * fills its own planes. */
static int halo_test_empty_ghosts(halo *h, int field, float *staging, error *e) {
  for (int side = 0; side < 2; side++)
    if (transport_neighbour(h, side) != MPI_PROC_NULL)
      TRY(halo_test_fill(h, transport_ghosts(h->setup.fields[field], h->slab, side), staging, e));
  return 0;
}

/* Writes the planes that the neighbours will get. The planes for both sides may be the same. */
static int halo_test_prepare(halo *h, int field, int round, float *staging, error *e) {
  const slab *s = h->slab;
  for (int side = 0; side < 2; side++) {
    const int64_t first = s->z0 + (side == LOWER ? 0 : s->nz - RADIUS);
    if (transport_neighbour(h, side) == MPI_PROC_NULL) continue;
    for (int z = 0; z < RADIUS; z++) {
      const uint64_t plane = halo_test_plane(s, first + z, field, round);
      for (size_t i = 0; i < s->plane; i++) staging[(size_t)z * s->plane + i] = halo_test_pattern(plane, i);
    }
    TRY(halo_test_move(h, transport_own(h->setup.fields[field], s, side), staging, COPY_TO_DEVICE, e));
  }
  return 0;
}

static int halo_test_check(halo *h, int field, int round, float *staging, error *e) {
  const slab *s = h->slab;
  for (int side = 0; side < 2; side++) {
    if (transport_neighbour(h, side) == MPI_PROC_NULL) continue;
    TRY(halo_test_move(h, transport_ghosts(h->setup.fields[field], s, side), staging, COPY_TO_HOST, e));
    const float *found = staging;
    const int64_t first = s->z0 + (side == LOWER ? -RADIUS : s->nz);
    for (int z = 0; z < RADIUS; z++, found += s->plane) {
      const uint64_t plane = halo_test_plane(s, first + z, field, round);
      size_t wrong = 0;
      for (size_t i = 0; i < s->plane; i++) wrong += found[i] != halo_test_pattern(plane, i);
      for (size_t i = 0; wrong && i < s->plane; i++)
        if (found[i] != halo_test_pattern(plane, i))
          return FAIL(e, TRANSPORT_WRONG, s->rank, side == LOWER ? "below" : "above", field,
                      (size_t)z * s->plane + i);
    }
  }
  return 0;
}

static int halo_test_round(halo *h, int field, int round, float *staging, error *e) {
  halo_test_empty_ghosts(h, field, staging, e);
  TRY(error_agree(e, h->comm));
  halo_test_prepare(h, field, round, staging, e);
  TRY(error_agree(e, h->comm));
  if (halo_exchange(h, h->setup.fields[field], HALO_UNTIMED, false, e)) return error_abort(e, h->comm);
  if (!h->dev->table->sync(h->dev, h->stream, e)) halo_test_check(h, field, round, staging, e);
  return error_agree(e, h->comm);
}

/* Sets the tested planes to NaN, so that nobody takes the patterns of a test for a field. */
static int halo_test_spoil(halo *h, float *staging, error *e) {
  for (int i = 0; i < transport_fields(h); i++)
    for (int side = 0; side < 2; side++) {
      if (transport_neighbour(h, side) == MPI_PROC_NULL) continue;
      TRY(halo_test_fill(h, transport_own(h->setup.fields[i], h->slab, side), staging, e));
      TRY(halo_test_fill(h, transport_ghosts(h->setup.fields[i], h->slab, side), staging, e));
    }
  return 0;
}

int halo_test(halo *h, error *e) {
  float *staging = NULL;
  error ignored = {0};
  h->dev->table->alloc(h->dev, (void **)&staging, transport_bytes(h->slab), MEMORY_PINNED, e);
  if (!error_agree(e, h->comm)) {
    for (int round = 0; round < ROUNDS && !e->id; round++)
      for (int i = 0; i < transport_fields(h) && !e->id; i++) halo_test_round(h, i, round, staging, e);
    halo_test_spoil(h, staging, e->id ? &ignored : e);
  }
  h->dev->table->free(h->dev, staging, MEMORY_PINNED, &ignored);
  h->exchange_seconds = 0;
  return error_agree(e, h->comm);
}

static int halo_test_time_exchange(halo *h, double *seconds, error *e) {
  MPI_TRY(e, MPI_Barrier(h->comm));
  const double begin = MPI_Wtime();
  TRY(halo_exchange(h, h->setup.fields[0], HALO_UNTIMED, false, e));
  TRY(h->dev->table->sync(h->dev, h->stream, e));
  *seconds = MPI_Wtime() - begin;
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, seconds, 1, MPI_DOUBLE, MPI_MAX, h->comm));
  return 0;
}

int halo_measure(halo *h, double *seconds, error *e) {
  double spent = 0, one;
  *seconds = INFINITY;
  for (int i = 0; i < REPEATS_MAX && (i < REPEATS_MIN || spent < MEASURE_SECONDS); i++) {
    if (halo_test_time_exchange(h, &one, e)) return error_abort(e, h->comm);
    spent += one;
    if (one < *seconds) *seconds = one;
  }
  h->exchange_seconds = 0;
  return 0;
}
