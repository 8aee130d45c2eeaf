/* Shared by the tests of checkpoints: a state of arrays of all kinds, divided among the ranks in several ways. */
#ifndef STENCIL_CHECKPOINT_FIXTURE_H
#define STENCIL_CHECKPOINT_FIXTURE_H

#include "io/checkpoint/checkpoint.h"
#include "field_fixture.h"
#include <fcntl.h>
#include <glob.h>

enum { FILE_MAX = 1 << 17, ARRAYS = 10, ROW_MAX = 700 * 390, PARTITIONS = 4 };

/* Context of a source or a sink. */
typedef struct part {
  const checkpoint_array *array;
  int salt;              /* which values */
  _Atomic int64_t moved; /* rows so far */
  int64_t fail_row;      /* fails at the block that holds it; -1: never */
} part;

typedef struct state {
  int count;
  checkpoint_array arrays[ARRAYS];
  part parts[ARRAYS];
} state;

static inline size_t value_bytes(const checkpoint_array *a) {
  return a->type == CHECKPOINT_FLOAT ? 4 : 8;
}

static inline int64_t row_values(const checkpoint_array *a) {
  return (a->axes > 1 ? a->shape[1] : 1) * (a->axes > 2 ? a->shape[2] : 1);
}

/* Fills it with random bits, NaNs included, which must come back. Returns the number of bytes. */
static inline size_t part_values(const part *p, int64_t row, int64_t rows, unsigned char *to) {
  const checkpoint_array *a = p->array;
  int64_t width = row_values(a);
  size_t size = value_bytes(a), bytes = 0;
  for (int64_t r = row; r < row + rows; r++)
    for (int64_t i = 0; i < width; i++, bytes += size) {
      uint64_t at = (uint64_t)(r * width + i) + ((uint64_t)p->salt << 40);
      const uint32_t bits[2] = {random_bits(at), random_bits(~at)};
      memcpy(to + bytes, bits, size);
    }
  return bytes;
}

static inline int part_advance(part *p, int64_t row, int64_t rows, error *e) {
  if (rows < 1 || row < p->array->first || row + rows > p->array->first + p->array->count) abort();
  p->moved += rows;
  bool fails = row <= p->fail_row && p->fail_row < row + rows;
  return fails ? FAIL(e, DEVICE_FAILED, "test", "a copy", "on purpose") : 0;
}

/* By any thread, where cmocka's assertions are of no use. */
static inline int part_source(void *context, int64_t row, int64_t rows, void *values, error *e) {
  part_values(context, row, rows, values);
  return part_advance(context, row, rows, e);
}

static inline int part_sink(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const part *p = context;
  size_t bytes = (size_t)(rows * row_values(p->array)) * 8;
  unsigned char *expected = malloc(bytes + 1);
  if (!expected) abort();
  bytes = part_values(p, row, rows, expected);
  if (memcmp(values, expected, bytes)) {
    fprintf(stderr, "%s: rows from %d differ\n", p->array->name, (int)row);
    abort();
  }
  memset(values, 0x5a, bytes); /* it may spoil them */
  free(expected);
  return part_advance(context, row, rows, e);
}

/* The first row of rank `rank`, of `rows` rows divided in way `way`: evenly; all to the last rank; all to the first;
 * unevenly, with none for some ranks. */
static inline int64_t first_row(int way, int64_t rows, int rank, int ranks) {
  if (rank >= ranks) return rows;
  return way == 0   ? rows * rank / ranks
         : way == 1 ? 0
         : way == 2 ? (rank ? rows : 0)
                    : rows * (rank - rank % 2) * rank / (ranks * ranks);
}

/* The state with values `salt`, divided in way `way`; every rank adds `ghosts` rows on either side of its own. */
static inline void state_init(state *s, int salt, int way, int ghosts, int rank, int ranks) {
  static const checkpoint_array arrays[ARRAYS] = {
      {.name = "u", .axes = 3, .shape = {NZ, NY, NX}},
      {.name = "previous", .axes = 3, .shape = {NZ, NY, NX}},
      {.name = "psi_y", .axes = 3, .shape = {NZ, 3, NX}},
      {.name = "psi_z", .axes = 3, .shape = {3, NY, NX}},
      {.name = "large", .axes = 3, .shape = {3, 390, 700}}, /* a row is more than one chunk */
      {.name = "traces", .axes = 2, .shape = {13, 11}},
      {.name = "times", .type = CHECKPOINT_INT64, .axes = 1, .shape = {6}},
      {.name = "steps", .type = CHECKPOINT_INT64, .axes = 1, .shape = {6}},
      {.name = "nothing", .axes = 2, .shape = {0, 5}},
      {.name = "empty", .axes = 2, .shape = {5, 0}}};
  *s = (state){.count = ARRAYS};
  for (int i = 0; i < ARRAYS; i++) {
    checkpoint_array *a = &s->arrays[i];
    *a = arrays[i];
    int64_t first = first_row(way, a->shape[0], rank, ranks),
            end = first_row(way, a->shape[0], rank + 1, ranks);
    if (way == 1) end = rank == ranks - 1 ? a->shape[0] : 0;
    if (end > first && ghosts) {
      first = first > ghosts ? first - ghosts : 0;
      end = end + ghosts < a->shape[0] ? end + ghosts : a->shape[0];
    }
    a->first = first, a->count = end - first;
    a->source = part_source, a->sink = part_sink, a->context = &s->parts[i];
    s->parts[i].array = a, s->parts[i].salt = salt * ARRAYS + i, s->parts[i].fail_row = -1;
  }
}

