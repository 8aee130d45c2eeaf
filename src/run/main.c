/* stencil: mpirun -np N ./stencil [options] config.ini [section.key=value ...] */
#include <fcntl.h>
#include <mpi.h>
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"
#include "base/error_mpi.h"
#include "base/launcher.h"
#include "base/thread.h"
#include "survey/gradient.h"
#include "io/disk.h"
#include "run.h"
#include "base/stop.h"

/* The command line as one string, for the saved files. The caller frees it. */
static char *main_join_command(int argc, char **argv, error *e) {
  size_t length = 1;
  for (int i = 0; i < argc; i++) length += strlen(argv[i]) + 1;
  char *text = malloc(length), *end = text;
  if (!text) {
    FAIL(e, OUT_OF_MEMORY, length, "the command line");
    return NULL;
  }
  for (int i = 0; i < argc; i++) end += sprintf(end, "%s%s", i ? " " : "", argv[i]);
  *end = 0;
  return text;
}

/* Gives the other ranks their own copy of rank 0's list. Their list is NULL before. Collective, agreed. */
static int main_share_list(void **list, size_t count, size_t size, int rank, MPI_Comm comm, error *e) {
  size_t bytes = count * size;
  if (bytes == 0) return 0;
  if (rank != 0 && !(*list = malloc(bytes))) FAIL(e, OUT_OF_MEMORY, bytes, "the configuration");
  TRY(error_agree(e, comm));
  MPI_Datatype entry;
  MPI_TRY(e, MPI_Type_contiguous((int)size, MPI_BYTE, &entry));
  MPI_TRY(e, MPI_Type_commit(&entry));
  MPI_TRY(e, MPI_Bcast(*list, (int)count, entry, 0, comm));
  MPI_TRY(e, MPI_Type_free(&entry));
  return 0;
}

/* The survey's data on rank 0. */
typedef struct main_survey {
  config_given *given;
  shot_lines lines;
} main_survey;

/* Makes the configuration of a run, or of a survey's first shot. It also checks the keys that belong to no shot. */
static int main_make_config(config *c, const cli *options, main_survey *s, error *e) {
  const char *file = config_shots(s->given);
  if (!file) return config_make(c, s->given, NULL, e);
  if (options->restart)
    return FAIL(e, SURVEY_OPTION, "--restart", ": the same command again does the shots that are missing");
  if (options->benchmark || options->verify)
    return FAIL(e, SURVEY_OPTION, options->verify ? "--verify-gradient" : "--benchmark",
                "; survey.shots= makes it a single run");
  TRY(shots_read(&s->lines, file, e));
  return shots_check(&s->lines, s->given, c, e);
}

/* Puts --report FILE before all overrides, as report.file=FILE. */
static int main_read_config(config *c, const cli *options, main_survey *s, error *e) {
  static const char KEY[] = "report.file=";
  const size_t count = (size_t)options->override_count,
               available = CONFIG_TEXT + sizeof KEY; /* room for a text that is too long */
  const char **all = malloc((count + 1) * sizeof *all + available), **more = all;
  if (!all) return FAIL(e, OUT_OF_MEMORY, (count + 1) * sizeof *all + available, "the configuration");
  if (options->report_file) {
    char *report = (char *)(all + count + 1);
    snprintf(report, available, "%s%s", KEY, options->report_file);
    *more++ = report;
  }
  memcpy(more, options->overrides, count * sizeof *all);
  if (!config_open(&s->given, options->config_file, NULL, (int)count + (more > all), all, e))
    main_make_config(c, options, s, e);
  free(all);
  if (!e->id && options->restart && config_same_file(options->restart, c->report_file))
    FAIL(e, CONFIG_VALUE, "command line", "report", "file", "a file other than that of --restart",
         c->report_file);
  return e->id;
}

/* Loads the configuration on rank 0 and broadcasts it, so that a mistake is reported once. Collective, agreed. */
static int main_load_config(config *c, const cli *options, main_survey *s, int rank, MPI_Comm comm,
                            error *e) {
  if (rank == 0) main_read_config(c, options, s, e);
  TRY(error_agree(e, comm));
  config shared = *c;
  shared.sources = NULL, shared.receiver_positions = NULL; /* rank 0's memory: others must not free it */
  MPI_TRY(e, MPI_Bcast(&shared, (int)sizeof shared, MPI_BYTE, 0, comm));
  if (rank != 0) *c = shared;
  TRY(main_share_list((void **)&c->sources, (size_t)c->source_count, sizeof *c->sources, rank, comm, e));
  return main_share_list((void **)&c->receiver_positions, (size_t)c->receiver_count,
                         sizeof *c->receiver_positions, rank, comm, e);
}

static run_log main_open_log(const cli *options, const config *c, int rank) {
  const bool speaks = rank == 0 && !options->quiet;
  const bool seen = speaks && launcher_use_terminal();
  if (options->dry_run || options->benchmark)
    stop_at_once(speaks ? STDOUT_FILENO : -1);
  else if (speaks)
    stop_answer(STDOUT_FILENO);
  return (run_log){.to = speaks ? stdout : NULL,
                   .verbose = options->verbose,
                   .progress = c->progress != PROGRESS_OFF,
                   .redraw = c->progress == PROGRESS_ON || seen};
}

