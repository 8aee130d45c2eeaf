#include "step.h"
#include "step_phases.h"
#include "device/trace.h"

float *stepper_field(const stepper *s, int which) {
  return s->memory[which] + slab_offset(s->slab, 0, 0, 0);
}

static int record(const stepper *s, int stream, int event, error *e) {
  return s->dev->table->record(s->dev, stream, event_of(s->pass, event), e);
}

static int record_end(const stepper *s, int stream, int event, int done, error *e) {
  if (phases_measured(s, s->pass)) TRY(record(s, stream, event, e));
  return record(s, stream, done, e);
}

/* Where kernels begin: what a pass exposed ends where the next one's do. */
static int record_begin(const stepper *s, int stream, int event, error *e) {
  return phases_measured(s, s->pass) || phases_measured(s, s->pass - 1) ? record(s, stream, event, e) : 0;
}

static int launch(const stepper *s, int stream, const kernel *k, zrange z, error *e) {
  if (zrange_planes(z) == 0) return 0;
  kernel_args args = s->args;
  args.in = stepper_field(s, s->current);
  args.out = stepper_field(s, !s->current);
  args.z_begin = z.begin;
  args.z_end = z.end;
  args.virtual_x = s->virtual_x;
  if (s->absorb)
    TRY(absorb_launch(s->absorb, stream, k, &args, e));
  else
    TRY(s->dev->table->launch(s->dev, stream, k, &args, e));
  return s->sources ? sources_apply(s->sources, stream, &args, s->step, e) : 0;
}

/* The planes the neighbours wait for. They read what the interior kernel of the pass before wrote, and
 * overwrite what it read: hence the wait. The upper ones first: that kernel ended there, and what it read last is still
 * in the GPU's cache (jacobi on 4 H200, 768^3 each: 0.2 % of a step). */
static int launch_boundary(const stepper *s, zrange lo, zrange hi, error *e) {
  const device_table *t = s->dev->table;
  TRY(t->wait(s->dev, STREAM_BOUNDARY, event_of(s->pass - 1, INTERIOR_DONE), e));
  TRY(record_begin(s, STREAM_BOUNDARY, BOUNDARY_BEGIN, e));
  TRY(launch(s, STREAM_BOUNDARY, s->boundary_kernel, hi, e));
  TRY(launch(s, STREAM_BOUNDARY, s->boundary_kernel, lo, e));
  TRY(record_end(s, STREAM_BOUNDARY, BOUNDARY_END, BOUNDARY_DONE, e));
  return s->overlap ? 0 : t->sync(s->dev, STREAM_BOUNDARY, e);
}

/* The rest, in the same relation to the boundary kernels of the pass before. It touches no ghost plane that
 * is exchanged, so it needs no word from MPI. But where the host takes part in the exchange, this pass's boundary must
 * be first: it waits for ghosts that come late, would find a GPU full of the interior's blocks, and the exchange would
 * not begin before those are done. */
static int launch_interior(const stepper *s, zrange interior, error *e) {
  const device_table *t = s->dev->table;
  const bool boundary_first = halo_needed(s->halo) && !s->halo->on_device;
  TRY(t->wait(s->dev, STREAM_INTERIOR, event_of(boundary_first ? s->pass : s->pass - 1, BOUNDARY_DONE), e));
  TRY(record_begin(s, STREAM_INTERIOR, INTERIOR_BEGIN, e));
  TRY(launch(s, STREAM_INTERIOR, s->kernel, interior, e));
  TRY(record_end(s, STREAM_INTERIOR, INTERIOR_END, INTERIOR_DONE, e));
  return s->overlap ? 0 : t->sync(s->dev, STREAM_INTERIOR, e);
}

/* Receivers read the field just computed, which must be complete with the ghosts that have come. The kernels that
 * overwrite it, two passes on, wait for work that STREAM_BOUNDARY does after this. */
static int sample(stepper *s, int64_t step, const float *field, error *e) {
  if (!s->receivers || !receivers_due(s->receivers, step)) return 0;
  TRY(s->dev->table->wait(s->dev, STREAM_BOUNDARY, event_of(s->pass, INTERIOR_DONE), e));
  return receivers_sample(s->receivers, field, step, e);
}

