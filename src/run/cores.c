#include "cores.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/error_mpi.h"

enum { TEXT = 192 };

/* The set as ranges: "0-3,8". What does not fit is left out. */
static void print_set(const cpu_set_t *set, char *to, size_t bytes) {
  size_t length = 0;
  to[0] = 0;
  for (int first = 0; first < CPU_SETSIZE && length + 1 < bytes; first++) {
    if (!CPU_ISSET(first, set)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set)) last++;
    const char *comma = length ? "," : "";
    const int added = last > first ? snprintf(to + length, bytes - length, "%s%d-%d", comma, first, last)
                                   : snprintf(to + length, bytes - length, "%s%d", comma, first);
    length += (size_t)added;
    first = last;
  }
}

static void describe(char text[TEXT], int threads) {
  cpu_set_t mine;
  char host[64] = "", cores[96];
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  gethostname(host, sizeof host - 1);
  print_set(&mine, cores, sizeof cores);
  snprintf(text, TEXT, "%s, %d thread%s on core%s %s", host, threads, threads == 1 ? "" : "s",
           CPU_COUNT(&mine) == 1 ? "" : "s", cores);
}

int cores_log(MPI_Comm comm, int threads, run_log *log, error *e) {
  char mine[TEXT] = "", *all = NULL;
  int rank, ranks;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  MPI_TRY(e, MPI_Comm_size(comm, &ranks));
  describe(mine, threads);
  const size_t bytes = (size_t)ranks * TEXT;
  if (rank == 0 && !(all = malloc(bytes))) FAIL(e, OUT_OF_MEMORY, bytes, "the list of cores");
  TRY(error_agree(e, comm));
  const int rc = MPI_Gather(mine, TEXT, MPI_CHAR, all, TEXT, MPI_CHAR, 0, comm);
  for (int r = 0; rank == 0 && rc == MPI_SUCCESS && r < ranks; r++)
    log_detail(log, "  rank %d: %s", r, all + (size_t)r * TEXT);
  free(all);
  MPI_TRY(e, rc);
  return 0;
}