/* Runs the job of the options on the computing ranks; a data server serves them. Collective, same error everywhere. */
static int main_job(int argc, char **argv, const cli *options, MPI_Comm comm, error *e) {
  int rank;
  config *c = calloc(1, sizeof *c); /* the stack may be small */
  main_survey survey = {.given = NULL};
  files f;
  if (!c) return FAIL(e, OUT_OF_MEMORY, sizeof *c, "the configuration");
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  main_load_config(c, options, &survey, rank, comm, e);
  char *command = e->id ? NULL : main_join_command(argc, argv, e);
  if (command) {
    run_log log = main_open_log(options, c, rank);
    const job j = {c,    options, command,
                   &log, &f,      {survey.given, survey.given && c->survey_file[0] ? &survey.lines : NULL}};
    field_io_start();
    files_open(&f, comm, c->io, &files_on_disk, e);
    if (!e->id) f.access->log = &log;
    if (!e->id && f.server)
      files_serve(&f, c, stop_signal, e);
    else if (!e->id) {
      if (!gradient_time(c, &f, &log, e)) options->dry_run ? dry_run(&j, e) : run(&j, e);
      files_dismiss(&f, e);
    }
    files_close(&f);
    log_close(&log, e);
    error_agree(e, comm);
    stop_answered(); /* mpirun sends SIGTERM when another rank has exited first, with a code other than 0 */
  }
  free(command);
  config_free(c);
  free(c);
  config_close(survey.given);
  shots_free(&survey.lines);
  return e->id;
}

/* On one node Open MPI needs no network, and trying all networks takes 0.3 s. A process without a launcher needs no
 * daemon, which takes 0.5 s. It does not need the folder in TMPDIR either, which one process may remove at its end
 * while another begins. An MPI that reads GPU memory may need a network to do so. */
static void main_spare_networks(int started) {
  bool reads_gpus = false;
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  reads_gpus = MPIX_CUDA_AWARE_SUPPORT;
#endif
  if (started <= 1) {
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
  }
  if (!launcher_one_node() || (reads_gpus && started > 1)) return;
  setenv("OMPI_MCA_pml", "ob1", 0);
  setenv("OMPI_MCA_btl", started > 1 ? "^openib,ofi,uct,usnic" : "self", 0);
}

/* Starts MPI. *comm: the program's own communicator of all ranks, so that messages of libraries cannot mix with
 * halos. */
static int main_start_mpi(MPI_Comm *comm, error *e) {
  const int started = launcher_ranks();
  int provided, size;
  /* A rank that waits in MPI must not spin, because its worker threads compute on the same cores. With one core a rank,
   * steps on the host device become 2.4 times as fast. */
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  /* Open MPI's components for shared file pointers overrun their buffer, or hang, where a path has more than some 240
   * characters. HDF5 needs none of them. */
  setenv("OMPI_MCA_sharedfp", "^sm,lockedfile", 0);
  /* NCCL's NVLink multicast serves reductions only, and takes memory and time to set up. The variable is set here,
   * since other threads may read the environment later. */
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  /* Open MPI queries the node through hwloc. Nothing reads its list of GPUs, which takes 70 ms. */
  setenv("HWLOC_COMPONENTS", "-cuda,-nvml,-opencl,-gl", 0);
  main_spare_networks(started);
  MPI_TRY(e, MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided)); /* save_queue.c checks the level */
  MPI_TRY(e, MPI_Comm_dup(MPI_COMM_WORLD, comm));
  MPI_TRY(e, MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN));
  MPI_TRY(e, MPI_Comm_size(*comm, &size));
  return size == 1 && started > 1 ? FAIL(e, MPI_ALONE, started) : 0;
}

static void main_end_mpi(MPI_Comm *comm) {
  if (*comm == MPI_COMM_NULL) return;
  MPI_Comm_free(comm);
  mpi_end();
}

/* --help, --example, --version, without MPI. Under a launcher only the first process prints. */
static int main_print_only(const cli *options, error *e) {
  run_log log = {.to = launcher_rank() == 0 ? stdout : NULL};
  if (log.to && options->action == CLI_HELP) cli_help(log.to, options->help);
  if (log.to && options->action == CLI_EXAMPLE) config_example(log.to, options->example);
  if (log.to && options->action == CLI_VERSION) cli_version(log.to);
  if (log_close(&log, e)) error_print(e, options->verbose);
  return error_exit_code(e->id);
}

/* Opens those of descriptors 0 to 2 that the caller has closed. Else a file opened later would get such a number, and
 * the log would go into it. Writing to these descriptors fails, which the log reports. */
static void main_hold_descriptors(void) {
  int fd;
  do fd = open("/dev/null", O_RDONLY);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

/* Enlarges the table of descriptors while the process has one thread. Each later doubling makes all threads that open
 * files wait for 45 ms, twice the time in which a batch of 100 shots writes its files. */
static void main_make_room(void) {
  const int MANY = 1000;
  const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, MANY);
  if (fd >= 0) close(fd);
}

int main(int argc, char **argv) {
  error e = {0};
  cli options;
  const bool first = launcher_rank() == 0;
  main_hold_descriptors();
  main_make_room();
  thread_flush_subnormals();
  signal(SIGPIPE, SIG_IGN); /* a reader that closes the log must not end the run */
  cli_parse(&options, argc, argv, &e);
  if (!e.id && options.action != CLI_RUN) return main_print_only(&options, &e);
  stop_begin();
  launcher_unbind();
  launcher_take_card();
  MPI_Comm comm = MPI_COMM_NULL;
  if (!main_start_mpi(&comm, &e) && !e.id) main_job(argc, argv, &options, comm, &e);
  if (e.id && first) error_print(&e, options.verbose); /* one rank prints errors, usage errors too */
  main_end_mpi(&comm);
  return error_exit_code(e.id);
}