/* Bounds how far the host runs ahead. Pass n fills the events of pass n - 3 again. */
static int begin_pass(stepper *s, error *e) {
  watchdog_tell(s->watch, WATCH_COMPUTE, s->step);
  TRY(s->dev->table->sync_event(s->dev, event_of(s->pass - 2, INTERIOR_DONE), e));
  return phases_take(s, s->pass - 2, e);
}

/* A field that is being copied for a file is not to be overwritten yet. A pass of one step overwrites the older field
 * only. */
static int await_copies(stepper *s, int steps, error *e) {
  const device_table *t = s->dev->table;
  for (int i = 0; i < 2; i++) {
    if (!s->copying[i] || (steps == 1 && i == s->current)) continue;
    TRY(t->wait(s->dev, STREAM_BOUNDARY, s->copying[i], e));
    TRY(t->wait(s->dev, STREAM_INTERIOR, s->copying[i], e));
    s->copying[i] = 0;
  }
  return 0;
}

/* Received ghosts belong to the field just computed: they are input of the next pass. */
static int finish_pass(stepper *s, int steps, int newest, error *e) {
  const halo_events events = {event_of(s->pass, TO_HOST), event_of(s->pass, TO_DEVICE_BEGIN),
                              event_of(s->pass, TO_DEVICE)};
  watchdog_tell(s->watch, WATCH_EXCHANGE, s->step);
  TRY(halo_exchange(s->halo, s->memory[newest], phases_measured(s, s->pass) ? &events : NULL, !s->overlap,
                    e));
  TRY(sample(s, s->step + steps, stepper_field(s, newest), e));
  trace_end();
  s->current = newest;
  s->step += steps;
  s->pass++;
  watchdog_tell(s->watch, WATCH_COMPUTE, s->step);
  return 0;
}

/* Receivers are sampled between passes, but for those of a wavefront. */
static int64_t before_samples(const stepper *s, int64_t limit) {
  if (s->front || !s->receivers) return limit;
  const int64_t ahead = receivers_ahead(s->receivers, s->step);
  return ahead < limit ? ahead : limit;
}

static int launch_wavefront(const stepper *s, int steps, error *e) {
  wavefront *w = s->front;
  wavefront_args args = {.field = s->args,
                         .u = {stepper_field(s, s->current), stepper_field(s, !s->current)},
                         .equation = s->kernel->equation,
                         .steps = steps,
                         .upright = w->shape.upright,
                         .rows = w->shape.rows,
                         .tiles = w->tiles,
                         .chunks = w->chunks,
                         .lower = s->slab->lower != SLAB_NO_RANK,
                         .upper = s->slab->upper != SLAB_NO_RANK,
                         .done = w->done,
                         .before = w->before};
  args.field.virtual_x = s->virtual_x;
  if (s->sources) sources_of_pass(s->sources, s->step, steps, &args.sources);
  if (s->receivers) TRY(receivers_of_pass(s->receivers, s->step, steps, &args.receivers, e));
  w->before += (long long)wavefront_positions(&args) * steps;
  return s->dev->table->apply(s->dev, STREAM_INTERIOR, &operation_wavefront, &args, e);
}

/* A pass without a boundary, which begins when the ghosts have come. Such is a wavefront, of `steps` steps (`k` NULL),
 * whose planes all hang together; its wave overwrites the older field first, beyond its own planes too: there the
 * neighbours' values must be in place. And such is a step where an exchange moves nothing that could be hidden: kernels
 * for the boundary would read 12 planes to compute 4. */
