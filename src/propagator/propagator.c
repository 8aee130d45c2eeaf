/* Planning, opening and closing a propagator, and what callers ask of its fields. */
#include "propagator.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "maps.h"

/* --- planning --------------------------------------------------------------------------------------------------- */

problem propagator_problem(const propagator *p) {
  const engine *g = p->engine;
  return (problem){
      .dev = p->dev, .slab = &g->slab, .config = p->config, .files = g->files, .transforms = g->transforms};
}

/* Rows of a plane that belong to one shot. */
static int propagator_rows(const propagator *p) {
  return p->engine->files_slab.ny;
}

/* Joins the sources and receivers of the shots for the steps. */
static int propagator_join(propagator *p, error *e) {
  const problem on = propagator_problem(p);
  const int rows = propagator_rows(p);
  sources **of_sources = NULL;
  receivers **of_receivers = NULL;
  ALLOC(e, of_sources, p->count, "the shots");
  ALLOC(e, of_receivers, p->count, "the shots");
  for (int i = 0; i < p->count && !e->id; i++)
    of_sources[i] = &p->shots[i]->sources, of_receivers[i] = &p->shots[i]->receivers;
  if (!e->id && !injector_plan(&p->injector, of_sources, p->count, &on, rows, e))
    sampler_plan(&p->sampler, of_receivers, p->count, &on, rows, e);
  free(of_sources);
  free(of_receivers);
  return e->id;
}

int propagator_plan(propagator *p, engine *g, acquisition *const *shots, int count, error *e) {
  stepper *s = &p->stepper;
  p->engine = g;
  if (!p->dev) p->dev = g->dev;
  free(p->shots);
  TRY(ALLOC(e, p->shots, count, "the shots"));
  memcpy(p->shots, shots, (size_t)count * sizeof *shots);
  p->count = count;
  p->config = count ? shots[0]->config : g->config;
  s->args.ny = larger(count, 1) * propagator_rows(p); /* memory may be for more */
  s->kernel = g->kernel, s->boundary_kernel = g->boundary_kernel;
  stepper_restart(s);
  const problem on = propagator_problem(p);
  if (!p->open) absorb_plan(&p->absorb, &on);
  TRY(propagator_join(p, e));
  s->sources = NULL;
  for (int i = 0; i < count; i++)
    if (config_has_sources(shots[i]->config)) s->sources = &p->injector;
  s->observers = &p->observers;
  p->observers.count = 0;
  if (p->sampler.every) p->observers.list[p->observers.count++] = sampler_observer(&p->sampler);
  maps_observe(p);
  return 0;
}

