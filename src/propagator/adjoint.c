#include "adjoint.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "kernels/operations/operation.h"

static void adjoint_points_close(adjoint_points *p) {
  sources_close(&p->residual);
  receivers_close(&p->at_sources);
  scratch_close(&p->held);
  *p = (adjoint_points){.values = NULL};
}

/* --- the forward run -------------------------------------------------------------------------------------------- */

/* Floats from the first own point to the last one. */
static size_t adjoint_span(const slab *s) {
  return slab_offset(s, s->nz - 1, s->ny - 1, s->nx - 1) - slab_offset(s, 0, 0, 0) + 1;
}

/* Do slots have ghosts, so that steps can write into them? */
static bool adjoint_whole(const propagator *s) {
  return s->dev->table->backend == BACKEND_CUDA && s->engine->ranks == 1;
}

/* The number of fields whose slots overlap. With ny = 1 on the host, a field's row lies where another field's ghosts
 * would. */
static int adjoint_sharing(const propagator *s) {
  const slab *b = &s->engine->slab;
  return s->dev->table->backend == BACKEND_HOST && b->ny == 1 ? (int)slab_rows(b) : 1;
}

float *adjoint_slot(const adjoint *a, int64_t slot) {
  const slab *s = &a->of->engine->slab;
  const int64_t sharing = adjoint_sharing(a->of), row = slot % sharing;
  return a->states.shared + (size_t)(slot - row) * a->slot + (size_t)row * s->pitch +
         (adjoint_whole(a->of) ? slab_offset(s, 0, 0, 0) : 0);
}

/* Copies a field's own points to the slot of its step. */
static int adjoint_copy(const adjoint *a, const float *field, int64_t step, int stream, error *e) {
  device *dev = a->stepper.dev;
  const slab *s = a->stepper.slab;
  float *to = adjoint_slot(a, step - a->begin);
  if (adjoint_sharing(a->of) == 1)
    return field == to
               ? 0
               : dev->table->copy(dev, stream,
                                  &(copy_args){to, field, adjoint_span(s) * sizeof(float), COPY_ON_DEVICE},
                                  e);
  for (int z = 0; z < s->nz; z++) {
    const copy_args row = {to + (size_t)z * s->plane, field + (size_t)z * s->plane,
                           (size_t)s->nx * sizeof(float), COPY_ON_DEVICE};
    TRY(dev->table->copy(dev, stream, &row, e));
  }
  return 0;
}

/* Does the plan keep the state at this step? */
static bool adjoint_keeps(const adjoint *a, int64_t step) {
  const plan *p = &a->plan;
  if (step >= a->begin || plan_segment(p, step) != step) return false;
  return plan_part(p, step) == step || plan_part(p, step) == plan_part(p, a->begin);
}

/* Steps to the next segment; 1 where every field goes into the ring buffer. */
static int64_t adjoint_limit(const void *self, int64_t step) {
  const adjoint *a = self;
  if (step + 1 >= a->end) return INT64_MAX;
  return step + 1 >= a->begin ? 1 : plan_ahead(&a->plan, step);
}

/* Copies a field's ghosts into those slots of a segment that lack ghosts. Steps change only ghosts that are images. */
static int adjoint_frame(adjoint *a, const float *field, int stream, error *e) {
  const kernel_args *k = &a->stepper.args;
  const int64_t slots = a->end - a->begin;
  const frame_args frame = {.from = field,
                            .to = adjoint_slot(a, a->framed),
                            .apart = a->slot,
                            .count = (int)(slots - a->framed),
                            .pitch = k->pitch,
                            .plane = k->plane,
                            .nx = k->nx,
                            .ny = a->stepper.slab->ny, /* a later batch may have more rows */
                            .nz = k->nz};
  if (slots <= a->framed) return 0;
  a->framed = slots;
  TRY(a->stepper.dev->table->apply(a->stepper.dev, stream, &operation_frame, &frame, e));
  return a->stepper.dev->table->sync(a->stepper.dev, stream, e);
}

