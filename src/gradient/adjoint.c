#include "adjoint.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "kernels/operation.h"
#include "physics/initial.h"
#include "physics/place.h"

/* --- rows of a stack -------------------------------------------------------------------------------------------- */

/* What goes in and comes out of all. */
static adjoint_points *adjoint_all(adjoint *a) {
  return a->shot->row_count ? &a->stack : a->rows;
}

static void adjoint_points_close(adjoint_points *p) {
  sources_close(&p->residual);
  receivers_close(&p->at_sources);
  free(p->values);
  *p = (adjoint_points){.values = NULL};
}

/* --- the forward run -------------------------------------------------------------------------------------------- */

/* From the first own point to the last one. */
static size_t adjoint_span(const slab *s) {
  return slab_offset(s, s->nz - 1, s->ny - 1, s->nx - 1) - slab_offset(s, 0, 0, 0) + 1;
}

/* Do slots have ghosts, so that steps can write there? */
static bool adjoint_whole(const shot *s) {
  return s->dev->table->backend == BACKEND_CUDA && s->engine->ranks == 1;
}

/* Own point (0, 0, 0) in a slot of the ring. Transfers take whole planes, with ghosts that slots may not have: so there is a plane
 * before the first slot. */
static float *adjoint_slot(const adjoint *a, int64_t slot) {
  const slab *s = &a->shot->engine->slab;
  return a->states.shared + (size_t)slot * a->slot + (adjoint_whole(a->shot) ? slab_offset(s, 0, 0, 0) : 0);
}

/* Is the state at this step to be kept? */
static bool adjoint_keeps(const adjoint *a, int64_t step) {
  const plan *p = &a->plan;
  if (step >= a->begin || plan_segment(p, step) != step) return false;
  return plan_part(p, step) == step || plan_part(p, step) == plan_part(p, a->begin);
}

/* Steps to the next segment or, where fields go into the ring, one. */
static int64_t adjoint_limit(const void *self, int64_t step) {
  const adjoint *a = self;
  if (step + 1 >= a->end) return INT64_MAX;
  return step + 1 >= a->begin ? 1 : plan_ahead(&a->plan, step);
}

/* Gives the slots of a segment that lack them the ghosts of a field, which no step changes but for images. */
static int adjoint_frame(adjoint *a, const float *field, int stream, error *e) {
  const kernel_args *k = &a->back.args;
  const int64_t slots = a->end - a->begin;
  const frame_args frame = {.from = field,
                            .to = adjoint_slot(a, a->framed),
                            .apart = a->slot,
                            .count = (int)(slots - a->framed),
                            .pitch = k->pitch,
                            .plane = k->plane,
                            .nx = k->nx,
                            .ny = a->back.slab->ny, /* a later stack may have more rows */
                            .nz = k->nz};
  if (slots <= a->framed) return 0;
  a->framed = slots;
  TRY(a->back.dev->table->apply(a->back.dev, stream, &operation_frame, &frame, e));
  return a->back.dev->table->sync(a->back.dev, stream, e);
}

/* Lets the step after this one write into its slot, if it can; else its field is copied. */
static int adjoint_aim(adjoint *a, const float *field, int64_t step, int stream, error *e) {
  stepper *p = a->forward;
  const unsigned can = p->kernel->flags & p->boundary_kernel->flags;
  if (!adjoint_whole(a->shot) || halo_needed(p->halo) || !(can & KERNEL_GRADIENT) || step + 1 >= a->end)
    return 0;
  TRY(adjoint_frame(a, field, stream, e));
  p->next = adjoint_slot(a, step + 1 - a->begin) - slab_offset(p->slab, 0, 0, 0);
  return 0;
}

static int adjoint_keep(adjoint *a, int64_t step, int stream, error *e) {
  enum plan_tier tier;
  const int64_t left = plan_beside(&a->plan, plan_state(&a->plan, step, &tier) + 1);
  if (tier == TIER_DEVICE && a->framed > left) a->framed = left; /* it overwrites the others */
  return states_keep(&a->states, step, a->forward, stream, e);
}

static int adjoint_look(void *self, const float *field, int64_t step, int stream, error *e) {
  adjoint *a = self;
  const copy_args copy = {adjoint_slot(a, step - a->begin), field, adjoint_span(a->back.slab) * sizeof(float),
                          COPY_ON_DEVICE};
  if (adjoint_keeps(a, step)) return adjoint_keep(a, step, stream, e);
  if (step < a->begin || step >= a->end) return 0;
  if (field != copy.to) TRY(a->back.dev->table->copy(a->back.dev, stream, &copy, e));
  return adjoint_aim(a, field, step, stream, e);
}

/* Gives the shot its own memory again, where the last steps were written into slots. */
static void adjoint_settle(adjoint *a) {
  for (int i = 0; i < STATES && a->own[0]; i++) a->shot->stepper.memory[i] = a->own[i];
  a->shot->stepper.next = NULL;
}

