#include "pass.h"
#include "device/trace.h"

int pass_record(const stepper *s, int stream, enum pass_event event, error *e) {
  return s->dev->table->record(s->dev, stream, event_of(s, s->pass, event), e);
}

int pass_record_begin(const stepper *s, int stream, enum pass_event event, error *e) {
  return phases_measured(s, s->pass) || phases_measured(s, s->pass - 1) ? pass_record(s, stream, event, e)
                                                                        : 0;
}

int pass_record_end(const stepper *s, int stream, enum pass_event event, enum pass_event done, error *e) {
  if (phases_measured(s, s->pass)) TRY(pass_record(s, stream, event, e));
  TRY(pass_record(s, stream, done, e));
  return s->overlap ? 0 : s->dev->table->sync(s->dev, stream, e);
}

int pass_wait(const stepper *s, int stream, int64_t pass, enum pass_event event, error *e) {
  return s->dev->table->wait(s->dev, stream, event_of(s, pass, event), e);
}

int pass_launch(const stepper *s, int stream, const kernel *k, zrange z, error *e) {
  if (zrange_planes(z) == 0) return 0;
  kernel_args args = s->args;
  args.in = stepper_field(s, s->current);
  args.out = stepper_field(s, stepper_ahead(s, 1));
  if (s->next) args.before = args.out, args.out = s->next + (args.before - s->memory[stepper_ahead(s, 1)]);
  args.z_begin = z.begin;
  args.z_end = z.end;
  if (s->absorb)
    TRY(absorb_launch(s->absorb, stream, k, &args, e));
  else
    TRY(s->dev->table->launch(s->dev, stream, k, &args, e));
  return s->sources ? injector_apply(s->sources, stream, &args, s->step, e) : 0;
}

static int pass_await_copies(stepper *s, int steps, error *e) {
  const device_table *t = s->dev->table;
  for (int i = 1; i <= steps && i <= stepper_states(s); i++) {
    device_event **copying = &s->copying[stepper_ahead(s, i)];
    if (!*copying) continue;
    TRY(t->wait(s->dev, STREAM_BOUNDARY, *copying, e));
    TRY(t->wait(s->dev, STREAM_INTERIOR, *copying, e));
    *copying = NULL;
  }
  return 0;
}

/* The host waits for the pass before the last. So at most two passes are unfinished: three sets of events (step.h) and
 * the ring buffer of source signals (injector.c) suffice, and the host does not run ahead of signals to stop. */
int pass_begin(stepper *s, int steps, const char *name, error *e) {
  watchdog_mark(s->watch, WATCH_COMPUTE, s->step);
  TRY(s->dev->table->sync_event(s->dev, event_of(s, s->pass - 2, INTERIOR_DONE), e));
  TRY(phases_take(s, s->persistent ? s->pass - 1 : s->pass - 2, e));
  TRY(pass_await_copies(s, steps, e));
  trace_begin(name);
  return 0;
}

/* Lets the observers look. Later passes do not overwrite the field too early: kernels of the pass after the next wait
 * for later work of the halo's stream. */
static int pass_look(stepper *s, error *e) {
  const int stream = s->halo->stream;
  for (int i = 0; s->observers && i < s->observers->count; i++) {
    const observer *o = &s->observers->list[i];
    if (o->agreed || !observer_due(o, s->step)) continue;
    TRY(pass_wait(s, stream, s->pass, INTERIOR_DONE, e));
    TRY(o->look(o->self, stepper_field(s, s->current), s->step, stream, e));
  }
  return 0;
}

int pass_end(stepper *s, int steps, error *e) {
  if (s->next) s->memory[stepper_ahead(s, 1)] = s->next, s->next = NULL;
  s->current = stepper_ahead(s, steps);
  if (s->absorb) absorb_advance(s->absorb, steps);
  s->step += steps;
  TRY(pass_look(s, e));
  trace_end();
  s->pass++;
  return 0;
}

int pass_finish(stepper *s, int steps, error *e) {
  const int set = phases_measured(s, s->pass) ? set_of(s->pass) : HALO_UNTIMED;
  watchdog_mark(s->watch, WATCH_EXCHANGE, s->step);
  TRY(halo_exchange(s->halo, s->memory[stepper_ahead(s, steps)], set, !s->overlap, e));
  TRY(pass_end(s, steps, e));
  watchdog_mark(s->watch, WATCH_COMPUTE, s->step);
  return 0;
}
