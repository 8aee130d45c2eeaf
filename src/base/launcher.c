#include "launcher.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number in the first of these environment variables that is set; 0: none is. */
static int launcher_number(size_t count, const char *const names[]) {
  const char *text = NULL;
  for (size_t i = 0; i < count && !text; i++) text = getenv(names[i]);
  return text ? atoi(text) : 0;
}

int launcher_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
  return launcher_number(sizeof names / sizeof *names, names);
}

int launcher_ranks(void) {
  /* In this order: an mpirun may run in a step of srun. Not SLURM_NTASKS, which all processes of a job have. */
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  return launcher_number(sizeof names / sizeof *names, names);
}

/* Of them, those of this node; 0: unknown. */
static int launcher_local_ranks(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE"};
  return launcher_number(1, names);
}

bool launcher_one_node(void) {
  const int ranks = launcher_ranks();
  return ranks <= 1 || launcher_local_ranks() == ranks;
}

void launcher_unbind(void) {
  static const char *const asked[] = {"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_set",
                                      "OMPI_MCA_hwloc_base_cpu_list", "OMPI_MCA_rmaps_base_mapping_policy",
                                      "OMPI_MCA_orte_rankfile"};
  cpu_set_t mine, parents;
  CPU_ZERO(&mine);
  CPU_ZERO(&parents);
  if (!getenv("OMPI_MCA_orte_bound_at_launch")) return;
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
    if (getenv(asked[i])) return;
  if (sched_getaffinity(0, sizeof mine, &mine) || sched_getaffinity(getppid(), sizeof parents, &parents))
    return;
  const int ranks = launcher_local_ranks();
  if (ranks > 0 && CPU_COUNT(&mine) < CPU_COUNT(&parents) / ranks)
    sched_setaffinity(0, sizeof parents, &parents);
}

pid_t launcher_mpirun(void) {
  static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun"}; /* Open MPI 5: the last */
  char path[64], name[64] = "";
  if (!getenv("OMPI_COMM_WORLD_SIZE")) return 0;
  snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
  FILE *f = fopen(path, "r");
  const bool read = f && fgets(name, sizeof name, f);
  if (f) fclose(f);
  name[strcspn(name, "\n")] = '\0';
  bool is = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) is = is || strcmp(name, names[i]) == 0;
  return read && is ? getppid() : 0;
}

double launcher_patience(void) {
  const char *text =
      getenv("OMPI_MCA_odls_base_sigkill_timeout"); /* mpirun --mca sets it for the ranks, too */
  return text ? atof(text) : 1;
}

/* Finds the terminal behind a descriptor of that mpirun; false if it is not a terminal. */
static bool launcher_terminal(int descriptor, char path[64]) {
  const pid_t mpirun = launcher_mpirun();
  char target[64];
  snprintf(path, 64, "/proc/%ld/fd/%d", (long)mpirun, descriptor);
  const ssize_t length = mpirun ? readlink(path, target, sizeof target - 1) : 0;
  if (length <= 0) return false;
  target[length] = '\0';
  return strncmp(target, "/dev/pts/", 9) == 0 || strncmp(target, "/dev/tty", 8) == 0;
}

bool launcher_shows_errors(void) {
  char path[64];
  return launcher_terminal(STDERR_FILENO, path);
}

bool launcher_use_terminal(void) {
  char path[64];
  if (!getenv("OMPI_COMM_WORLD_SIZE")) return isatty(STDOUT_FILENO) == 1;
  const int terminal =
      launcher_terminal(STDOUT_FILENO, path) ? open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC) : -1;
  if (terminal < 0) return false;
  /* mpirun is the terminal's foreground job, its ranks are not: `stty tostop` would stop this rank. */
  signal(SIGTTOU, SIG_IGN);
  const bool used = dup2(terminal, STDOUT_FILENO) >= 0;
  close(terminal);
  return used;
}
