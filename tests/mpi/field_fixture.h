/* Shared by the tests of field I/O: a folder, a field of random values, sources and sinks. */
#ifndef STENCIL_FIELD_FIXTURE_H
#define STENCIL_FIELD_FIXTURE_H

#include <ftw.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
#include "test.h"
#include "base/error_mpi.h"
#include "io/bytes/atomic_file.h"
#include "io/hdf5/field_io.h"
#include "io/bytes/rows.h"

enum { NX = 7, NY = 5, NZ = 17, POINTS = NX * NY * NZ, PLANE_BYTES = NX * NY * 4 };

/* Ways to write and read: all ranks together, on one thread and on several; through rank 0, by shared memory and by
 * messages. */
enum { ACCESSES = 4 };

typedef struct fixture {
  int rank, ranks;
  char folder[64]; /* empty at first, removed at the end */
  slab s;
  io_access accesses[ACCESSES], alone; /* alone: of this rank */
} fixture;

static inline int remove_entry(const char *path, const struct stat *s, int type, struct FTW *at) {
  (void)s, (void)type, (void)at;
  return remove(path);
}

static inline int fixture_open(void **state) {
  fixture *x = calloc(1, sizeof *x);
  error e = {0};
  MPI_Comm_rank(MPI_COMM_WORLD, &x->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &x->ranks);
  strcpy(x->folder, "field_io.XXXXXX");
  if (x->rank == 0 && !mkdtemp(x->folder)) return -1;
  MPI_Bcast(x->folder, sizeof x->folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  for (int i = 0; i < ACCESSES; i++) {
    if (io_access_open(&x->accesses[i], MPI_COMM_WORLD, i < 2, &e)) return -1;
    x->accesses[i].threads = x->accesses[i].compressors = i % 2 ? 3 : 1;
    if (i == 3) x->accesses[i].near = false;
  }
  if (io_access_open(&x->alone, MPI_COMM_SELF, true, &e)) return -1;
  *state = x;
  return slab_init(&x->s, &(slab_shape){.nx = NX, .ny = NY, .nz = NZ}, x->rank, x->ranks, &e);
}

static inline int fixture_close(void **state) {
  fixture *x = *state;
  MPI_Barrier(MPI_COMM_WORLD);
  if (x->rank == 0) nftw(x->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  free(x);
  return 0;
}

/* Runs the tests on all ranks; a failure on one ends the job, since the others may wait for it. */
#define FIXTURE_MAIN                                                                                         \
  int main(int argc, char **argv) {                                                                          \
    MPI_Init(&argc, &argv);                                                                                  \
    field_io_start();                                                                                        \
    if (cmocka_run_group_tests(tests, fixture_open, fixture_close)) MPI_Abort(MPI_COMM_WORLD, 1);            \
    return mpi_end();                                                                                        \
  }

/* A random number of 32 bits for point i of a field. */
static inline uint32_t random_bits(uint64_t i) {
  uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return (uint32_t)(h >> 32);
}

/* In [-1, 1), with all bits of the fraction in use. */
static inline float random_value(uint64_t i) {
  return (float)random_bits(i) * 0x1p-31f - 1.0f;
}

/* Context of the source and the sink below. */
typedef struct stream {
  const slab *s;
  _Atomic int moved; /* planes so far */
  int fail_rank;     /* this rank fails ... */
  int fail_z;        /* ... at the block that holds own plane fail_z */
} stream;

/* By any thread, where cmocka's assertions are of no use. */
static inline void stream_check(bool good, const char *what, int z) {
  if (good) return;
  fprintf(stderr, "%s: plane %d\n", what, z);
  abort();
}

static inline int stream_advance(stream *t, int z, int planes, error *e) {
  stream_check(z >= 0 && planes >= 1 && z + planes <= t->s->nz, "not of this slab", z);
  t->moved += planes;
  bool fails = t->s->rank == t->fail_rank && z <= t->fail_z && t->fail_z < z + planes;
  return fails ? FAIL(e, DEVICE_FAILED, "test", "a copy", "on purpose") : 0;
}

static inline int random_source(void *context, int z, int planes, float *values, error *e) {
  stream *t = context;
  uint64_t plane = (uint64_t)t->s->nx * (uint64_t)t->s->ny, first = plane * (uint64_t)(t->s->z0 + z);
  for (uint64_t i = 0; i < plane * (uint64_t)planes; i++) values[i] = random_value(first + i);
  return stream_advance(t, z, planes, e);
}

static inline int random_sink(void *context, int z, int planes, float *values, error *e) {
  stream *t = context;
  uint64_t plane = (uint64_t)t->s->nx * (uint64_t)t->s->ny, first = plane * (uint64_t)(t->s->z0 + z);
  for (uint64_t i = 0; i < plane * (uint64_t)planes; i++)
    stream_check(values[i] == random_value(first + i), "a value differs", z);
  memset(values, 0x5a, plane * (uint64_t)planes * sizeof *values); /* it may spoil them */
  return stream_advance(t, z, planes, e);
}

static inline field_meta some_meta(int ranks, int compress) {
  return (field_meta){.run = {.step = 42,
                              .time = 0.125,
                              .dt = 0.5,
                              .mpi_ranks = ranks,
                              .config_text = "[grid]\nnx = 7\n",
                              .command = "stencil a.ini",
                              .backend = "host",
                              .kernel = "simd",
                              .transport = "sendrecv",
                              .equation = "jacobi"},
                      .origin = {1, -2, 3.5},
                      .spacing = {0.25, 0.5, 2},
                      .compress = compress};
}

static inline field_io io_with(fixture *x, const slab *s, int way, size_t block_bytes) {
  field_io io;
  field_io_init(&io, &x->accesses[way], s, IO_AUTO);
  assert_int_equal(io.mode, way < 2 ? IO_COLLECTIVE : IO_GATHER);
  io.access->block_bytes = block_bytes;
  return io;
}

/* Rank 0 creates a dataset of a new file from values it holds; everybody waits for it. */
static inline void make_input(const fixture *x, const char *file, const char *dataset, hid_t type, int rank,
                              const hsize_t *shape, const hsize_t *chunk, hid_t memory, const void *values) {
  if (x->rank == 0) {
    hid_t f = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = rank ? H5Screate_simple(rank, shape, NULL) : H5Screate(H5S_SCALAR);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), link = H5Pcreate(H5P_LINK_CREATE);
    assert_true(H5Pset_create_intermediate_group(link, 1) >= 0);
    if (chunk) assert_true(H5Pset_chunk(list, rank, chunk) >= 0 && H5Pset_deflate(list, 3) >= 0);
    hid_t d = H5Dcreate2(f, dataset, type, space, link, list, H5P_DEFAULT);
    assert_true(d >= 0);
    if (values) assert_true(H5Dwrite(d, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    assert_true(H5Dclose(d) >= 0 && H5Pclose(link) >= 0 && H5Pclose(list) >= 0 && H5Sclose(space) >= 0);
    assert_true(H5Fclose(f) >= 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

#endif
