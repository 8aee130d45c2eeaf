#include "node_window.h"
#include <stdbool.h>
#include <sys/statvfs.h>
#include "base/error_mpi.h"

static int node_window_check_room(MPI_Comm node, size_t bytes, error *e) {
  const double MIB = 1 << 20, OWN = 32 << 10; /* OWN: what MPI keeps there besides, bytes */
  struct statvfs disk;
  int ranks;
  MPI_TRY(e, MPI_Comm_size(node, &ranks));
  const double needed = OWN + (double)ranks * (double)bytes;
  const bool known = statvfs("/dev/shm", &disk) == 0;
  const double room = known ? (double)disk.f_bavail * (double)disk.f_frsize : 0;
  return known && room < needed ? FAIL(e, NODE_MEMORY, needed / MIB, room / MIB) : 0;
}

int node_window(MPI_Comm node, size_t bytes, void **mine, MPI_Win *window, error *e) {
  node_window_check_room(node, bytes, e);
  TRY(error_agree(e, node));
  MPI_TRY(e, MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, node, mine, window));
  return 0;
}
