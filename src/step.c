#include "step.h"
#include "trace.h"

/* Two sets of events, for even and odd passes: a pass waits for the set of the one before it while filling its
 * own. */
enum {
  BOUNDARY_BEGIN,
  BOUNDARY_END,
  TO_HOST,
  TO_DEVICE_BEGIN,
  TO_DEVICE,
  INTERIOR_BEGIN,
  INTERIOR_END,
  EVENTS_A_PASS
};

static int event_of(int64_t pass, int event) {
  return (int)(pass & 1) * EVENTS_A_PASS + event;
}

float *stepper_field(const stepper *s, int which) {
  return s->memory[which] + slab_offset(s->slab, 0, 0, 0);
}

static int record(const stepper *s, int stream, int event, error *e) {
  return s->dev->table->record(s->dev, stream, event_of(s->pass, event), e);
}

static int record_profile(const stepper *s, int stream, int event, error *e) {
  return s->profile ? record(s, stream, event, e) : 0;
}

static int launch(const stepper *s, int stream, const kernel *k, zrange z, error *e) {
  if (zrange_planes(z) == 0) return 0;
  kernel_args args = s->args;
  args.in = stepper_field(s, s->current);
  args.out = stepper_field(s, !s->current);
  args.z_begin = z.begin;
  args.z_end = z.end;
  args.z_outer_begin = s->slab->lower == SLAB_NO_RANK ? 0 : -s->slab->ghost;
  args.z_outer_end = s->slab->nz + (s->slab->upper == SLAB_NO_RANK ? 0 : s->slab->ghost);
  TRY(s->dev->table->launch(s->dev, stream, k, &args, e));
  if (s->absorb) TRY(absorb_apply(s->absorb, stream, &args, e));
  return s->sources ? sources_apply(s->sources, stream, &args, s->step, e) : 0;
}

/* The planes the neighbours wait for. They read what the interior kernel of the pass before wrote, and
 * overwrite what it read: hence the wait. */
static int launch_boundary(const stepper *s, const kernel *k, zrange lo, zrange hi, error *e) {
  const device_table *t = s->dev->table;
  TRY(t->wait(s->dev, STREAM_BOUNDARY, event_of(s->pass - 1, INTERIOR_END), e));
  TRY(record_profile(s, STREAM_BOUNDARY, BOUNDARY_BEGIN, e));
  TRY(launch(s, STREAM_BOUNDARY, k, lo, e));
  TRY(launch(s, STREAM_BOUNDARY, k, hi, e));
  TRY(record(s, STREAM_BOUNDARY, BOUNDARY_END, e));
  return s->overlap ? 0 : t->sync(s->dev, STREAM_BOUNDARY, e);
}

/* The rest, in the same relation to the boundary kernels of the pass before. It touches no ghost plane that
 * is exchanged, so it needs no word from MPI. */
