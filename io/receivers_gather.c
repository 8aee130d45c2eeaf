/* Bringing the traces of all ranks together, a block of rows at a time, and into a file. */
#include <stdbool.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "receivers_file.h"

enum { GATHER_BYTES = 32 << 20 };

typedef struct gathering {
  MPI_Comm comm;
  int rank, ranks;
  const receivers_meta *meta;
  const receivers_part *part;
  receivers_file *file; /* rank 0, as is what follows */
  int *counts,
      *firsts; /* of each rank: receivers, and how many those before it have; then both for a block */
  int *index;  /* of all receivers, rank after rank */
  float *blocks, *rows; /* as they come, rank after rank; in the user's order */
  int64_t block_rows;
} gathering;

static void *gather_take(size_t count, size_t size, error *e) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) FAIL(e, OUT_OF_MEMORY, count * size, "the receivers");
  return memory;
}

/* Rank 0. */
static int gather_begin(gathering *g, const char *path, error *e) {
  const size_t ranks = (size_t)g->ranks, receivers = (size_t)g->meta->receivers;
  g->counts = gather_take(2 * ranks, sizeof *g->counts, e);
  g->firsts = gather_take(2 * ranks, sizeof *g->firsts, e);
  g->index = gather_take(receivers, sizeof *g->index, e);
  g->blocks = gather_take((size_t)g->block_rows * receivers, sizeof *g->blocks, e);
  g->rows = gather_take((size_t)g->block_rows * receivers, sizeof *g->rows, e);
  return e->id ? e->id : receivers_file_create(&g->file, path, g->meta, e);
}

static void end(gathering *g, error *e) {
  receivers_file_close(g->file, e);
  free(g->counts);
  free(g->firsts);
  free(g->index);
  free(g->blocks);
  free(g->rows);
}

static int gather_index(gathering *g, error *e) {
  const receivers_part *p = g->part;
  MPI_TRY(e, MPI_Gather(&p->count, 1, MPI_INT, g->counts, 1, MPI_INT, 0, g->comm));
  for (int i = 1; g->counts && i < g->ranks; i++) g->firsts[i] = g->firsts[i - 1] + g->counts[i - 1];
  MPI_TRY(e, MPI_Gatherv(p->index, p->count, MPI_INT, g->index, g->counts, g->firsts, MPI_INT, 0, g->comm));
  return 0;
}

/* Rank 0: sorts a gathered block into the user's order and writes it. */
static int gather_write_block(const gathering *g, int64_t first, int64_t rows, error *e) {
  const size_t receivers = (size_t)g->meta->receivers;
  for (int rank = 0; rank < g->ranks; rank++) {
    const float *from = g->blocks + (size_t)g->firsts[rank] * (size_t)rows;
    const int *index = g->index + g->firsts[rank];
    for (int64_t row = 0; row < rows; row++, from += g->counts[rank])
      for (int i = 0; i < g->counts[rank]; i++) g->rows[(size_t)row * receivers + (size_t)index[i]] = from[i];
  }
  return receivers_file_put(g->file, first, rows, g->rows, e);
}

/* Gathers blocks of rows until all are written or rank 0 has failed. */
static int gather_rows(const gathering *g, error *e) {
  const bool root = g->rank == 0;
  const receivers_part *p = g->part;
  int *counts = root ? g->counts + g->ranks : NULL, *firsts = root ? g->firsts + g->ranks : NULL, stop = 0;
  for (int64_t row = 0, rows; row < g->meta->samples && !stop; row += rows) {
    rows = g->meta->samples - row < g->block_rows ? g->meta->samples - row : g->block_rows;
    for (int i = 0; root && i < g->ranks; i++)
      counts[i] = g->counts[i] * (int)rows, firsts[i] = g->firsts[i] * (int)rows;
    const float *mine = p->count ? p->traces + (size_t)row * (size_t)p->count : NULL;
    MPI_TRY(e, MPI_Gatherv(mine, p->count * (int)rows, MPI_FLOAT, g->blocks, counts, firsts, MPI_FLOAT, 0,
                           g->comm));
    if (root) stop = gather_write_block(g, row, rows, e) != 0;
    MPI_TRY(e, MPI_Bcast(&stop, 1, MPI_INT, 0, g->comm));
  }
  return e->id;
}

int receivers_file_write(MPI_Comm comm, const char *path, const receivers_meta *meta,
                         const receivers_part *part, error *e) {
  gathering g = {.comm = comm, .meta = meta, .part = part};
  MPI_TRY(e, MPI_Comm_rank(comm, &g.rank));
  MPI_TRY(e, MPI_Comm_size(comm, &g.ranks));
  const int64_t fit = GATHER_BYTES / ((int64_t)meta->receivers * (int64_t)sizeof(float));
  g.block_rows = fit < 1 ? 1 : fit < meta->samples ? fit : meta->samples;
  if (g.rank == 0 && !e->id) gather_begin(&g, path, e);
  if (!error_agree(e, comm) && !gather_index(&g, e)) gather_rows(&g, e);
  error_agree(e, comm);
  if (g.rank == 0) end(&g, e);
  return error_agree(e, comm);
}
