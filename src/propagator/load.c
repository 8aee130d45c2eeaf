/* Fills the fields of a propagator at the start. */
#include "propagator.h"
#include <math.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "physics/initial.h"

enum { COPY_REPEATS = 10 };
static const double COPY_SECONDS = 0.02; /* measure the copy for at least this long, if repeats are left */
static const size_t COPY_BYTES = (size_t)4 << 30; /* copy at most so much: a longer copy is no faster */

/* --- the field -------------------------------------------------------------------------------------------------- */

/* Copies plane 0, with its ghosts, to all other planes. The copies stay on the device, which is far faster than copies
 * from the host. */
static int load_repeat_plane(propagator *p, error *e) {
  const slab *b = &p->engine->slab;
  float *first = p->transfer.field + slab_offset(b, 0, -RADIUS, -RADIUS);
  for (int done = 1, more; done < b->nz; done += more) {
    more = done < b->nz - done ? done : b->nz - done;
    TRY(transfer_bytes(&p->transfer, first + (size_t)done * b->plane, first,
                       (size_t)more * b->plane * sizeof *first, COPY_ON_DEVICE, e));
  }
  return 0;
}

/* Computes the initial field plane by plane; where all planes are alike, only the first. */
static int load_initial(propagator *p, error *e) {
  const slab *b = &p->engine->slab;
  const bool alike = p->config->initial == INITIAL_ZERO ||
                     (p->config->initial == INITIAL_NUMBER && !config_extends(p->config));
  float *plane;
  TRY(ALLOC(e, plane, (size_t)b->nx * (size_t)b->ny, "a plane of a field"));
  for (int z = 0; z < (alike ? 1 : b->nz) && !e->id; z++) {
    initial_fill(p->config, b->z0 + z, plane);
    transfer_to_device(&p->transfer, z, 1, plane, e);
  }
  free(plane);
  return alike && !e->id ? load_repeat_plane(p, e) : e->id;
}

/* Fills the ghosts beyond the ends of the grid. Fixed ghosts keep their value for ever; images are computed later. */
static int load_outer_ghosts(propagator *p, error *e) {
  const slab *z = &p->engine->slab;
  transfer *t = &p->transfer;
  if (z->lower == SLAB_NO_RANK) TRY(transfer_fill(t, -RADIUS, RADIUS, t->ghosts[FACE_Z_LO], e));
  if (z->upper == SLAB_NO_RANK) TRY(transfer_fill(t, z->nz, RADIUS, t->ghosts[FACE_Z_HI], e));
  return 0;
}

static int load_images(propagator *p, error *e) {
  kernel_args args = p->stepper.args;
  args.out = stepper_field(&p->stepper, 0);
  args.z_begin = 0, args.z_end = p->engine->slab.nz;
  TRY(p->dev->table->apply(p->dev, STREAM_BOUNDARY, &operation_ghosts, &args, e));
  return p->dev->table->sync(p->dev, STREAM_BOUNDARY, e);
}

/* Turns p, which files and formulas give, into the field, where the field is sigma p. Collective, agreed. */
static int load_sigma(propagator *p, int which, error *e) {
  float *u = stepper_field(&p->stepper, which);
  const kernel_args *a = &p->stepper.args;
  const scale_args times = scale_as(SCALE_TIMES, u, a->terms.sigma, u, a);
  if (!times.by) return e->id;
  if (!e->id && !p->dev->table->apply(p->dev, STREAM_BOUNDARY, &operation_scale, &times, e))
    p->dev->table->sync(p->dev, STREAM_BOUNDARY, e);
  return error_agree(e, p->engine->comm);
}

/* Fills the own points with the initial field. Collective, agreed. */
static int load_field(propagator *p, const propagator_input *from, error *e) {
  p->transfer.field = p->stepper.memory[0];
  if (p->config->initial == INITIAL_FILE)
    from->read(from->context, 0, transfer_to_device, &p->transfer, e);
  else
    load_initial(p, e);
  TRY(error_agree(e, p->engine->comm));
  return load_sigma(p, 0, e);
}