static int launch_interior(const stepper *s, const kernel *k, zrange interior, error *e) {
  const device_table *t = s->dev->table;
  TRY(t->wait(s->dev, STREAM_INTERIOR, event_of(s->pass - 1, BOUNDARY_END), e));
  TRY(record_profile(s, STREAM_INTERIOR, INTERIOR_BEGIN, e));
  TRY(launch(s, STREAM_INTERIOR, k, interior, e));
  TRY(record(s, STREAM_INTERIOR, INTERIOR_END, e));
  return s->overlap ? 0 : t->sync(s->dev, STREAM_INTERIOR, e);
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

/* Adds the times of a finished pass to the phases. */
static int harvest(stepper *s, int64_t pass, error *e) {
  const device_table *t = s->dev->table;
  int begin = event_of(pass, BOUNDARY_BEGIN);
  double boundary, interior, interior_end;
  TRY(t->seconds(s->dev, begin, event_of(pass, BOUNDARY_END), &boundary, e));
  TRY(t->seconds(s->dev, event_of(pass, INTERIOR_BEGIN), event_of(pass, INTERIOR_END), &interior, e));
  s->phases.boundary += boundary;
  s->phases.interior += interior;
  if (!halo_needed(s->halo)) return 0;
  double to_host, to_device, arrived;
  TRY(t->seconds(s->dev, event_of(pass, BOUNDARY_END), event_of(pass, TO_HOST), &to_host, e));
  TRY(t->seconds(s->dev, event_of(pass, TO_DEVICE_BEGIN), event_of(pass, TO_DEVICE), &to_device, e));
  TRY(t->seconds(s->dev, begin, event_of(pass, TO_DEVICE), &arrived, e));
  TRY(t->seconds(s->dev, begin, event_of(pass, INTERIOR_END), &interior_end, e));
  if (s->halo->transport->on_device) {
    double exchange;
    TRY(t->seconds(s->dev, event_of(pass, TO_HOST), event_of(pass, TO_DEVICE_BEGIN), &exchange, e));
    s->phases.exchange += exchange;
  }
  s->phases.to_host += to_host;
  s->phases.to_device += to_device;
  s->phases.exposed += larger(0, arrived - larger(interior_end, boundary));
  return 0;
}

static int harvest_before(stepper *s, int64_t end, error *e) {
  for (; s->profile && s->harvested < end; s->harvested++) TRY(harvest(s, s->harvested, e));
  return 0;
}

/* Receivers read the field just computed, which must be complete with the ghosts that have come. The kernels that
 * overwrite it, two passes on, wait for work that STREAM_BOUNDARY does after this. */
static int sample(stepper *s, int64_t step, error *e) {
  if (!s->receivers || !receivers_due(s->receivers, step)) return 0;
  TRY(s->dev->table->wait(s->dev, STREAM_BOUNDARY, event_of(s->pass, INTERIOR_END), e));
  return receivers_sample(s->receivers, stepper_field(s, !s->current), step, e);
}

int stepper_advance(stepper *s, int64_t limit, error *e) {
  zrange lo, interior, hi;
  slab_ranges(s->slab, &lo, &interior, &hi);
  bool single = s->kernel->steps > limit;
  const kernel *k = single ? s->single_kernel : s->kernel;
  /* Pass n fills the events of pass n - 2 again: that pass must be over. This also bounds how far the host
   * runs ahead. */
  TRY(s->dev->table->sync_event(s->dev, event_of(s->pass, INTERIOR_END), e));
  TRY(harvest_before(s, s->pass - 1, e));

  trace_begin("step");
  TRY(launch_boundary(s, single ? s->single_kernel : s->boundary_kernel, lo, hi, e));
  TRY(launch_interior(s, k, interior, e));
  const halo_events events = {event_of(s->pass, TO_HOST), event_of(s->pass, TO_DEVICE_BEGIN),
                              event_of(s->pass, TO_DEVICE)};
  /* Received ghosts belong to the field just computed: they are input of the next pass. */
  TRY(halo_exchange(s->halo, s->memory[!s->current], s->profile ? &events : NULL, !s->overlap, e));
  TRY(sample(s, s->step + k->steps, e));
  trace_end();
  if (s->absorb) absorb_advance(s->absorb);
  s->current = !s->current;
  s->step += k->steps;
  s->pass++;
  return 0;
}

int stepper_sync(stepper *s, error *e) {
  TRY(s->dev->table->sync(s->dev, STREAM_BOUNDARY, e));
  TRY(s->dev->table->sync(s->dev, STREAM_INTERIOR, e));
  TRY(harvest_before(s, s->pass, e));
  s->phases.steps = s->step - s->measured_from;
  if (!s->halo->transport->on_device) s->phases.exchange = s->halo->exchange_seconds;
  return 0;
}

int stepper_reset_phases(stepper *s, error *e) {
  TRY(stepper_sync(s, e));
  s->phases = (step_phases){0};
  s->measured_from = s->step;
  s->halo->exchange_seconds = 0;
  return 0;
}