void propagator_fields(const propagator *p, field_set *f) {
  const stepper *s = &p->stepper;
  fields_plan(f, p->config, &p->engine->slab, &p->absorb);
  for (int i = 0; i < f->count; i++) {
    field *a = &f->list[i];
    if (a->role == FIELD_STATE) a->values = s->memory[stepper_ago(s, a->number)];
    if (a->role == FIELD_MEDIUM) a->values = p->engine->medium[a->number];
    if (a->role == FIELD_MEMORY) a->values = p->memory[a->number];
    if (a->role == FIELD_MAP) a->values = p->map[a->number];
  }
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

/* Takes memory for relaxations, and for the pressure while it is saved. */
static int propagator_open_memory(propagator *p, size_t bytes, error *e) {
  field_set f;
  propagator_fields(p, &f);
  for (const field *a = f.list; a < f.list + f.count; a++) {
    if (a->role != FIELD_MEMORY && a->role != FIELD_MAP) continue;
    float **to = a->role == FIELD_MAP ? &p->map[a->number] : &p->memory[a->number];
    TRY(p->dev->table->alloc(p->dev, (void **)to, bytes, MEMORY_DEVICE, e));
    if (a->saved && a->role == FIELD_MEMORY)
      p->stepper.args.terms.memory[a->number] = *to + slab_offset(&p->engine->slab, 0, 0, 0);
  }
  return 0;
}

/* Opens the fields, the layers and the halo. */
static int propagator_open_state(propagator *p, error *e) {
  engine *g = p->engine;
  const problem on = propagator_problem(p);
  const size_t bytes = slab_floats(&g->slab) * sizeof(float);
  stepper *s = &p->stepper;
  const int rows = s->args.ny;
  s->dev = p->dev, s->halo = &p->halo, s->slab = &g->slab;
  s->overlap = g->config->overlap, s->profile = g->setup.profile;
  s->args = g->args;
  s->args.ny = rows;
  p->transfer = g->transfer;
  p->transfer.dev = p->dev;
  for (int i = 0; i < stepper_states(s); i++)
    TRY(p->dev->table->alloc(p->dev, (void **)&s->memory[i], bytes, MEMORY_DEVICE, e));
  TRY(propagator_open_memory(p, bytes, e));
  TRY(stepper_open(s, e));
  TRY(measure_open(&p->measure, p->dev, &g->slab, g->comm, g->config->histogram, e));
  TRY(absorb_open(&p->absorb, &on, &s->args,
                  (absorb_motion){physics_fastest(&g->physics, g->config), g->physics.dt}, e));
  if (absorb_needed(&p->absorb)) s->absorb = &p->absorb;
  p->front.threads = g->options.threads;
  if (g->depth == 1) return 0;
  s->front = &p->front;
  return wavefront_open(&p->front, &s->args, g->depth, e);
}

static int propagator_open_schedule(propagator *p, error *e) {
  if (p->engine->config->schedule != SCHEDULE_PERSISTENT) return 0;
  error reason = {0};
  persistent_open(&p->persistent, &p->halo, &p->stepper.args, &reason);
  if (reason.id == ERROR_TRANSPORT_REFUSED) return FAIL(e, SCHEDULE_IMPOSSIBLE, reason.text);
  if (reason.id && !e->id) *e = reason;
  p->stepper.persistent = &p->persistent;
  return e->id;
}

/* Takes all memory that serves later shots too. */
static int propagator_open_once(propagator *p, error *e) {
  const engine *g = p->engine;
  const bool persistent = g->config->schedule == SCHEDULE_PERSISTENT && g->ranks > 1;
  p->open = true;
  propagator_open_state(p, e);
  TRY(error_agree(e, g->comm));
  halo_setup exchanged = {.dev = p->dev, .slab = &g->slab, .comm = g->comm};
  field_set f;
  propagator_fields(p, &f);
  for (int i = 0, n = 0; i < f.count; i++)
    if (f.list[i].role == FIELD_STATE) exchanged.fields[n++] = f.list[i].values;
  halo_open(&p->halo, persistent ? "ipc" : transport_name(g->config->transport), &exchanged, e);
  if (!e->id) propagator_open_schedule(p, e);
  return error_agree(e, g->comm);
}

int propagator_open(propagator *p, error *e) {
  if (!p->open) TRY(propagator_open_once(p, e));
  p->sampler.stream = p->halo.stream;
  p->sampler.sigma = p->engine->args.terms.sigma;
  if (!injector_open(&p->injector, e)) sampler_open(&p->sampler, e);
  return error_agree(e, p->engine->comm);
}

void propagator_settle(const propagator *p) {
  error again = {0}; /* the next call reports the error too */
  for (int stream = 0; p->open && stream < STREAM_COUNT; stream++)
    p->dev->table->sync(p->dev, stream, &again);
}

void propagator_close(propagator *p) {
  error ignored = {0};
  free(p->shots);
  p->shots = NULL;
  if (!p->dev) return;
  persistent_close(&p->persistent);
  halo_close(&p->halo);
  measure_close(&p->measure);
  sampler_close(&p->sampler);
  injector_close(&p->injector);
  absorb_close(&p->absorb);
  wavefront_close(&p->front);
  stepper_close(&p->stepper);
  for (int i = 0; i < EQUATION_STATES; i++)
    p->dev->table->free(p->dev, p->stepper.memory[i], MEMORY_DEVICE, &ignored);
  for (int i = 0; i < SHOT_MEMORIES; i++) p->dev->table->free(p->dev, p->memory[i], MEMORY_DEVICE, &ignored);
  for (int i = 0; i < MAP_FIELDS; i++) p->dev->table->free(p->dev, p->map[i], MEMORY_DEVICE, &ignored);
  *p = (propagator){.engine = NULL};
}

/* --- its fields --------------------------------------------------------------------------------------------------- */

float *propagator_saved(const propagator *p) {
  return p->memory[MEMORY_PRESSURE] ? p->memory[MEMORY_PRESSURE] : p->stepper.memory[p->stepper.current];
}

int propagator_find_pressure(propagator *p, error *e) {
  const stepper *s = &p->stepper;
  const kernel_args *a = &s->args;
  if (!p->memory[MEMORY_PRESSURE]) return 0;
  const scale_args over = scale_as(SCALE_OVER, stepper_field(s, s->current), a->terms.sigma,
                                   propagator_saved(p) + slab_offset(s->slab, 0, 0, 0), a);
  TRY(stepper_await(s, STREAM_OUTPUT, e));
  return p->dev->table->apply(p->dev, STREAM_OUTPUT, &operation_scale, &over, e);
}

int propagator_bring(const propagator *p, int i, float *field, int z, int planes, float *values, error *e) {
  transfer t = p->transfer; /* a copy: this thread sets its `field` */
  t.field = field;
  return p->engine->slab.ny > propagator_rows(p) ? transfer_row_to_host(&t, i, z, planes, values, e)
                                                 : transfer_to_host(&t, z, planes, values, e);
}

static const float *propagator_points(const propagator *p) {
  return propagator_saved(p) + slab_offset(p->stepper.slab, 0, 0, 0);
}

int propagator_complete(propagator *p, error *e) {
  watchdog_mark(p->stepper.watch, WATCH_CHECK, p->stepper.step);
  if (stepper_sync(&p->stepper, e) || propagator_find_pressure(p, e) ||
      p->dev->table->sync(p->dev, STREAM_OUTPUT, e))
    return error_abort(e, p->engine->comm);
  return 0;
}

int propagator_measure(propagator *p, field_statistics *f, error *e) {
  f->step = p->stepper.step;
  return measure_field(&p->measure, propagator_points(p), false, f, e) ? error_abort(e, p->engine->comm) : 0;
}

int propagator_measure_shot(propagator *p, int i, bool histogram, field_statistics *f, error *e) {
  const int rows = propagator_rows(p);
  const zrange own = {i * rows, (i + 1) * rows};
  f->step = p->stepper.step;
  if (measure_rows(&p->measure, propagator_points(p), own, histogram, f, e))
    return error_abort(e, p->engine->comm);
  return 0;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

int propagator_look(const propagator *p, error *e) {
  const stepper *s = &p->stepper;
  for (const observer *o = s->observers->list; o < s->observers->list + s->observers->count; o++) {
    if (o->agreed && observer_due(o, s->step))
      TRY(o->look(o->self, stepper_field(s, s->current), s->step, STREAM_OUTPUT, e));
  }
  return 0;
}

int propagator_extra_steps(propagator *p, error *e) {
  stepper *s = &p->stepper;
  const int64_t done = s->step, last = done + p->sampler.extra;
  observers few = {.count = 0};
  for (int i = 0; i < p->observers.count; i++)
    if (p->observers.list[i].extra) few.list[few.count++] = p->observers.list[i];
  s->observers = &few;
  while (s->step < last && !e->id) {
    if (!stepper_advance(s, last - s->step, e))
      propagator_look(p, e);
    else
      error_abort(e, p->engine->comm);
  }
  if (stepper_sync(s, e)) error_abort(e, p->engine->comm);
  s->observers = &p->observers;
  s->step = done;
  if (!e->id) sampler_flush(&p->sampler, e);
  return error_agree(e, p->engine->comm);
}
