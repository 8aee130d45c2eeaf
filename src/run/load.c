/* Fills the fields at the start of a run. */
#include "simulation.h"
#include <stdlib.h>
#include "base/error_mpi.h"
#include "physics/initial.h"
#include "report.h"
#include "save/restart.h"
#include "step/tune.h"

enum { COPY_REPEATS = 10 };
static const double COPY_SECONDS = 0.1; /* measure the copy at least this long, if it has repeats left */
static const size_t COPY_BYTES = (size_t)4 << 30; /* copy no more: a longer copy is no faster */

int simulation_check_paths(const simulation *s, bool files, error *e) {
  const config *c = s->config;
  const request paths = {FILES_CHECK_PATHS, .path = c->output_path, .checkpoints = c->checkpoint_path};
  if (files) TRY(files_do(s->files, &paths, e));
  if (s->rank == 0 && !e->id && c->report_file[0]) report_check(c->report_file, e);
  return error_agree(e, s->comm);
}

int simulation_make_folders(const simulation *s, bool files, bool dry, error *e) {
  const config *c = s->config;
  const named_path paths[] = {{"[output] path", c->output_path},
                              {"[checkpoint] path", c->checkpoint_path},
                              {"[report] file", c->report_file}};
  for (int i = files ? 0 : 2; i < 3; i++) {
    bool missing = false;
    const request folder = {FILES_MAKE_FOLDER, .path = paths[i].path, .dry = dry,
                            .answer_bytes = sizeof missing, .own.answer = &missing};
    if (i < 2)
      TRY(files_do(s->files, &folder, e));
    else if (s->rank == 0 && c->report_file[0])
      path_make_folder(c->report_file, dry, &missing, e);
    if (missing)
      log_line(s->log, "%s the folder of %s = %s", dry ? "a run would make" : "made", paths[i].key,
               paths[i].path);
  }
  return error_agree(e, s->comm);
}

/* --- the medium: what the sum of the star is multiplied by ------------------------------------------------------ */

/* A field_sink: turns planes of the medium into what kernels read. `context`: the simulation. */
static int load_medium_planes(void *context, int z, int planes, float *values, error *e) {
  simulation *s = context;
  const size_t points = (size_t)s->slab.nx * (size_t)s->slab.ny * (size_t)planes;
  for (size_t i = 0; i < points; i++) values[i] = physics_factor(&s->physics, s->config, values[i]);
  return transfer_to_device(&s->transfer, z, planes, values, e);
}

/* Collective, agreed. */
static int load_file(simulation *s, const char *dataset, enum quantity quantity, field_sink *sink,
                     void *context, error *e) {
  const request_own own = {.io = &s->io, .sink = sink, .context = context};
  return files_do(s->files, &(request){FILES_READ_FIELD, .path = dataset, .quantity = quantity, .own = own},
                  e);
}

static int load_medium(simulation *s, error *e) {
  double number;
  const char *dataset = physics_medium(s->config, &number);
  if (!dataset) return 0;
  s->transfer.field = s->medium;
  return load_file(s, dataset, physics_quantity(s->config), load_medium_planes, s, e);
}

/* --- the field -------------------------------------------------------------------------------------------------- */

/* Computes the initial field plane by plane. */
static int load_initial(simulation *s, error *e) {
  const size_t bytes = (size_t)s->slab.nx * (size_t)s->slab.ny * sizeof(float);
  float *plane = malloc(bytes);
  if (!plane) return FAIL(e, OUT_OF_MEMORY, bytes, "a plane of a field");
  for (int z = 0; z < s->slab.nz && !e->id; z++) {
    initial_fill(s->config, s->slab.z0 + z, plane);
    transfer_to_device(&s->transfer, z, 1, plane, e);
  }
  free(plane);
  return e->id;
}

/* Fills the ghosts beyond the ends of the grid. Fixed ones keep their value for ever; images are computed later. */
static int load_outer_ghosts(simulation *s, error *e) {
  const slab *z = &s->slab;
  transfer *t = &s->transfer;
  if (z->lower == SLAB_NO_RANK) TRY(transfer_fill(t, -z->ghost, z->ghost, t->ghosts[FACE_Z_LO], e));
  if (z->upper == SLAB_NO_RANK) TRY(transfer_fill(t, z->nz, z->ghost, t->ghosts[FACE_Z_HI], e));
  return 0;
}

static int load_images(simulation *s, error *e) {
  kernel_args args = s->stepper.args;
  args.out = stepper_field(&s->stepper, 0);
  args.z_begin = 0, args.z_end = s->slab.nz;
  TRY(s->dev->table->apply(s->dev, STREAM_BOUNDARY, &operation_ghosts, &args, e));
  return s->dev->table->sync(s->dev, STREAM_BOUNDARY, e);
}

/* Fills the own points with the initial field. Collective, agreed. */
static int load_field(simulation *s, error *e) {
  s->transfer.field = s->stepper.memory[0];
  if (s->config->initial == INITIAL_FILE)
    return load_file(s, s->config->initial_file, QUANTITY_NONE, transfer_to_device, &s->transfer, e);
  load_initial(s, e);
  return error_agree(e, s->comm);
}