void adjoint_observe(adjoint *a) {
  observers *all = &a->shot->observers;
  adjoint_settle(a);
  for (int i = 0; i < a->most; i++) sources_close(&a->rows[i].residual); /* of another shot */
  a->forward = &a->shot->stepper;
  a->from = 0, a->end = a->shot->engine->physics.steps + 1;
  a->begin = plan_segment(&a->plan, a->end - 1);
  all->list[all->count++] = (observer){.self = a, .limit = adjoint_limit, .look = adjoint_look};
}

/* The latest state that is kept, now that the way back is done with the segment that begins at `end`. */
static int64_t adjoint_latest(const adjoint *a, int64_t end) {
  const plan *p = &a->plan;
  const int64_t part = plan_part(p, end - 1);
  return part == plan_part(p, end) ? plan_segment(p, end - 1) : part;
}

/* Ends the way back early, all ranks together. */
static int adjoint_heed(adjoint *a, error *e) {
  shot *s = a->shot;
  enum stop_reason reason;
  bool unused;
  if (stop_poll(&s->stop, ++a->heeded, &reason, &unused, e)) error_abort(e, s->engine->comm);
  if (reason == STOP_NOT) return 0;
  return FAIL(e, STOPPED, a->step, s->engine->physics.steps,
              reason == STOP_SIGNAL ? strsignal(s->stop.signal) : "the wall time runs out",
              ", on the way back");
}

