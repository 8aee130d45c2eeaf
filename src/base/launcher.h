/* Who started this process: mpirun, which passes on what is printed and signals in its own way, or somebody else. */
#ifndef STENCIL_LAUNCHER_H
#define STENCIL_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

/* This process's rank as the launcher says it, before MPI_Init too; 0 without a launcher. */
int launcher_rank(void);
/* Process id of the mpirun of Open MPI that started this process itself; 0: none did, or it runs on another node. */
pid_t launcher_mpirun(void);
/* Seconds that such an mpirun leaves its ranks between SIGTERM and SIGKILL. Before SIGTERM it waits as long. */
double launcher_patience(void);

/* Does what this process writes to stderr appear on the terminal of such an mpirun? */
bool launcher_shows_errors(void);
/* Is stdout a terminal that somebody sees? From now on it is the one of such an mpirun, if that prints to one, and not
 * the one that Open MPI makes for its rank 0 whatever it prints to itself, which has no width: mpirun shows stdout and
 * stderr in any order, and nothing once it ends its ranks. */
bool launcher_use_terminal(void);

#endif
