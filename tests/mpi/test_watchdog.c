/* Tests which rank the watchdog blames. Each of N ranks reports its activity once and then waits; then the watchdog
 * ends the job. test_watchdog [apart] DOING,STEP,WAITING ... one for each rank apart: each rank is a group of its own,
 * as in a survey. DOING: computes, checks, exchanges, agrees, or nothing that is watched; STEP: steps done; WAITING:
 * asleep, or looking again and again. CTest reads the message. */
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "step/watchdog.h"

static enum watch_doing doing_of(const char *word) {
  static const char *const words[] = {"computes", "checks", "exchanges", "agrees"};
  int i = 0;
  while (i < WATCH_NOT && strcmp(word, words[i]) != 0) i++;
  return (enum watch_doing)i;
}

int main(int argc, char **argv) {
  int rank, ranks, provided, step;
  char doing[16], waiting[16];
  error e = {0};
  watchdog *w;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const bool apart = argc > 1 && strcmp(argv[1], "apart") == 0;
  argc -= apart, argv += apart;
  if (argc != ranks + 1 || sscanf(argv[rank + 1], "%15[a-z],%d,%15s", doing, &step, waiting) != 3) return 1;
  if (watchdog_open(&w, apart ? MPI_COMM_SELF : MPI_COMM_WORLD, 1, 0, &e)) return puts(e.text), 1;
  watchdog_mark(w, doing_of(doing), step);
  for (;;) strcmp(waiting, "asleep") ? sched_yield() : pause();
}
