/* Fills the fields at the start of a shot. */
#include "shot/shot.h"
#include <math.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "physics/initial.h"
#include "shot/initial_file.h"
#include "survey/restart.h"

enum { COPY_REPEATS = 10 };
static const double COPY_SECONDS = 0.02; /* measure the copy at least this long, if it has repeats left */
static const size_t COPY_BYTES = (size_t)4 << 30; /* copy no more: a longer copy is no faster */

/* --- the field -------------------------------------------------------------------------------------------------- */

/* Copies plane 0, with its ghosts, to all others: on the device, where that takes no time beside a copy of them all to it. */
static int load_repeat_plane(shot *s, error *e) {
  const slab *b = &s->engine->slab;
  float *first = s->transfer.field + slab_offset(b, 0, -RADIUS, -RADIUS);
  for (int done = 1, more; done < b->nz; done += more) {
    more = done < b->nz - done ? done : b->nz - done;
    TRY(transfer_bytes(&s->transfer, first + (size_t)done * b->plane, first,
                       (size_t)more * b->plane * sizeof *first, COPY_ON_DEVICE, e));
  }
  return 0;
}

/* Computes the initial field plane by plane, or the first plane where all are alike. */
static int load_initial(shot *s, error *e) {
  const slab *b = &s->engine->slab;
  const bool alike = s->config->initial == INITIAL_ZERO || s->config->initial == INITIAL_NUMBER;
  float *plane;
  TRY(ALLOC(e, plane, (size_t)b->nx * (size_t)b->ny, "a plane of a field"));
  for (int z = 0; z < (alike ? 1 : b->nz) && !e->id; z++) {
    initial_fill(s->config, b->z0 + z, plane);
    transfer_to_device(&s->transfer, z, 1, plane, e);
  }
  free(plane);
  return alike && !e->id ? load_repeat_plane(s, e) : e->id;
}

/* Fills the ghosts beyond the ends of the grid. Fixed ones keep their value for ever; images are computed later. */
static int load_outer_ghosts(shot *s, error *e) {
  const slab *z = &s->engine->slab;
  transfer *t = &s->transfer;
  if (z->lower == SLAB_NO_RANK) TRY(transfer_fill(t, -RADIUS, RADIUS, t->ghosts[FACE_Z_LO], e));
  if (z->upper == SLAB_NO_RANK) TRY(transfer_fill(t, z->nz, RADIUS, t->ghosts[FACE_Z_HI], e));
  return 0;
}

static int load_images(shot *s, error *e) {
  kernel_args args = s->stepper.args;
  args.out = stepper_field(&s->stepper, 0);
  args.z_begin = 0, args.z_end = s->engine->slab.nz;
  TRY(s->dev->table->apply(s->dev, STREAM_BOUNDARY, &operation_ghosts, &args, e));
  return s->dev->table->sync(s->dev, STREAM_BOUNDARY, e);
}

/* From p, which files and formulas give, to the field, where that is sigma p. Collective, agreed. */
static int load_sigma(shot *s, int which, error *e) {
  float *u = stepper_field(&s->stepper, which);
  const kernel_args *a = &s->stepper.args;
  const scale_args times = {SCALE_TIMES, u, a->terms.sigma, u, a->pitch, a->plane, a->nx, a->ny, a->nz, NULL};
  if (!times.by) return e->id;
  if (!e->id && !s->dev->table->apply(s->dev, STREAM_BOUNDARY, &operation_scale, &times, e))
    s->dev->table->sync(s->dev, STREAM_BOUNDARY, e);
  return error_agree(e, s->engine->comm);
}

/* Fills the own points with the initial field. Collective, agreed. */
static int load_field(shot *s, error *e) {
  s->transfer.field = s->stepper.memory[0];
  if (s->config->initial == INITIAL_FILE)
    initial_file_read(s, transfer_to_device, &s->transfer, e);
  else
    load_initial(s, e);
  TRY(error_agree(e, s->engine->comm));
  return load_sigma(s, 0, e);
}

/* Relaxations and maps remember nothing at first. Collective, agreed. */
static int load_memories(shot *s, error *e) {
  transfer t = s->transfer;
  for (int l = 0; l < MEMORIES_MAX && !e->id; l++)
    if ((t.field = s->memory[l])) transfer_fill(&t, 0, s->engine->slab.nz, 0, e);
  for (int i = 0; i < MAP_FIELDS && !e->id; i++)
    if ((t.field = s->map[i]))
      transfer_fill(&t, 0, s->engine->slab.nz, i == MAP_MAX ? -INFINITY : i == MAP_MIN ? INFINITY : 0, e);
  return error_agree(e, s->engine->comm);
}

/* Imposes what sources impose at step 0. Collective, agreed. */
static int load_imposed(shot *s, error *e) {
  kernel_args args = s->stepper.args;
  args.out = stepper_field(&s->stepper, 0);
  args.z_begin = 0, args.z_end = s->engine->slab.nz;
  if (s->config->sources_mode != SOURCES_IMPOSE || !s->stepper.sources) return 0;
  if (!sources_apply(s->stepper.sources, STREAM_BOUNDARY, &args, -1, e))
    s->dev->table->sync(s->dev, STREAM_BOUNDARY, e);
  return error_agree(e, s->engine->comm);
}