/* Clears the memory of relaxations and maps. Collective, agreed. */
static int load_memories(propagator *p, error *e) {
  transfer t = p->transfer;
  for (int l = 0; l < MEMORIES_MAX && !e->id; l++)
    if ((t.field = p->memory[l])) transfer_fill(&t, 0, p->engine->slab.nz, 0, e);
  for (int i = 0; i < MAP_FIELDS && !e->id; i++)
    if ((t.field = p->map[i]))
      transfer_fill(&t, 0, p->engine->slab.nz, i == MAP_MAX ? -INFINITY : i == MAP_MIN ? INFINITY : 0, e);
  return error_agree(e, p->engine->comm);
}

/* Sets the values that sources impose at step 0. Collective, agreed. */
static int load_imposed(propagator *p, error *e) {
  kernel_args args = p->stepper.args;
  args.out = stepper_field(&p->stepper, 0);
  args.z_begin = 0, args.z_end = p->engine->slab.nz;
  if (p->config->sources_mode != SOURCES_IMPOSE || !p->stepper.sources) return 0;
  if (!injector_apply(p->stepper.sources, STREAM_BOUNDARY, &args, -1, e))
    p->dev->table->sync(p->dev, STREAM_BOUNDARY, e);
  return error_agree(e, p->engine->comm);
}

/* Fills all ghosts of memory[0] that are not fixed. Collective, agreed. */
static int load_ghosts(propagator *p, error *e) {
  load_images(p, e);
  TRY(error_agree(e, p->engine->comm));
  if (halo_exchange(&p->halo, p->stepper.memory[0], HALO_UNTIMED, true, e))
    return error_abort(e, p->engine->comm);
  p->halo.exchange_seconds = 0;
  return 0;
}

/* Copies the first field to field memory[to]. */
static int load_copy_field(propagator *p, int to, size_t bytes, int repeats, double *seconds, error *e) {
  const stepper *s = &p->stepper;
  double begin = MPI_Wtime();
  const copy_args field = {s->memory[to], s->memory[0], bytes, COPY_ON_DEVICE};
  for (int i = 0; i < repeats; i++) TRY(p->dev->table->copy(p->dev, STREAM_INTERIOR, &field, e));
  TRY(p->dev->table->sync(p->dev, STREAM_INTERIOR, e));
  *seconds = (MPI_Wtime() - begin) / repeats;
  return 0;
}

/* Copies the first field to all others, whose ghosts must hold the same values. Where these are a neighbour's own
 * planes (transport_shared.c), both ranks write the same values, and none continues before all have (error_agree after
 * every copy). The copies are timed here, once for the engine, because a report compares steps with copies. All ranks
 * copy at once, as in steps. */
static int load_other_fields(propagator *p, error *e) {
  size_t bytes = slab_floats(&p->engine->slab) * sizeof(float),
         timed = bytes < COPY_BYTES ? bytes : COPY_BYTES;
  double best = 0, seconds, spent = 0;
  for (int i = 1; i < stepper_states(&p->stepper); i++) TRY(load_copy_field(p, i, bytes, 1, &seconds, e));
  if (p->engine->copy_gbs > 0 || !p->engine->setup.profile) return 0;
  const int each = 5 * seconds < COPY_SECONDS ? 5 : 1; /* copies in a row */
  for (int i = 0; i < COPY_REPEATS && (i < 2 || spent < COPY_SECONDS); i++) {
    TRY(load_copy_field(p, 1, timed, each, &seconds, e));
    spent += each * seconds;
    if (i == 0 || seconds < best) best = seconds;
  }
  p->engine->copy_gbs = best > 0 ? 2.0 * (double)timed * 1e-9 / best : 0;
  return 0;
}