static int advance_whole(stepper *s, const kernel *k, int steps, error *e) {
  const device_table *t = s->dev->table;
  TRY(await_copies(s, steps, e));
  trace_begin("pass");
  TRY(t->wait(s->dev, STREAM_BOUNDARY, event_of(s->pass - 1, INTERIOR_DONE), e));
  if (!k && s->kernel->equation == EQUATION_WAVE)
    TRY(halo_exchange(s->halo, s->memory[!s->current], NULL, !s->overlap, e));
  TRY(record(s, STREAM_BOUNDARY, GHOSTS, e));
  TRY(t->wait(s->dev, STREAM_INTERIOR, event_of(s->pass, GHOSTS), e));
  TRY(record_begin(s, STREAM_INTERIOR, INTERIOR_BEGIN, e));
  TRY(k ? launch(s, STREAM_INTERIOR, k, (zrange){0, s->slab->nz}, e) : launch_wavefront(s, steps, e));
  TRY(record_end(s, STREAM_INTERIOR, INTERIOR_END, INTERIOR_DONE, e));
  TRY(t->wait(s->dev, STREAM_BOUNDARY, event_of(s->pass, INTERIOR_DONE), e));
  TRY(record_begin(s, STREAM_BOUNDARY, BOUNDARY_BEGIN, e));
  TRY(record_end(s, STREAM_BOUNDARY, BOUNDARY_END, BOUNDARY_DONE, e));
  if (!s->overlap) TRY(t->sync(s->dev, STREAM_INTERIOR, e));
  if (k && s->absorb) absorb_advance(s->absorb);
  return finish_pass(s, steps, s->current ^ (steps & 1), e);
}

/* A batch of steps in one launch, on the boundary's stream alone: there, all later work finds it done. */
static int advance_persistent(stepper *s, int64_t limit, error *e) {
  const device_table *t = s->dev->table;
  const int steps = limit < s->persistent->batch ? (int)limit : s->persistent->batch;
  _Static_assert((int)SETS == (int)PERSISTENT_SETS, "an outcome for each set of events");
  watchdog_tell(s->watch, WATCH_COMPUTE, s->step);
  TRY(t->sync_event(s->dev, event_of(s->pass - 2, INTERIOR_DONE), e));
  TRY(phases_take(s, s->pass - 1, e));
  TRY(await_copies(s, steps, e));
  trace_begin("steps");
  if (s->profile) TRY(record(s, STREAM_BOUNDARY, INTERIOR_BEGIN, e));
  TRY(persistent_advance(s->persistent, s->current, steps, set_of(s->pass), e));
  if (s->profile) TRY(record(s, STREAM_BOUNDARY, INTERIOR_END, e));
  TRY(record(s, STREAM_BOUNDARY, INTERIOR_DONE, e));
  s->current ^= steps & 1;
  if (s->receivers && receivers_due(s->receivers, s->step + steps))
    TRY(receivers_sample(s->receivers, stepper_field(s, s->current), s->step + steps, e));
  trace_end();
  s->step += steps;
  s->pass++;
  return 0;
}

int stepper_advance(stepper *s, int64_t limit, error *e) {
  limit = before_samples(s, limit);
  if (s->persistent) return advance_persistent(s, limit, e);
  zrange lo, interior, hi;
  slab_ranges(s->slab, &lo, &interior, &hi);
  const int64_t depth = s->front && s->front->shape.depth < limit ? s->front->shape.depth : limit;
  TRY(begin_pass(s, e));
  if (s->front && depth >= 2) return advance_whole(s, NULL, (int)depth, e);
  if (s->halo->mapped) return advance_whole(s, s->kernel, 1, e);

  TRY(await_copies(s, 1, e));
  trace_begin("step");
  TRY(launch_boundary(s, lo, hi, e));
  TRY(launch_interior(s, interior, e));
  if (s->absorb) absorb_advance(s->absorb);
  return finish_pass(s, 1, !s->current, e);
}

int stepper_await(const stepper *s, int stream, error *e) {
  const device_table *t = s->dev->table;
  TRY(t->wait(s->dev, stream, event_of(s->pass - 1, BOUNDARY_DONE), e));
  return t->wait(s->dev, stream, event_of(s->pass - 1, INTERIOR_DONE), e);
}

int stepper_sync(stepper *s, error *e) {
  TRY(s->dev->table->sync(s->dev, STREAM_BOUNDARY, e));
  TRY(s->dev->table->sync(s->dev, STREAM_INTERIOR, e));
  TRY(phases_take(s, s->pass, e));
  phases_complete(s);
  return 0;
}

int stepper_reset_phases(stepper *s, error *e) {
  TRY(stepper_sync(s, e));
  phases_reset(s);
  return 0;
}