/* Fills all ghosts of memory[0] that are not fixed. Collective, agreed. */
static int load_ghosts(shot *s, error *e) {
  load_images(s, e);
  TRY(error_agree(e, s->engine->comm));
  if (halo_exchange(&s->halo, s->stepper.memory[0], HALO_UNTIMED, true, e)) error_abort(e, s->engine->comm);
  s->halo.exchange_seconds = 0;
  return 0;
}

/* Copies the first field to field memory[to]. */
static int load_copy_field(shot *s, int to, size_t bytes, int repeats, double *seconds, error *e) {
  stepper *p = &s->stepper;
  double begin = MPI_Wtime();
  const copy_args field = {p->memory[to], p->memory[0], bytes, COPY_ON_DEVICE};
  for (int i = 0; i < repeats; i++) TRY(s->dev->table->copy(s->dev, STREAM_INTERIOR, &field, e));
  TRY(s->dev->table->sync(s->dev, STREAM_INTERIOR, e));
  *seconds = (MPI_Wtime() - begin) / repeats;
  return 0;
}

/* Copies the first field to all others, whose ghosts must hold the same values. Where these are a neighbour's own
 * planes (transport_shared.c), both ranks write the same values, and none continues before all have (error_agree after
 * every copy). A report compares steps with copies on the device: so they are timed here, once for the engine, on all
 * ranks at once, as steps run. */
static int load_other_fields(shot *s, error *e) {
  size_t bytes = slab_floats(&s->engine->slab) * sizeof(float),
         timed = bytes < COPY_BYTES ? bytes : COPY_BYTES;
  double best = 0, seconds, spent = 0;
  for (int i = 1; i < stepper_states(&s->stepper); i++) TRY(load_copy_field(s, i, bytes, 1, &seconds, e));
  if (s->engine->copy_gbs > 0 || !s->engine->setup.profile) return 0;
  const int each = 5 * seconds < COPY_SECONDS ? 5 : 1; /* behind each other */
  for (int i = 0; i < COPY_REPEATS && (i < 2 || spent < COPY_SECONDS); i++) {
    TRY(load_copy_field(s, 1, timed, each, &seconds, e));
    spent += each * seconds;
    if (i == 0 || seconds < best) best = seconds;
  }
  s->engine->copy_gbs = best > 0 ? 2.0 * (double)timed * 1e-9 / best : 0;
  return 0;
}

/* The field one step before the first; those before it are as the first. */
static int load_previous(shot *s, error *e) {
  if (s->config->previous == PREVIOUS_REST) {
    kernel_args args = s->stepper.args;
    args.in = stepper_field(&s->stepper, 0);
    args.out = stepper_field(&s->stepper, 1);
    args.z_begin = 0, args.z_end = s->engine->slab.nz;
    float *p = s->memory[MEMORY_PRESSURE], *scratch = p ? p + slab_offset(&s->engine->slab, 0, 0, 0) : NULL;
    return initial_at_rest(s->dev, EQUATIONS[s->config->equation].rest, &args, scratch, s->stepper.absorb, e);
  }
  s->transfer.field = s->stepper.memory[1];
  TRY(engine_read_field(s->engine, s->config->previous_file, QUANTITY_NONE, transfer_to_device, &s->transfer,
                        e));
  return load_sigma(s, 1, e);
}

/* Fills the field of the step before the first one, and lets observers look at step 0. */
static int load_first_step(shot *s, error *e) {
  if (EQUATIONS[s->config->equation].levels > 1) load_previous(s, e);
  for (int i = 0; i < s->observers.count && !e->id; i++) {
    const observer *o = &s->observers.list[i];
    if (!o->agreed) o->look(o->self, stepper_field(&s->stepper, 0), 0, s->halo.stream, e);
  }
  return error_agree(e, s->engine->comm);
}

/* Fills the fields from the checkpoint instead. It holds all time levels; what is beside them needs the ghosts. */
static int load_checkpoint(shot *s, error *e) {
  double seconds;
  const size_t bytes = slab_floats(&s->engine->slab) * sizeof(float);
  TRY(restart_fill(s, s->from, e));
  TRY(load_ghosts(s, e));
  for (int i = EQUATIONS[s->config->equation].levels; i < stepper_states(&s->stepper) && !e->id; i++)
    load_copy_field(s, i, bytes, 1, &seconds, e);
  return error_agree(e, s->engine->comm);
}

/* Measuring single steps overwrites the second field, measuring passes of several both: the choice comes before what it
 * overwrites. */
int shot_load(shot *s, error *e) {
  engine *g = s->engine;
  const bool both = g->most > 1;
  if (both) TRY(engine_choose(g, &s->stepper, &s->front, e));
  TRY(engine_load(g, e));
  if (s->used && s->stepper.absorb) absorb_clear(s->stepper.absorb, e);
  s->used = true;
  s->transfer.field = s->stepper.memory[0];
  if (!e->id) load_outer_ghosts(s, e);
  TRY(error_agree(e, g->comm));
  if (!s->from) {
    TRY(load_field(s, e));
    TRY(load_imposed(s, e));
    TRY(load_ghosts(s, e));
  }
  MPI_TRY(e, mpi_meet(g->comm));
  if (!both) TRY(engine_choose(g, &s->stepper, &s->front, e));
  TRY(load_memories(s, e));
  load_other_fields(s, e);
  TRY(error_agree(e, g->comm));
  return s->from ? load_checkpoint(s, e) : load_first_step(s, e);
}
