#include "states.h"
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"

/* --- the parts of a state --------------------------------------------------------------------------------------- */

/* The part of a field that a state holds: the newest field with ghost planes, the older field without, layers as a
 * whole. No step reads the older field's ghost planes; they may be planes of a neighbour that is a step ahead. */
typedef struct states_part {
  float *from;
  size_t bytes;
} states_part;

static states_part states_part_of(const field *f, const slab *s, bool newest) {
  const int ghosts = newest ? RADIUS : 0;
  size_t planes = 0;
  if (f->role != FIELD_LAYER)
    return (states_part){f->values ? f->values + slab_offset(s, -ghosts, -RADIUS, -RADIUS) : NULL,
                         (size_t)(s->nz + 2 * ghosts) * s->plane * sizeof(float)};
  for (int k = 0; k < f->count; k++) planes += (size_t)f->slices[k].held;
  return (states_part){f->values, planes * field_plane(f, s) * sizeof(float)};
}

/* A state has the arrays of a checkpoint except maps, which steps do not read. */
static bool states_have(const field *f) {
  return f->saved && f->role != FIELD_MAP;
}

size_t states_bytes(const propagator *s) {
  const slab *b = &s->engine->slab;
  size_t bytes = 0;
  field_set f;
  propagator_fields(s, &f);
  for (int i = 0; i < f.count; i++)
    if (states_have(&f.list[i])) bytes += states_part_of(&f.list[i], b, i == 0).bytes;
  return round_up(bytes, SLAB_ALIGN * sizeof(float));
}

/* Copies all parts from the fields of *p to `state`, on the device, or back. */
static int states_copy(const states *t, const stepper *p, char *state, bool keep, int stream, error *e) {
  const device_table *table = t->of->dev->table;
  field_set f;
  propagator_fields(t->of, &f);
  for (int i = 0; i < f.count; i++) {
    field *a = &f.list[i];
    if (!states_have(a)) continue;
    if (a->role == FIELD_STATE) a->values = p->memory[stepper_ago(p, a->number)];
    const states_part part = states_part_of(a, &t->of->engine->slab, i == 0);
    const copy_args copy = {keep ? (void *)state : part.from, keep ? (void *)part.from : state, part.bytes,
                            COPY_ON_DEVICE};
    TRY(table->copy(t->of->dev, stream, &copy, e));
    state += part.bytes;
  }
  return 0;
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

int states_open(states *t, const propagator *s, const plan *p, size_t slack, char *file, error *e) {
  const device_table *table = s->dev->table;
  *t = (states){.of = s, .plan = p, .bytes = states_bytes(s), .waiting = -1};
  const size_t plane = s->engine->slab.plane * sizeof(float),
               away = (size_t)(p->tier[TIER_HOST] + p->tier[TIER_FILE]) * t->bytes,
               shared = (size_t)p->bytes[TIER_DEVICE] - (away ? t->bytes : 0) + slack;
  TRY(table->alloc(s->dev, (void **)&t->memory[TIER_DEVICE], shared + 2 * plane, MEMORY_DEVICE, e));
  t->shared = (float *)(t->memory[TIER_DEVICE] + plane);
  t->end = t->memory[TIER_DEVICE] + plane + shared;
  if (p->tier[TIER_HOST])
    TRY(table->alloc(s->dev, (void **)&t->memory[TIER_HOST], (size_t)p->tier[TIER_HOST] * t->bytes,
                     MEMORY_PINNED, e));
  t->memory[TIER_FILE] = file;
  if (!away) return table->make_events(s->dev, &t->copied, 1, false, e);
  TRY(table->alloc(s->dev, (void **)&t->spare, t->bytes, MEMORY_DEVICE, e));
  TRY(table->make_events(s->dev, &t->copied, 1, false, e));
  return table->make_events(s->dev, &t->left, 1, false, e);
}

void states_close(states *t) {
  error ignored = {0};
  if (!t->of) return;
  device *dev = t->of->dev;
  dev->table->free(dev, t->memory[TIER_DEVICE], MEMORY_DEVICE, &ignored);
  dev->table->free(dev, t->memory[TIER_HOST], MEMORY_PINNED, &ignored);
  dev->table->free(dev, t->spare, MEMORY_DEVICE, &ignored);
  dev->table->unmake_events(dev, &t->copied, 1);
  dev->table->unmake_events(dev, &t->left, 1);
  *t = (states){.of = NULL};
}

/* Returns the place of the state at a step; *away: it is not on the device. */
static char *states_at(const states *t, int64_t step, bool *away) {
  enum plan_tier tier;
  const size_t number = (size_t)plan_state(t->plan, step, &tier);
  *away = tier != TIER_DEVICE;
  return *away ? t->memory[tier] + number * t->bytes : t->end - (number + 1) * t->bytes;
}

/* --- keeping and restoring -------------------------------------------------------------------------------------- */

int states_keep(states *t, int64_t step, const stepper *p, int stream, error *e) {
  device *dev = t->of->dev;
  const device_table *table = dev->table;
  bool away;
  char *at = states_at(t, step, &away);
  if (away) TRY(table->wait(dev, stream, t->left, e));
  TRY(states_copy(t, p, away ? t->spare : at, true, stream, e));
  TRY(table->record(dev, stream, t->copied, e));
  TRY(table->wait(dev, STREAM_BOUNDARY, t->copied, e));
  TRY(table->wait(dev, STREAM_INTERIOR, t->copied, e));
  if (!away) return 0;
  TRY(table->wait(dev, STREAM_OUTPUT, t->copied, e));
  TRY(table->copy(dev, STREAM_OUTPUT, &(copy_args){at, t->spare, t->bytes, COPY_TO_HOST}, e));
  return table->record(dev, STREAM_OUTPUT, t->left, e);
}

int states_fetch(states *t, int64_t step, error *e) {
  device *dev = t->of->dev;
  bool away;
  char *at = states_at(t, step, &away);
  t->waiting = away ? step : -1;
  if (!away) return 0;
  return dev->table->copy(dev, STREAM_OUTPUT, &(copy_args){t->spare, at, t->bytes, COPY_TO_DEVICE}, e);
}

int states_restore(states *t, int64_t step, const stepper *p, error *e) {
  device *dev = t->of->dev;
  bool away;
  char *at = states_at(t, step, &away);
  if (away && t->waiting != step) TRY(states_fetch(t, step, e));
  if (away) TRY(dev->table->sync(dev, STREAM_OUTPUT, e));
  t->waiting = -1;
  TRY(states_copy(t, p, away ? t->spare : at, false, STREAM_BOUNDARY, e));
  return dev->table->sync(dev, STREAM_BOUNDARY, e);
}
