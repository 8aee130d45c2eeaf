/* --dry-run: what a run would do and need, without doing it. */
#include "run.h"
#include <stdlib.h>
#include "error_mpi.h"
#include "simulation.h"

static double mib(double bytes) {
  return bytes / 1048576;
}

static void print_partition(const simulation *s) {
  slab z = s->slab;
  double field = (double)slab_floats(&z) * sizeof(float);
  log_line(s->log, "partition along z: %d rank%s, %d to %d planes each", s->ranks, s->ranks == 1 ? "" : "s",
           z.nz_global / z.ranks, slab_largest(&z));
  for (int r = 0; r < s->ranks; r++)
    log_detail(s->log, "  rank %d: planes %d to %d", r, slab_first_plane(&z, r),
               slab_first_plane(&z, r + 1) - 1);
  double pinned = (double)transfer_staging_bytes(&z) +
                  (s->ranks > 1 ? 4.0 * z.ghost * (double)z.plane * sizeof(float) : 0);
  log_line(
      s->log,
      "memory per rank: %.1f MiB on the device (two fields), %.1f MiB pinned on the host, %.1f MiB for I/O",
      mib(2 * field), mib(pinned), mib((double)s->io.block_bytes));
}

/* Ranks may share a GPU; what counts then is the sum. */
static int print_device(simulation *s, error *e) {
  double need = 2.0 * (double)slab_floats(&s->slab) * sizeof(float), all = 0;
  MPI_TRY(e, MPI_Reduce(&need, &all, 1, MPI_DOUBLE, MPI_SUM, 0, s->comm));
  log_line(s->log, "device: %s, %.1f MiB of memory; all ranks together need %.1f MiB", s->dev->description,
           mib((double)s->dev->total_bytes), mib(all));
  if (s->dev->warning[0]) log_line(s->log, "warning: %s", s->dev->warning);
  return 0;
}

static void print_output(const simulation *s) {
  const config *c = s->config;
  int64_t files = 1;
  if (c->output_every > 0) files = 1 + c->steps / c->output_every + (c->steps % c->output_every != 0);
  double bytes = (double)c->nx * c->ny * c->nz * sizeof(float);
  log_line(s->log, "output: %lld file%s %s.SSSSSSSS.hdf of %.1f MiB%s, %.1f MiB in all", (long long)files,
           files == 1 ? "" : "s", c->output_path, mib(bytes), c->compress ? " before compression" : "",
           mib(bytes * (double)files));
}

static int check_files(const config *c, run_log *log, error *e) {
  if (c->initial == INITIAL_FILE) {
    TRY(field_check(c->initial_file, c->nx, c->ny, c->nz, e));
    log_line(log, "input: %s is there and has shape (%d, %d, %d)", c->initial_file, c->nz, c->ny, c->nx);
  }
  TRY(path_check_writable(c->output_path, e));
  if (c->report_file[0]) TRY(path_check_writable(c->report_file, e));
  log_line(log, "output paths are writable");
  return 0;
}

int dry_run(const config *c, const char *command, run_log *log, MPI_Comm comm, error *e) {
  simulation s;
  if (!simulation_plan(&s, c, command, log, comm, false, e)) {
    log_line(log, "%s", s.config_text);
    print_partition(&s);
    print_device(&s, e);
    log_line(log, "kernel %s, transport %s, overlap %s, io %s", c->kernel,
             transport_find(transport_name(c->transport))->name, c->overlap ? "on" : "off",
             io_name(s.io.mode));
    print_output(&s);
    if (s.rank == 0) check_files(c, log, e);
    if (!error_agree(e, comm)) log_line(log, "dry run: everything is in place");
  }
  simulation_close(&s);
  return e->id;
}
