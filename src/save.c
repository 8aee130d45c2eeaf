/* Looking after the newest field: checking and saving it. */
#include "simulation.h"
#include <inttypes.h>
#include <stdlib.h>
#include "error_mpi.h"

int simulation_check(simulation *s, error *e) {
  stepper *p = &s->stepper;
  uint64_t first = UINT64_MAX, plane = (uint64_t)s->slab.nx * (uint64_t)s->slab.ny, lowest;
  kernel_args args = p->args;
  args.out = stepper_field(p, p->current);
  args.z_begin = 0;
  args.z_end = s->slab.nz;
  /* A device that fails here may fail alone, while the others stand in the step loop. */
  if (stepper_sync(p, e) || s->dev->table->first_nonfinite(s->dev, STREAM_INTERIOR, &args, &first, e))
    error_abort(e, s->comm);
  if (first != UINT64_MAX) first += (uint64_t)s->slab.z0 * plane;
  MPI_TRY(e, MPI_Allreduce(&first, &lowest, 1, MPI_UINT64_T, MPI_MIN, s->comm));
  if (lowest == UINT64_MAX) return 0;
  uint64_t nx = (uint64_t)s->slab.nx, ny = (uint64_t)s->slab.ny;
  return FAIL(e, NONFINITE, p->step, lowest % nx, lowest / nx % ny, lowest / plane);
}

field_meta simulation_meta(const simulation *s) {
  const config *c = s->config;
  return (field_meta){.step = s->stepper.step,
                      .time = (double)s->stepper.step,
                      .dt = 1, /* jacobi: a step is the unit of time */
                      .origin = {c->origin[0], c->origin[1], c->origin[2]},
                      .spacing = {c->dx, c->dy, c->dz},
                      .config_text = s->config_text,
                      .command = s->command,
                      .mpi_ranks = s->ranks,
                      .backend = backend_name(s->dev->table->backend),
                      .kernel = s->stepper.kernel->name,
                      .transport = s->halo.transport->name,
                      .equation = equation_name(c->equation),
                      .compress = c->compress};
}

static int list_in_series(simulation *s, const field_meta *meta, error *e) {
  size_t bytes = (size_t)(s->series_count + 1) * sizeof *s->series;
  series_entry *series = realloc(s->series, bytes);
  if (!series) return FAIL(e, OUT_OF_MEMORY, bytes, "the list of saved fields");
  s->series = series;
  s->series[s->series_count++] = (series_entry){meta->step, meta->time};
  return series_write(s->config->output_path, s->series, s->series_count, &s->slab, meta, e);
}

int simulation_save(simulation *s, error *e) {
  TRY(simulation_check(s, e));
  double begin = MPI_Wtime(); /* the check has waited for the steps under way: they are not I/O */
  field_meta meta = simulation_meta(s);
  s->transfer.field = s->stepper.memory[s->stepper.current];
  TRY(field_write(&s->io, s->config->output_path, &meta, transfer_to_host, &s->transfer, e));
  if (s->rank == 0) list_in_series(s, &meta, e);
  TRY(error_agree(e, s->comm));
  s->io_seconds += MPI_Wtime() - begin;
  log_detail(s->log, "saved %s.%08lld.hdf", s->config->output_path, (long long)meta.step);
  return 0;
}