/* Fills all ghosts of memory[0] that are not fixed. Collective, agreed. */
static int load_ghosts(simulation *s, error *e) {
  load_images(s, e);
  TRY(error_agree(e, s->comm));
  if (halo_exchange(&s->halo, s->stepper.memory[0], HALO_UNTIMED, true, e)) error_abort(e, s->comm);
  s->halo.exchange_seconds = 0;
  return 0;
}

static int load_copy_fields(simulation *s, size_t bytes, int repeats, double *seconds, error *e) {
  stepper *p = &s->stepper;
  double begin = MPI_Wtime();
  const copy_args field = {p->memory[1], p->memory[0], bytes, COPY_ON_DEVICE};
  for (int i = 0; i < repeats; i++) TRY(s->dev->table->copy(s->dev, STREAM_INTERIOR, &field, e));
  TRY(s->dev->table->sync(s->dev, STREAM_INTERIOR, e));
  *seconds = (MPI_Wtime() - begin) / repeats;
  return 0;
}

/* Copies the first field to the second, whose ghosts must hold the same values. Where these are a neighbour's own
 * planes (transport_shared.c), both ranks write the same values, and none continues before all have (error_agree after
 * every copy). The report compares steps with copies on the device: so they are timed here, on all ranks at once, as
 * steps run. */
static int load_second_field(simulation *s, error *e) {
  size_t bytes = slab_floats(&s->slab) * sizeof(float), timed = bytes < COPY_BYTES ? bytes : COPY_BYTES;
  double best = 0, seconds, spent = 0;
  TRY(load_copy_fields(s, bytes, 1, &seconds, e));
  for (int i = 0; i < COPY_REPEATS && spent < COPY_SECONDS; i++) {
    TRY(load_copy_fields(s, timed, 5, &seconds, e));
    spent += 5 * seconds;
    if (i == 0 || seconds < best) best = seconds;
  }
  s->copy_gbs = best > 0 ? 2.0 * (double)timed * 1e-9 / best : 0;
  return 0;
}

/* --- the wave one step before the first ------------------------------------------------------------------------- */

static int load_previous(simulation *s, error *e) {
  if (s->config->previous == PREVIOUS_REST) {
    kernel_args args = s->stepper.args;
    args.in = stepper_field(&s->stepper, 0);
    args.out = stepper_field(&s->stepper, 1);
    args.z_begin = 0, args.z_end = s->slab.nz;
    return initial_at_rest(s->dev, &args, e);
  }
  s->transfer.field = s->stepper.memory[1];
  return load_file(s, s->config->previous_file, QUANTITY_NONE, transfer_to_device, &s->transfer, e);
}

/* Fills the field of the step before the first one, and samples the receivers at step 0. */
static int load_first_step(simulation *s, error *e) {
  if (s->config->equation == EQUATION_WAVE) load_previous(s, e);
  if (!e->id && s->stepper.receivers) receivers_sample(&s->receivers, stepper_field(&s->stepper, 0), 0, e);
  return error_agree(e, s->comm);
}

/* Fills the fields from the checkpoint instead. It holds both fields of the wave; other equations copy the first one,
 * with its ghosts, to the second. */
static int load_checkpoint(simulation *s, error *e) {
  double seconds;
  TRY(restart_fill(&s->saves, s->from, e));
  TRY(load_ghosts(s, e));
  if (s->config->equation != EQUATION_WAVE)
    load_copy_fields(s, slab_floats(&s->slab) * sizeof(float), 1, &seconds, e);
  return error_agree(e, s->comm);
}

/* Chooses the kernel, and how many steps a pass has. Measuring single steps overwrites the second field, measuring
 * passes both and the layers. */
static int load_kernel(simulation *s, error *e) {
  if (s->stepper.persistent) return 0;
  TRY(tune_kernels(&s->stepper, s->config->kernel, s->physics.form, s->comm, s->log, e));
  if (s->most == 1) return 0;
  TRY(wavefront_choose(&s->front, &s->stepper, s->config, s->most, s->log, e));
  return s->stepper.absorb ? absorb_clear(s->stepper.absorb, e) : 0;
}

int simulation_load(simulation *s, error *e) {
  const bool both = s->most > 1;
  if (both) TRY(load_kernel(s, e));
  TRY(load_medium(s, e));
  s->transfer.field = s->stepper.memory[0];
  load_outer_ghosts(s, e);
  TRY(error_agree(e, s->comm));
  if (!s->from) {
    TRY(load_field(s, e));
    TRY(load_ghosts(s, e));
  }
  MPI_TRY(e, MPI_Barrier(s->comm));
  if (!both) TRY(load_kernel(s, e));
  load_second_field(s, e);
  TRY(error_agree(e, s->comm));
  if (!s->from) return load_first_step(s, e);
  return load_checkpoint(s, e);
}
