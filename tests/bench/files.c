/* How fast io/ writes and reads beside the least that such a file can cost (the stick): positioned writes by as many
 * threads, an XXH3 sum of each plane in the same pass, one fsync. Host memory only.
 *
 *   mpirun -np N bench_files FOLDER GIB GZIP [MODE ...]      GZIP: the level of compressed fields; 0: none are written
 *
 * A line a mode: its name, threads a rank, and the seconds of each COLUMN. files.py makes medians and the table.
 * server: the first rank holds nothing, as a data server. */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "io/checkpoint.h"
#include "io/field_io.h"
#include "shot/measure.h"

enum { EDGE = 512 };
#define PLANE ((size_t)EDGE * EDGE)

typedef struct bench {
  MPI_Comm comm, computing; /* computing: of the ranks with planes */
  slab slab;
  float *values; /* own planes, dense */
  float *back;
  measure measure;
  field_statistics statistics;
  const char *folder;
} bench;

static void bench_stop(const error *e) {
  if (!e->id) return;
  fprintf(stderr, "bench_files: %s\n", e->text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What is written is a new file: giving back an old one's pages takes time, too. */
static void bench_remove(const bench *b, const char *file) {
  char name[512];
  int rank;
  snprintf(name, sizeof name, "%s/%s", b->folder, file);
  MPI_Comm_rank(b->comm, &rank);
  if (rank == 0) unlink(name);
}

/* --- the stick -------------------------------------------------------------------------------------------------- */

typedef struct stick {
  const bench *b;
  int file, first, step;
  bool write;
  uint64_t sum;
} stick;

static void *stick_run(void *argument) {
  stick *t = argument;
  const slab *s = &t->b->slab;
  for (int z = t->first; z < s->nz; z += t->step) {
    const off_t at = 4096 + (off_t)(s->z0 + z) * (off_t)(PLANE * sizeof(float));
    float *from = (t->write ? t->b->values : t->b->back) + (size_t)z * PLANE;
    const ssize_t bytes = (ssize_t)(PLANE * sizeof *from);
    if ((t->write ? pwrite(t->file, from, (size_t)bytes, at) : pread(t->file, from, (size_t)bytes, at)) !=
        bytes) {
      perror("the stick");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    t->sum += XXH3_64bits(from, (size_t)bytes);
  }
  return NULL;
}

static double stick_time(const bench *b, int threads, bool write) {
  char name[512];
  stick all[16];
  pthread_t thread[16];
  snprintf(name, sizeof name, "%s/stick", b->folder);
  if (write) bench_remove(b, "stick");
  MPI_Barrier(b->comm);
  const double begin = MPI_Wtime();
  const int file = open(name, write ? O_RDWR | O_CREAT : O_RDONLY, 0666);
  for (int i = 0; i < threads; i++) {
    all[i] = (stick){b, file, i, threads, write, 0};
    pthread_create(&thread[i], NULL, stick_run, &all[i]);
  }
  for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  if (write) fsync(file);
  close(file);
  MPI_Barrier(b->comm);
  return MPI_Wtime() - begin;
}

/* --- io/ -------------------------------------------------------------------------------------------------------- */

static int bench_source(void *context, int z, int planes, float *values, error *e) {
  bench *b = context;
  (void)e;
  memcpy(values, b->values + (size_t)z * PLANE, (size_t)planes * PLANE * sizeof *values);
  for (int i = 0; i < planes; i++) measure_plane(&b->measure, z + i, values + (size_t)i * PLANE);
  return 0;
}

static int bench_measured(void *context, error *e) {
  bench *b = context;
  return measure_finish(&b->measure, b->values, false, &b->statistics, e);
}

static int rows_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const bench *b = context;
  (void)e;
  memcpy(values, b->values + (size_t)(row - b->slab.z0) * PLANE, (size_t)rows * PLANE * sizeof(float));
  return 0;
}

static int rows_to(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const bench *b = context;
  (void)e;
  memcpy(b->back + (size_t)(row - b->slab.z0) * PLANE, values, (size_t)rows * PLANE * sizeof(float));
  return 0;
}

static double field_time(bench *b, io_way *way, enum io_kind mode, int compress) {
  char path[512];
  field_io io;
  error e = {0};
  const field_meta meta = {
      .spacing = {1, 1, 1}, .compress = compress, .statistics = &b->statistics, .measured = bench_measured};
  snprintf(path, sizeof path, "%s/field", b->folder);
  field_io_init(&io, way, &b->slab, mode);
  io.path = path;
  bench_remove(b, "field.00000000.hdf");
  MPI_Barrier(b->comm);
  const double begin = MPI_Wtime();
  field_write(&io, &meta, bench_source, b, &e);
  bench_stop(&e);
  MPI_Barrier(b->comm);
  return MPI_Wtime() - begin;
}

static checkpoint_array bench_array(bench *b) {
  const slab *s = &b->slab;
  return (checkpoint_array){.name = "u",
                            .axes = 3,
                            .shape = {s->nz_global, EDGE, EDGE},
                            .first = s->z0,
                            .count = s->nz,
                            .source = rows_from,
                            .sink = rows_to,
                            .context = b};
}

static double checkpoint_time(bench *b, io_way *way, bool write) {
  char path[512];
  error e = {0};
  const checkpoint_meta meta = {.run.step = 1};
  checkpoint c;
  const checkpoint_array array = bench_array(b);
  snprintf(path, sizeof path, "%s/checkpoint", b->folder);
  const checkpoint_place place = {.path = path, .keep = 1};
  if (write) bench_remove(b, "checkpoint.00000001.h5");
  MPI_Barrier(b->comm);
  const double begin = MPI_Wtime();
  if (write)
    checkpoint_write(way, &place, &meta, &array, 1, &e);
  else if (!checkpoint_open_newest(&c, way, &(checkpoint_search){path, -1, NULL, NULL}, &e) &&
           !checkpoint_read(&c, &array, 1, &e))
    checkpoint_close(&c);
  bench_stop(&e);
  MPI_Barrier(b->comm);
  return MPI_Wtime() - begin;
}

/* --- one turn ---------------------------------------------------------------------------------------------------- */

/* This rank's planes, where the first `servers` ranks hold none. */
static void bench_open(bench *b, int nz, int servers, int rank, int ranks) {
  error e = {0};
  const int computing = rank - servers;
  b->slab = (slab){.nx = EDGE, .ny = EDGE, .nz_global = nz, .rank = -1, .ranks = ranks - servers};
  if (computing >= 0)
    slab_init(&b->slab, &(slab_shape){.nx = EDGE, .ny = EDGE, .nz = nz}, computing, ranks - servers, &e);
  bench_stop(&e);
  const size_t floats = (size_t)b->slab.nz * PLANE + 1;
  b->values = malloc(floats * sizeof *b->values);
  b->back = malloc(floats * sizeof *b->back);
  for (size_t i = 0; i < floats; i++)
    b->values[i] = (float)((i * 2654435761u + (size_t)rank) & 0xffff) / 65536, b->back[i] = 0;
  MPI_Comm_split(b->comm, computing < 0, rank, &b->computing);
  if (computing >= 0) measure_open(&b->measure, NULL, &b->slab, b->computing, 0, &e);
  bench_stop(&e);
}

static void bench_close(bench *b) {
  if (b->slab.rank >= 0) measure_close(&b->measure);
  MPI_Comm_free(&b->computing);
  free(b->values);
  free(b->back);
}

enum {
  COLUMNS = 6
}; /* as files.py names them: stick, write; field; checkpoint; stick, read; restart; gzip */

static void bench_mode(bench *b, enum io_kind mode, int nz, int gzip) {
  static const char *const names[] = {"auto", "collective", "gather", "server"};
  double seconds[COLUMNS] = {0};
  int rank, ranks;
  io_way way;
  error e = {0};
  MPI_Comm_rank(b->comm, &rank);
  MPI_Comm_size(b->comm, &ranks);
  io_way_open(&way, b->comm, mode == IO_COLLECTIVE, &e);
  bench_stop(&e);
  for (int warm = 0; warm < 2; warm++) { /* a small one first, for what is taken once */
    bench_open(b, warm ? nz : nz / 8, mode == IO_SERVER, rank, ranks);
    const double now[COLUMNS] = {
        stick_time(b, way.threads, true), field_time(b, &way, mode, 0),
        checkpoint_time(b, &way, true),   stick_time(b, way.threads, false),
        checkpoint_time(b, &way, false),  gzip ? field_time(b, &way, mode, gzip) : 0};
    memcpy(seconds, now, sizeof now);
    bench_close(b);
  }
  if (rank == 0) printf("%s %d", names[mode], way.threads);
  for (int k = 0; rank == 0 && k < COLUMNS; k++) printf(" %.5f", seconds[k]);
  if (rank == 0) printf("\n"), fflush(stdout);
}

static bool bench_wanted(int count, char **modes, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(modes[i], name) == 0) return true;
  return count == 0;
}

int main(int argc, char **argv) {
  int ranks, threads;
  if (argc < 4) return fprintf(stderr, "bench_files FOLDER GIB GZIP [MODE ...]\n"), 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bench b = {.comm = MPI_COMM_WORLD, .folder = argv[1]};
  const int nz = (int)(1024 * atof(argv[2])), gzip = atoi(argv[3]);
  field_io_start();
  if (bench_wanted(argc - 4, argv + 4, "collective")) bench_mode(&b, IO_COLLECTIVE, nz, gzip);
  if (bench_wanted(argc - 4, argv + 4, "gather")) bench_mode(&b, IO_GATHER, nz, gzip);
  if (bench_wanted(argc - 4, argv + 4, "server") && ranks > 1) bench_mode(&b, IO_SERVER, nz, gzip);
  MPI_Finalize();
}
