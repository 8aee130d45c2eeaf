/* stencil: mpirun -np N ./stencil [options] config.ini [section.key=value ...] */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"
#include "base/error_mpi.h"
#include "base/launcher.h"
#include "base/thread.h"
#include "io/files.h"
#include "run.h"
#include "stop.h"

/* The command line as one string, for the saved files. The caller frees it. */
static char *join_command(int argc, char **argv, error *e) {
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

/* Gives the other ranks a copy of a list of rank 0; theirs is NULL before, and after a failure. */
static int share_list(void **list, size_t count, size_t size, int rank, MPI_Comm comm, error *e) {
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

/* Rank 0 alone reads the file: all ranks then run the same configuration, and a mistake in it is reported
 * once. */
static int load_config(config *c, const cli *options, int rank, MPI_Comm comm, error *e) {
  if (rank == 0 && !config_load(c, options->config_file, options->override_count, options->overrides, e) &&
      options->report_file) { /* --report wins over [report] file */
    int n = snprintf(c->report_file, sizeof c->report_file, "%s", options->report_file);
    if (n >= (int)sizeof c->report_file) FAIL(e, USAGE_OPTION, "--report: the path is too long");
  }
  TRY(error_agree(e, comm));
  config shared = *c;
  shared.sources = NULL, shared.receiver_positions = NULL; /* rank 0's memory: not another rank's to free */
  MPI_TRY(e, MPI_Bcast(&shared, (int)sizeof shared, MPI_BYTE, 0, comm));
  if (rank != 0) *c = shared;
  TRY(share_list((void **)&c->sources, (size_t)c->source_count, sizeof *c->sources, rank, comm, e));
  return share_list((void **)&c->receiver_positions, (size_t)c->receiver_count, sizeof *c->receiver_positions,
                    rank, comm, e);
}

static run_log open_log(const cli *options, const config *c, int rank) {
  const bool speaks = rank == 0 && !options->quiet;
  const bool seen = speaks && launcher_use_terminal();
  if (speaks && !options->dry_run && !options->benchmark) stop_answer(STDOUT_FILENO);
  return (run_log){.to = speaks ? stdout : NULL,
                   .verbose = options->verbose,
                   .progress = c->progress != PROGRESS_OFF,
                   .redraw = c->progress == PROGRESS_ON || seen};
}

/* Does what the options ask for, on all ranks of `comm`. The computing ranks run; the data server, if there is one, serves
 * them and ends with the same error. */
static int main_job(int argc, char **argv, const cli *options, MPI_Comm comm, error *e) {
  int rank;
  config c = {.nx = 0};
  files f;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  load_config(&c, options, rank, comm, e);
  char *command = e->id ? NULL : join_command(argc, argv, e);
  if (command) {
    run_log log = open_log(options, &c, rank);
    const job j = {&c, options, command, &log, &f};
    if (options->dry_run || options->benchmark) stop_end(); /* nothing of it is worth keeping */
    field_io_start();
    files_open(&f, comm, c.io, e);
    if (!e->id && f.server)
      files_serve(&f, &c, stop_signal, e);
    else if (!e->id) {
      options->dry_run ? dry_run(&j, e) : run(&j, e);
      files_dismiss(&f, e);
    }
    files_close(&f);
    log_close(&log, e);
    error_agree(e, comm);
  }
  free(command);
  config_free(&c);
  return e->id;
}

/* *comm: a communicator of our own, so that messages of libraries cannot mix with halos. */
static int start_mpi(MPI_Comm *comm, error *e) {
  int provided;
  /* While a rank waits in MPI its worker threads compute on the same cores: Open MPI must not spin on one. On the host
   * device with a core a rank that makes the steps 2.4 times as fast. */
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  /* Of a path beyond some 240 characters, the parts of Open MPI that share file pointers run over their buffer or hang;
   * HDF5 shares none. */
  setenv("OMPI_MCA_sharedfp", "^sm,lockedfile", 0);
  /* For NCCL: NVLink multicast is for reductions. No memory and no setting up for it, unless asked for. Here, since later
   * other threads may be reading the environment. */
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  MPI_TRY(
      e, MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided)); /* save_queue.c asks what it has got */
  MPI_TRY(e, MPI_Comm_dup(MPI_COMM_WORLD, comm));
  MPI_TRY(e, MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN));
  return 0;
}

static void end_mpi(MPI_Comm *comm) {
  if (*comm == MPI_COMM_NULL) return;
  MPI_Comm_free(comm);
  MPI_Finalize();
}

/* What needs no MPI: once, though under a launcher several processes are asked for it. */
static int print_only(const cli *options, error *e) {
  run_log log = {.to = launcher_rank() == 0 ? stdout : NULL};
  if (log.to && options->action == CLI_HELP) cli_help(log.to, options->help);
  if (log.to && options->action == CLI_EXAMPLE) config_example(log.to, options->example);
  if (log.to && options->action == CLI_VERSION) cli_version(log.to);
  if (log_close(&log, e)) error_print(e, options->verbose);
  return error_exit_code(e->id);
}

int main(int argc, char **argv) {
  error e = {0};
  cli options;
  thread_flush_subnormals();
  signal(SIGPIPE, SIG_IGN); /* who has read enough of the log ends the log, not the run */
  cli_parse(&options, argc, argv, &e);
  if (!e.id && options.action != CLI_RUN) return print_only(&options, &e);
  stop_begin();
  MPI_Comm comm = MPI_COMM_NULL;
  if (!start_mpi(&comm, &e) && !e.id) main_job(argc, argv, &options, comm, &e);
  if (e.id && launcher_rank() == 0)
    error_print(&e, options.verbose); /* a usage error, too: only one rank may speak */
  end_mpi(&comm);
  return error_exit_code(e.id);
}