/* Makes the next step write into its slot, if possible; otherwise its field is copied later. */
static int adjoint_aim(adjoint *a, const float *field, int64_t step, int stream, error *e) {
  stepper *p = a->forward;
  const unsigned can = p->kernel->flags & p->boundary_kernel->flags;
  if (!adjoint_whole(a->of) || halo_needed(p->halo) || !(can & KERNEL_GRADIENT) || step + 1 >= a->end)
    return 0;
  TRY(adjoint_frame(a, field, stream, e));
  p->next = adjoint_slot(a, step + 1 - a->begin) - slab_offset(p->slab, 0, 0, 0);
  return 0;
}

static int adjoint_keep(adjoint *a, int64_t step, int stream, error *e) {
  enum plan_tier tier;
  const int64_t left = plan_beside(&a->plan, plan_state(&a->plan, step, &tier) + 1);
  if (tier == TIER_DEVICE && a->framed > left) a->framed = left; /* the state overwrites the other slots */
  return states_keep(&a->states, step, a->forward, stream, e);
}

static int adjoint_look(void *self, const float *field, int64_t step, int stream, error *e) {
  adjoint *a = self;
  if (adjoint_keeps(a, step)) return adjoint_keep(a, step, stream, e);
  if (step < a->begin || step >= a->end) return 0;
  TRY(adjoint_copy(a, field, step, stream, e));
  return adjoint_aim(a, field, step, stream, e);
}

/* Returns the propagator's own memory to it after steps that wrote into slots. */
static void adjoint_settle(adjoint *a) {
  for (int i = 0; i < stepper_states(&a->stepper) && a->own[0]; i++) a->of->stepper.memory[i] = a->own[i];
  a->of->stepper.next = NULL;
}

void adjoint_observe(adjoint *a) {
  observers *all = &a->of->observers;
  adjoint_settle(a);
  for (int i = 0; i < a->most; i++) sources_close(&a->shots[i].residual); /* residuals of earlier shots */
  a->forward = &a->of->stepper;
  a->from = 0, a->end = propagator_last(a->of) + 1;
  a->begin = plan_segment(&a->plan, a->end - 1);
  all->list[all->count++] =
      (observer){.self = a, .extra = true, .limit = adjoint_limit, .look = adjoint_look};
}

/* The step of the latest state that is kept once the adjoint has done the segment that begins at `end`. */
static int64_t adjoint_latest(const adjoint *a, int64_t end) {
  const plan *p = &a->plan;
  const int64_t part = plan_part(p, end - 1);
  return part == plan_part(p, end) ? plan_segment(p, end - 1) : part;
}

static int adjoint_poll(adjoint *a, error *e) {
  return a->poll ? a->poll(a->context, ++a->polls, e) : 0;
}