/* Does the steps before the segment that is in the ring again. */
static int adjoint_again(adjoint *a, error *e) {
  const int64_t end = a->begin;
  shot *s = a->shot;
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
    error_abort(e, s->engine->comm);
  while (p.step < end - 1) {
    if (stepper_advance(&p, end - 1 - p.step, e)) error_abort(e, s->engine->comm);
    TRY(adjoint_heed(a, e));
  }
  if (stepper_sync(&p, e)) error_abort(e, s->engine->comm);
  a->again += end - 1 - a->from;
  a->forward = NULL;
  return 0;
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

/* The kernel of the steps, if it adds to gradients, or the first that does. */
static int adjoint_kernel(stepper *p, const kernel *of_steps, error *e) {
  const enum equation equation = p->args.equation;
  p->kernel = of_steps;
  for (int i = 0; i < kernel_table_size && !(p->kernel->flags & KERNEL_TERMS); i++) {
    const kernel *k = &kernel_table[i];
    if (kernel_does(k, equation, p->dev->table->backend) && (k->host || k->cuda) && k->flags & KERNEL_TERMS)
      p->kernel = k;
  }
  p->boundary_kernel = p->kernel;
  return p->kernel->flags & KERNEL_TERMS ? 0 : FAIL(e, KERNEL_NOT_COMPILED, "of a gradient");
}

static int adjoint_open_stepper(adjoint *a, error *e) {
  const shot *s = a->shot;
  const engine *g = s->engine;
  const size_t bytes = slab_floats(&g->slab) * sizeof(float);
  stepper *p = &a->back;
  *p = (stepper){
      .dev = s->dev, .halo = &a->halo, .slab = &g->slab, .args = g->args, .overlap = g->config->overlap};
  for (int i = 0; i < STATES; i++)
    TRY(s->dev->table->alloc(s->dev, (void **)&p->memory[i], bytes, MEMORY_DEVICE, e));
  TRY(s->dev->table->alloc(s->dev, (void **)&a->gradient, bytes, MEMORY_DEVICE, e));
  for (int l = 0; l < p->args.terms.memories; l++) {
    TRY(s->dev->table->alloc(s->dev, (void **)&a->memory[l], bytes, MEMORY_DEVICE, e));
    p->args.terms.memory[l] = a->memory[l] + slab_offset(&g->slab, 0, 0, 0);
  }
  if (s->config->gradient_signals && g->args.terms.sigma)
    TRY(s->dev->table->alloc(s->dev, (void **)&a->scaled, bytes, MEMORY_DEVICE, e));
  if (s->config->gradient_image) {
    TRY(s->dev->table->alloc(s->dev, (void **)&a->image, bytes, MEMORY_DEVICE, e));
    TRY(s->dev->table->alloc(s->dev, (void **)&a->illumination, bytes, MEMORY_DEVICE, e));
  }
  const problem on = {.dev = s->dev, .slab = &g->slab, .config = s->config};
  TRY(absorb_open_back(&a->layers, &on, &s->absorb, e));
  if (absorb_needed(&a->layers)) p->absorb = &a->layers;
  if (p->absorb && s->dev->table->backend == BACKEND_CUDA) {
    TRY(s->dev->table->alloc(s->dev, (void **)&a->sums, bytes, MEMORY_DEVICE, e));
    a->layers.back.sums = a->sums + slab_offset(&g->slab, 0, 0, 0);
  }
  p->args.terms.gradient = a->gradient + slab_offset(&g->slab, 0, 0, 0);
  TRY(adjoint_kernel(p, g->kernel, e));
  return stepper_open(p, e);
}

size_t adjoint_field_bytes(const shot *s) {
  const slab *b = &s->engine->slab;
  return round_up(adjoint_whole(s) ? slab_floats(b) : adjoint_span(b), SLAB_ALIGN) * sizeof(float);
}

size_t adjoint_bytes(const shot *s) {
  const slab *b = &s->engine->slab;
  const config *c = s->config;
  const bool sums = physics_absorbs(c) && s->dev->table->backend == BACKEND_CUDA;
  const size_t fields = (size_t)s->engine->args.terms.memories + (c->gradient_image ? 5 : 3) + sums +
                        (c->gradient_signals && config_density_varies(c));
  return (fields * slab_floats(b) + 2 * b->plane) * sizeof(float) + absorb_back_bytes(s->config, b);
}

int adjoint_open(adjoint *a, shot *s, const plan *p, const char *path, error *e) {
  const engine *g = s->engine;
  a->shot = s;
  a->plan = *p;
  memcpy(a->own, s->stepper.memory, sizeof a->own);
  a->slot = adjoint_field_bytes(s) / sizeof(float);
  a->transfer = s->transfer;
  a->most = larger(g->setup.stack, 1);
  if (!ALLOC(e, a->rows, a->most, "the gradient") && !adjoint_open_stepper(a, e))
    states_open(&a->states, s, &a->plan, path, e);
  TRY(error_agree(e, g->comm));
  TRY(chain_open(&a->chain, g->config, g->files, &g->io, e));
  const halo_setup exchanged = {
      .dev = s->dev, .slab = &g->slab, .comm = g->comm, .fields = {a->back.memory[0], a->back.memory[1]}};
  return halo_open(&a->halo, s->halo.name, &exchanged, e);
}

void adjoint_close(adjoint *a) {
  error ignored = {0};
  device *dev = a->back.dev;
  if (!dev) return;
  adjoint_settle(a);
  halo_close(&a->halo);
  for (int i = 0; a->rows && i < a->most; i++) adjoint_points_close(&a->rows[i]);
  adjoint_points_close(&a->stack);
  free(a->rows);
  absorb_close(&a->layers);
  states_close(&a->states);
  chain_close(&a->chain);
  stepper_close(&a->back);
  for (int i = 0; i < STATES; i++) dev->table->free(dev, a->back.memory[i], MEMORY_DEVICE, &ignored);
  dev->table->free(dev, a->gradient, MEMORY_DEVICE, &ignored);
  for (int l = 0; l < MEMORIES_MAX; l++) dev->table->free(dev, a->memory[l], MEMORY_DEVICE, &ignored);
  dev->table->free(dev, a->scaled, MEMORY_DEVICE, &ignored);
  dev->table->free(dev, a->sums, MEMORY_DEVICE, &ignored);
  dev->table->free(dev, a->image, MEMORY_DEVICE, &ignored);
  dev->table->free(dev, a->illumination, MEMORY_DEVICE, &ignored);
  for (int i = 0; i < GRADIENT_FIELDS; i++) free(a->host[i]);
  *a = (adjoint){.shot = NULL};
}

/* --- the residual ----------------------------------------------------------------------------------------------- */

/* Receivers whose residual one rank needs of each other one, or has for it. */
typedef struct adjoint_list {
  int *count, *begin; /* of each rank */
  int *index;         /* receivers, rank after rank */
  float *values;      /* of each of them all samples */
  int all;
} adjoint_list;

static void adjoint_list_free(adjoint_list *l) {
  free(l->count);
  free(l->begin);
  free(l->index);
  free(l->values);
}

static int adjoint_list_open(adjoint_list *l, int ranks, error *e) {
  ALLOC(e, l->count, ranks, "the gradient");
  ALLOC(e, l->begin, (size_t)ranks + 1, "the gradient");
  return e->id;
}

static int adjoint_list_fill(adjoint_list *l, int ranks, int64_t samples, error *e) {
  for (int r = 0; r < ranks; r++) l->begin[r + 1] = l->begin[r] + l->count[r];
  l->all = l->begin[ranks];
  ALLOC(e, l->index, l->all, "the gradient");
  ALLOC(e, l->values, (size_t)l->all * (size_t)samples, "the gradient");
  return e->id;
}

/* The rank that samples a receiver. */
static int adjoint_owner(const adjoint *a, int receiver) {
  const receivers *r = &a->shot->receivers;
  place p[3];
  int owner = 0;
  place_in_grid(a->shot->config, r->positions[receiver], p);
  while (slab_first_plane(r->slab, owner + 1) <= p[2].index) owner++;
  return owner;
}

/* Lists what this rank needs of each other one, in the order of its signals. */
static int adjoint_need(const adjoint *a, adjoint_list *need, int ranks, error *e) {
  const sources *s = &a->rows->residual;
  TRY(adjoint_list_open(need, ranks, e));
  for (int i = 0; i < s->signal_count; i++) need->count[adjoint_owner(a, s->key_of[i])]++;
  TRY(adjoint_list_fill(need, ranks, a->shot->receivers.taken, e));
  int *next;
  ALLOC(e, next, ranks, "the gradient");
  for (int i = 0; next && i < s->signal_count; i++) {
    const int owner = adjoint_owner(a, s->key_of[i]);
    need->index[need->begin[owner] + next[owner]++] = s->key_of[i];
  }
  free(next);
  return e->id;
}

/* Where the traces of this rank's receivers are; the caller frees it. */
static int adjoint_local(const receivers *r, int **local, error *e) {
  TRY(ALLOC(e, *local, r->count, "the gradient"));
  for (int i = 0; i < r->local; i++) (*local)[r->index[i]] = i;
  return 0;
}

/* Packs the traces that others ask for. */
static int adjoint_pack(const adjoint *a, const float *residual, adjoint_list *have, error *e) {
  const receivers *r = &a->shot->receivers;
  int *local;
  TRY(adjoint_local(r, &local, e));
  for (int k = 0; k < have->all; k++)
    for (int64_t row = 0; row < r->taken; row++)
      have->values[k * r->taken + row] = residual[row * r->local + local[have->index[k]]];
  free(local);
  return 0;
}

/* From series of receivers to rows of signals. */
static int adjoint_unpack(adjoint *a, const adjoint_list *need, error *e) {
  const sources *s = &a->rows->residual;
  const int64_t samples = a->shot->receivers.taken;
  int *signal_of;
  ALLOC(e, signal_of, s->count, "the gradient");
  for (int i = 0; signal_of && i < s->signal_count; i++) signal_of[s->key_of[i]] = i;
  for (int k = 0; !e->id && k < need->all; k++)
    for (int64_t row = 0; row < samples; row++)
      a->rows->values[row * s->signal_count + signal_of[need->index[k]]] = need->values[k * samples + row];
  free(signal_of);
  return e->id;
}

/* Brings each rank the residuals that it injects: receivers near the end of a slab act on the next one, too. */
static int adjoint_exchange(adjoint *a, const float *residual, adjoint_list *need, adjoint_list *have,
                            error *e) {
  const engine *g = a->shot->engine;
  MPI_Datatype series;
  if (!adjoint_need(a, need, g->ranks, e)) adjoint_list_open(have, g->ranks, e);
  TRY(error_agree(e, g->comm));
  MPI_TRY(e, MPI_Alltoall(need->count, 1, MPI_INT, have->count, 1, MPI_INT, g->comm));
  adjoint_list_fill(have, g->ranks, a->shot->receivers.taken, e);
  TRY(error_agree(e, g->comm));
  MPI_TRY(e, MPI_Alltoallv(need->index, need->count, need->begin, MPI_INT, have->index, have->count,
                           have->begin, MPI_INT, g->comm));
  adjoint_pack(a, residual, have, e);
  TRY(error_agree(e, g->comm));
  MPI_TRY(e, MPI_Type_contiguous((int)a->shot->receivers.taken, MPI_FLOAT, &series));
  MPI_TRY(e, MPI_Type_commit(&series));
  MPI_TRY(e, MPI_Alltoallv(have->values, have->count, have->begin, series, need->values, need->count,
                           need->begin, series, g->comm));
  MPI_TRY(e, MPI_Type_free(&series));
  adjoint_unpack(a, need, e);
  return error_agree(e, g->comm);
}

/* The same where one rank has all. */
static int adjoint_order(adjoint_points *p, const receivers *r, const float *residual, error *e) {
  const sources *s = &p->residual;
  const int signals = s->signal_count;
  int *local;
  TRY(adjoint_local(r, &local, e));
  for (int64_t row = 0; row < r->taken; row++)
    for (int i = 0; i < signals; i++)
      p->values[row * signals + i] = residual[row * r->local + local[s->key_of[i]]];
  free(local);
  return 0;
}

/* Undoes, transposed, what was done to the traces, and spreads them over the points where receivers are. */
int adjoint_take(adjoint *a, int row, float *residual, error *e) {
  const shot *s = shot_row(a->shot, row);
  const engine *g = s->engine;
  const receivers *r = &s->receivers;
  adjoint_points *p = &a->rows[row];
  const problem on = {.dev = s->dev, .slab = &g->files_slab, .config = s->config, .files = g->files};
  adjoint_list need = {NULL}, have = {NULL};
  exact_traces traces = receivers_traces(r);
  traces.x = residual;
  exact_time_traces(&r->time, &traces, true, e);
  TRY(error_agree(e, g->comm));
  TRY(sources_plan_given(&p->residual, &on, r->count, (const double(*)[3])r->positions,
                         s->config->receivers_interpolation, e));
  free(p->values);
  ALLOC(e, p->values, (size_t)p->residual.signal_count * (size_t)r->taken, "the gradient");
  TRY(error_agree(e, g->comm));
  if (g->ranks == 1)
    adjoint_order(p, r, residual, e);
  else
    adjoint_exchange(a, residual, &need, &have, e);
  adjoint_list_free(&need);
  adjoint_list_free(&have);
  p->residual.given = (sources_given){p->values, g->physics.steps, r->every};
  return e->id;
}

/* Makes the residuals of a stack one. */
static int adjoint_open_residual(adjoint *a, error *e) {
  const shot *s = a->shot;
  sources *all = &adjoint_all(a)->residual;
  sources **parts = NULL;
  if (s->row_count) ALLOC(e, parts, s->row_count, "the gradient");
  for (int i = 0; parts && i < s->row_count; i++) parts[i] = &a->rows[i].residual;
  if (parts && !sources_join(all, parts, s->row_count, s->dev, &s->engine->slab, e))
    all->given = parts[0]->given; /* the same steps */
  if (!e->id) sources_open(all, e);
  a->back.sources = all;
  return error_agree(e, s->engine->comm);
}

/* --- steps ------------------------------------------------------------------------------------------------------ */

/* Adds what a step back has come to: nu, and the forward field of its step. */
static int adjoint_add_image(void *self, const float *field, int64_t step, int stream, error *e) {
  adjoint *a = self;
  const kernel_args *k = &a->back.args;
  const size_t origin = slab_offset(a->back.slab, 0, 0, 0);
  const scale_args add = {
      SCALE_ADD, k->terms.recalled,       field, a->image + origin, k->pitch, k->plane, k->nx, k->ny,
      k->nz,     a->illumination + origin};
  (void)step;
  return a->back.dev->table->apply(a->back.dev, stream, &operation_scale, &add, e);
}

static int64_t adjoint_each(const void *self, int64_t step) {
  (void)self, (void)step;
  return 1;
}

/* Receivers where a shot's sources are: step k of the way back is their sample k. */
static int adjoint_plan_signals(adjoint *a, int row, error *e) {
  const shot *s = shot_row(a->shot, row);
  const engine *g = s->engine;
  receivers *r = &a->rows[row].at_sources;
  config c = *s->config;
  const problem on = {.dev = s->dev, .slab = &g->files_slab, .config = &c, .files = g->files};
  c.receivers = RECEIVERS_POINTS, c.receivers_every = 1, c.receivers_interpolation = c.sources_interpolation;
  c.receiver_count = s->sources.count, c.receiver_positions = s->sources.positions;
  TRY(receivers_plan(r, &on, (receivers_span){.pass = 1, .last = g->physics.steps + 1}, e));
  r->config = s->config;
  return 0;
}

static int adjoint_open_signals(adjoint *a, error *e) {
  const shot *s = a->shot;
  receivers *all = &adjoint_all(a)->at_sources;
  for (int i = 0; i < shot_rows(a->shot); i++) TRY(adjoint_plan_signals(a, i, e));
  receivers **parts = NULL;
  if (s->row_count) ALLOC(e, parts, s->row_count, "the gradient");
  for (int i = 0; parts && i < s->row_count; i++) parts[i] = &a->rows[i].at_sources;
  if (parts) receivers_join(all, parts, s->row_count, s->dev, &s->engine->slab, e);
  if (!e->id) receivers_open(all, e);
  return error_agree(e, s->engine->comm);
}

/* A source adds its signal times sigma: so that is what nu is multiplied by, ghosts along z and all. */
static int adjoint_look_at_sources(void *self, const float *field, int64_t step, int stream, error *e) {
  adjoint *a = self;
  const kernel_args *k = &a->back.args;
  const ptrdiff_t below = RADIUS * (ptrdiff_t)k->plane;
  float *const scaled = a->scaled ? a->scaled + slab_offset(a->back.slab, 0, 0, 0) : NULL;
  const float *sigma = a->shot->engine->args.terms.sigma;
  receivers *at_sources = &adjoint_all(a)->at_sources;
  at_sources->stream = stream;
  if (!scaled) return receivers_sample(at_sources, field, step, e);
  const scale_args times = {SCALE_TIMES, field - below, sigma - below, scaled - below,     k->pitch,
                            k->plane,    k->nx,         k->ny,         k->nz + 2 * RADIUS, NULL};
  TRY(a->back.dev->table->apply(a->back.dev, stream, &operation_scale, &times, e));
  return receivers_sample(at_sources, scaled, step, e);
}

/* Who looks at the steps back. */
static int adjoint_look_back(adjoint *a, error *e) {
  a->looks.count = 0;
  a->back.observers = &a->looks;
  if (a->image)
    a->looks.list[a->looks.count++] = (observer){.self = a, .limit = adjoint_each, .look = adjoint_add_image};
  if (!a->shot->config->gradient_signals) return 0;
  TRY(adjoint_open_signals(a, e));
  a->looks.list[a->looks.count++] =
      (observer){.self = a, .limit = adjoint_each, .look = adjoint_look_at_sources};
  return 0;
}

/* Sets a field to 0, ghosts and all. */
static int adjoint_clear(adjoint *a, float *field, error *e) {
  a->transfer.field = field;
  return transfer_fill(&a->transfer, -RADIUS, a->back.slab->nz + 2 * RADIUS, 0, e);
}

static int adjoint_begin(adjoint *a, error *e) {
  const engine *g = a->shot->engine;
  adjoint_settle(a);
  stepper_restart(&a->back);
  a->back.args.ny = a->shot->stepper.args.ny;
  TRY(adjoint_kernel(&a->back, g->kernel, e)); /* by now it is chosen */
  a->step = g->physics.steps + 1;
  if (a->back.absorb) absorb_clear(a->back.absorb, e);
  if (!e->id && !adjoint_clear(a, a->back.memory[0], e) && !adjoint_clear(a, a->back.memory[1], e))
    adjoint_clear(a, a->gradient, e);
  for (int l = 0; l < a->back.args.terms.memories && !e->id; l++) adjoint_clear(a, a->memory[l], e);
  if (!e->id && a->image && !adjoint_clear(a, a->image, e)) adjoint_clear(a, a->illumination, e);
  TRY(error_agree(e, g->comm));
  TRY(adjoint_look_back(a, e));
  return adjoint_open_residual(a, e);
}

/* Goes back to `step`; the forward fields down to there are in the ring. */
static int adjoint_steps(adjoint *a, int64_t step, error *e) {
  stepper *p = &a->back;
  while (a->step > step) {
    p->args.terms.recalled = adjoint_slot(a, --a->step - a->begin);
    if (stepper_advance(p, 1, e)) error_abort(e, a->shot->engine->comm);
    TRY(adjoint_heed(a, e));
  }
  if (stepper_sync(p, e)) error_abort(e, a->shot->engine->comm);
  return 0;
}

/* --- what comes of it ------------------------------------------------------------------------------------------- */

/* Puts into `to` W l or, with g, what dJ/dv comes to (operation_gradient); `after`: nu of the step after, or instead of it another
 * field. Half of a point on a neumann face is an image's. */
static int adjoint_make(const adjoint *a, const float *g, const float *after, float *to, error *e) {
  const engine *n = a->shot->engine;
  const config *c = n->config;
  const slab *s = &n->slab;
  const bool chain = model_needed(c);
  gradient_args args = {.medium = n->args.medium[0],
                        .scale = n->args.scale[0],
                        .g = g,
                        .u = adjoint_slot(a, 0),
                        .nu = stepper_field(&a->back, a->back.current),
                        .after = after,
                        .to = to,
                        .factor = g && !chain ? 2 * n->physics.dt : 0,
                        .pitch = s->pitch,
                        .plane = s->plane,
                        .nx = s->nx,
                        .ny = s->ny,
                        .nz = s->nz};
  for (int face = 0; face < FACE_COUNT; face++) args.halves[face] = c->boundary[face] == BOUNDARY_NEUMANN;
  args.halves[FACE_Z_LO] = args.halves[FACE_Z_LO] && s->z0 == 0;
  args.halves[FACE_Z_HI] = args.halves[FACE_Z_HI] && s->z0 + s->nz == s->nz_global;
  TRY(a->back.dev->table->apply(a->back.dev, STREAM_BOUNDARY, &operation_gradient, &args, e));
  return a->back.dev->table->sync(a->back.dev, STREAM_BOUNDARY, e);
}

/* Makes of nu of the last two steps m lambda. */
static int adjoint_undamp(adjoint *a, error *e) {
  const stepper *p = &a->back;
  const kernel_args *k = &p->args;
  const undamp_args undamp = {.medium = k->medium[0],
                              .scale = k->scale[0],
                              .terms = k->terms,
                              .nu = stepper_field(p, p->current),
                              .after = stepper_field(p, !p->current),
                              .pitch = k->pitch,
                              .plane = k->plane,
                              .nx = k->nx,
                              .ny = k->ny,
                              .nz = k->nz};
  TRY(p->dev->table->apply(p->dev, STREAM_BOUNDARY, &operation_undamp, &undamp, e));
  return p->dev->table->sync(p->dev, STREAM_BOUNDARY, e);
}

/* dJ/dv = (2 / v) W (sum of u^n times the bracket of step n >= 0, - u^0 (nu^0 - nu^1) / m): the latter of the first step and the
 * step before it, which begin at rest. Without the factor where the chain rule follows. */
static int adjoint_sum(adjoint *a, error *e) {
  float *g = a->gradient + slab_offset(a->back.slab, 0, 0, 0);
  if (a->back.args.terms.memories && adjoint_undamp(a, e)) error_abort(e, a->shot->engine->comm);
  adjoint_make(a, g, stepper_field(&a->back, !a->back.current), g, e);
  return error_agree(e, a->shot->engine->comm);
}

/* The ghosts of nu of step 1, after adjoint_undamp. */
static int adjoint_ghosts(adjoint *a, error *e) {
  stepper *p = &a->back;
  kernel_args args = p->args;
  args.out = stepper_field(p, !p->current);
  args.z_begin = 0, args.z_end = args.nz;
  if (!p->dev->table->apply(p->dev, STREAM_BOUNDARY, &operation_ghosts, &args, e))
    p->dev->table->sync(p->dev, STREAM_BOUNDARY, e);
  TRY(error_agree(e, a->shot->engine->comm));
  return halo_exchange(&a->halo, p->memory[!p->current], HALO_UNTIMED, true, e);
}

/* W (nu^0 - (nu^1 + m / 2 L nu^1)) / m, times sigma: of p. The step before nu^1 were it at rest there: half of L m lambda^1 is
 * what rest at the start makes of u^0. */
static int adjoint_rest(adjoint *a, error *e) {
  const shot *s = a->shot;
  kernel_args args = a->back.args;
  args.in = stepper_field(&a->back, !a->back.current);
  args.out = stepper_field(&s->stepper, 0);
  args.z_begin = 0, args.z_end = s->engine->slab.nz;
  if (args.terms.memories && adjoint_ghosts(a, e)) error_abort(e, s->engine->comm);
  args.terms = (kernel_terms){.density = args.terms.density};
  float *p = s->memory[MEMORY_PRESSURE], *scratch = p ? p + slab_offset(&s->engine->slab, 0, 0, 0) : NULL;
  if (!initial_at_rest(s->dev, EQUATIONS[s->config->equation].rest, &args, scratch, e))
    adjoint_make(a, NULL, args.out, args.out, e);
  const scale_args times = {.kind = SCALE_TIMES,
                            .from = args.out,
                            .by = s->engine->args.terms.sigma,
                            .to = args.out,
                            .pitch = args.pitch,
                            .plane = args.plane,
                            .nx = args.nx,
                            .ny = args.ny,
                            .nz = args.nz};
  if (times.by && !e->id && !s->dev->table->apply(s->dev, STREAM_BOUNDARY, &operation_scale, &times, e))
    s->dev->table->sync(s->dev, STREAM_BOUNDARY, e);
  return error_agree(e, s->engine->comm);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

int adjoint_run(adjoint *a, error *e) {
  gradient_times *times = &a->shot->loop.gradient;
  TRY(adjoint_begin(a, e));
  a->heeded = a->again = 0;
  TRY(shot_watch(a->shot, e));
  for (;;) {
    const double begin = MPI_Wtime();
    if (a->begin > 0 && states_fetch(&a->states, adjoint_latest(a, a->begin), e))
      error_abort(e, a->shot->engine->comm);
    TRY(adjoint_steps(a, a->begin, e));
    const double back = MPI_Wtime();
    times->back += back - begin;
    if (a->begin == 0) break;
    TRY(adjoint_again(a, e));
    times->again += MPI_Wtime() - back;
  }
  TRY(stop_close(&a->shot->stop, e));
  receivers_flush(&adjoint_all(a)->at_sources, e);
  TRY(error_agree(e, a->shot->engine->comm));
  return adjoint_sum(a, e);
}

/* --- to the host ------------------------------------------------------------------------------------------------- */

bool adjoint_asked(const config *c, enum gradient_field field) {
  return field == GRADIENT_VELOCITY || (field == GRADIENT_INITIAL ? c->gradient_initial : c->gradient_image);
}

static float *adjoint_memory(const adjoint *a, enum gradient_field field) {
  float *const memory[GRADIENT_FIELDS] = {[GRADIENT_VELOCITY] = a->gradient,
                                          [GRADIENT_INITIAL] = a->shot->stepper.memory[0],
                                          [GRADIENT_IMAGE] = a->image,
                                          [GRADIENT_ILLUMINATION] = a->illumination};
  return memory[field];
}

/* Points of a plane of a shot. */
static size_t adjoint_plane(const adjoint *a) {
  const slab *s = &a->shot->engine->files_slab;
  return (size_t)s->ny * (size_t)s->nx;
}

/* Planes on their way. */
typedef struct adjoint_bringing {
  const adjoint *a;
  enum gradient_field field;
  atomic_int next;
  pthread_mutex_t lock; /* of: */
  error failed;
} adjoint_bringing;

enum { BROUGHT = 16 /* planes at a time */ };

/* Planes have a row of each shot, the host all of a shot together. */
static int adjoint_bring_planes(const adjoint *a, enum gradient_field field, zrange z, float *values,
                                error *e) {
  const size_t plane = adjoint_plane(a);
  const int nz = a->back.slab->nz, rows = shot_rows(a->shot),
            all = a->back.slab->ny / a->shot->engine->files_slab.ny;
  transfer t = a->transfer;
  t.field = adjoint_memory(a, field);
  TRY(transfer_to_host(&t, z.begin, zrange_planes(z), values, e));
  for (int i = z.begin; i < z.end; i++)
    for (int row = 0; row < rows; row++)
      memcpy(a->host[field] + ((size_t)row * (size_t)nz + (size_t)i) * plane,
             values + ((size_t)(i - z.begin) * (size_t)all + (size_t)row) * plane, plane * sizeof *values);
  return 0;
}

static void *adjoint_bring_main(void *context) {
  adjoint_bringing *b = context;
  const slab *s = b->a->back.slab;
  error e = {0};
  float *values;
  ALLOC(&e, values, (size_t)BROUGHT * (size_t)s->ny * (size_t)s->nx, "the gradient");
  for (int z; !e.id && (z = BROUGHT * atomic_fetch_add(&b->next, 1)) < s->nz;)
    adjoint_bring_planes(b->a, b->field, (zrange){z, smaller(z + BROUGHT, s->nz)}, values, &e);
  free(values);
  pthread_mutex_lock(&b->lock);
  if (!b->failed.id) b->failed = e;
  pthread_mutex_unlock(&b->lock);
  return NULL;
}

static int adjoint_bring_field(adjoint *a, enum gradient_field field, error *e) {
  const size_t points = (size_t)a->most * adjoint_plane(a) * (size_t)a->back.slab->nz;
  adjoint_bringing b = {.a = a, .field = field, .lock = PTHREAD_MUTEX_INITIALIZER};
  if (!a->host[field]) ALLOC(e, a->host[field], points, "the gradient");
  if (a->host[field]) thread_share(a->shot->engine->files->way->threads, adjoint_bring_main, &b);
  if (!e->id) *e = b.failed;
  return error_agree(e, a->shot->engine->comm);
}

int adjoint_bring(adjoint *a, error *e) {
  const config *c = a->shot->config;
  for (int i = 0; i < GRADIENT_FIELDS; i++) {
    if (!adjoint_asked(c, i)) continue;
    if (i == GRADIENT_INITIAL) TRY(adjoint_rest(a, e));
    if (a->shot->row_count || i == GRADIENT_INITIAL || (i == GRADIENT_VELOCITY && model_needed(c)))
      TRY(adjoint_bring_field(a, i, e));
  }
  return 0;
}

/* The first own plane of a row. */
static float *adjoint_row(const adjoint *a, enum gradient_field field, int row) {
  return a->host[field] + (size_t)row * (size_t)a->back.slab->nz * adjoint_plane(a);
}

int adjoint_chain(adjoint *a, int row, error *e) {
  return model_needed(a->shot->config) ? chain_velocity(&a->chain, adjoint_row(a, GRADIENT_VELOCITY, row), e)
                                       : 0;
}

int adjoint_planes(void *context, int z, int planes, float *values, error *e) {
  const adjoint_field *f = context;
  const adjoint *a = f->of;
  const size_t plane = adjoint_plane(a);
  transfer t = a->transfer;
  t.field = adjoint_memory(a, f->field);
  if (!a->host[f->field]) return transfer_to_host(&t, z, planes, values, e);
  memcpy(values, adjoint_row(a, f->field, f->row) + (size_t)z * plane,
         (size_t)planes * plane * sizeof *values);
  return 0;
}

/* From what sources inject at each step to their signals. */
typedef struct adjoint_injected {
  const receivers *at; /* the sources */
  double scale;
  float *all; /* steps x sources */
} adjoint_injected;

/* A signal enters the step from n to n + 1: sample steps - n of nu. */
static void adjoint_signal_get(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]) {
  const adjoint_injected *w = context;
  for (int64_t k = 0; k < n; k++) x[k][lane] = w->scale * (double)w->at->traces[(n - k) * w->at->local + i];
}

static void adjoint_signal_put(void *context, int64_t i, int64_t n, int lane, double (*x)[FOURIER_SERIES]) {
  const adjoint_injected *w = context;
  for (int64_t k = 0; k < n; k++) w->all[k * w->at->count + w->at->index[i]] = (float)x[k][lane];
}

int adjoint_signals(adjoint *a, int row, bool injected, float **signals, error *e) {
  const receivers *r = &a->rows[row].at_sources;
  const shot *s = shot_row(a->shot, row);
  const engine *g = a->shot->engine;
  const int64_t steps = g->physics.steps;
  const size_t count = (size_t)steps * (size_t)r->count;
  float *all;
  ALLOC(e, all, count, "the gradient");
  *signals = all;
  adjoint_injected way = {r, injected ? 1 : sources_strength(s->config), all};
  const dispersion_series series = {.kind = DISPERSION_SOURCE,
                                    .transposed = true,
                                    .every = 1,
                                    .count = r->local,
                                    .n = steps,
                                    .kept = s->sources.transforms,
                                    .context = &way,
                                    .get = adjoint_signal_get,
                                    .put = adjoint_signal_put};
  if (!e->id && !injected && s->sources.injected)
    dispersion_transform(&series, s->receivers.time.threads, e);
  else
    for (int64_t k = 0; k < steps * r->local && !e->id; k++)
      all[k / r->local * r->count + r->index[k % r->local]] =
          (float)(way.scale * (double)r->traces[(steps - k / r->local) * r->local + k % r->local]);
  TRY(error_agree(e, g->comm));
  if (g->ranks > 1) MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, all, (int)count, MPI_FLOAT, MPI_SUM, g->comm));
  return 0;
}
