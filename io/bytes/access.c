/* How ranks reach files, and what is logged of inputs. */
#include <sched.h>
#include <string.h>
#include "rows.h"
#include "base/error_mpi.h"

enum {
  THREADS_MAX = 4,      /* threads of a rank that write blocks; more are no faster */
  COMPRESSORS_MAX = 16, /* threads that compress or read blocks */
  BLOCK_BYTES = 1 << 20 /* stays in a core's cache */
};

/* Counts the cores of this rank. Ranks of `node` that may run on the same core share it equally. */
static int access_cores(MPI_Comm node, int *cores, error *e) {
  cpu_set_t mine;
  int users[CPU_SETSIZE];
  double share = 0;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  for (int i = 0; i < CPU_SETSIZE; i++) users[i] = CPU_ISSET(i, &mine) ? 1 : 0;
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, users, CPU_SETSIZE, MPI_INT, MPI_SUM, node));
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &mine)) share += 1.0 / users[i];
  *cores = share < 1 ? 1 : share > COMPRESSORS_MAX ? COMPRESSORS_MAX : (int)(share + 0.5);
  return 0;
}

int io_access_open(io_access *w, MPI_Comm comm, bool together, error *e) {
  MPI_Comm node;
  *w = (io_access){.comm = comm, .together = together, .threads = 1, .block_bytes = BLOCK_BYTES};
  MPI_TRY(e, MPI_Comm_rank(comm, &w->rank));
  MPI_TRY(e, MPI_Comm_size(comm, &w->ranks));
  MPI_TRY(e, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &node));
  w->near = w->rank == 0;
  MPI_TRY(e, MPI_Bcast(&w->near, 1, MPI_C_BOOL, 0, node));
  access_cores(node, &w->compressors, e);
  MPI_TRY(e, MPI_Comm_free(&node));
  w->threads = w->compressors < THREADS_MAX ? w->compressors : THREADS_MAX;
  return e->id;
}

void io_access_log(io_access *w, const char *dataset, const char *what) {
  char line[FILE_NAME];
  if (!what[0] || !w->log) return;
  snprintf(line, sizeof line, "input: %s: %s\n", dataset, what);
  if (strstr(w->logged, line)) return;
  const size_t used = strlen(w->logged);
  snprintf(w->logged + used, sizeof w->logged - used, "%s", line);
  log_line(w->log, "input: %s: %s", dataset, what);
}
