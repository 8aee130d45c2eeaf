/* The data server and a group of several ranks, while a thread of the first one asks the server too: as a survey's table does. */
#include "mpi_main.h"
#include "io/disk.h"
#include <pthread.h>
#include <stdatomic.h>
#include "base/error_mpi.h"
#include "base/thread.h"

enum { REQUESTS = 2000 };
static atomic_bool over;

static int no_signal(void) {
  return 0;
}

static void ask(const files *f) {
  error e = {0};
  bool missing = true;
  const request r = {FILES_MAKE_FOLDER, .path = "here", .dry = true, .answer_bytes = sizeof missing,
                     .own.answer = &missing};
  assert_ok(files_do(f, &r, &e), &e);
  assert_false(missing); /* "here" is in a folder that is there */
}

static void *ask_on(void *first) {
  while (!over) ask(first);
  return NULL;
}

TEST(a_thread_asks_beside_the_group) {
  static const config c = {.nx = 8, .ny = 8, .nz = 16, .io = IO_SERVER};
  files all, group, first;
  pthread_t thread;
  OK(files_open(&all, MPI_COMM_WORLD, IO_SERVER, &files_on_disk, &E));
  if (all.server) {
    OK(files_serve(&all, &c, no_signal, &E));
    files_close(&all);
    return;
  }
  OK(files_split(&all, (files_parts){1, ranks - 1}, &group, &first, &E));
  if (rank == 0) assert_int_equal(thread_start(&thread, ask_on, &first), 0);
  for (int i = 0; i < REQUESTS; i++) ask(&group);
  over = true;
  if (rank == 0) pthread_join(thread, NULL);
  files_close(&group);
  files_close(&first);
  files_dismiss(&all, &E);
  files_close(&all);
}

int main(int argc, char **argv) {
  int threads;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (threads == MPI_THREAD_MULTIPLE && backend_run(argc, argv)) MPI_Abort(MPI_COMM_WORLD, 1);
  return mpi_end();
}
