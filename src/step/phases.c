/* The times of the phases, measured with events in some passes. */
#include "pass.h"
#include <math.h>

enum { FIRST = 4, EVERY = 16 };
static const double LONG = 20e-3; /* s, a pass */

/* A pass that is measured takes 7 us more on a GPU. So the first passes are measured, for short runs, and later one in
 * EVERY. Where passes turn out to be long all are measured. */
bool phases_measured(const stepper *s, int64_t pass) {
  return s->profile && (pass - s->measured_pass < FIRST || pass % EVERY == 0 ||
                        (s->measured_always > 0 && pass >= s->measured_always));
}

/* If passes are long, measures all of them from the next one on. Some events of this pass may not have been
 * recorded. */
static void phases_see_how_long(stepper *s) {
  const double seconds = s->sampled.interior + s->sampled.boundary;
  if (!s->measured_always && s->sampled.steps >= FIRST && seconds > LONG * (double)s->sampled.steps)
    s->measured_always = s->pass + 1;
}

/* Seconds from one event of the device to another. */
static int phases_between(const stepper *s, device_event *first, device_event *last, double *seconds,
                          error *e) {
  return s->dev->table->seconds(s->dev, first, last, seconds, e);
}

/* Seconds from the beginning of a pass, that is of its boundary kernels, to an event of the device. */
static int phases_since(const stepper *s, int64_t pass, device_event *event, double *seconds, error *e) {
  return phases_between(s, event_of(s, pass, BOUNDARY_BEGIN), event, seconds, e);
}

/* The time in which nothing was computed because of the exchange: from the end of this pass's kernels to the beginning
 * of the next one's, or after the last pass to the arrival of its ghosts. The interior's kernel needs no ghosts and may
 * begin before the exchange has ended. */
static int phases_exposed(const stepper *s, int64_t pass, bool last, double *seconds, error *e) {
  double boundary_end, interior_end, boundary_begin, interior_begin;
  TRY(phases_since(s, pass, event_of(s, pass, BOUNDARY_END), &boundary_end, e));
  TRY(phases_since(s, pass, event_of(s, pass, INTERIOR_END), &interior_end, e));
  TRY(phases_since(
      s, pass, last ? s->halo->events[set_of(pass)][HALO_TO_DEVICE] : event_of(s, pass + 1, BOUNDARY_BEGIN),
      &boundary_begin, e));
  interior_begin = boundary_begin;
  if (!last) TRY(phases_since(s, pass, event_of(s, pass + 1, INTERIOR_BEGIN), &interior_begin, e));
  const double begin = interior_begin < boundary_begin ? interior_begin : boundary_begin;
  *seconds = fmax(0, begin - fmax(boundary_end, interior_end));
  return 0;
}

static int phases_add(stepper *s, int64_t pass, error *e) {
  double boundary, interior, to_host, to_device, exchange, gap;
  device_event *const boundary_end = event_of(s, pass, BOUNDARY_END),
                      *const *of_halo = s->halo->events[set_of(pass)], *const sent = of_halo[HALO_TO_HOST],
                      *const arriving = of_halo[HALO_TO_DEVICE_BEGIN],
                      *const arrived = of_halo[HALO_TO_DEVICE];
  TRY(phases_since(s, pass, boundary_end, &boundary, e));
  TRY(phases_between(s, event_of(s, pass, INTERIOR_BEGIN), event_of(s, pass, INTERIOR_END), &interior, e));
  s->sampled.steps++;
  s->sampled.boundary += boundary;
  s->sampled.interior += interior;
  if (!halo_needed(s->halo)) return 0;
  TRY(phases_between(s, boundary_end, sent, &to_host, e));
  TRY(phases_between(s, sent, arriving, &exchange, e));
  TRY(phases_between(s, arriving, arrived, &to_device, e));
  TRY(phases_exposed(s, pass, pass + 1 == s->pass, &gap, e));
  s->sampled.to_host += to_host;
  s->sampled.to_device += to_device;
  s->sampled.exposed += gap;
  s->sampled.exchange += exchange;
  return 0;
}

/* Adds the times of a pass of the persistent schedule. */
static int phases_add_batch(stepper *s, int64_t pass, error *e) {
  double waited, seconds = 0;
  TRY(persistent_outcome(s->persistent, set_of(pass), &waited, e));
  if (s->profile)
    TRY(phases_between(s, event_of(s, pass, INTERIOR_BEGIN), event_of(s, pass, INTERIOR_END), &seconds, e));
  s->phases.interior += seconds - waited;
  s->phases.exchange += waited;
  s->phases.exposed += waited;
  return 0;
}

int phases_take(stepper *s, int64_t end, error *e) {
  for (; s->harvested < end; s->harvested++)
    if (s->persistent)
      TRY(phases_add_batch(s, s->harvested, e));
    else if (phases_measured(s, s->harvested))
      TRY(phases_add(s, s->harvested, e));
  phases_see_how_long(s);
  return 0;
}

/* Estimates the times of all passes from those measured. */
static void phases_extrapolate(stepper *s) {
  const double factor =
      s->sampled.steps ? (double)(s->pass - s->measured_pass) / (double)s->sampled.steps : 0;
  s->phases = (step_phases){.boundary = factor * s->sampled.boundary,
                            .to_host = factor * s->sampled.to_host,
                            .exchange = factor * s->sampled.exchange,
                            .to_device = factor * s->sampled.to_device,
                            .interior = factor * s->sampled.interior,
                            .exposed = factor * s->sampled.exposed};
  if (s->halo->transport && !s->halo->on_device) s->phases.exchange = s->halo->exchange_seconds;
}

void phases_complete(stepper *s) {
  if (!s->persistent) phases_extrapolate(s);
  s->phases.steps = s->step - s->measured_from;
}

void phases_reset(stepper *s) {
  s->phases = s->sampled = (step_phases){0};
  s->measured_from = s->step;
  s->measured_pass = s->pass;
  s->halo->exchange_seconds = 0;
}