/* Repeats the forward steps that fill the ring buffer with the previous segment. */
static int adjoint_again(adjoint *a, error *e) {
  const int64_t end = a->begin;
  propagator *s = a->of;
  stepper p = s->stepper;
  observers one = {.count = 1, .list = {{.self = a, .limit = adjoint_limit, .look = adjoint_look}}};
  a->from = adjoint_latest(a, end), a->end = end, a->begin = plan_segment(&a->plan, end - 1);
  p.observers = &one, p.profile = false, p.front = NULL, p.watch = NULL;
  stepper_restart(&p);
  p.step = a->from;
  a->forward = &p;
  states_restore(&a->states, a->from, &p, e);
  TRY(error_agree(e, s->engine->comm)); /* ghosts may be the neighbours' own planes */
  if (a->from >= a->begin && adjoint_look(a, stepper_field(&p, 0), a->from, s->halo.stream, e))
    return error_abort(e, s->engine->comm);
  while (p.step < end - 1) {
    if (stepper_advance(&p, end - 1 - p.step, e)) return error_abort(e, s->engine->comm);
    TRY(adjoint_poll(a, e));
  }
  if (stepper_sync(&p, e)) return error_abort(e, s->engine->comm);
  a->forward = NULL;
  return 0;
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

/* Does the kernel add to gradients, and does the device run it? */
static bool adjoint_can(const stepper *p, const kernel *k) {
  kernel_args args = p->args;
  args.terms.recalled = args.terms.gradient;
  return k->flags & KERNEL_TERMS && kernel_does(k, args.equation, p->dev->table->backend) &&
         device_runs(p->dev, k, &args);
}

/* Takes the forward steps' kernel if it can do adjoint steps, else the first kernel that can. */
static int adjoint_kernel(stepper *p, const kernel *of_steps, error *e) {
  p->kernel = adjoint_can(p, of_steps) ? of_steps : NULL;
  for (int i = 0; i < kernel_table_size && !p->kernel; i++)
    if (adjoint_can(p, &kernel_table[i])) p->kernel = &kernel_table[i];
  p->boundary_kernel = p->kernel;
  return p->kernel ? 0 : FAIL(e, KERNEL_NOT_COMPILED, "of a gradient");
}

/* Takes device memory, laid out as the field. */
static int adjoint_alloc(adjoint *a, float **field, error *e) {
  const propagator *s = a->of;
  TRY(s->dev->table->alloc(s->dev, (void **)field, slab_floats(&s->engine->slab) * sizeof(float),
                           MEMORY_DEVICE, e));
  a->fields[a->field_count++] = *field;
  return 0;
}

static int adjoint_open_stepper(adjoint *a, error *e) {
  const propagator *s = a->of;
  const engine *g = s->engine;
  stepper *p = &a->stepper;
  *p = (stepper){
      .dev = s->dev, .halo = &a->halo, .slab = &g->slab, .args = g->args, .overlap = g->config->overlap};
  for (int i = 0; i < stepper_states(p); i++) TRY(adjoint_alloc(a, &p->memory[i], e));
  TRY(adjoint_alloc(a, &a->gradient, e));
  for (int l = 0; l < p->args.terms.memories; l++) {
    TRY(adjoint_alloc(a, &a->memory[l], e));
    p->args.terms.memory[l] = a->memory[l] + slab_offset(&g->slab, 0, 0, 0);
  }
  if (s->config->gradient_image) TRY(adjoint_alloc(a, &a->image, e));
  if (s->config->gradient_image) TRY(adjoint_alloc(a, &a->illumination, e));
  const problem on = propagator_problem(s);
  TRY(absorb_open(&a->layers, &on, &p->args,
                  (absorb_motion){physics_fastest(&g->physics, g->config), g->physics.dt}, e));
  if (absorb_needed(&a->layers)) p->absorb = &a->layers;
  TRY(surplus_open(&a->surplus, &on, &a->layers, p->args.terms.memories, e));
  if (a->image) a->surplus.args.image = a->image + slab_offset(&g->slab, 0, 0, 0);
  p->args.terms.gradient = a->gradient + slab_offset(&g->slab, 0, 0, 0);
  TRY(adjoint_kernel(p, g->kernel, e));
  return stepper_open(p, e);
}

size_t adjoint_field_bytes(const propagator *s) {
  const slab *b = &s->engine->slab;
  if (adjoint_sharing(s) > 1) return (size_t)b->nz * b->pitch * sizeof(float);
  return round_up(adjoint_whole(s) ? slab_floats(b) : adjoint_span(b), SLAB_ALIGN) * sizeof(float);
}

/* Bytes that slots take beyond their fields: the last group of overlapping slots may be incomplete. */
static size_t adjoint_slack(const propagator *s) {
  const int sharing = adjoint_sharing(s);
  return sharing > 1 ? (size_t)sharing * adjoint_field_bytes(s) : 0;
}

size_t adjoint_bytes(const propagator *s) {
  const slab *b = &s->engine->slab;
  const config *c = s->config;
  const int memories = s->engine->args.terms.memories;
  const size_t fields = (size_t)memories + (c->gradient_image ? 5 : 3);
  return (fields * slab_floats(b) + 2 * b->plane) * sizeof(float) + adjoint_slack(s) + absorb_bytes(c, b) +
         surplus_bytes(c, b, memories);
}

int adjoint_open(adjoint *a, propagator *s, const plan *p, char *file, error *e) {
  const engine *g = s->engine;
  a->of = s;
  a->plan = *p;
  memcpy(a->own, s->stepper.memory, sizeof a->own);
  a->slot = adjoint_field_bytes(s) / sizeof(float);
  a->transfer = s->transfer;
  a->most = larger(g->setup.together, 1);
  if (!ALLOC(e, a->shots, a->most, "the gradient") && !adjoint_open_stepper(a, e))
    states_open(&a->states, s, &a->plan, adjoint_slack(s), file, e);
  TRY(error_agree(e, g->comm));
  chain_open(&a->chain, g->config, &g->physics, g->files, &g->io);
  if (g->setup.together <= 1)
    a->chain.threads = g->files->access->compressors; /* else each shot has a thread */
  const halo_setup exchanged = {
      .dev = s->dev, .slab = &g->slab, .comm = g->comm, .fields = {a->stepper.memory[0], a->stepper.memory[1]}};
  return halo_open(&a->halo, s->halo.name, &exchanged, e);
}

void adjoint_close(adjoint *a) {
  error ignored = {0};
  device *dev = a->stepper.dev;
  if (!dev) return;
  adjoint_settle(a);
  halo_close(&a->halo);
  injector_close(&a->residuals);
  sampler_close(&a->at_sources);
  for (int i = 0; a->shots && i < a->most; i++) adjoint_points_close(&a->shots[i]);
  free(a->shots);
  surplus_close(&a->surplus);
  absorb_close(&a->layers);
  states_close(&a->states);
  stepper_close(&a->stepper);
  for (int i = 0; i < a->field_count; i++) dev->table->free(dev, a->fields[i], MEMORY_DEVICE, &ignored);
  for (int i = 0; i < GRADIENT_FIELDS; i++) free(a->host[i]);
  *a = (adjoint){.of = NULL};
}

/* --- the residual ----------------------------------------------------------------------------------------------- */

/* Sends each rank the samples of the receivers that it injects, block after block. Receivers near the end of a slab
 * also act on the next slab. One rank has a sample's bits, the others zeros, so that a reduction by `or` keeps the
 * bits. */
static int adjoint_spread(adjoint_points *p, const receivers *r, const traces *residual, const engine *g,
                          error *e) {
  enum { BLOCK_FLOATS = 1 << 20 };
  const sources *s = &p->residual;
  const int64_t most = r->count < BLOCK_FLOATS ? BLOCK_FLOATS / r->count : 1;
  float *all;
  ALLOC(e, all, (size_t)most * (size_t)r->count, "the gradient");
  receivers_take(r, &p->held, (size_t)s->signal_count * (size_t)r->taken * sizeof *p->values, e);
  p->values = p->held.memory;
  error_agree(e, g->comm);
  for (int64_t first = 0, rows; first < r->taken && !e->id; first += rows) {
    rows = first + most < r->taken ? most : r->taken - first;
    memset(all, 0, (size_t)rows * (size_t)r->count * sizeof *all);
    for (int64_t row = 0; row < rows; row++)
      for (int64_t i = 0, end; i < r->local; i = end) {
        float *from;
        for (end = i + traces_piece(residual, first + row, i, &from); i < end; i++)
          all[row * r->count + r->index[i]] = *from++;
      }
    error_from_mpi(e, mpi_reduce_all(all, (int)(rows * r->count), MPI_UINT32_T, MPI_BOR, g->comm),
                   "mpi_reduce_all");
    for (int64_t row = 0; row < rows; row++)
      for (int i = 0; i < s->signal_count; i++)
        p->values[(first + row) * s->signal_count + i] = all[row * r->count + s->key_of[i]];
  }
  free(all);
  return e->id;
}

/* Applies the transpose of the traces' processing, and spreads the residuals over the receivers' points. */
int adjoint_take(adjoint *a, int i, float *residual, double unit, error *e) {
  const acquisition *shot = a->of->shots[i];
  const engine *g = a->of->engine;
  const receivers *r = &shot->receivers;
  adjoint_points *p = &a->shots[i];
  const problem on = {.slab = &g->files_slab, .config = shot->config, .files = g->files};
  traces all = receivers_traces(r);
  all.x = residual;
  for (int64_t k = r->rows; k < r->taken; k++) /* samples of extra steps */
    for (int n = 0; n < r->local; n++) *traces_at(&all, k, n) = 0;
  exact_time_traces(&r->time, &all, true, e);
  TRY(error_agree(e, g->comm));
  TRY(sources_plan_given(&p->residual, &on, r->count, (const double(*)[3])r->positions,
                         shot->config->receivers_interpolation, e));
  p->unit = unit;
  adjoint_spread(p, r, &all, g, e);
  p->residual.given = (sources_given){p->values, propagator_last(a->of), r->every};
  return e->id;
}

/* Puts the residuals of all shots on the device; a shot that has failed has none. */
static int adjoint_open_residuals(adjoint *a, error *e) {
  const propagator *s = a->of;
  const problem on = propagator_problem(s);
  sources **of;
  ALLOC(e, of, s->count, "the gradient");
  for (int i = 0; of && i < s->count; i++) of[i] = &a->shots[i].residual;
  if (of && !injector_plan(&a->residuals, of, s->count, &on, s->engine->files_slab.ny, e)) {
    a->residuals.layers = a->stepper.absorb;
    injector_open(&a->residuals, e);
  }
  free(of);
  a->stepper.sources = &a->residuals;
  return error_agree(e, s->engine->comm);
}

/* --- steps ------------------------------------------------------------------------------------------------------ */

/* The stream of the adjoint's observers. Without an exchange it is the steps' own stream, which waits for observers. */
static int adjoint_stream(const adjoint *a, int stream) {
  return halo_needed(&a->halo) ? stream : STREAM_INTERIOR;
}

/* Turns mu into nu, and adds nu times the forward field of its step to the image. Illumination is summed in forward
 * steps. */
static int adjoint_look_at_field(void *self, const float *field, int64_t step, int stream, error *e) {
  adjoint *a = self;
  const kernel_args *k = &a->stepper.args;
  const size_t origin = slab_offset(a->stepper.slab, 0, 0, 0);
  const bool own = a->step <= a->of->engine->physics.steps;
  const bool signals = a->of->config->gradient_signals;
  const int ghosts = signals ? RADIUS : 0; /* ghosts are sampled too */
  stream = adjoint_stream(a, stream);
  /* On a stream other than the steps', the next step might overwrite mu of the step before while it is read. */
  const bool holds = stream == STREAM_INTERIOR && !signals && !a->image && a->step > a->begin;
  TRY(surplus_after_step(&a->surplus, stream, k, field, (zrange){-ghosts, k->nz + ghosts}, holds, e));
  scale_args add = scale_as(SCALE_ADD, k->terms.recalled, field, a->image + origin, k);
  add.squares = own ? a->illumination + origin : NULL;
  (void)step;
  return a->image ? a->stepper.dev->table->apply(a->stepper.dev, stream, &operation_scale, &add, e) : 0;
}

static int64_t adjoint_each(const void *self, int64_t step) {
  (void)self, (void)step;
  return 1;
}

/* Plans receivers at a shot's sources; sample k belongs to adjoint step k. */
static int adjoint_plan_signals(adjoint *a, int i, error *e) {
  const acquisition *shot = a->of->shots[i];
  const engine *g = a->of->engine;
  receivers *r = &a->shots[i].at_sources;
  config c = *shot->config;
  const problem on = {.slab = &g->files_slab, .config = &c, .files = g->files};
  c.receivers = RECEIVERS_POINTS, c.receivers_every = 1, c.receivers_interpolation = c.sources_interpolation;
  c.receiver_count = shot->sources.count, c.receiver_positions = shot->sources.positions;
  TRY(receivers_plan(r, &on, &(exact_time){.removed = false},
                     (receivers_span){.pass = 1, .last = propagator_last(a->of) + 1}, e));
  r->config = shot->config;
  return 0;
}

static int adjoint_open_signals(adjoint *a, error *e) {
  const propagator *s = a->of;
  const problem on = propagator_problem(s);
  receivers **of;
  for (int i = 0; i < s->count; i++) TRY(adjoint_plan_signals(a, i, e));
  ALLOC(e, of, s->count, "the gradient");
  for (int i = 0; of && i < s->count; i++) of[i] = &a->shots[i].at_sources;
  if (of && !sampler_plan(&a->at_sources, of, s->count, &on, s->engine->files_slab.ny, e))
    sampler_open(&a->at_sources, e);
  free(of);
  return error_agree(e, s->engine->comm);
}

/* Samples nu times sigma at the sources, since a source adds its signal times sigma. */
static int adjoint_look_at_sources(void *self, const float *field, int64_t step, int stream, error *e) {
  adjoint *a = self;
  sampler *at = &a->at_sources;
  at->stream = adjoint_stream(a, stream), at->sigma = a->of->engine->args.terms.sigma;
  at->adjoint_layers = &a->surplus.args.layers;
  return sampler_sample(at, field, step, e);
}

/* Adds the observers of the adjoint steps. */
static int adjoint_look_back(adjoint *a, error *e) {
  a->looks.count = 0;
  a->stepper.observers = &a->looks;
  if (a->image || a->surplus.memory)
    a->looks.list[a->looks.count++] =
        (observer){.self = a, .limit = adjoint_each, .look = adjoint_look_at_field};
  if (!a->of->config->gradient_signals) return 0;
  TRY(adjoint_open_signals(a, e));
  a->looks.list[a->looks.count++] =
      (observer){.self = a, .limit = adjoint_each, .look = adjoint_look_at_sources};
  return 0;
}

/* Sets a field to 0, ghosts included. */
static int adjoint_clear(adjoint *a, float *field, error *e) {
  a->transfer.field = field;
  return transfer_fill(&a->transfer, -RADIUS, a->stepper.slab->nz + 2 * RADIUS, 0, e);
}

static int adjoint_begin(adjoint *a, error *e) {
  const engine *g = a->of->engine;
  adjoint_settle(a);
  stepper_restart(&a->stepper);
  a->stepper.args.ny = a->of->stepper.args.ny;
  TRY(adjoint_kernel(&a->stepper, g->kernel, e)); /* the kernel is chosen by now */
  a->step = propagator_last(a->of) + 1;
  if (a->stepper.absorb) absorb_clear(a->stepper.absorb, e);
  if (!e->id) surplus_clear(&a->surplus, e);
  for (int i = 0; i < a->field_count && !e->id; i++) adjoint_clear(a, a->fields[i], e);
  TRY(error_agree(e, g->comm));
  TRY(adjoint_look_back(a, e));
  return adjoint_open_residuals(a, e);
}

/* Does adjoint steps down to `step`; the ring buffer must hold the forward fields of these steps. */
static int adjoint_steps(adjoint *a, int64_t step, error *e) {
  stepper *p = &a->stepper;
  while (a->step > step) {
    p->args.terms.recalled = adjoint_slot(a, --a->step - a->begin);
    if (stepper_advance(p, 1, e)) return error_abort(e, a->of->engine->comm);
    TRY(adjoint_poll(a, e));
  }
  if (stepper_sync(p, e)) return error_abort(e, a->of->engine->comm);
  return 0;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

int adjoint_run(adjoint *a, error *e) {
  a->times = (adjoint_times){0};
  TRY(adjoint_begin(a, e));
  a->polls = 0;
  for (;;) {
    const double begin = MPI_Wtime();
    if (a->begin > 0 && states_fetch(&a->states, adjoint_latest(a, a->begin), e))
      return error_abort(e, a->of->engine->comm);
    TRY(adjoint_steps(a, a->begin, e));
    const double back = MPI_Wtime();
    a->times.back += back - begin;
    if (a->begin == 0) break;
    TRY(adjoint_again(a, e));
    a->times.again += MPI_Wtime() - back;
  }
  sampler_flush(&a->at_sources, e);
  TRY(error_agree(e, a->of->engine->comm));
  return adjoint_sum(a, e);
}
