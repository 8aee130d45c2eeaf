/* Filling the fields at the start. */
#include "simulation.h"
#include <stdlib.h>
#include "error_mpi.h"
#include "initial.h"
#include "tune.h"

enum { COPY_REPEATS = 10 };
static const double COPY_SECONDS = 0.1; /* measure the copy at least this long, if it has repeats left */
static const size_t COPY_BYTES = (size_t)4 << 30; /* a longer copy is no faster */

/* Computes the initial field plane by plane, as a file would be read. */
static int compute_initial(simulation *s, error *e) {
  size_t bytes = (size_t)s->slab.nx * (size_t)s->slab.ny * sizeof(float);
  float *plane = malloc(bytes);
  if (!plane) return FAIL(e, OUT_OF_MEMORY, bytes, "a plane of the initial field");
  for (int z = 0; z < s->slab.nz && !e->id; z++) {
    initial_fill(s->config, s->slab.z0 + z, 1, plane);
    transfer_to_device(&s->transfer, z, 1, plane, e);
  }
  free(plane);
  return e->id;
}

/* The outer faces hold the boundary value for ever; ghosts towards a neighbour come by exchange. */
static int fill_outer_ghosts(simulation *s, error *e) {
  if (s->slab.lower == SLAB_NO_RANK) TRY(transfer_fill(&s->transfer, -s->slab.ghost, s->slab.ghost, e));
  if (s->slab.upper == SLAB_NO_RANK) TRY(transfer_fill(&s->transfer, s->slab.nz, s->slab.ghost, e));
  return 0;
}

static int copy_fields(simulation *s, size_t bytes, int repeats, double *seconds, error *e) {
  stepper *p = &s->stepper;
  double begin = MPI_Wtime();
  for (int i = 0; i < repeats; i++)
    TRY(s->dev->table->copy(s->dev, STREAM_INTERIOR, p->memory[1], p->memory[0], bytes, COPY_ON_DEVICE, e));
  TRY(s->dev->table->sync(s->dev, STREAM_INTERIOR, e));
  *seconds = (MPI_Wtime() - begin) / repeats;
  return 0;
}

/* The second field starts as a copy of the first: its ghosts must hold the same values. Copying on the device
 * is also the yardstick of the performance report, so it is timed here, on all ranks at once, as the steps
 * will run. */
static int copy_and_measure(simulation *s, error *e) {
  size_t bytes = slab_floats(&s->slab) * sizeof(float), timed = bytes < COPY_BYTES ? bytes : COPY_BYTES;
  double best = 0, seconds, spent = 0;
  TRY(copy_fields(s, bytes, 1, &seconds, e));
  for (int i = 0; i < COPY_REPEATS && spent < COPY_SECONDS; i++) {
    TRY(copy_fields(s, timed, 5, &seconds, e));
    spent += 5 * seconds;
    if (i == 0 || seconds < best) best = seconds;
  }
  s->copy_gbs = best > 0 ? 2.0 * (double)timed * 1e-9 / best : 0;
  return 0;
}

int simulation_load(simulation *s, error *e) {
  s->transfer.field = s->stepper.memory[0];
  fill_outer_ghosts(s, e);
  TRY(error_agree(e, s->comm));
  if (s->config->initial == INITIAL_FILE)
    TRY(field_read(&s->io, s->config->initial_file, transfer_to_device, &s->transfer, e));
  else
    compute_initial(s, e);
  TRY(error_agree(e, s->comm));
  if (halo_exchange(&s->halo, s->stepper.memory[0], NULL, true, e)) error_abort(e, s->comm);
  s->halo.exchange_seconds = 0;
  MPI_TRY(e, MPI_Barrier(s->comm));
  TRY(tune_kernels(&s->stepper, s->config->kernel, s->config->equation, s->comm, s->log, e));
  copy_and_measure(s, e);
  return error_agree(e, s->comm);
}