/* Are the field, its ghosts and the values that sources impose at step 0 all zero? Then the field before is zero
 * too. */
static bool load_is_silent(const config *c) {
  const bool zero = c->initial == INITIAL_ZERO || (c->initial == INITIAL_NUMBER && c->initial_number == 0);
  return zero && c->boundary_value == 0 && c->sources_mode != SOURCES_IMPOSE;
}

/* Finds the field of the step before step 0; fields of still earlier steps equal that of step 0. */
static int load_previous(propagator *p, const propagator_input *from, error *e) {
  if (p->config->previous == PREVIOUS_REST && load_is_silent(p->config)) return 0;
  if (p->config->previous == PREVIOUS_REST) {
    kernel_args args = p->stepper.args;
    args.in = stepper_field(&p->stepper, 0);
    args.out = stepper_field(&p->stepper, 1);
    args.z_begin = 0, args.z_end = p->engine->slab.nz;
    float *memory = p->memory[MEMORY_PRESSURE],
          *scratch = memory ? memory + slab_offset(&p->engine->slab, 0, 0, 0) : NULL;
    return initial_at_rest(p->dev, EQUATIONS[p->config->equation].rest, &args, scratch, p->stepper.absorb, e);
  }
  p->transfer.field = p->stepper.memory[1];
  TRY(from->read(from->context, -1, transfer_to_device, &p->transfer, e));
  return load_sigma(p, 1, e);
}

/* Fills the field of the step before the first one, and lets observers look at step 0. */
static int load_first_step(propagator *p, const propagator_input *from, error *e) {
  if (EQUATIONS[p->config->equation].levels > 1) load_previous(p, from, e);
  for (int i = 0; i < p->observers.count && !e->id; i++) {
    const observer *o = &p->observers.list[i];
    if (!o->agreed) o->look(o->self, stepper_field(&p->stepper, 0), 0, p->halo.stream, e);
  }
  return error_agree(e, p->engine->comm);
}

/* Measuring single steps overwrites the second field; measuring passes of several steps overwrites both. So kernels are
 * chosen before these fields are filled. `from` NULL: a checkpoint comes later. Collective, agreed. */
static int load_begin(propagator *p, const propagator_input *from, error *e) {
  engine *g = p->engine;
  const bool both = g->most > 1;
  if (both) TRY(engine_choose(g, &p->stepper, &p->front, e));
  if (p->used && p->stepper.absorb) absorb_clear(p->stepper.absorb, e);
  p->used = true;
  p->transfer.field = p->stepper.memory[0];
  if (!e->id) load_outer_ghosts(p, e);
  TRY(error_agree(e, g->comm));
  if (from) {
    TRY(load_field(p, from, e));
    TRY(load_imposed(p, e));
    TRY(load_ghosts(p, e));
  }
  MPI_TRY(e, mpi_meet(g->comm));
  if (!both) TRY(engine_choose(g, &p->stepper, &p->front, e));
  TRY(load_memories(p, e));
  load_other_fields(p, e);
  return error_agree(e, g->comm);
}

int propagator_start(propagator *p, const propagator_input *from, error *e) {
  TRY(load_begin(p, from, e));
  return load_first_step(p, from, e);
}

/* A checkpoint holds all time levels of own points; ghosts are recomputed. */
int propagator_continue(propagator *p, int64_t step, int (*read)(void *context, error *e), void *context,
                        error *e) {
  double seconds;
  const size_t bytes = slab_floats(&p->engine->slab) * sizeof(float);
  TRY(load_begin(p, NULL, e));
  p->stepper.step = p->stepper.measured_from = step;
  TRY(read(context, e));
  TRY(load_ghosts(p, e));
  for (int i = EQUATIONS[p->config->equation].levels; i < stepper_states(&p->stepper) && !e->id; i++)
    load_copy_field(p, i, bytes, 1, &seconds, e);
  return error_agree(e, p->engine->comm);
}
