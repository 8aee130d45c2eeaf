#include "launcher.h"
#include <ctype.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The text of the first of these environment variables that is set; NULL: none is set. */
static const char *launcher_text(size_t count, const char *const names[]) {
  const char *text = NULL;
  for (size_t i = 0; i < count && !text; i++) text = getenv(names[i]);
  return text;
}

/* The number in the first of these environment variables that is set; 0: none is set. */
static int launcher_number(size_t count, const char *const names[]) {
  const char *text = launcher_text(count, names);
  return text ? atoi(text) : 0;
}

int launcher_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
  return launcher_number(sizeof names / sizeof *names, names);
}

int launcher_ranks(void) {
  /* The order matters, since an mpirun may run in a step of srun. SLURM_NTASKS will not do: all processes of a job have
   * it. */
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  return launcher_number(sizeof names / sizeof *names, names);
}

/* The number of processes on this node; 0: unknown. */
static int launcher_local_ranks(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE"};
  return launcher_number(1, names);
}

bool launcher_one_node(void) {
  const int ranks = launcher_ranks();
  return ranks <= 1 || launcher_local_ranks() == ranks;
}

/* This process's rank among those of its node; -1: unknown. Slurm sets its variable for a step's processes, but another
 * launcher's processes inherit the variable, too. */
static int launcher_local_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                           *const slurm[] = {"SLURM_LOCALID"}, *const step[] = {"SLURM_STEP_NUM_TASKS"},
                           *const others[] = {"PMIX_RANK", "PMI_RANK"};
  const int ranks = launcher_ranks();
  if (launcher_text(3, names)) return launcher_number(3, names);
  if (launcher_text(1, slurm) && launcher_number(1, step) == ranks) return launcher_number(1, slurm);
  return ranks > 1 || launcher_text(2, others) ? -1 : 0;
}

static int launcher_count(const char *pattern) {
  glob_t found;
  const int count = glob(pattern, 0, NULL, &found) ? 0 : (int)found.gl_pathc;
  globfree(&found);
  return count;
}

/* Is the text the number of one of `cards` cards, or the name of a whole card? */
static bool launcher_is_card(const char *text, size_t length, int cards) {
  if (strncmp(text, "GPU-", 4) == 0) return true;
  for (size_t i = 0; i < length; i++)
    if (!isdigit((unsigned char)text[i])) return false;
  return length > 0 && length < 4 && atoi(text) < cards;
}

bool launcher_card(const char *list, int rank, int cards, char card[LAUNCHER_CARD]) {
  int count = 1;
  if (!list) return snprintf(card, LAUNCHER_CARD, "%d", rank % cards) > 0;
  for (const char *at = list; (at = strchr(at, ',')); at++) count++;
  rank %= count;
  for (const char *at = list;; rank--) {
    const size_t length = strcspn(at, ",");
    if (!launcher_is_card(at, length, cards) || length >= LAUNCHER_CARD) return false;
    if (rank == 0) snprintf(card, LAUNCHER_CARD, "%.*s", (int)length, at);
    if (!at[length]) return true;
    at += length + 1;
  }
}

void launcher_take_card(void) {
  static const char SEEN[] = "CUDA_VISIBLE_DEVICES";
  const int rank = launcher_local_rank(), cards = launcher_count("/dev/nvidia[0-9]*");
  const bool cut = launcher_count("/proc/driver/nvidia/capabilities/gpu*/mig/gi*") > 0;
  char card[LAUNCHER_CARD];
  if (rank >= 0 && cards > 1 && !cut && launcher_card(getenv(SEEN), rank, cards, card)) setenv(SEEN, card, 1);
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

/* Finds the terminal behind a descriptor of this process's mpirun; false: there is none. */
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