/* Without the large array: a file of a few kB. */
static inline void state_shrink(state *s) {
  for (int i = 0; i < s->count; i++)
    if (s->arrays[i].shape[1] == 390) s->arrays[i].shape[1] = 2;
}

static const char KEYS[] = "[grid] nx\n7\n[equation] type\nwave\n[medium] velocity\n\n";

static inline checkpoint_meta checkpoint_meta_of(int64_t step) {
  return (checkpoint_meta){.run = {.step = step,
                                   .time = 0.125 * (double)step,
                                   .dt = 0.125,
                                   .mpi_ranks = 3,
                                   .config_text = "[grid]\nnx = 7\n",
                                   .backend = "host",
                                   .kernel = "simd",
                                   .transport = "sendrecv",
                                   .equation = "wave"},
                           .keys = KEYS};
}

/* Reads all of an open checkpoint, which must hold `s`. */
static inline int state_read(const checkpoint *c, state *s, error *e) {
  for (int i = 0; i < s->count; i++) s->parts[i].moved = 0;
  TRY(checkpoint_read(c, s->arrays, s->count, e));
  for (int i = 0; i < s->count; i++)
    assert_int_equal(s->parts[i].moved, row_values(&s->arrays[i]) ? s->arrays[i].count : 0);
  return 0;
}

/* Writes the small state with values `step`. */
static inline int write_state(fixture *x, const char *path, int64_t step, int keep, error *e) {
  state s;
  checkpoint_meta m = checkpoint_meta_of(step);
  checkpoint_place place = {path, keep, {0}};
  state_init(&s, (int)step, 0, 0, x->rank, x->ranks);
  state_shrink(&s);
  io_access *access = &x->accesses[step % ACCESSES];
  access->block_bytes = 400;
  return checkpoint_write(access, &place, &m, s.arrays, s.count, e);
}

#define WRITE(x, path, step, keep) OK(write_state(x, path, step, keep, &E))

/* How many files begin with `path`; the same on every rank. */
static inline int count_files(const fixture *x, const char *path) {
  int count = 0;
  const char *pattern = text_of("%s*", path);
  MPI_Barrier(MPI_COMM_WORLD);
  if (x->rank == 0) {
    glob_t g;
    count = glob(pattern, 0, NULL, &g) ? 0 : (int)g.gl_pathc;
    globfree(&g);
  }
  MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return count;
}

/* Rank 0's: a file in memory, and as it is changed. */
typedef struct image {
  char name[160];
  unsigned char bytes[FILE_MAX];
  size_t size;
} image;

static inline void load(image *m, const char *path, int64_t step) {
  snprintf(m->name, sizeof m->name, "%s.%08" PRId64 ".h5", path, step);
  FILE *f = fopen(m->name, "rb");
  assert_non_null(f);
  m->size = fread(m->bytes, 1, FILE_MAX, f);
  fclose(f);
  assert_true(m->size >= 4000 && m->size < FILE_MAX);
}

static inline void store(const image *m, size_t size) {
  FILE *f = fopen(m->name, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(m->bytes, 1, size, f), size);
  assert_int_equal(fclose(f), 0);
}

/* Stores only the byte `at`, changed or changed back: quicker than `store`. */
static inline void store_byte(const image *m, size_t at) {
  int fd = open(m->name, O_WRONLY);
  assert_true(fd >= 0 && pwrite(fd, m->bytes + at, 1, (off_t)at) == 1 && close(fd) == 0);
}

/* Opens the checkpoint and reads all. It must be refused or equal what was written. Returns the error's id. */
static inline int judge(fixture *x, const char *name, int64_t step, error *e) {
  checkpoint c;
  state s;
  *e = (error){0};
  if (checkpoint_open(&c, &x->alone, &(checkpoint_search){.file = name}, e)) {
    assert_int_equal(error_exit_code(e->id), EXIT_CODE_FILE);
    assert_memory_equal(e->text, name, strlen(name));
    assert_string_equal(c.name, "");
    assert_int_equal(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
    return e->id;
  }
  state_init(&s, (int)step, 0, 0, 0, 1);
  state_shrink(&s);
  assert_true(c.step == step && c.time == 0.125 * (double)step && c.dt == 0.125);
  if (checkpoint_match(&c, KEYS, e)) fail_msg("%s", e->text);
  if (state_read(&c, &s, e)) assert_int_equal(e->id, ERROR_CHECKPOINT_DAMAGED);
  error again = {0};
  assert_int_equal(checkpoint_verify(&c, &again), e->id);
  checkpoint_close(&c);
  assert_int_equal(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
  return e->id;
}

static inline void skip_if_many(const fixture *x) {
  if (x->ranks > 1) skip();
}

/* Context of note_skipped. */
typedef struct notes {
  int count;
  char last[256];
} notes;

static inline void note_skipped(void *context, const char *reason) {
  notes *n = context;
  n->count++;
  snprintf(n->last, sizeof n->last, "%s", reason);
}

#endif
